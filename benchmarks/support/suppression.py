"""Fine-tunes a classifier so that it hides its dependence on sex (Frye et al. 2021, Eq. 23)."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import manifold_shap as ms
from benchmarks.report import Found
from benchmarks.support.trained import Trained
from manifold_shap.nn import MLP
from manifold_shap.training.task import seeded

PLAYER = "sex"
HIDDEN, BATCH, RATE = 50, 200, 1e-3
PATIENCE, LEAST_GAIN, MOST_EPOCHS = 10, 1e-4, 200
# What may be left of a dependence that is called hidden.
LEFT = 0.1


def classifier(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    """One hidden layer of 50, stopped when the accuracy on a tenth of the rows no longer rises."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=generator)
    held, rest = order[: len(x) // 10], order[len(x) // 10 :]
    with seeded(seed):
        network = MLP(x[0].numel(), (HIDDEN,), int(y.max()) + 1)
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    best, kept, waited = 0.0, dict(network.state_dict()), 0
    for _ in range(MOST_EPOCHS):
        for rows in batches(rest, generator):
            step(optimizer, F.cross_entropy(network(x[rows]), y[rows]))
        score = (network(x[held]).argmax(1) == y[held]).double().mean().item()
        waited = 0 if score > best + LEAST_GAIN else waited + 1
        if score > best:
            best, kept = score, {key: entry.clone() for key, entry in network.state_dict().items()}
        if waited == PATIENCE:
            break
    network.load_state_dict(kept)
    return network


def suppress(trained: Trained, alpha: float, rate: float, epochs: int, seed: int) -> nn.Module:
    """Fine-tune a copy with the penalty of Eq. (23)."""
    data, generator = trained.data, torch.Generator().manual_seed(seed)
    network = MLP(data.x_train[0].numel(), (HIDDEN,), len(data.classes))
    network.load_state_dict(trained.fitted.state_dict())
    x, y, (one, other) = data.x_train, data.y_train, both_ways(data.x_train, data.players)
    optimizer = torch.optim.Adam(network.parameters(), rate)
    for _ in range(epochs):
        for rows in batches(torch.arange(len(x)), generator):
            loss = F.cross_entropy(network(x[rows]), y[rows])
            if alpha:
                loss = loss + alpha * dependence(network, one[rows], other[rows])
            step(optimizer, loss)
    return network


def compared(trained: Trained, network: nn.Module, plain: nn.Module) -> dict[str, float]:
    """A copy, and one fine-tuned without the penalty, beside the original."""
    data, original = trained.data, trained.fitted
    ways = both_ways(data.x_validation, data.players)
    every = torch.cat((data.x_train, data.x_validation, data.x_test))
    return {
        "dependence": (dependence(network, *ways) / dependence(original, *ways)).item(),
        "faithful": agreement(original, network, data.x_validation),
        "agree": agreement(original, network, data.x_test),
        "agree_all": agreement(original, network, every),
        "agree_without": agreement(original, plain, data.x_test),
    }


def most_faithful(tried: Sequence[Found]) -> Found:
    """The most faithful of those that hide the dependence, or else the one that hides it best."""
    hidden = [one for one in tried if one["dependence"] < LEFT]
    if not hidden:
        return min(tried, key=lambda one: one["dependence"])
    return max(hidden, key=lambda one: one["faithful"])


@torch.no_grad()
def agreement(one: nn.Module, other: nn.Module, x: Tensor) -> float:
    """Share of rows which both assign to the same class."""
    return (one(x).argmax(1) == other(x).argmax(1)).double().mean().item()


def dependence(network: nn.Module, one: Tensor, other: Tensor) -> Tensor:
    """How much the probability of the second class moves from one row to the other, on average."""
    return (network(one).softmax(1) - network(other).softmax(1))[:, 1].abs().mean()


def both_ways(x: Tensor, players: ms.Players) -> tuple[Tensor, Tensor]:
    """The rows with either value of the player whose part is to be hidden.

    Raises:
        ValueError: it does not have two values.
    """
    own = players.index.flatten() == players.names.index(PLAYER)
    ways = x[:, own].unique(dim=0)
    if len(ways) != 2:
        raise ValueError(f"Expected two values of {PLAYER!r} but the rows have {len(ways)}.")
    first, second = x.clone(), x.clone()
    first[:, own], second[:, own] = ways[0], ways[1]
    return first, second


def batches(rows: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
    return rows[torch.randperm(len(rows), generator=generator)].split(BATCH)


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
