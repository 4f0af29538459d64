"""Negative global values off the manifold (Frye et al. 2021, Section 3.2, Fig. 4).

Global values on the manifold are the parts of the model's accuracy that features are good for, and
those are not negative. Off the manifold they may be, on a table of two binary features as on the
abalone data, whose eight measurements go together.
"""

from collections.abc import Mapping

import torch
from matplotlib.figure import Figure
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor

import manifold_shap as ms
from benchmarks.papers.global_figures import by_player, grouped
from benchmarks.papers.report import Claim, Line, Report
from benchmarks.papers.trained import Trained
from manifold_shap.plots import style

TITLE = "Negative global values arise off the manifold"
SOURCE = "Frye et al. (2021), Section 3.2, Fig. 4"
# P(x0 = 1), P(x1 = 1 | x0) and P(y = 1 | x0, x1): severity, treatment and mortality.
SEVERE, TREATED, DIES = 0.5, (0.1, 0.9), ((0.3, 0.2), (0.9, 0.8))
ROWS = 10_000
# Standard errors below zero that count as negative.
SURELY = 3.0
REMARKS = """
The table of Fig. 4(a) is not in the text, which only says how it leans: ours is severity of a
disease (x0), intensity of its treatment (x1) and mortality, with P(x0 = 1) = 0.5,
P(x1 = 1 | x0 = 0, 1) = 0.1, 0.9 and P(y = 1 | x) = 0.3, 0.2 untreated and treated if mild, 0.9, 0.8
if severe. On it all four values are exact. The abalone classifier is the default of this package.
"""


def run(samples: int, draws: int, seed: int, epochs: int | None) -> Report:
    """Global values of both models.

    Args:
        samples: labelled rows, each with one pair of orders, for the abalone data.
        draws: completions of a coalition there.
        seed: of everything.
        epochs: of the trainings; by default those of the commands.
    """
    tree = synthetic(seed)
    shorter = {} if epochs is None else {"max_epochs": epochs}
    trained = Trained("abalone", seed)
    values = {
        "off manifold": trained.off_manifold(draws),
        "surrogate": trained.surrogate(**shorter),
        "VAE": trained.vae(draws, **shorter),
    }
    abalone = {name: trained.global_values(value, samples) for name, value in values.items()}
    return _report(tree, abalone, trained)


def synthetic(seed: int) -> dict[str, ms.GlobalValues]:
    """Exact values of a decision tree on the table of two binary features."""
    x, y = patients(seed)
    model = DecisionTreeClassifier(random_state=seed).fit(x.numpy(), y.numpy())
    players = ms.Players.of_elements((2,), ("x0", "x1"))
    imputers = {
        "off manifold": (ms.MarginalImputer(x, players), ROWS),
        "on manifold": (ms.ExactMatchImputer(x, players), 4),
    }
    return {
        name: _exactly(ms.imputed_value(model, imputer, draws=draws), x, y)
        for name, (imputer, draws) in imputers.items()
    }


def patients(seed: int) -> tuple[Tensor, Tensor]:
    """Rows (x0, x1), and y."""
    generator = torch.Generator().manual_seed(seed)
    severe, treated, dies = torch.rand(3, ROWS, generator=generator)
    x0 = (severe < SEVERE).long()
    x1 = (treated < torch.tensor(TREATED)[x0]).long()
    y = (dies < torch.tensor(DIES)[x0, x1]).long()
    return torch.stack((x0, x1), 1).float(), y


def _exactly(value: ms.ValueFunction, x: Tensor, y: Tensor) -> ms.GlobalValues:
    """Of all rows of the table, by its four different ones."""
    distinct, which = x.unique(dim=0, return_inverse=True)
    return ms.global_values(ms.exact_shapley(value, distinct)[which.tolist()], y)


def negative(found: ms.GlobalValues) -> list[str]:
    """Players whose value is surely below zero."""
    below = found.phi < -SURELY * found.standard_error.nan_to_num()
    return [name for name, sure in zip(found.players, below.tolist(), strict=True) if sure]


def _report(
    tree: Mapping[str, ms.GlobalValues], abalone: Mapping[str, ms.GlobalValues], trained: Trained
) -> Report:
    gap = max(values.efficiency_gap for values in (*tree.values(), *abalone.values()))
    lines = [
        Line("accuracy of the abalone classifier", trained.accuracy, paper=0.78),
        Line("largest gap in the sum rule (Eq. 5), relative", gap),
    ]
    on = [values for name, values in abalone.items() if name != "off manifold"]
    claims = [
        Claim("off the manifold x1 is negative", "x1" in negative(tree["off manifold"])),
        Claim("on the manifold neither is", not negative(tree["on manifold"])),
        Claim("off the manifold a measurement of abalone is negative",
              bool(negative(abalone["off manifold"]))),
        Claim("on the manifold none is, by surrogate or by VAE", not any(map(negative, on))),
    ]  # fmt: skip
    tables = [by_player(tree), by_player(abalone)]
    return Report(TITLE, SOURCE, lines, claims, tables, REMARKS, _draw(tree, abalone))


def _draw(tree: Mapping[str, ms.GlobalValues], abalone: Mapping[str, ms.GlobalValues]) -> Figure:
    figure = style.laid_out(2.8, 7.0)
    left, right = figure.subplots(1, 2, width_ratios=(1, 2))
    for axes, title, found in ((left, "Decision tree", tree), (right, "Abalone", abalone)):
        grouped(axes, found)
        axes.set_title(title, loc="left", fontsize=style.TEXT, color=style.INK)
    return figure
