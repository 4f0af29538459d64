"""Plots of Lemaire et al. (2023): its Fig. 3, and its Tables 2 and 3."""

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.papers.naive_bayes_measures import Found, Pair
from benchmarks.papers.naive_bayes_paper import MEASURES, PAPER
from manifold_shap.plots import style


def shares(found: Found, kind: str) -> Figure:
    """Fig. 3, of Twonorm if it is among them, or else of the first data set."""
    name = "twonorm" if "twonorm" in found else next(iter(found))
    by_method = found[name][kind].shares
    figure, axes = style.one_panel(2.6, grid="y", width=6.5)
    for number, (method, share) in enumerate(by_method.items()):
        where: Any = torch.arange(len(share)) + 0.4 * (number - 0.5)
        axes.bar(where, share, 0.36, color=style.SERIES[number], label=method)
    words: dict[str, Any] = {"fontsize": style.TEXT, "color": style.INK}
    axes.set_xticks(range(len(share)), [str(m + 1) for m in range(len(share))])
    axes.set_xlabel(f"variable of {PAPER[name].label}, {kind}", **words)
    axes.set_title("Share in the sum of mean |phi|", loc="left", **words)
    axes.legend(frameon=False, fontsize=style.TEXT, labelcolor=style.INK, ncols=2)
    axes.set_ylim(0, 1.25 * max(map(max, by_method.values())))
    return figure


def tables(found: Found, kinds: Sequence[str]) -> Figure:
    """Tables 2 and 3: the paper's figures and those of some classifiers."""
    figure = style.laid_out(3.4, 7.5)
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    titles = ("Evidence: Kendall in a row", "KernelSHAP: Pearson", "KernelSHAP: Kendall")
    for axes, measure, title in zip(panels, MEASURES, titles, strict=True):
        _dots(axes, found, measure, kinds)
        axes.set_title(title, loc="left", fontsize=style.TEXT, color=style.INK)
    names = [PAPER[name].label for name in found]
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    style.headline(figure, "Tables 2 and 3; whiskers: two standard errors, up to 1 at most")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=style.TEXT,
        labelcolor=style.INK,
    )
    return figure


def _dots(axes: Axes, found: Found, measure: str, kinds: Sequence[str]) -> None:
    style.strip(axes, grid="x")
    where = range(len(found))
    of_paper = [getattr(PAPER[name], measure) for name in found]
    words: dict[str, Any] = {"markersize": 4}
    for colour, kind in zip(style.SERIES, kinds, strict=False):
        ours = [getattr(each[kind], measure) for each in found.values()]
        values, reach = [value for value, _ in ours], _whiskers(ours)
        of_kind = words | {"color": colour, "elinewidth": 0.8, "label": kind}
        axes.errorbar(values, where, xerr=reach, fmt="o", **of_kind)
    # Over our dots, which they leave open.
    over = words | {"color": style.INK, "fillstyle": "none", "zorder": 5}
    axes.plot(of_paper, where, "D", label="paper", **over)


def _whiskers(figures: Sequence[Pair]) -> tuple[list[float], list[float]]:
    """Two standard errors to each side, but no correlation is above 1."""
    below = [2 * error for _, error in figures]
    above = [min(2 * error, max(0.0, 1 - value)) for value, error in figures]
    return below, above
