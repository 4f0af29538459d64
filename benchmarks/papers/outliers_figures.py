"""The plot of the experiment on outliers, like Figs. 3(d) to (f) of Frye et al. (2021)."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.papers.outliers_coalitions import DATA, KINDS, Scores
from benchmarks.papers.outliers_forests import GAMES
from manifold_shap.plots import style

# Between markers of different methods at the same noise, as a share of the largest noise.
APART = 0.02
BINS = 50
WORDS: dict[str, Any] = {"fontsize": style.TEXT, "color": style.INK}
# Method to noise to the share of wrong explanations of each forest.
Rates = Mapping[str, Mapping[float, Sequence[float]]]


def draw(rates: Rates, found: Scores, sigma: float) -> Figure:
    """Error rates against the noise, and scores of coalitions at one noise, `sigma`."""
    figure = style.laid_out(2.9, 7.5)
    left, *right = figure.subplots(1, 3)
    _errors(left, rates)
    every = [each for by in found.values() for each in by.values()]
    bins = np.histogram_bin_edges(np.concatenate(every), BINS)
    for axes, kind in zip(right, KINDS, strict=True):
        _histograms(axes, kind, found[kind], bins)
        axes.set_xlabel(f"outlier score, σ = {sigma}", **WORDS)
    left.plot([], [], color=style.INK, label=DATA)
    figure.legend(
        *left.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(rates) + 1,
        frameon=False,
        fontsize=style.TEXT,
        labelcolor=style.INK,
    )
    return figure


def _errors(axes: Axes, rates: Rates) -> None:
    """Means over forests, with whiskers from the least to the most.

    What is learned at a few scales of the noise has markers alone; each method stands a little to
    the side of the others.
    """
    style.strip(axes, grid="y")
    widest = max(sigma for rate in rates.values() for sigma in rate)
    for number, (name, rate) in enumerate(rates.items()):
        least, mean, most = (
            np.array([summary(wrong) for wrong in rate.values()])
            for summary in (min, statistics.mean, max)
        )
        aside = APART * widest * (number - (len(rates) - 1) / 2)
        axes.errorbar(
            np.array(list(rate)) + aside,
            mean,
            yerr=np.stack((mean - least, most - mean)).clip(min=0),
            fmt="o-" if name in GAMES else "o",
            color=style.SERIES[number],
            label=name,
            markersize=3.5,
            elinewidth=0.8,
        )
    forests = len(next(iter(next(iter(rates.values())).values())))
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(f"noise σ\nwhiskers: least and most of {forests} forests", **WORDS)
    axes.set_title("Share of wrong explanations", loc="left", **WORDS)


def _histograms(
    axes: Axes, kind: str, found: Mapping[str, Sequence[float]], bins: np.ndarray
) -> None:
    style.strip(axes, grid="y")
    for colour, each in zip((style.INK, *style.SERIES), found.values(), strict=False):
        axes.hist(each, bins.tolist(), histtype="step", density=True, color=colour)
    axes.set_yticks([])
    axes.set_ylabel("density", **WORDS)
    axes.set_title(f"Model on {kind} coalitions", loc="left", **WORDS)
