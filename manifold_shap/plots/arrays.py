"""Draws values upon what a row looks like: maps of pixels and curves on coloured ground."""

import itertools
import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from manifold_shap import shown
from manifold_shap._checks import check_whole, to_tensor
from manifold_shap.explanation import Explanation
from manifold_shap.plots import canvas, selection
from manifold_shap.plots.canvas import Panels

# Images that are shown where none are named.
_ROWS = 8
_CHANNELS = (1, 3, 4)
# Of red, green and blue in brightness (ITU-R BT.601).
_BRIGHTNESS = np.array([0.299, 0.587, 0.114])
# Pixels of the longer side: the texture of a larger image would hide the map.
_LARGEST_OUTLINED = 64
# Inches.
_NARROWEST, _WIDEST = 1.2, 2.0


def pixel_maps(
    explanations: Explanation | Mapping[str, Explanation],
    rows: Sequence[int] | None = None,
    output: str | int | Sequence[str | int] | None = None,
    top: int = 1,
    images: Any = None,
    overlay: float = 0.0,
    ax: Axes | None = None,
    *,
    labels: Sequence[Any] | None = None,
    show: bool = False,
) -> Panels:
    """Draws one line per image: the image, then its signed map under each explanation.

    Red pixels raise the output and blue ones lower it (Frye et al. 2021, Fig. 6a); one colour scale
    serves the whole figure, so that colours compare between lines, outputs and explanations. Half a
    percent of the pixels may lie beyond the ends of the scale, which are then pointed. The value of
    a player with several pixels is spread evenly over its elements, and the channels of a pixel are
    summed: a map always sums to `prediction - base`. Thin lines are the borders of such players, or
    else the outline of a small grey image.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[[[0.0, 1.0], [1.0, 0.5]]]])
        >>> explanation = ms.exact_shapley(
        ...     lambda x, mask: (x.flatten(1)[:, None] * mask).sum(-1, True), x
        ... )
        >>> ms.plots.pixel_maps(explanation)[1].images[0].get_array().tolist()
        [[0.0, 1.0], [1.0, 0.5]]

    Args:
        explanations: of the same images, by the names to write above the columns.
        rows: positions of the images to show; by default the first 8.
        output: name or position of the output to explain, or several of them, a column for each;
            by default as of `waterfall`.
        top: how many outputs to explain where `output` names none, a column for each: the most
            probable ones of each image, or those that it moves furthest from the base.
        images: what to show instead of the explained rows: for every row an image of the same
            height and width, `[rows, channels, height, width]`, of numbers from 0 to 1 or of bytes.
            One channel goes from black to white, three are red, green and blue, and a fourth is
            opacity. Standardised rows are shown as they were by `x * std + mean`. By default the
            rows themselves: a grey image goes from its lowest value in white to its highest in
            black, as ink on paper, and a colour image with values beyond 0 and 1 is stretched from
            its lowest to its highest.
        overlay: opacity of a pale grey copy of the image over each of its maps; 0.4 shows both.
        ax: axes whose place the maps take; by default a new figure.
        labels: of rows, instead of their positions.
        show: whether to call `plt.show()`.

    Returns:
        The panels, line by line.

    Raises:
        TypeError: `explanations` are something else, or `images` no numbers.
        ValueError: the inputs are no images, or images of other than 1, 3 or 4 channels and none
            are given to show; the explanations differ in rows, players or outputs, or there are no
            such rows or outputs; `images` out of range.
    """
    by_name = selection.named(explanations)
    first, *_ = by_name.values()
    event = first.players.event
    if len(event) not in (2, 3) or min(event[-2:]) < 2:
        raise ValueError(
            "Expected explanations of images, rows of shape (height, width) or (channels, "
            f"height, width), but got rows of shape {event}; tables are drawn by `waterfall` "
            "and `beeswarm`, and flat images become images by `x.reshape(-1, 1, height, width)`."
        )
    of_row = shown.top_outputs(first, output, top)
    chosen = selection.rows_of(first, rows, labels, _ROWS)
    pictures = images_of(first.x, images, chosen)
    of_row = of_row[chosen]
    maps = torch.cat([maps_of(e, chosen, of_row) for e in by_name.values()], dim=1).numpy()
    scale = canvas.colour_scale(maps)
    figure, cells = _cells(ax, maps.shape[0], maps.shape[1], event[-1] / event[-2])
    owners = first.owner
    for line, row in enumerate(chosen):
        picture, *panels = cells[line * (1 + maps.shape[1]) :][: 1 + maps.shape[1]]
        name = selection.row_name(first, row).replace(" (", "\n").rstrip(")")
        _title(picture, f"{name}\n" if line == 0 and len(by_name) > 1 else name)
        picture.imshow(pictures[line], cmap="gray", vmin=0, vmax=1)
        edges = _borders(owners[row].numpy())
        if not len(edges) and not overlay:
            edges = _outline(first.x[row].numpy())
        titles = itertools.product(by_name, of_row[line].tolist())
        for axes, values, (name, k) in zip(panels, maps[line], titles, strict=True):
            said = shown.amount(first, first.prediction[row, k].item())
            title = f"{shown.shorten(first.outputs[k], 16)}: {said}"
            above = f"{shown.shorten(name, 22)}\n" if line == 0 and len(by_name) > 1 else ""
            _title(axes, above + title)
            axes.imshow(values, **scale.look)
            if overlay:
                # In pale grey: its colours would be taken for those of the map.
                image = pictures[line]
                grey = image if image.ndim == 2 else image[..., :3] @ _BRIGHTNESS
                axes.imshow(grey, cmap="gray", vmin=-0.5, vmax=1, alpha=overlay)
            look: dict[str, Any] = {"colors": canvas.NEUTRAL, "linewidths": 0.5, "alpha": 0.7}
            axes.add_collection(LineCollection(list(edges), **look))
    per = " per pixel" if len(first.players) < math.prod(event[-2:]) else ""
    values = " ".join([*shown.kinds(first), f"Shapley value{per}"])
    label = f"{selection.capital(values)} ({first.unit})"
    bar = scale.bar(cells, label, location="bottom", shrink=0.8)
    bar.locator = MaxNLocator(2, symmetric=True)
    count = len(set(chosen))
    part = f"{count} of {len(first)} rows" if count < len(first) else ""
    canvas.headline(figure, by_name, [part], show)
    return cells


