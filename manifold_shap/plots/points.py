"""Draws the Shapley values of many rows as points: in swarms, and against a feature's values."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable

from manifold_shap import shown
from manifold_shap._messages import shown as listed
from manifold_shap.explanation import Explanation
from manifold_shap.learning_error import total_error
from manifold_shap.plots import canvas, selection
from manifold_shap.plots.canvas import Panels
from manifold_shap.plots.selection import Column, Lines
from manifold_shap.tables.features import as_text
from manifold_shap.values.selected import output_position

_BINS = 100
# Of points in a vector file, more of which are slow to open.
_RASTERIZED = 5000
# Categories with a place or a colour of their own; the rarest share one.
_PLACES, _COLOURS = 12, 6
# So few different numbers are spread sideways, too.
_FEW = 10
# So few rows have whiskers.
_WHISKERS = 300


def beeswarm(
    explanations: Explanation | Mapping[str, Explanation],
    output: str | int | None = None,
    max_display: int = 12,
    ax: Axes | None = None,
    *,
    show: bool = False,
) -> Axes | Panels:
    """Draws how each feature moves the output over all rows, the most important feature first.

    One point per row, spread upwards and downwards by how many others are near. Features are
    ordered by mean |phi|. Colour is the feature's value by rank among the rows, from low to high;
    text with two values is coloured by them, which stand beside the name, the low one first. What
    has no order is grey: text with more values, groups of columns, and missing cells.

    Several explanations stand side by side, with the features in the order of the first.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> [tick.get_text() for tick in ms.plots.beeswarm(explanation).get_yticklabels()]
        ['x0', 'x1']

    Args:
        explanations: one, or several of the same rows by name.
        output: name or position of the output; by default the second of two classes and, of more,
            the one that is predicted for the most rows; among outputs that are no probabilities,
            the one with the largest mean |phi|.
        max_display: features to show; the others are summed, row by row.
        ax: axes to draw in; by default a new figure. Several panels take their place.
        show: whether to call `plt.show()`.

    Returns:
        The axes; of several explanations, a list of them.

    Raises:
        TypeError: `explanations` are something else.
        ValueError: nothing to plot, the explanations differ in rows, players or outputs,
            `max_display` is not positive, or no such output.
    """
    by_name = selection.named(explanations)
    first, *_ = by_name.values()
    selection.check_aligned(first)
    k, why = shown.output_of_all(first, output)
    phi = first.phi[..., k]
    lines = Lines.of(phi.abs().nanmean(0), max_display)
    names = lines.names(first.players.names)
    colours = np.full((len(phi), len(lines)), np.nan)
    for line, cells in enumerate(first.columns(lines.players.tolist())):
        if cells.shape[1] == 1:
            column = Column.of(cells.iloc[:, 0])
            colours[:, line] = column.rank
            if len(column.names) == 2:
                names[line] += f": {shown.shorten(' … '.join(column.names), 15)}"
    across = min(len(by_name), 4)
    several = len(by_name) > 1
    high = (1.5 + 1.3 * max(len(names), 5) + 3 * several) * -(-len(by_name) // across)
    width = 0.3 + 0.35 * across if several else 1.0
    panels = Panels([ax]) if ax is not None and not several else None
    panels = panels or canvas.panels(
        ax, high, len(by_name), across, "y", width, sharex=True, sharey=True
    )
    for axes in panels[-across:]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(selection.axis(first, k, "", "\n" if several else " "))
    for axes, (name, explanation) in zip(panels, by_name.items(), strict=True):
        axes.set_title(shown.shorten(name) * several, loc="left", fontsize="medium")
        _draw_swarms(axes, lines.sums(explanation.phi[..., k]).double().numpy(), colours)
    canvas.name_lines(panels[0], names)
    hints = [why, "too few rows for a summary" if len(phi) < 20 else ""]
    if (ordered := np.isfinite(colours)).any():
        bar = canvas.colour_bar(panels, ScalarMappable(cmap=canvas.SEQUENTIAL), "feature value")
        bar.set_ticks([0, 1], labels=["low", "high"])
        hints.append("" if ordered.all() else "grey: missing, or without order")
    title = [selection.title(first, k), "; ".join(filter(None, hints))]
    canvas.finish(panels, by_name, title, show)
    return panels if several else panels[0]


def _draw_swarms(
    axes: Axes, phi: Float[np.ndarray, "rows lines"], colours: Float[np.ndarray, "rows lines"]
) -> None:
    """Points of all rows; those of players that a row lacks have no place and are left out."""
    axes.axvline(0, color=canvas.NEUTRAL, linewidth=0.8, zorder=1)
    axes.scatter(
        phi.T.ravel(),
        np.concatenate([line + offsets for line, offsets in enumerate(_offsets(phi))]),
        c=colours.T.ravel(),
        s=float(np.clip(24 - 6 * np.log10(len(phi)), 4, 18)),
        cmap=canvas.SEQUENTIAL,
        vmin=0,
        vmax=1,
        linewidths=0,
        plotnonfinite=True,
        rasterized=phi.size > _RASTERIZED,
    )


def _offsets(phi: Float[np.ndarray, "rows lines"]) -> Iterator[Float[np.ndarray, " rows"]]:
    """Offsets within ±0.4, wider where there are more points; the same for the same values."""
    low, high = np.nanmin(phi), np.nanmax(phi)
    near = np.exp(-0.5 * (np.arange(-9, 10) / 1.5) ** 2)
    for values in phi.T:
        here = values[np.isfinite(values)]
        bins = ((here - low) / max(high - low, 1e-300) * (_BINS - 1)).round().astype(int)
        density = np.convolve(np.bincount(bins, minlength=_BINS), near, "same")[bins]
        # A neighbourhood of fewer than ten points is not spread over the whole height of its line.
        share = density / density.max(initial=10)
        rank = here.argsort(kind="stable").argsort(kind="stable")
        offsets = np.full(len(values), np.nan)
        offsets[np.isfinite(values)] = 0.8 * share * _spread(rank)
        yield offsets


def _spread(places: Any) -> Float[np.ndarray, " rows"]:
    """Offsets within ±0.5: multiples of the golden ratio, of which neighbours lie far apart."""
    return (0.5 + (5**0.5 - 1) / 2 * places) % 1 - 0.5


def scatter(
    explanation: Explanation,
    feature: str | int,
    color: str | int | None = None,
    output: str | int | None = None,
    ax: Axes | None = None,
    *,
    show: bool = False,
) -> Axes:
    """Draws what a feature adds to the output against the feature's value, a point for each row.

    Categories stand side by side, spread sideways as are numbers of few values, and missing cells
    apart at the left. Whiskers reach two standard errors to each side, where rows are few enough to
    see them. A second feature may colour the points: where their colours part, the two interact, or
    are correlated.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> axes = ms.plots.scatter(explanation, "x0", color="x1")
        >>> axes.get_xlabel(), axes.get_ylabel()
        ('x0', 'Shapley value of x0\\n(model output)')

    Args:
        explanation: of any rows.
        feature: name of a player, or of one of a group's columns; the value is then that of the
            whole group. A number is a position, unless names are numbers.
        color: likewise, of the feature that colours the points.
        output: name or position of the output; by default as of `beeswarm`.
        ax: axes to draw in; by default a new figure.
        show: whether to call `plt.show()`.

    Raises:
        TypeError: `explanation` is none.
        ValueError: nothing to plot, no such feature or output, or a group of columns, or a player
            of several pixels, for `feature`.
    """
    selection.check_one(explanation)
    selection.check_aligned(explanation)
    k, why = shown.output_of_all(explanation, output)
    player, cells = _feature(explanation, "feature", feature)
    phi = explanation.phi[:, player, k].double().numpy()
    error = total_error(explanation)[:, player, k].double().numpy()
    axes = canvas.panel(ax, 13)
    axes.axhline(0, color=canvas.NEUTRAL, linewidth=0.8, zorder=1)
    axes.set_xlabel(shown.shorten(str(cells.name), 50))
    places = _places(axes, Column.of(cells, _PLACES))
    if len(phi) <= _WHISKERS and (error > 0).any():
        whiskers = np.where(error > 0, 2 * error, 0.0)
        axes.errorbar(places, phi, whiskers, fmt="none", ecolor=canvas.NEUTRAL, elinewidth=0.6)
    _draw_points(
        axes, places, phi, None if color is None else _feature(explanation, "color", color)[1]
    )
    owner = shown.shorten(explanation.players.names[player])
    axes.set_ylabel(selection.axis(explanation, k, f" of {owner}", "\n"))
    title, said = [selection.title(explanation, k), why], ""
    if len(phi) <= _WHISKERS:
        said = selection.whiskers([explanation], slice(None), player)
    return canvas.finish(axes, {"": explanation}, title, show, said)


def _feature(explanation: Explanation, argument: str, asked: str | int) -> tuple[int, pd.Series]:
    """The player that owns a column, and the column, which has the player's name if it is alone."""
    names, found = explanation.players.names, {}
    for player, cells in enumerate(explanation.columns(range(len(names)))):
        for column in cells:
            name = names[player] if cells.shape[1] == 1 else column
            if isinstance(name, str):
                found[name] = player, cells[column].rename(name)
    if isinstance(asked, int | np.integer):
        asked = names[output_position(argument, asked, names)]
    if asked not in found:
        members = [name for name, (player, _) in found.items() if names[player] == asked]
        fix = f", a group; take a column of it, such as {members[0]!r}" if members else ""
        raise ValueError(
            f"Expected `{argument}` to be one of the columns {listed(found)} but got {asked!r}"
            f"{fix}."
        )
    return found[asked]


