"""Draws the Shapley values of one feature against its values, over many rows."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from pandas.api import types

from manifold_shap._messages import shown as listed
from manifold_shap.explanation import Explanation
from manifold_shap.learning_error import total_error
from manifold_shap.plots import canvas, ranks, selection, style
from manifold_shap.plots.titles import headline
from manifold_shap.tables.features import as_text

# Categories with a place or a colour of their own; the rarest share one.
_PLACES, _COLOURS = 12, 6
# So few different numbers are spread sideways, too.
_FEW = 10
# So few rows have whiskers.
_WHISKERS = 300
_GOLDEN = (5**0.5 - 1) / 2


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
) -> Axes:
    """Draws what a feature adds to the output against the feature's value, a point for each row.

    Categories stand side by side, spread sideways as are numbers of few values, and missing cells
    apart at the left. Whiskers reach two standard
    errors to each side, where rows are few enough to see them. A second feature may colour the
    points: where their colours part, the two interact, or are correlated.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> axes = ms.plots.scatter(explanation, "x0", color="x1")
        >>> axes.get_xlabel(), axes.get_ylabel()
        ('x0', 'Shapley value (model output)')

    Args:
        explanation: of any rows.
        feature: name or position of a player, or name of one of a group's columns; the value is
            then that of the whole group.
        color: likewise, of the feature that colours the points.
        output: name or position of the output; by default as of `beeswarm`.
        ax: axes to draw in; by default a new figure.

    Raises:
        TypeError: `explanation` is none.
        ValueError: nothing to plot, no such feature or output, or a group of columns, or a player
            of several pixels, for `feature`.
    """
    selection.one(explanation)
    k, why = selection.output_of_all(explanation, output)
    x = _feature(explanation, "feature", feature)
    hue = None if color is None else _feature(explanation, "color", color)
    phi = explanation.phi[:, x.player, k].double().numpy()
    error = total_error(explanation)[:, x.player, k].double().numpy()
    ax = canvas.one_panel(ax, 3.0, grid="y")
    ax.axhline(0, color=style.NEUTRAL, linewidth=0.8, zorder=1)
    style.scale(ax.xaxis, style.shorten(x.name, 50))
    places = _place(ax, x)
    if len(phi) <= _WHISKERS and (error > 0).any():
        whiskers = np.where(error > 0, 2 * error, 0.0)
        ax.errorbar(
            places, phi, whiskers, fmt="none", ecolor=style.NEUTRAL, elinewidth=0.5, capsize=0,
            zorder=2,
        )  # fmt: skip
    _draw_points(ax, places, phi, hue)
    owner = explanation.players.names[x.player]
    # Of a group, of which the axis below names a column.
    of = "" if owner == x.name else f" of {style.shorten(owner, 10)}"
    label = selection.shapley_axis(explanation, of, selection.kinds(explanation))
    style.scale(ax.yaxis, label)
    headline(ax, {"": explanation}, selection.title(explanation, k), why)
    return ax


def _feature(explanation: Explanation, argument: str, given: str | int) -> _Feature:
    names = explanation.players.names
    if isinstance(given, (int, np.integer)) and 0 <= given < len(names):
        given = names[given]
    known = {}
    columns = selection.features(explanation, torch.arange(len(names)))
    for player, own in enumerate(columns):
        for column in own:
            name = names[player] if own.shape[1] == 1 else column
            if isinstance(name, str):
                known[name] = _Feature(name, player, own[column])
    if given not in known:
        raise ValueError(
            f"Expected `{argument}` to be one of the columns {listed(known)} but got {given!r}."
        )
    return known[given]


def _place(ax: Axes, feature: _Feature) -> Float[np.ndarray, " rows"]:
    """Where rows stand along the axis, whose ticks are set; missing cells are at the left."""
    values = ranks.ordered(feature.column)
    if values.known and not values.ends and not _is_category(feature.column):
        places = values.numbers.copy()
        absent = ~np.isfinite(places)
        low, high = np.nanmin(places), np.nanmax(places)
        if values.dates:
            style.dates(ax.xaxis)
        distinct = np.unique(places[~absent])
        if not values.dates and 1 < len(distinct) <= min(_FEW, len(places) // 3):
            ax.set_xticks(distinct, [as_text(value) for value in distinct.tolist()])
            places += 0.4 * np.diff(distinct).min() * _sideways(len(places))
        if absent.any():
            places[absent] = low - 0.12 * (high - low or 1.0)
            ax.axvline(places[absent][0], color=style.GRID, zorder=1)
            ax.annotate(
                "missing", (places[absent][0], 0), (-4, 4), ("data", "axes fraction"),
                "offset points", ha="right", va="bottom", rotation=90, fontsize=style.TEXT,
                color=style.NEUTRAL,
            )  # fmt: skip
            span = high - low or 1.0
            ax.set_xlim(low - 0.2 * span, high + 0.04 * span)
        return places
    codes, labels = _categories(feature.column, _PLACES)
    short = [style.shorten(label, 18) for label in labels]
    ax.set_xticks(
        range(len(labels)), [style.plain(label) for label in short], **style.below_axis(short)
    )
    ax.set_xlim(-0.5, len(labels) - 0.5)
    return codes + 0.5 * _sideways(len(codes))


def _sideways(count: int) -> Float[np.ndarray, " rows"]:
    """Offsets within ±0.5: multiples of the golden ratio lie evenly, in whatever order."""
    return (np.arange(count) * _GOLDEN) % 1 - 0.5


def _is_category(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype) or types.is_bool_dtype(column.dtype)


def _categories(column: pd.Series, most: int) -> tuple[Float[np.ndarray, " rows"], list[str]]:
    """The number of each row's category, and their names; the rarest are one, "other"."""
    texts = column.astype(object).map(as_text)
    count = texts.value_counts()
    if isinstance(column.dtype, pd.CategoricalDtype) and column.cat.ordered:
        order = [as_text(value) for value in column.cat.categories]
    else:
        order = sorted(count.index)
    kept = set(count.index[: most if len(count) <= most else most - 1])
    names = [name for name in order if name in kept and name != "missing"]
    names += ["missing"] * ("missing" in kept) + ["other"] * (len(kept) < len(count))
    place = {name: float(k) for k, name in enumerate(names)}
    return texts.map(lambda text: place.get(text, place.get("other"))).to_numpy(float), names


