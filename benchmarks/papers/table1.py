"""How good each value function is, on four data sets (Frye et al. 2021, Section 4.2, Table 1).

The mean squared error of Eq. (16) on test rows: off the manifold, by the unsupervised method (the
masked-encoder VAE), by the supervised one (the surrogate), and by the table itself where all of its
features are binary. As in the paper, a data set has one split and one classifier, and each learned
method is trained with several seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.papers import parts
from benchmarks.papers.report import Claim, Line, Report, Table
from benchmarks.papers.scored import (
    OFF,
    PUBLISHED,
    PUBLISHED_SIZES,
    SURROGATE,
    TABLE,
    TRAINING_ROWS,
    VAE,
    Unit,
    measure,
    prepared,
)
from manifold_shap.plots import style

TITLE = "How good every value function is"
SOURCE = "Frye et al. (2021), Section 4.2 and App. B, Table 1"
# Means, and standard deviations of ten trainings.
PAPER: dict[str, dict[str, tuple[float, float | None]]] = {
    "drug": {
        OFF: (0.0634, None),
        VAE: (0.0536, 0.0007),
        SURROGATE: (0.0441, 0.0002),
        TABLE: (0.0436, None),
    },
    "abalone": {OFF: (0.0647, None), VAE: (0.0293, 0.0009), SURROGATE: (0.0200, 0.0001)},
    "census": {OFF: (0.0344, None), VAE: (0.0300, 0.0006), SURROGATE: (0.0250, 0.0001)},
    "mnist": {OFF: (0.0448, None), VAE: (0.0257, 0.0005), SURROGATE: (0.0121, 0.0001)},
}
# App. B: of the classifiers, on test rows.
ACCURACY = {"drug": 0.822, "abalone": 0.78, "census": 0.85, "mnist": 0.98}
# The paper's optimum is 1.1 % below its supervised method.
NEAR = 1.02
REMARKS = """
Splits and classifiers are fixed, the latter by scikit-learn as App. B has them, and the methods are
trained with several seeds. Errors contain the noise of the draws; the last table takes it out. The
supervised method and the unsupervised one are those of the commands; "as published" is App. A with
the sizes of Table 2, for fewer epochs on one cycle of the learning rate.

Differences begin off the manifold, where nothing is trained: there they are of the data and of the
classifier. The paper does not list its ten drugs. Tried by hand with nine random choices of ten, at
one split, the error off the manifold was 0.057 to 0.073 (without the noise of its draws), and that
of the empirical optimum 0.043 to 0.055; on the abalone data it was 0.051, 0.069 and 0.068 with
three splits. The second table therefore has all errors as shares of the one off the manifold. By
these the supervised method is where the paper's is on the drug and census data, and better on
MNIST; on the abalone data it is behind, by as much as the error off the manifold is smaller here.

The unsupervised method here is better than the published one: it is told which inputs are absent,
and takes the codes of training rows, weighted by how well they explain x_S, where the paper samples
its masked encoder. It gains most on images, and there it passes the supervised method; on tables
the two come out alike, within one per cent. On the drug data the published network comes as near,
so what the paper's lacks there is not in the network.

The empirical optimum is that of the test rows: it has seen them. A method that has seen the
training rows alone comes about as near as their own conditional mean does. How the paper's
supervised method comes within 1.1 % of that optimum, we do not know.
"""


def run(
    data: Sequence[str],
    seeds: Sequence[int],
    split: int,
    pairs: int,
    draws: int,
    epochs: int | None,
    published: int | None,
    folder: str,
) -> Report:
    """The table, with what of it has been measured before with the same settings.

    Args:
        data: which data sets.
        seeds: of the trainings.
        split: seed of splits, classifiers, coalitions and draws.
        pairs: of test rows and coalitions, on which all methods are scored.
        draws: completions of a coalition.
        epochs: of the trainings; by default those of the commands.
        published: epochs of a VAE as published, trained once; by default there is none.
        folder: of what has been measured.
    """
    found: dict[str, Any] = {}
    for name in data:
        # There is no classifier to train where all figures are there.
        trained = cache(partial(prepared, name, split))
        unit = Unit(name, split, "fixed", None, pairs, draws, None)
        units = [unit, *(replace(unit, kind="seed", seed=seed, epochs=epochs) for seed in seeds)]
        if published and name in PUBLISHED_SIZES:
            units.append(replace(unit, kind="published", seed=seeds[0], epochs=published))
        found[name] = [
            parts.kept(
                Path(folder, f"{one.name}.json"), asdict(one), partial(measure, trained, one)
            )
            for one in units
        ]
    return _report({name: _gathered(units) for name, units in found.items()})


def _gathered(units: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The scores of a data set, a list for each method."""
    methods = (OFF, PUBLISHED, VAE, SURROGATE, TABLE, TRAINING_ROWS)
    scores = {
        method: [unit["scores"][method] for unit in units if method in unit["scores"]]
        for method in methods
    }
    filled = {method: some for method, some in scores.items() if some}
    seconds = sum(unit["seconds"] for unit in units)
    return {"accuracy": units[0]["accuracy"], "scores": filled, "seconds": seconds}


def spread(scores: Sequence[Mapping[str, float]], kind: str = "mse") -> tuple[float, float | None]:
    """Mean, and standard deviation of two or more."""
    figures = [score[kind] for score in scores]
    return mean(figures), stdev(figures) if len(figures) > 1 else None


