"""A hidden dependence on sex shows on the manifold only (Frye et al. 2021, Sec. 3.1, Fig. 2a).

A census classifier is trained on, with a penalty on how much its output moves when the sex of a
person is replaced (Eq. 23). Its predictions stay, so it still tells the sexes apart by all else
that goes with sex. Off the manifold that cannot be seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

import manifold_shap as ms
from benchmarks.papers.global_figures import by_player, grouped
from benchmarks.papers.report import Claim, Line, Report, Table
from benchmarks.papers.trained import Trained
from manifold_shap.nn import MLP
from manifold_shap.plots import style
from manifold_shap.training.loop import seeded

TITLE = "A model that hides its dependence on sex"
SOURCE = "Frye et al. (2021), Section 3.1 and App. B.2, Fig. 2(a)"
PLAYER = "sex"
HIDDEN, BATCH, RATE = 50, 200, 1e-3
PATIENCE, LEAST_GAIN, MOST_EPOCHS = 10, 1e-4, 200
# What may be left of a dependence that is called hidden, and of a value that is near zero.
LEFT = 0.1
# What is left of one that stays.
STAYS = 0.5
REMARKS = """
The paper draws bars without numbers: "near zero" is taken here as less than a tenth of the original
model's value, "stays" as at least half of it. The classifier has the paper's size and
scikit-learn's default settings (Adam at 1e-3, batches of 200, early stopping on a tenth of the
rows), in torch, so that it can be trained on with Eq. (23): with torch's initial weights, and
without the L2 penalty, which is 1e-4 over the rows of a batch there.