def _cells(ax: Axes | None, lines: int, maps: int, ratio: float) -> tuple[Any, Panels]:
    """A line of axes for each image, with a column for it and for each of its maps."""
    across = float(np.clip(8.0 / (1 + maps), _NARROWEST, _WIDEST))
    high = across * min(1.0, 1 / ratio) + 2.9 * rcParams["font.size"] / 72
    text = 1.9 * rcParams["font.size"] / 72
    width = max((1 + maps) * across, 2 * _WIDEST) / rcParams["figure.figsize"][0]
    figure = canvas.place(ax, lines * high / text + 4.2, width)
    if isinstance(figure, Figure):
        figure.set_layout_engine("compressed")
    cells = canvas.panels(figure, lines * (1 + maps), 1 + maps)
    for axes in cells:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(visible=True, linewidth=0.5)
    return figure, cells


def _title(axes: Axes, text: str) -> None:
    axes.set_title(canvas.plain(text), loc="left", fontsize="small")


def maps_of(
    explanation: Explanation, rows: list[int], outputs: Tensor
) -> Float[Tensor, "rows outputs height width"]:
    """Of rows by position: the value of a player is spread evenly, channels are summed."""
    owners = explanation.owner[rows]
    owned = (owners >= 0).flatten(1)
    player = owners.flatten(1).clamp(min=0)
    phi = explanation.phi[rows]
    phi = phi.gather(2, outputs[:, None].expand(-1, phi.shape[1], -1)).mT
    elements = torch.zeros_like(phi[:, 0]).scatter_add_(1, player, owned.to(phi))
    per_element = (phi / elements[:, None]).gather(2, player[:, None].expand(-1, phi.shape[1], -1))
    values = per_element.where(owned[:, None], 0.0)
    return values.reshape(*phi.shape[:2], -1, *owners.shape[-2:]).sum(2)


def images_of(
    x: Tensor, images: Any, rows: list[int]
) -> list[Float[np.ndarray, "height width *colours"]]:
    """Of some rows of `x`, or in their place of `images`, from 0 to 1; see `pixel_maps`."""
    pixels = x if images is None else to_tensor(images, "images")
    channels = pixels.shape[1] if pixels.ndim == 4 else 1
    alike = len(pixels) == len(x) and pixels.shape[-2:] == x.shape[-2:]
    if not alike or pixels.ndim not in (3, 4) or channels not in _CHANNELS:
        raise ValueError(
            f"Expected `images` of 1, 3 or 4 channels, for {len(x)} rows of {x.shape[-2]} x "
            f"{x.shape[-1]} pixels, but got shape {tuple(pixels.shape)}; by default they are the "
            "rows themselves."
        )
    if getattr(images, "dtype", None) in (torch.uint8, np.uint8):
        pixels = pixels / 255
    if images is not None and not ((pixels >= 0) & (pixels <= 1)).all():
        raise ValueError(
            f"Expected `images` of numbers from 0 to 1, or of bytes, but got {pixels.min():.3g} to "
            f"{pixels.max():.3g}; undo their standardisation by `x * std + mean`."
        )
    found = []
    for row in rows:
        image = pixels[row].reshape(-1, *pixels.shape[-2:])
        image = _stretched(image) if images is None else image
        found.append((image[0] if len(image) == 1 else image.permute(1, 2, 0)).numpy())
    return found