def _report(found: Mapping[str, Mapping[str, Any]]) -> Report:
    lines = []
    for name, one in found.items():
        lines.append(
            Line(f"{name}, accuracy of the classifier", one["accuracy"], None, ACCURACY.get(name))
        )
        for method, scores in one["scores"].items():
            paper = PAPER.get(name, {}).get(VAE if method == PUBLISHED else method)
            lines.append(Line(f"{name}, {method}", *spread(scores), _said(paper)))
    return Report(
        TITLE,
        SOURCE,
        lines,
        claims(found),
        [_shares(found), _details(found)],
        REMARKS,
        _draw(found),
        more={"found": dict(found), "paper": PAPER},
        errors="standard deviations of trainings",
        seconds=sum(one["seconds"] for one in found.values()),
    )


def _said(paper: tuple[float, float | None] | None) -> float | str | None:
    if paper is None or paper[1] is None:
        return paper and paper[0]
    return f"{paper[0]:.4f} ± {paper[1]:.4f}"


def claims(found: Mapping[str, Mapping[str, Any]]) -> list[Claim]:
    """Of Section 4.2."""
    mse = {
        name: {method: spread(scores) for method, scores in one["scores"].items()}
        for name, one in found.items()
    }
    better = all(max(one[VAE][0], one[SURROGATE][0]) < one[OFF][0] for one in mse.values())
    said = [
        Claim("both methods have less error than splices, on every data set", better),
        Claim(
            "the supervised method has less error than the unsupervised one, on every data set",
            all(one[SURROGATE][0] < one[VAE][0] for one in mse.values()),
        ),
    ]
    deviations = [(one[SURROGATE][1], one[VAE][1]) for one in mse.values()]
    known = [(one, other) for one, other in deviations if one is not None and other is not None]
    if len(known) == len(deviations):
        stable = all(supervised < other for supervised, other in known)
        text = "trainings of the supervised method differ less than those of the unsupervised one, "
        said.append(Claim(f"{text}on every data set", stable))
    if TABLE in mse.get("drug", {}):
        drug = mse["drug"]
        near = drug[SURROGATE][0] <= NEAR * drug[TABLE][0]
        said.append(
            Claim(
                "on the drug data the error of the supervised method is within 2 % of the "
                "empirical optimum",
                near,
            )
        )
    return said


def _shares(found: Mapping[str, Mapping[str, Any]]) -> Table:
    """Errors relative to that off the manifold."""
    rows = []
    for name, one in found.items():
        mse = {method: spread(scores)[0] for method, scores in one["scores"].items()}
        paper = {method: figure for method, (figure, _) in PAPER.get(name, {}).items()}
        for method in (PUBLISHED, VAE, SURROGATE, TABLE):
            if method in mse:
                theirs = paper.get(VAE if method == PUBLISHED else method)
                theirs = theirs and theirs / paper[OFF]
                rows.append([name, method, theirs, mse[method] / mse[OFF]])
    return Table(["share of the error off the manifold", "method", "paper", "ours"], rows)


def _details(found: Mapping[str, Mapping[str, Any]]) -> Table:
    columns = [
        "data",
        "method",
        "less the noise of its draws",
        "standard error over test rows",
        "trainings",
        "seconds of one",
    ]
    rows = []
    for name, one in found.items():
        for method, scores in one["scores"].items():
            trained = "seconds" in scores[0]
            rows.append([
                name,
                method,
                spread(scores, "debiased"),
                mean(score["error_over_rows"] for score in scores),
                len(scores) if trained else None,
                mean(score["seconds"] for score in scores) if trained else None,
            ])  # fmt: skip
    return Table(columns, rows)


def _draw(found: Mapping[str, Mapping[str, Any]]) -> Figure:
    """The paper's figures and ours, as dots with whiskers of one standard deviation."""
    figure = style.laid_out(2.4, 2.0 * len(found) + 1.2)
    panels: Any = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    methods = [method for method in (OFF, VAE, SURROGATE, TABLE) if _known(found, method)]
    for axes, (name, one) in zip(panels, found.items(), strict=True):
        ours = {
            method: spread(one["scores"][method]) for method in methods if method in one["scores"]
        }
        _dots(axes, methods, PAPER.get(name, {}), 0.15, "paper", style.INK)
        _dots(axes, methods, ours, -0.15, "ours", style.SERIES[0])
        axes.set_xlim(left=0)
        axes.set_title(name, loc="left", fontsize=style.TEXT, color=style.INK)
        axes.set_xlabel("mean squared error", fontsize=style.TEXT, color=style.INK)
    panels[0].set_yticks(range(len(methods)), methods)
    panels[0].set_ylim(len(methods) - 0.5, -0.5)
    handles, labels = panels[0].get_legend_handles_labels()
    words: dict[str, Any] = {"fontsize": style.TEXT, "labelcolor": style.INK}
    figure.legend(handles, labels, loc="outside upper right", ncols=2, frameon=False, **words)
    return figure


def _known(found: Mapping[str, Mapping[str, Any]], method: str) -> bool:
    return any(method in one["scores"] for one in found.values())


def _dots(
    axes: Axes,
    methods: Sequence[str],
    figures: Mapping[str, tuple[float, float | None]],
    above: float,
    label: str,
    colour: str,
) -> None:
    style.strip(axes, grid="x")
    shown = {method: figures[method] for method in methods if method in figures}
    where = [methods.index(method) - above for method in shown]
    middle = [figure for figure, _ in shown.values()]
    whiskers = [deviation or 0.0 for _, deviation in shown.values()]
    axes.errorbar(middle, where, xerr=whiskers, fmt="o", markersize=4, color=colour, label=label)
