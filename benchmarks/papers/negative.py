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
from benchmarks.papers.scored import classifier
from benchmarks.papers.trained import Trained
from manifold_shap.plots import style

TITLE = "Negative global values arise off the manifold"
SOURCE = "Frye et al. (2021), Section 3.2, Fig. 4"
# P(x0 = 1), P(x1 = 1 | x0) and P(y = 1 | x0, x1): severity, treatment and mortality. These are our
# own, and decide the sign of x1 off the manifold.
SEVERE, TREATED, DIES = 0.5, (0.1, 0.9), ((0.3, 0.2), (0.9, 0.8))
ROWS = 10_000
# Standard errors below zero that count as negative, our own bound.
SURELY = 3.0
REMARKS = """
The table of Fig. 4(a) is not in the text, which only says how it leans: ours is severity of a
disease (x0), intensity of its treatment (x1) and mortality, with P(x0 = 1) = 0.5,
P(x1 = 1 | x0 = 0, 1) = 0.1, 0.9 and P(y = 1 | x) = 0.3, 0.2 untreated and treated if mild, 0.9, 0.8
if severe. These probabilities decide the sign, and were chosen so that x1 is negative off the
manifold: that it is shows that such tables exist, not how common they are. On it all four values
are exact. The tree is grown in full, so that its outputs are the frequencies of the table.

That a value counts as negative if it is three standard errors below zero is our own bound. The
abalone classifier is the paper's (App. B.3): scikit-learn's, with 100 hidden units and early
stopping. Its values sum to what it is more accurate than chance (Eq. 5), E[f_y(x)] over test rows
less E[f_y(x')] over training rows x', so each sum stands beside this figure, which is taken from
the model without any value function.
"""


def run(samples: int, draws: int, seed: int, epochs: int | None) -> Report:
    """Global values of both models.

    Args:
        samples: pairs of orders of labelled rows, for the abalone data.
        draws: completions of a coalition there.
        seed: of everything.
        epochs: of the trainings; by default those of the commands.
    """
    tree = synthetic(seed)
    shorter = {} if epochs is None else {"max_epochs": epochs}
    trained = Trained("abalone", seed, classifier("abalone", seed))
    values = {
        "off manifold": trained.off_manifold(draws),
        "surrogate": trained.surrogate(**shorter),
        "VAE": trained.vae(draws, **shorter),
    }
    abalone = {name: trained.global_values(value, samples) for name, value in values.items()}
    return _report(tree, abalone, trained.accuracy, trained.attributable(samples))


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
    tree: Mapping[str, ms.GlobalValues],
    abalone: Mapping[str, ms.GlobalValues],
    accuracy: float,
    above_chance: float,
) -> Report:
    """Of both models, and of abalone how often the classifier is right, and what values sum to."""
    lines = [Line("accuracy of the abalone classifier", accuracy, paper=0.78)]
    lines += [
        Line(f"sum of the values, {name} (abalone)", values.phi.sum().item())
        for name, values in abalone.items()
    ]
    chance = "accuracy of the abalone classifier above chance, straight from the model"
    lines.append(Line(chance, above_chance))
    tables = [by_player(tree, "decision tree"), by_player(abalone, "abalone")]
    figure = _draw(tree, abalone)
    return Report(TITLE, SOURCE, lines, claims(tree, abalone), tables, REMARKS, figure)


def claims(
    tree: Mapping[str, ms.GlobalValues], abalone: Mapping[str, ms.GlobalValues]
) -> list[Claim]:
    """Of the paper."""
    on = [values for name, values in abalone.items() if name != "off manifold"]
    return [
        Claim(
            "off the manifold the global value of x1 in the decision tree is negative",
            "x1" in negative(tree["off manifold"]),
        ),
        Claim(
            "on the manifold no global value in the decision tree is negative",
            not negative(tree["on manifold"]),
        ),
        Claim(
            "off the manifold the global value of a measurement of abalone is negative",
            bool(negative(abalone["off manifold"])),
        ),
        Claim(
            "on the manifold no global value of a measurement of abalone is negative, by surrogate "
            "or by VAE",
            not any(map(negative, on)),
        ),
    ]


def _draw(tree: Mapping[str, ms.GlobalValues], abalone: Mapping[str, ms.GlobalValues]) -> Figure:
    figure = style.laid_out(2.8, 7.0)
    left, right = figure.subplots(1, 2, width_ratios=(1, 2))
    for axes, title, found in ((left, "Decision tree", tree), (right, "Abalone", abalone)):
        grouped(axes, found)
        axes.set_title(title, loc="left", fontsize=style.TEXT, color=style.INK)
    return figure
