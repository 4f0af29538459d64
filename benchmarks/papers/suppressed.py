"""A hidden dependence on sex shows on the manifold only (Frye et al. 2021, Sec. 3.1, Fig. 2a).

A census classifier is trained on, with a penalty on how much its output moves when the sex of a
person is replaced (Eq. 23). Its predictions stay, so it still tells the sexes apart by all else
that goes with sex. Off the manifold that cannot be seen.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

import manifold_shap as ms
from benchmarks.papers.global_figures import by_player, grouped
from benchmarks.papers.report import Claim, Line, Report
from benchmarks.papers.trained import Trained
from manifold_shap.nn import MLP
from manifold_shap.plots import style
from manifold_shap.training.loop import seeded

TITLE = "A model that hides its dependence on sex"
SOURCE = "Frye et al. (2021), Section 3.1 and App. B.2, Fig. 2(a)"
PLAYER = "sex"
HIDDEN, BATCH, RATE = 50, 200, 1e-3
PATIENCE, LEAST_GAIN = 10, 1e-4
REMARKS = """
The paper draws bars without numbers: "near zero" is taken as less than a tenth of the original
model's value, "stays" as at least half of it. The classifier has the paper's size and
scikit-learn's default settings (Adam at 1e-3, batches of 200, early stopping on a tenth of the
rows), in torch, so that it can be trained on with Eq. (23).

