"""Measures how features go with each other, of numbers and of categories, and draws the network."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from scipy import stats

from benchmarks import style

# Weaker associations have no line, and of these only stronger ones have their number.
DRAWN, WRITTEN = 0.15, 0.3


def associations(
    columns: Mapping[str, Sequence[float]], categorical: Collection[str]
) -> list[list[float]]:
    """Of every two columns, as Carballo's thesis measures them (Section 5.2).

    Of numbers Pearson's correlation, of a number and categories η, the root of the share of its
    variance that an analysis of variance attributes to them, of categories Cramér's V. The last two
    have no sign.
    """
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    found = np.eye(len(arrays))
    for (i, a), (j, b) in itertools.combinations(enumerate(arrays), 2):
        kinds = (a in categorical, b in categorical)
        if all(kinds):
            table = stats.contingency.crosstab(arrays[a], arrays[b]).count
            strength = stats.contingency.association(table, "cramer")
        elif any(kinds):
            strength = eta(arrays[b if kinds[0] else a], arrays[a if kinds[0] else b])
        else:
            strength = np.corrcoef(arrays[a], arrays[b])[0, 1]
        found[i, j] = found[j, i] = strength
    return found.tolist()


def eta(numbers: np.ndarray, categories: np.ndarray) -> float:
    groups = [numbers[categories == one] for one in np.unique(categories)]
    between, within = len(groups) - 1, len(numbers) - len(groups)
    f = stats.f_oneway(*groups).statistic
    return float((f * between / (f * between + within)) ** 0.5)


def around(matrix: Sequence[Sequence[float]]) -> list[int]:
    """An order around a circle in which neighbours are as strongly associated as can be."""
    strength = np.abs(np.array(matrix))

    def of_neighbours(order: tuple[int, ...]) -> float:
        return sum(strength[a, b] for a, b in zip((0, *order), (*order, 0), strict=True))

    return [0, *max(itertools.permutations(range(1, len(strength))), key=of_neighbours)]


def network(
    axes: Axes, names: Sequence[str], matrix: Sequence[Sequence[float]], unsigned: Collection[str]
) -> None:
    """Draw names on a circle, and lines as wide as their associations are strong.

    Args:
        axes: to draw in.
        names: of the columns, nine or fewer.
        matrix: their associations.
        unsigned: names whose associations have no sign, and grey lines.
    """
    order = around(matrix)
    turns = np.pi / 2 - 2 * np.pi * np.arange(len(order)) / len(order)
    places = dict(zip(order, np.stack((np.cos(turns), np.sin(turns)), 1), strict=True))
    for a, b in itertools.combinations(order, 2):
        strength = matrix[a][b]
        if abs(strength) < DRAWN:
            continue
        colour = style.RAISES if strength > 0 else style.LOWERS
        colour = style.NEUTRAL if {names[a], names[b]} & set(unsigned) else colour
        ends = np.stack((places[a], places[b]), 1)
        axes.plot(*ends, color=colour, linewidth=12 * abs(strength), alpha=0.7, zorder=1,
                  solid_capstyle="butt")  # fmt: skip
        if abs(strength) >= WRITTEN:
            box: Any = {"facecolor": style.GROUND, "edgecolor": "none", "pad": 0.8}
            # Not in the middle, where lines cross.
            x, y = ends @ (0.62, 0.38)
            axes.text(x, y, style.number(round(strength, 2)), bbox=box, zorder=2, ha="center",
                      va="center", fontsize=style.SMALL, color=style.INK)  # fmt: skip
    for node, (x, y) in places.items():
        axes.plot(x, y, "o", color=style.INK, markersize=9, zorder=3)
        side = "center" if abs(x) < 0.1 else "left" if x > 0 else "right"
        axes.text(1.13 * x, 1.13 * y, style.plain(names[node]), ha=side, va="center",
                  fontsize=style.TEXT)  # fmt: skip
    axes.set_aspect("equal")
    axes.set(xlim=(-1.85, 1.85), ylim=(-1.25, 1.25))
    axes.axis("off")
    title = f"Associations from {DRAWN:g} on, in numbers from {WRITTEN:g} on"
    axes.set_title(title, loc="left", fontsize=style.TEXT)
    meaning = {"positive": style.RAISES, "negative": style.LOWERS, "without sign": style.NEUTRAL}
    lines = [Line2D([], [], color=each, linewidth=4, label=name) for name, each in meaning.items()]
    axes.legend(handles=lines, loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=3,
                frameon=False, fontsize=style.TEXT, labelcolor=style.INK)  # fmt: skip
