"""Measures how far explanations of people agree and tell categories apart, and draws them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

import manifold_shap as ms
from benchmarks import style
from benchmarks.plots import LEGEND, bars, grouped_bars, label_axes, make_room
from benchmarks.report import Found
from benchmarks.support.differences import jackknife, share_apart, shares_apart
from benchmarks.support.people import COLUMNS, EXACT, OF_MARGINAL, WAYS

NEAR = 0.1  # of .5, a prediction
# Of the second plot: the categories that come first, and the drawn cells that contradict another.
FIRST = ("sex", "race")
DRAWN = {"contradictions, sex drawn": "sex drawn",
         "contradictions, relationship drawn": "relationship drawn"}  # fmt: skip


def most_apart(found: Found, ways: Sequence[str], columns: Sequence[str]) -> float:
    """Of any two ways, in the values of some columns."""
    which = [COLUMNS.index(name) for name in columns]
    some = [torch.tensor(found["phi"][way])[:, which] for way in ways]
    return max(shares_apart(some))


def moved(one: ms.Explanation, other: ms.Explanation) -> dict[str, Any]:
    """How far other numbers for categories move values, with an error over people, and draws."""
    a, b = one.phi[..., 1], other.phi[..., 1]

    def share(without: int | None) -> float:
        kept = np.arange(len(a)) != without
        return share_apart(a[kept], b[kept])

    by_chance = (2 / np.pi) ** 0.5 * one.standard_error.hypot(other.standard_error)[..., 1]
    return {
        "moved by other numbers": jackknife(share, len(a)),
        "moved by draws alone": (by_chance.sum() / (a.abs() + b.abs()).sum()).item(),
    }


def separation(found: Found, way: str, name: str, without: int | None = None) -> float:
    """Share of the variance of a column's values that its categories explain (η²).

    The variance that Monte Carlo draws add is subtracted from both.

    Args:
        without: the number of a person who is left out.
    """
    k, cells = COLUMNS.index(name), np.array(found["people"][name])
    kept = np.arange(len(cells)) != without
    phi, error = (np.array(found[key][way])[kept, k] for key in ("phi", "standard_error"))
    _, which = np.unique(cells[kept], return_inverse=True)
    means = np.bincount(which, phi) / np.bincount(which)
    # Draws add so much to either variance for each of its degrees of freedom.
    noise = np.mean(error**2) / len(phi)
    between = np.var(means[which]) - noise * (len(means) - 1)
    return float(np.clip(between / max(np.var(phi) - noise * (len(phi) - 1), 1e-12), 0, 1))


def lead(
    found: Found, ways: Sequence[str], others: Sequence[str], name: str
) -> tuple[float, float]:
    """By how much the least η² of some ways exceeds the largest of others; its jackknife error."""

    def of(without: int | None) -> float:
        one, other = ([separation(found, way, name, without) for way in each]
                      for each in (ways, others))  # fmt: skip
        return min(one) - max(other)

    return jackknife(of, len(found["people"][name]))


def by_sex(found: Found, way: str) -> tuple[float, float]:
    """Mean values of sex, of women and of men."""
    phi = np.array(found["phi"][way])[:, COLUMNS.index("sex")]
    women = np.array(found["people"]["sex"]) == "Female"
    return float(phi[women].mean()), float(phi[~women].mean())


def agreeing(found: Found, near: float) -> tuple[int, int]:
    """How many of those predicted so near .5 have one feature first in all seven ways; of whom."""
    top = torch.stack([torch.tensor(found["phi"][way]).abs().argmax(1) for way in WAYS])
    some = (torch.tensor(found["prediction"]) - 0.5).abs() <= near
    return int(((top == top[0]).all(0) & some).sum()), int(some.sum())


def figures(found: Found) -> dict[str, Figure]:
    return {"": near_half(found), "drawn": told_apart(found)}


def near_half(found: Found) -> Figure:
    """The person nearest to .5, as in Fig. 5.9 of the thesis: a panel of bars for each way."""
    figure = style.laid_out(7.4, 8.2)
    ways = (*WAYS, EXACT, OF_MARGINAL)
    cells = [f"{name} = {found['people'][name][0]}" for name in COLUMNS]
    grid = figure.subplots(3, 3, sharex=True, sharey=True)
    for axes, way in zip(grid.flatten(), ways, strict=True):
        values = found["phi"][way][0]
        colours = [style.RAISES if value > 0 else style.LOWERS for value in values]
        style.strip(axes, grid="x")
        bars(axes, range(len(values)), values, size=style.SMALL, height=0.66, color=colours)
        axes.axvline(0, color=style.INK, linewidth=0.8)
        label_axes(axes, way)
        style.write_lines(axes, cells)
    for axes in grid[-1]:
        axes.set_xlabel("Shapley value (probability)", fontsize=style.TEXT, color=style.INK)
    error = 2 * max(max(found["standard_error"][way][0]) for way in ways)
    style.write_above(figure, [
        f"The person nearest to .5: predicted {found['prediction'][0]:.3f} for an income above "
        f"$50,000, {found['base']:.3f} on average",
        f"red raises the prediction, blue lowers it; two standard errors are at most {error:.2f}",
    ])  # fmt: skip
    make_room(grid[0, 0])
    return figure


def told_apart(found: Found) -> Figure:
    """What imputers draw against the table, and how far values tell categories apart."""
    figure = style.laid_out(4.0, 9.4)
    left, right = figure.subplots(1, 2)
    told = {word: {way: 100 * one[key] for way, one in found["tried"].items()}
            for key, word in DRAWN.items()}  # fmt: skip
    measure = f"% of drawn rows ({100 * found['contradictions']:.2f} in the table)"
    grouped_bars(left, told, "Husbands who are women, wives who are men", measure)
    told = {name: {way: separation(found, way, name) for way in (*WAYS, EXACT, OF_MARGINAL)}
            for name in FIRST}  # fmt: skip
    measure = "share of variance that categories explain (η²)"
    grouped_bars(right, told, "How far values tell categories apart", measure, first=len(DRAWN))
    for axes in (left, right):
        below: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": 2}
        axes.legend(**below, **LEGEND)
    return figure