The paper does not give the learning rate of the epochs with the penalty. Of those in the last table
it is the one whose copy agrees most with the original on validation rows, among those that leave
less than a tenth of the dependence on sex there (the mean of Eq. 23). At higher rates copies drift
further from the original, with the penalty or without: so that is due to training on. The first
rates tried were 1e-3 and 1e-4, and at neither did the two agree on 98 % of the rows; that is why
there are lower ones.
"""


@dataclass(frozen=True)
class Tuned:
    """A copy of the classifier, trained on.

    Attributes:
        network: the copy.
        rate: of learning.
        dependence: on the player, as a share of the original's, on validation rows.
        faithful: share of validation rows on which it agrees with the original.
        agree: of test rows.
        agree_all: of all rows.
        agree_without: of test rows, for a copy that was trained on without the penalty.
    """

    network: nn.Module
    rate: float
    dependence: float
    faithful: float
    agree: float
    agree_all: float
    agree_without: float


def run(
    samples: int,
    draws: int,
    alpha: float,
    tuning_rates: Sequence[float],
    tuning_epochs: int,
    epochs: int | None,
    seed: int,
) -> Report:
    """Global values of the original and of the suppressed model, off and on the manifold.

    Args:
        samples: labelled rows, each with one pair of orders, or more where there are fewer rows.
        draws: completions of a coalition.
        alpha: weight of the penalty, Eq. (23).
        tuning_rates: learning rates with it, of which one is chosen by validation rows.
        tuning_epochs: epochs with it.
        epochs: of the trainings of surrogates and the VAE; by default those of the commands.
        seed: of everything.
    """
    shorter = {} if epochs is None else {"max_epochs": epochs}
    trained = Trained("census", seed, fit=lambda x, y: classifier(x, y, seed))
    original = trained.model, trained.accuracy
    tried = [tuned(trained, alpha, rate, tuning_epochs, seed) for rate in tuning_rates]
    chosen = most_faithful(tried)
    # Of the rows alone, but for its tempering, which suits the original: one serves both.
    vae = trained.vae(draws, **shorter).imputer
    found: dict[str, dict[str, ms.GlobalValues]] = {}
    attributable = {}
    for name, model in {"original model": original[0], "suppressed model": chosen.network}.items():
        trained.explain(model)
        attributable[name] = trained.attributable(samples)
        values = {
            "off manifold": trained.off_manifold(draws),
            "on manifold, VAE": trained.imputed(vae, draws),
            "on manifold, surrogate": trained.surrogate(**shorter),
        }
        for method, value in values.items():
            found.setdefault(method, {})[name] = trained.global_values(value, samples)
    return _report(found, (original[1], trained.accuracy), attributable, tried, chosen)


def classifier(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    """One hidden layer of 50, stopped when a tenth of the rows is no longer told better."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=generator)
    held, rest = order[: len(x) // 10], order[len(x) // 10 :]
    with seeded(seed):
        network = MLP(x[0].numel(), (HIDDEN,), int(y.max()) + 1)
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    best, kept, waited = 0.0, dict(network.state_dict()), 0
    for _ in range(MOST_EPOCHS):
        for rows in _batches(rest, generator):
            _step(optimizer, F.cross_entropy(network(x[rows]), y[rows]))
        score = (network(x[held]).argmax(1) == y[held]).double().mean().item()
        waited = 0 if score > best + LEAST_GAIN else waited + 1
        if score > best:
            best, kept = score, {key: entry.clone() for key, entry in network.state_dict().items()}
        if waited == PATIENCE:
            break
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


def tuned(trained: Trained, alpha: float, rate: float, epochs: int, seed: int) -> Tuned:
    """A copy trained on at this rate, and another one without the penalty."""
    data, original = trained.data, trained.fitted
    network, plain = (suppress(trained, weight, rate, epochs, seed) for weight in (alpha, 0.0))
    ways = both_ways(data.x_validation, data.players)
    before, after = (dependence(one, *ways).item() for one in (original, network))
    return Tuned(
        network,
        rate,
        after / before,
        faithful=agreement(original, network, data.x_validation),
        agree=agreement(original, network, data.x_test),
        agree_all=agreement(
            original, network, torch.cat((data.x_train, data.x_validation, data.x_test))
        ),
        agree_without=agreement(original, plain, data.x_test),
    )


def most_faithful(tried: Sequence[Tuned]) -> Tuned:
    """The most faithful of those that hide the dependence, or else the one that hides it best."""
    hidden = [one for one in tried if one.dependence < LEFT]
    if not hidden:
        return min(tried, key=lambda one: one.dependence)
    return max(hidden, key=lambda one: one.faithful)


@torch.no_grad()
def agreement(one: nn.Module, other: nn.Module, x: Tensor) -> float:
    """Share of rows which both take for the same class."""
    return (one(x).argmax(1) == other(x).argmax(1)).double().mean().item()


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
    accuracy: tuple[float, float],
    attributable: Mapping[str, float],
    tried: Sequence[Tuned],
    chosen: Tuned,
) -> Report:
    sex: dict[str, list[float]] = {}
    for method, models in found.items():
        sex[method] = [_of(values, PLAYER) for values in models.values()]
    lines = [
        Line("accuracy of the original model", accuracy[0], paper=0.85),
        Line("accuracy of the suppressed model", accuracy[1], paper="the same"),
        Line("share of the rows on which they agree", chosen.agree_all, paper=0.985),
        Line("share of the test rows on which they agree", chosen.agree),
        Line("learning rate of the penalty's epochs", chosen.rate),
        *(
            Line(f"{PLAYER}, {method}: suppressed / original", after / before)
            for method, (before, after) in sex.items()
        ),
        *_sums(found, attributable),
    ]
    on = [pair for method, pair in sex.items() if method.startswith("on manifold")]
    before, after = sex["off manifold"]
    claims = [
        Claim("both models agree on at least 98 % of the test rows", chosen.agree >= 0.98),
        Claim("both are as accurate, within one point", abs(accuracy[0] - accuracy[1]) < 0.01),
        Claim(
            f"off the manifold, the value of {PLAYER} is near zero",
            abs(after) < abs(before) * LEFT,
        ),
        Claim(
            f"on the manifold, the value of {PLAYER} stays",
            all(after > before * STAYS for before, after in on),
        ),
    ]
    tables = [by_player(models, method) for method, models in found.items()]
    tables.append(_rates(tried))
    return Report(TITLE, SOURCE, lines, claims, tables, REMARKS, _draw(found))


def _sums(
    found: Mapping[str, Mapping[str, ms.GlobalValues]], attributable: Mapping[str, float]
) -> list[Line]:
    """Of the values, and what they are to be (Eq. 5)."""
    lines = []
    for name, total in attributable.items():
        lines.append(Line(f"accuracy above chance, from the model: {name}", total))
        lines += [
            Line(f"sum of the values, {method}: {name}", models[name].phi.sum().item())
            for method, models in found.items()
        ]
    return lines


def _rates(tried: Sequence[Tuned]) -> Table:
    columns = [
        "learning rate of the penalty's epochs",
        "dependence left, validation rows",
        "agreement, validation rows",
        "agreement, test rows",
        "agreement without the penalty, test rows",
    ]
    rows = [[one.rate, one.dependence, one.faithful, one.agree, one.agree_without] for one in tried]
    return Table(columns, rows)


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
