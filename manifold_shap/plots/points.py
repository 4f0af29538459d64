"""Draws the Shapley values of many rows as points: in swarms, and against a feature's values."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from pandas.api import types

from manifold_shap import shown
from manifold_shap._messages import shown as listed
from manifold_shap.explanation import Explanation
from manifold_shap.learning_error import total_error
from manifold_shap.plots import canvas, selection
from manifold_shap.plots.canvas import Panels
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
    k, why = shown.output_of_all(first, output)
    phi = first.phi[..., k]
    chosen = selection.largest(phi.abs().nanmean(0), max_display)
    names = selection.names(first, chosen, selection.hidden(phi, chosen))
    colours = np.full((len(phi), len(names)), np.nan)
    for line, columns in enumerate(first.columns(chosen.tolist())):
        if columns.shape[1] != 1:
            continue
        values = selection.ordered(columns.iloc[:, 0])
        colours[:, line] = _rank(values.numbers)
        if values.ends:
            names[line] = f"{names[line]}: {shown.shorten(' … '.join(values.ends), 15)}"
    if len(by_name) == 1:
        drawn: Any = canvas.panel(ax, 3.5 + 1.3 * max(len(names), 5))
        panels, place = [drawn], ax or drawn.figure
        drawn.set_xlabel(canvas.plain(selection.axis(first, k)))
    else:
        across = min(len(by_name), 4)
        height = -(-len(by_name) // across) * (3 + 1.3 * max(len(names), 5))
        place = canvas.place(ax, height, 0.3 + 0.35 * across)
        drawn = panels = canvas.panels(place, len(by_name), across, "y", sharex=True, sharey=True)
        for axes, name in zip(panels, by_name, strict=True):
            axes.set_title(canvas.plain(shown.shorten(name)), loc="left", fontsize="medium")
        for axes in panels[-across:]:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel(canvas.plain(selection.axis(first, k, "", "\n")))
    for axes, explanation in zip(panels, by_name.values(), strict=True):
        lines = selection.with_rest(explanation.phi[..., k], chosen).double().numpy()
        _draw_swarms(axes, lines, colours)
    canvas.name_lines(panels[0], names)
    hints = [why, "too few rows for a summary" if len(phi) < 20 else ""]
    if (ordered := np.isfinite(colours)).any():
        bar = canvas.colour_bar(panels, ScalarMappable(cmap=canvas.SEQUENTIAL), "feature value")
        bar.set_ticks([0, 1], labels=["low", "high"])
        hints.append("" if ordered.all() else "grey: missing, or without order")
    title = [selection.title(first, k), "; ".join(filter(None, hints))]
    canvas.headline(place, by_name, title, show)
    return drawn


def _rank(values: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
    """Each row's place between low (0) and high (1); NaN where there is no order, or one value."""
    rank = pd.Series(values).rank(method="dense") - 1
    return (rank / rank.max()).to_numpy()


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
    apart = np.arange(_BINS)[:, None] - np.arange(_BINS)
    for values in phi.T:
        here = values[np.isfinite(values)]
        bins = ((here - low) / max(high - low, 1e-300) * (_BINS - 1)).round().astype(int)
        density = (np.bincount(bins, minlength=_BINS) @ np.exp(-0.5 * (apart / 1.5) ** 2))[bins]
        # A neighbourhood of fewer than ten points is not spread over the whole height of its line.
        share = density / density.max(initial=10)
        rank = here.argsort(kind="stable").argsort(kind="stable")
        offsets = np.full(len(values), np.nan)
        offsets[np.isfinite(values)] = 0.8 * share * _spread(rank)
        yield offsets


def _spread(places: Any) -> Float[np.ndarray, " rows"]:
    """Offsets within ±0.5: multiples of the golden ratio, of which neighbours lie far apart."""
    return (0.5 + (5**0.5 - 1) / 2 * places) % 1 - 0.5


class _Feature(NamedTuple):
    """A column, and the player that owns it."""

    name: str
    player: int
    column: pd.Series


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
    selection.one(explanation)
    k, why = shown.output_of_all(explanation, output)
    x = _feature(explanation, "feature", feature)
    hue = None if color is None else _feature(explanation, "color", color)
    phi = explanation.phi[:, x.player, k].double().numpy()
    error = total_error(explanation)[:, x.player, k].double().numpy()
    axes = canvas.panel(ax, 15)
    axes.axhline(0, color=canvas.NEUTRAL, linewidth=0.8, zorder=1)
    places = _place(axes, x)
    if len(phi) <= _WHISKERS and (error > 0).any():
        whiskers = np.where(error > 0, 2 * error, 0.0)
        look: dict[str, Any] = {"ecolor": canvas.NEUTRAL, "elinewidth": 0.6, "zorder": 2}
        axes.errorbar(places, phi, whiskers, fmt="none", capsize=0, **look)
    _draw_points(axes, places, phi, hue)
    axes.set_xlabel(canvas.plain(shown.shorten(x.name, 50)))
    owner = shown.shorten(explanation.players.names[x.player])
    axes.set_ylabel(canvas.plain(selection.axis(explanation, k, f" of {owner}", "\n")))
    canvas.headline(
        ax or axes.figure, {"": explanation}, [selection.title(explanation, k), why], show
    )
    return axes