def _stretched(
    image: Float[Tensor, "channels height width"],
) -> Float[Tensor, "channels height width"]:
    """A row as ink on paper, or in colours, which are stretched where they are out of range."""
    colours = image[:3]
    low, high = colours.min(), colours.max()
    stretched = (colours - low) / (high - low).clamp(min=1e-12)
    if len(image) == 1:
        return 1 - stretched
    is_colour = bool(low >= 0 and high <= 1)
    return torch.cat((colours if is_colour else stretched, image[3:].clamp(0, 1)))


def _borders(owners: Int64[np.ndarray, "*channels height width"]) -> np.ndarray:
    """Edges between pixels of different players; none where every pixel is a player."""
    layers = owners.reshape(-1, *owners.shape[-2:])
    upright, level = np.diff(layers, axis=2) != 0, np.diff(layers, axis=1) != 0
    if upright.all() and level.all():
        return np.empty((0, 2, 2))
    return _edges(upright.any(0), level.any(0))


def _outline(image: Float[np.ndarray, "*channels height width"]) -> np.ndarray:
    """Edges between pixels above and below half of the range of a small image of one channel."""
    if (image.ndim == 3 and len(image) > 1) or max(image.shape[-2:]) > _LARGEST_OUTLINED:
        return np.empty((0, 2, 2))
    grey = image.reshape(image.shape[-2:])
    ink = grey > (grey.min() + grey.max()) / 2
    return _edges(ink[:, 1:] != ink[:, :-1], ink[1:] != ink[:-1])


def _edges(upright: np.ndarray, level: np.ndarray) -> Float[np.ndarray, "edges 2 2"]:
    """Lines to the right of some pixels, and below others; their ends as (x, y)."""
    # An edge is half a pixel away from the middles of the two pixels that it parts.
    return np.concatenate(
        (
            np.argwhere(upright)[:, None, ::-1] + [[0.5, -0.5], [0.5, 0.5]],
            np.argwhere(level)[:, None, ::-1] + [[-0.5, 0.5], [0.5, 0.5]],
        )
    )


