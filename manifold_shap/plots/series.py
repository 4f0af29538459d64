"""Draws the curves of a series on the colours of the values of its segments or time points."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
from jaxtyping import Float, Int64
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.dates import date2num
from matplotlib.figure import FigureBase
from matplotlib.patheffects import Normal, Stroke

from manifold_shap._checks import check_whole
from manifold_shap.explanation import Explanation
from manifold_shap.plots import canvas, selection, style
from manifold_shap.plots.canvas import Panels
from manifold_shap.plots.titles import headline

# Inches.
_WIDE = 6.5
_CHANNEL, _ALONE = 0.85, 1.5
# Letters of the name of a channel.
_NAME = 14


def series(
    explanations: Explanation | Mapping[str, Explanation],
    row: int = 0,
    output: str | int | None = None,
    times: Any = None,
    channels: Sequence[str] | None = None,
    most: int = 12,
    ax: Axes | None = None,
) -> Panels:
    """Draws the curve of each channel of a row, on the colours of its players' values.

    Red segments raise the output and blue ones lower it; one colour scale serves the whole figure.
    A segment has the whole value of its player, be it long or short, and so has each channel that
    it owns. Thin lines part segments of several time points. Padding at the end of the row is left
    out, and what belongs to nobody has no colour. Of 200 values or more, the largest half percent
    may lie beyond the ends of the scale, which are then pointed.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0, 3.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> (panel,) = ms.plots.series(explanation)
        >>> panel.lines[0].get_ydata().tolist()
        [1.0, -2.0, 3.0]

    Args:
        explanations: of the same series, `(time,)` or `(channels, time)`, by names if there are
            several, which then stand side by side.
        row: position of the row.
        output: name or position of the output; by default as of `waterfall`.
        times: of the time points, increasing: numbers or dates; by default 0, 1, ...
        channels: their names; by default their numbers.
        most: channels to show: those of the largest values, in their order.
        ax: axes whose place the curves take; by default a new figure.

    Returns:
        The panels, channel by channel.

    Raises:
        TypeError: `explanations` are something else.
        ValueError: rows are no series, or this one is nothing but padding; not as many `times` or
            `channels` as the rows have, or times that do not increase; the explanations differ in
            rows, players or outputs, or `row` or `output` name something that is not there.
    """
    by_name = selection.named(explanations)
    first, *_ = by_name.values()
    _check_series(first)
    row = selection.row_index(first, row, "row")
    k = int(selection.outputs_of_rows(first, output)[row])
    owners = selection.owners(first)[row].reshape(-1, first.x.shape[-1]).numpy()
    names = _names(channels, len(owners))
    at = _numbers(times, owners.shape[1])
    # Without the padding at its end.
    owned = np.flatnonzero((owners >= 0).any(0))
    if len(owned) == 0:
        raise ValueError(f"Expected a row with players but row {row} is nothing but padding.")
    owners = owners[:, : owned[-1] + 1]
    phi = [e.phi[row, :, k].double().numpy() for e in by_name.values()]
    values = np.stack([np.append(each, np.nan)[owners] for each in phi], axis=1)
    shown = _largest(values, check_whole("most", most))
    figure, panels = _panels(ax, len(shown), list(by_name))
    colours, ends = canvas.signed_scale(np.concatenate(phi), 0.995)
    curves = first.x[row].reshape(len(owners), -1).numpy()
    for place, axes in enumerate(panels):
        channel, column = shown[place // len(by_name)], place % len(by_name)
        _draw(axes, at[: owners.shape[1]], curves[channel], values[channel, column], colours)
        _mark_segments(axes, at, owners[channel])
    for axes, channel in zip(panels[:: len(by_name)], shown, strict=True):
        said = style.plain(style.shorten(names[channel], _NAME))
        axes.set_ylabel(said, rotation=0, ha="right", va="center", fontsize=style.TEXT)
    _write_bases(panels, by_name, row, k)
    _write_times(panels[-len(by_name) :], times)
    per = " of a segment" if (owners[:, 1:] == owners[:, :-1]).any() else ""
    label = selection.shapley_axis(first, per, selection.kinds(first))
    look: dict[str, Any] = {"location": "bottom", "aspect": 40, "shrink": 0.6}
    canvas.colour_bar(panels, colours, label, extend=ends, **look)
    said = selection.amount(first, first.prediction[row, k].item())
    part = f"{len(shown)} of {len(names)} channels" if len(shown) < len(names) else ""
    where = ", ".join(filter(None, (selection.row_name(first, row), part)))
    why = selection.why_of_row(first, output)
    headline(figure, by_name, f"Predicted {selection.quantity(first, k)}: {said}", where, why)
    return panels


def _check_series(explanation: Explanation) -> None:
    event = explanation.players.event
    if len(event) not in (1, 2):
        raise ValueError(
            f"Expected explanations of series, rows of shape (time,) or (channels, time), but got "
            f"rows of shape {event}; images are drawn by `pixel_maps`."
        )


def _names(channels: Sequence[str] | None, count: int) -> list[str]:
    """Of the channels; a single one needs none."""
    if channels is None:
        return [f"channel {k}" if count > 1 else "" for k in range(count)]
    if isinstance(channels, str) or len(channels) != count:
        raise ValueError(
            f"Expected `channels` to hold {style.count(count, 'name')} but got {channels!r:.100}."
        )
    return list(map(str, channels))


def _is_dates(times: Any) -> bool:
    given = np.asarray(times)
    return given.dtype.kind == "M" or (given.size > 0 and isinstance(given.flat[0], date))


def _numbers(times: Any, length: int) -> Float[np.ndarray, " time"]:
    """The time points as matplotlib counts them."""
    if times is None:
        return np.arange(float(length))
    at = date2num(times) if _is_dates(times) else np.asarray(times, dtype=float)
    if at.shape != (length,) or not (np.diff(at) > 0).all():
        raise ValueError(
            f"Expected `times` to be {length} increasing numbers or dates, one for each time point "
            f"of a row and of its padding, but got {times!r:.100}."
        )
    return at


def _largest(values: Float[np.ndarray, "channels explanations time"], most: int) -> list[int]:
    """Channels of the largest values, in their order."""
    size = np.nan_to_num(np.abs(values)).mean((1, 2))
    return sorted(np.argsort(-size, kind="stable")[:most].tolist())


def _panels(ax: Axes | None, channels: int, names: Sequence[str]) -> tuple[FigureBase, Panels]:
    """A line of panels for each channel, a column for each explanation."""
    height = _ALONE if channels == 1 else _CHANNEL * channels
    width = _WIDE if len(names) > 1 else style.WIDTH
    figure = canvas.container(ax, 1.4 + height, width)
    shape: Any = {"sharex": True, "sharey": "row", "squeeze": False}
    grid = figure.subplots(channels, len(names), subplot_kw={"axes_class": canvas.Plain}, **shape)
    for axes in grid.flat:
        style.strip(axes, grid="y")
        axes.grid(visible=False)
        style.scale(axes.yaxis, "", ticks=3)
    return figure, Panels(grid.flat)


def _draw(
    axes: Axes,
    at: Float[np.ndarray, " time"],
    curve: Float[np.ndarray, " all"],
    values: Float[np.ndarray, " time"],
    colours: ScalarMappable,
) -> None:
    """A curve upon the colours of its time points, each as wide as half of the way to the next."""
    ends = _ends(at)
    look: dict[str, Any] = {"cmap": colours.cmap, "norm": colours.norm, "zorder": 0}
    look["transform"] = axes.get_xaxis_transform()
    axes.pcolormesh(ends, [0, 1], values[None], rasterized=len(at) > 1000, **look)
    curve = curve[: len(at)]
    marker = "o" if len(at) == 1 else ""
    (line,) = axes.plot(at, curve, color=style.INK, linewidth=1.0, marker=marker)
    # Upon the darkest colours, too.
    line.set_path_effects([Stroke(linewidth=2.4, foreground=style.GROUND, alpha=0.8), Normal()])
    axes.set_xlim(ends[0], ends[-1])
    # By the curve alone: its ground reaches from 0 to 1 of the axes' height, whatever that is.
    low, high = float(curve.min()), float(curve.max())
    margin = 0.08 * (high - low) or 0.5
    axes.set_ylim(low - margin, high + margin)


def _ends(at: Float[np.ndarray, " time"]) -> Float[np.ndarray, " more"]:
    """Between the time points, and as far beyond the first and the last."""
    if len(at) == 1:
        return at[0] + np.array([-0.5, 0.5])
    between = (at[1:] + at[:-1]) / 2
    return np.concatenate(([2 * at[0] - between[0]], between, [2 * at[-1] - between[-1]]))


def _mark_segments(
    axes: Axes, at: Float[np.ndarray, " all"], owners: Int64[np.ndarray, " time"]
) -> None:
    """Lines between players, unless every time point is one of its own."""
    parted = np.diff(owners) != 0
    for border in [] if parted.all() else _ends(at[: len(owners)])[1:-1][parted]:
        axes.axvline(border, color=style.SOFT, linewidth=0.6, alpha=0.7, zorder=1)


def _write_bases(panels: Panels, by_name: Mapping[str, Explanation], row: int, output: int) -> None:
    """Over each column its base, and the name of its explanation where there are several."""
    for axes, (name, explanation) in zip(panels, by_name.items(), strict=False):
        base = f"base {selection.amount(explanation, explanation.base[row, output].item())}"
        said = f"{style.shorten(name)}: {base}" if len(by_name) > 1 else base
        axes.set_title(style.plain(said), loc="left", fontsize=style.TEXT)


def _write_times(panels: Sequence[Axes], times: Any) -> None:
    """Below the last panel of each column."""
    for axes in panels:
        style.scale(axes.xaxis, "" if _is_dates(times) else "time", ticks=6)
        axes.tick_params(labelbottom=True)
        # Of dates, what all have in common.
        axes.xaxis.get_offset_text().set(fontsize=style.TEXT)
    if times is not None and _is_dates(times):
        style.dates(panels[0].xaxis)