def _draw_points(
    ax: Axes,
    x: Float[np.ndarray, " rows"],
    phi: Float[np.ndarray, " rows"],
    hue: _Feature | None,
) -> None:
    """Points, coloured by a feature: by its numbers on a scale, by its categories in a legend."""
    look: dict[str, Any] = {
        "s": float(np.clip(26 - 6 * np.log10(len(phi)), 4, 16)), "linewidths": 0, "zorder": 3,
        "rasterized": len(phi) > 5000,
    }  # fmt: skip
    if hue is None:
        ax.scatter(x, phi, color=style.SERIES[0], alpha=0.8, **look)
        return
    values = ranks.ordered(hue.column)
    if values.known and not values.ends and not _is_category(hue.column):
        _draw_on_scale(ax, x, phi, hue.name, values, look)
        return
    codes, names = _categories(hue.column, _COLOURS)
    handles = []
    for k, (name, colour) in enumerate(zip(names, style.SERIES, strict=False)):
        colour = style.NEUTRAL if name == "missing" else colour
        handles.append(ax.scatter(x[codes == k], phi[codes == k], color=colour, **look))
    title = style.plain(style.shorten(hue.name, 50))
    canvas.legend_above(ax, handles, names, title=title, handletextpad=0.1)


def _draw_on_scale(
    ax: Axes,
    x: Float[np.ndarray, " rows"],
    phi: Float[np.ndarray, " rows"],
    name: str,
    values: ranks.Ordered,
    look: dict[str, Any],
) -> None:
    # Few extreme values would leave all others in one colour.
    low, high = np.nanquantile(values.numbers, (0.05, 0.95))
    if low == high:
        low, high = np.nanmin(values.numbers), np.nanmax(values.numbers)
    points = ax.scatter(
        x, phi, c=values.numbers, vmin=low, vmax=high, plotnonfinite=True,
        cmap=style.SEQUENTIAL.with_extremes(bad=style.NEUTRAL), **look,
    )  # fmt: skip
    grey = "" if np.isfinite(values.numbers).all() else " (grey: missing)"
    bar = canvas.colour_bar(ax, points, style.shorten(name) + grey)
    if values.dates:
        style.dates(bar.ax.yaxis)