def _places(axes: Axes, column: Column) -> Float[np.ndarray, " rows"]:
    """Where rows stand along the axis, whose ticks are set; missing cells are at the left."""
    places, gap = column.numbers.copy(), 0.0
    missing = ~np.isfinite(places)
    distinct = np.unique(places[~missing])
    if column.names or missing.all():
        gap, places[missing] = 1.0, len(column.names)
        names = [shown.shorten(name, 18) for name in column.names]
        canvas.name_columns(axes, [*names, *["missing"] * bool(missing.any())])
    elif column.dates:
        canvas.write_dates(axes.xaxis)
    elif 1 < len(distinct) <= min(_FEW, len(places) // 3):
        gap = float(np.diff(distinct).min())
        axes.set_xticks(distinct, [as_text(value) for value in distinct.tolist()])
        axes.set_xlabel(f"{axes.get_xlabel()} (points are spread sideways)")
    if (absent := ~np.isfinite(places)).any():
        apart = max(0.15 * (np.ptp(distinct) or 1.0), gap)
        places[absent] = left = distinct[0] - apart
        axes.set_xlim(left - 0.5 * apart, distinct[-1] + 0.5 * apart)
        # Numbers and dates are of the cells that are there, and not below the missing ones.
        axis: Any = axes.xaxis
        ticks, form = axes.get_xticks(), axis.get_major_formatter()
        ticks = ticks[(ticks >= distinct[0]) & (ticks <= axes.get_xlim()[1])]
        axes.set_xticks([left, *ticks], ["missing", *form.format_ticks(ticks)])
        axis.get_major_formatter().set_offset_string(form.get_offset())
    return places + 0.45 * gap * _spread(np.arange(len(places)))


def _draw_points(
    axes: Axes,
    x: Float[np.ndarray, " rows"],
    phi: Float[np.ndarray, " rows"],
    hue: pd.Series | None,
) -> None:
    """Points, coloured by a feature: by its numbers on a scale, by its categories in a legend."""
    look: dict[str, Any] = {"s": float(np.clip(40 - 9 * np.log10(len(phi)), 6, 24))}
    look |= {"linewidths": 0, "zorder": 3, "rasterized": len(phi) > _RASTERIZED}
    if hue is None:
        axes.scatter(x, phi, color=canvas.SERIES[0], alpha=0.8, **look)
        return
    column, title = Column.of(hue, _COLOURS), shown.shorten(str(hue.name), 50)
    missing = ~np.isfinite(column.numbers)
    if column.names:
        names = [*column.names, *["missing"] * bool(missing.any())]
        colours = np.array([*canvas.SERIES[: len(column.names)], canvas.NEUTRAL])
        codes = np.where(missing, len(column.names), column.numbers).astype(int)
        axes.scatter(x, phi, color=colours[codes], **look)
        handles = [axes.scatter([], [], color=colour, **look) for colour in colours]
        canvas.legend(axes, handles[: len(names)], names, title=title, handletextpad=0.1)
        return
    # Few extreme values would leave all others in one colour.
    low, high = np.nanquantile(column.numbers, (0.05, 0.95))
    limits = {"vmin": low, "vmax": high} if low < high else {}
    look |= {**limits, "cmap": canvas.SEQUENTIAL, "plotnonfinite": True}
    points = axes.scatter(x, phi, c=column.numbers, **look)
    bar = canvas.colour_bar(axes, points, title + (" (grey: missing)" if missing.any() else ""))
    if column.dates:
        canvas.write_dates(bar.ax.yaxis)