def series(
    explanations: Explanation | Mapping[str, Explanation],
    row: int | None = None,
    output: str | int | None = None,
    times: Any = None,
    channels: Sequence[str] | None = None,
    max_display: int = 12,
    ax: Axes | None = None,
    *,
    label: Any = None,
    show: bool = False,
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
        row: position of the row; by default the first.
        output: name or position of the output; by default as of `waterfall`.
        times: of the time points, increasing: numbers or dates; by default 0, 1, ...
        channels: their names; by default their numbers.
        max_display: channels to show: those of the largest values, in their order.
        ax: axes whose place the curves take; by default a new figure.
        label: of the row, instead of its position.
        show: whether to call `plt.show()`.

    Returns:
        The panels, channel by channel.

    Raises:
        TypeError: `explanations` are something else.
        ValueError: rows are no series, or this one is nothing but padding; not as many `times` or
            `channels` as the rows have, or times that do not increase; the explanations differ in
            rows, players or outputs, or there is no such row or output.
    """
    by_name = selection.named(explanations)
    first, *_ = by_name.values()
    event = first.players.event
    if len(event) not in (1, 2):
        raise ValueError(
            f"Expected explanations of series, rows of shape (time,) or (channels, time), but got "
            f"rows of shape {event}; images are drawn by `pixel_maps`."
        )
    row = selection.row_of(first, row, label)
    k = int(shown.outputs_of_rows(first, output)[row])
    owners = first.owner[row].reshape(-1, event[-1]).numpy()
    names, at = _channel_names(channels, len(owners)), _numbers(times, event[-1])
    owned = np.flatnonzero((owners >= 0).any(0))
    if len(owned) == 0:
        raise ValueError(f"Expected a row with players but row {row} is nothing but padding.")
    # Without the padding at its end.
    owners, ends = owners[:, : owned[-1] + 1], _ends(at[: owned[-1] + 1])
    phi = [e.phi[row, :, k].double().numpy() for e in by_name.values()]
    values = np.stack([np.append(each, np.nan)[owners] for each in phi], axis=1)
    size = np.nan_to_num(np.abs(values)).mean((1, 2))
    largest = np.argsort(-size, kind="stable")[: check_whole("max_display", max_display)]
    chosen, count = sorted(largest.tolist()), len(by_name)
    figure = canvas.place(ax, 9 + max(6, 3.5 * len(chosen)), 0.75 + 0.25 * count)
    shape: dict[str, Any] = {"sharex": True, "sharey": "row"}
    panels = canvas.panels(figure, count * len(chosen), count, **shape)
    scale = canvas.colour_scale(*phi)
    curves = first.x[row].reshape(len(owners), -1).numpy()[:, : owners.shape[1]]
    for axes, (channel, column) in zip(
        panels, itertools.product(chosen, range(count)), strict=True
    ):
        _draw_curve(axes, ends, at, curves[channel], values[channel, column], scale)
        parted = np.diff(owners[channel]) != 0
        for border in [] if parted.all() else ends[1:-1][parted]:
            axes.axvline(border, color=canvas.NEUTRAL, linewidth=0.6, alpha=0.7, zorder=1)
        axes.locator_params(axis="y", nbins=3)
    for axes, channel in zip(panels[::count], chosen, strict=True):
        said = canvas.plain(shown.shorten(names[channel], 14))
        axes.set_ylabel(said, rotation=0, ha="right", va="center")
    bases = [shown.amount(e, e.base[row, k].item()) for e in by_name.values()]
    for axes, name, base in zip(panels, by_name, bases if count > 1 else (), strict=False):
        axes.set_title(
            canvas.plain(f"{shown.shorten(name)}: base {base}"), loc="left", fontsize="medium"
        )
    for axes in panels[-count:]:
        if _is_dates(times):
            axes.xaxis.set_major_locator(locator := AutoDateLocator(minticks=2, maxticks=7))
            axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        else:
            axes.set_xlabel("time")
    per = " of a segment" if (owners[:, 1:] == owners[:, :-1]).any() else ""
    look: dict[str, Any] = {"location": "bottom", "aspect": 40, "shrink": 0.6}
    scale.bar(panels, selection.axis(first, k, per), **look)
    part = f"{len(chosen)} of {len(names)} channels" if len(chosen) < len(names) else ""
    title = selection.title_of_row(first, row, k, output)
    canvas.headline(figure, by_name, [*title, part], show)
    return panels


def _channel_names(channels: Sequence[str] | None, count: int) -> list[str]:
    """Of the channels; a single one needs none."""
    if channels is None:
        return [f"channel {k}" if count > 1 else "" for k in range(count)]
    if isinstance(channels, str) or len(channels) != count:
        raise ValueError(
            f"Expected `channels` to hold {shown.count(count, 'name')} but got {channels!r:.100}."
        )
    return list(map(str, channels))


def _is_dates(times: Any) -> bool:
    moments = np.asarray(times)
    return moments.dtype.kind == "M" or (moments.size > 0 and isinstance(moments.flat[0], date))


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


def _ends(at: Float[np.ndarray, " time"]) -> Float[np.ndarray, " more"]:
    """Between the time points, and as far beyond the first and the last."""
    if len(at) == 1:
        return at[0] + np.array([-0.5, 0.5])
    between = (at[1:] + at[:-1]) / 2
    return np.concatenate(([2 * at[0] - between[0]], between, [2 * at[-1] - between[-1]]))


def _draw_curve(
    axes: Axes,
    ends: Float[np.ndarray, " more"],
    at: Float[np.ndarray, " all"],
    curve: Float[np.ndarray, " time"],
    values: Float[np.ndarray, " time"],
    scale: canvas.ColourScale,
) -> None:
    """A curve upon the colours of its time points, each as wide as half of the way to the next."""
    look = {**scale.look, "cmap": canvas.DIVERGING.with_extremes(bad="none"), "zorder": 0}
    look["transform"] = axes.get_xaxis_transform()
    axes.pcolormesh(ends, [0, 1], values[None], edgecolors="face", **look)
    marker, ink = "o" if len(curve) == 1 else "", rcParams["text.color"]
    (line,) = axes.plot(at[: len(curve)], curve, color=ink, linewidth=1, marker=marker)
    # Upon the darkest colours, too.
    ground = rcParams["axes.facecolor"]
    line.set_path_effects([Stroke(linewidth=2.6, foreground=ground, alpha=0.8), Normal()])
    axes.set_xlim(ends[0], ends[-1])
    # By the curve alone: its ground reaches from 0 to 1 of the axes' height, whatever that is.
    low, high = float(curve.min()), float(curve.max())
    margin = 0.08 * (high - low) or 0.5
    axes.set_ylim(low - margin, high + margin)