The paper does not give the learning rate of the epochs with the penalty. Ours is 1e-4, chosen after
both were seen: at the classifier's own 1e-3 the copy drifts further from the original. Still they
agree on fewer rows than the paper's. That is due to training on and not to the penalty, as the
copies without it show; after 50 of the 200 epochs at 1e-4 the two agreed on 98.4 % of the rows, at
an accuracy of 0.855.
"""


def run(
    samples: int,
    draws: int,
    alpha: float,
    tuning_rate: float,
    tuning_epochs: int,
    epochs: int | None,
    seed: int,
) -> Report:
    """Global values of the original and of the suppressed model, off and on the manifold.

    Args:
        samples: labelled rows, each with one pair of orders.
        draws: completions of a coalition.
        alpha: weight of the penalty, Eq. (23).
        tuning_rate: learning rate with it.
        tuning_epochs: epochs with it.
        epochs: of the trainings of surrogates and the VAE; by default those of the commands.
        seed: of everything.
    """
    shorter = {} if epochs is None else {"max_epochs": epochs}
    trained = Trained("census", seed, fit=lambda x, y: classifier(x, y, seed))
    original = trained.model, trained.accuracy
    network = suppress(trained, alpha, tuning_rate, tuning_epochs, seed)
    # What of it is due to training on alone, and to its rate.
    others = {
        "and without the penalty": suppress(trained, 0.0, tuning_rate, tuning_epochs, seed),
        f"and at {RATE}": suppress(trained, alpha, RATE, tuning_epochs, seed),
        f"and at {RATE} without the penalty": suppress(trained, 0.0, RATE, tuning_epochs, seed),
    }
    # The imputer knows nothing of the models: one serves both.
    vae = trained.vae(draws, **shorter).imputer
    found: dict[str, dict[str, ms.GlobalValues]] = {}
    for name, model in {"original model": original[0], "suppressed model": network}.items():
        trained.explain(model)
        values = {
            "off manifold": trained.off_manifold(draws),
            "on manifold, VAE": trained.imputed(vae, draws),
            "on manifold, surrogate": trained.surrogate(**shorter),
        }
        for method, value in values.items():
            found.setdefault(method, {})[name] = trained.global_values(value, samples)
    x = trained.data.x_test
    agree = {
        what: (original[0](x).argmax(1) == other(x).argmax(1)).double().mean().item()
        for what, other in {"test rows on which they agree": network, **others}.items()
    }
    return _report(found, {"original": original[1], "suppressed": trained.accuracy}, agree)


def classifier(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    """One hidden layer of 50, stopped when a tenth of the rows is no longer told better."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=generator)
    held, rest = order[: len(x) // 10], order[len(x) // 10 :]
    with seeded(seed):
        network = MLP(x[0].numel(), (HIDDEN,), int(y.max()) + 1)
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    best, kept, waited = 0.0, dict(network.state_dict()), 0
    while waited < PATIENCE:
        for rows in _batches(rest, generator):
            _step(optimizer, F.cross_entropy(network(x[rows]), y[rows]))
        score = (network(x[held]).argmax(1) == y[held]).double().mean().item()
        waited = 0 if score > best + LEAST_GAIN else waited + 1
        if score > best:
            best, kept = score, {key: entry.clone() for key, entry in network.state_dict().items()}
    network.load_state_dict(kept)
    return network


def suppress(trained: Trained, alpha: float, rate: float, epochs: int, seed: int) -> nn.Module:
    """Train a copy on with the penalty of Eq. (23)."""
    data, generator = trained.data, torch.Generator().manual_seed(seed)
    network = MLP(data.x_train[0].numel(), (HIDDEN,), len(data.classes))
    network.load_state_dict(trained.fitted.state_dict())
    x, y, (one, other) = data.x_train, data.y_train, both_ways(data.x_train, data.players)
    optimizer = torch.optim.Adam(network.parameters(), rate)
    for _ in range(epochs):
        for rows in _batches(torch.arange(len(x)), generator):
            loss = F.cross_entropy(network(x[rows]), y[rows])
            if alpha:
                loss = loss + alpha * dependence(network, one[rows], other[rows])
            _step(optimizer, loss)
    return network


def dependence(network: nn.Module, one: Tensor, other: Tensor) -> Tensor:
    """How much the probability of the second class moves from one row to the other, on average."""
    return (network(one).softmax(1) - network(other).softmax(1))[:, 1].abs().mean()


def both_ways(x: Tensor, players: ms.Players) -> tuple[Tensor, Tensor]:
    """The rows with either value of the player whose part is to be hidden."""
    own = players.index.flatten() == players.names.index(PLAYER)
    ways = x[:, own].unique(dim=0)
    if len(ways) != 2:
        raise ValueError(f"Expected two values of {PLAYER!r} but the rows have {len(ways)}.")
    first, second = x.clone(), x.clone()
    first[:, own], second[:, own] = ways[0], ways[1]
    return first, second


def _batches(rows: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
    return rows[torch.randperm(len(rows), generator=generator)].split(BATCH)


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def _report(
    found: Mapping[str, Mapping[str, ms.GlobalValues]],
    accuracy: Mapping[str, float],
    agree: Mapping[str, float],
) -> Report:
    sex: dict[str, list[float]] = {}
    for method, models in found.items():
        sex[method] = [_of(values, PLAYER) for values in models.values()]
    every = [values for models in found.values() for values in models.values()]
    lines = [
        Line("accuracy of the original model", accuracy["original"], paper=0.85),
        Line("accuracy of the suppressed model", accuracy["suppressed"], paper="the same"),
        *(
            Line(what, share, paper=paper)
            for (what, share), paper in zip(agree.items(), (0.985, None, None, None), strict=True)
        ),
        *(
            Line(f"{PLAYER}, {method}: suppressed / original", after / before)
            for method, (before, after) in sex.items()
        ),
        Line("largest gap in the sum rule (Eq. 5), relative", max(v.efficiency_gap for v in every)),
    ]
    on = [pair for method, pair in sex.items() if method.startswith("on manifold")]
    before, after = sex["off manifold"]
    claims = [
        Claim("both models agree on at least 98 % of the rows", next(iter(agree.values())) >= 0.98),
        Claim(
            "both are as accurate, within one point",
            abs(accuracy["original"] - accuracy["suppressed"]) < 0.01,
        ),
        Claim(
            f"off the manifold, the value of {PLAYER} is near zero",
            abs(after) < abs(before) / 10,
        ),
        Claim(
            f"on the manifold, the value of {PLAYER} stays",
            all(after > before / 2 for before, after in on),
        ),
    ]
    tables = [by_player(models, method) for method, models in found.items()]
    return Report(TITLE, SOURCE, lines, claims, tables, REMARKS, _draw(found))


def _of(values: ms.GlobalValues, player: str) -> float:
    return values.phi[values.players.index(player)].item()


def _draw(found: Mapping[str, Mapping[str, ms.GlobalValues]]) -> Figure:
    figure = style.laid_out(3.6, 8.0)
    panels: Any = figure.subplots(1, len(found), sharex=True)
    for axes, (method, models) in zip(panels, found.items(), strict=True):
        grouped(axes, models)
        axes.set_title(method, loc="left", fontsize=style.TEXT, color=style.INK)
    for axes in panels[1:]:
        axes.set_yticklabels([])
        axes.get_legend().remove()
    return figure
