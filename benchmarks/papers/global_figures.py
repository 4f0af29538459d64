"""Global Shapley values of several methods side by side."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

import manifold_shap as ms
from benchmarks.papers.report import Table
from manifold_shap.plots import style


def by_player(found: Mapping[str, ms.GlobalValues], heading: str = "") -> Table:
    """A line for each player, with standard errors."""
    columns = [
        [(phi.item(), error.item()) for phi, error in zip(v.phi, v.standard_error, strict=True)]
        for v in found.values()
    ]
    names = next(iter(found.values())).players
    return Table([heading, *found], [list(row) for row in zip(names, *columns, strict=True)])


def grouped(
    axes: Axes, found: Mapping[str, ms.GlobalValues], colours: Mapping[str, str] | None = None
) -> None:
    """Bars of every player, with whiskers of two standard errors.

    Args:
        axes: to draw on.
        found: by the name of the method.
        colours: of the methods; by default those of the series in turn.
    """
    colours = colours or dict(zip(found, style.SERIES, strict=False))
    style.strip(axes, grid="x")
    thickness = 0.8 / len(found)
    for number, (name, values) in enumerate(found.items()):
        where = np.arange(len(values.players)) + thickness * (number - (len(found) - 1) / 2)
        whisker = 2 * values.standard_error.nan_to_num().numpy()
        bar: dict[str, Any] = {"color": colours[name], "label": name}
        axes.barh(
            where,
            values.phi.numpy(),
            0.9 * thickness,
            xerr=whisker,
            error_kw={"elinewidth": 0.8},
            **bar,
        )
    names = next(iter(found.values())).players
    axes.set_yticks(range(len(names)), [style.plain(name) for name in names])
    axes.invert_yaxis()
    axes.axvline(0, color=style.INK, linewidth=0.8)
    axes.set_xlabel("global Shapley value", fontsize=style.TEXT, color=style.INK)
    axes.legend(frameon=False, fontsize=style.TEXT, labelcolor=style.INK)