def _feature(explanation: Explanation, argument: str, asked: str | int) -> _Feature:
    names, found = explanation.players.names, {}
    columns = explanation.columns(range(len(names)))
    for player, frame in enumerate(columns):
        for column in frame:
            name = names[player] if frame.shape[1] == 1 else column
            if isinstance(name, str):
                found[name] = _Feature(name, player, frame[column])
    if isinstance(asked, int | np.integer):
        asked = names[output_position(argument, asked, names)]
    if asked not in found:
        raise ValueError(
            f"Expected `{argument}` to be one of the columns {listed(found)} but got {asked!r}."
        )
    return found[asked]


def _place(axes: Axes, feature: _Feature) -> Float[np.ndarray, " rows"]:
    """Where rows stand along the axis, whose ticks are set; missing cells are at the left."""
    values = selection.ordered(feature.column)
    if not values.known or values.ends or _is_category(feature.column):
        codes, labels = _categories(feature.column, _PLACES)
        canvas.name_columns(axes, [shown.shorten(label, 18) for label in labels])
        axes.set_xlim(-0.5, len(labels) - 0.5)
        return codes + 0.5 * _spread(np.arange(len(codes)))
    places = values.numbers.copy()
    absent = ~np.isfinite(places)
    low, span = np.nanmin(places), np.ptp(places[~absent]) or 1.0
    distinct = np.unique(places[~absent])
    if values.dates:
        _write_dates(axes.xaxis)
    elif 1 < len(distinct) <= min(_FEW, len(places) // 3):
        axes.set_xticks(distinct, [as_text(value) for value in distinct.tolist()])
        places += 0.4 * np.diff(distinct).min() * _spread(np.arange(len(places)))
    if absent.any():
        places[absent] = low - 0.12 * span
        axes.axvline(low - 0.12 * span, color=canvas.GRID, zorder=1)
        axes.annotate(
            "missing", (low - 0.12 * span, 0), (-4, 4), ("data", "axes fraction"),
            "offset points", ha="right", va="bottom", rotation=90, color=canvas.NEUTRAL,
        )  # fmt: skip
        axes.set_xlim(low - 0.22 * span, places.max() + 0.04 * span)
    return places


def _write_dates(axis: Axis) -> None:
    """Write days since 1970 as dates."""
    locator = AutoDateLocator(minticks=2, maxticks=7)
    axis.set_major_locator(locator)
    axis.set_major_formatter(ConciseDateFormatter(locator))


def _is_category(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype) or types.is_bool_dtype(column.dtype)


def _categories(column: pd.Series, most: int) -> tuple[Float[np.ndarray, " rows"], list[str]]:
    """The number of each row's category, and their names; the rarest are one, "other"."""
    texts = column.astype(object).map(as_text)
    count = texts.value_counts()
    order = sorted(count.index)
    if isinstance(column.dtype, pd.CategoricalDtype) and column.cat.ordered:
        order = [as_text(value) for value in column.cat.categories]
    kept = set(count.index[: most if len(count) <= most else most - 1])
    names = [name for name in order if name in kept and name != "missing"]
    names += ["missing"] * ("missing" in kept) + ["other"] * (len(kept) < len(count))
    place = {name: float(k) for k, name in enumerate(names)}
    return texts.map(lambda text: place.get(text, place.get("other"))).to_numpy(float), names


def _draw_points(
    axes: Axes, x: Float[np.ndarray, " rows"], phi: Float[np.ndarray, " rows"], hue: _Feature | None
) -> None:
    """Points, coloured by a feature: by its numbers on a scale, by its categories in a legend."""
    look: dict[str, Any] = {"s": float(np.clip(40 - 9 * np.log10(len(phi)), 6, 24))}
    look |= {"linewidths": 0, "zorder": 3, "rasterized": len(phi) > _RASTERIZED}
    if hue is None:
        axes.scatter(x, phi, color=canvas.SERIES[0], alpha=0.8, **look)
        return
    values, title = selection.ordered(hue.column), shown.shorten(hue.name, 50)
    if not values.known or values.ends or _is_category(hue.column):
        codes, names = _categories(hue.column, _COLOURS)
        colours = [*canvas.SERIES[: len(names)]]
        if "missing" in names:
            colours[names.index("missing")] = canvas.NEUTRAL
        handles = [
            axes.scatter(x[codes == k], phi[codes == k], color=colour, **look)
            for k, colour in enumerate(colours)
        ]
        canvas.legend(axes, handles, names, title=canvas.plain(title), handletextpad=0.1)
        return
    # Few extreme values would leave all others in one colour.
    low, high = np.nanquantile(values.numbers, (0.05, 0.95))
    if low == high:
        low, high = np.nanmin(values.numbers), np.nanmax(values.numbers)
    look |= {"vmin": low, "vmax": high, "cmap": canvas.SEQUENTIAL, "plotnonfinite": True}
    points = axes.scatter(x, phi, c=values.numbers, **look)
    grey = "" if np.isfinite(values.numbers).all() else " (grey: missing)"
    bar = canvas.colour_bar(axes, points, title + grey)
    if values.dates:
        _write_dates(bar.ax.yaxis)
