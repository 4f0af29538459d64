"""Draws signed maps of the pixels of images (Frye et al. 2021, Fig. 6a)."""

import itertools
import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from manifold_shap._checks import to_tensor
from manifold_shap.explanation import Explanation
from manifold_shap.plots import canvas, selection, style, titles
from manifold_shap.plots.canvas import Panels

# Inches: above a line of images, and below all of them.
_TITLE, _FOOT = 0.25, 0.75
_NARROWEST = 2.4
_PAGE = 10.0
_MOST_LINES = 8
_CHANNELS = (1, 3, 4)
# Of red, green and blue in brightness (ITU-R BT.601).
_BRIGHTNESS = np.array([0.299, 0.587, 0.114])
_BLACK_TO_WHITE: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1}
# Pixels, of the longer side.
_LARGEST_OUTLINED = 64


def pixel_maps(
    explanations: Explanation | Mapping[str, Explanation],
    rows: Sequence[int] | None = None,
    output: str | int | Sequence[str | int] | None = None,
    top: int = 1,
    images: Any = None,
    overlay: float = 0.0,
    ax: Axes | None = None,
) -> Panels:
    """Draws one line per image: the image, then its signed map under each explanation.

    Red pixels raise the output and blue ones lower it; one colour scale serves the whole figure,
    so that colours compare between lines, outputs and explanations. Half a percent of the pixels
    may lie beyond the ends of the scale, which are then pointed. The value of a player with several
    pixels is spread evenly over its elements, and the channels of a pixel are summed: a map always
    sums to `prediction - base`. Thin lines are the borders of such players, or else the outline
    of a small grey image.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[[[0.0, 1.0], [1.0, 0.5]]]])
        >>> explanation = ms.exact_shapley(
        ...     lambda x, mask: (x.flatten(1)[:, None] * mask).sum(-1, True), x
        ... )
        >>> ms.plots.pixel_maps(explanation)[1].images[0].get_array().tolist()
        [[0.0, 1.0], [1.0, 0.5]]

    Args:
        explanations: of the same images, by the names to write above the columns, in several lines
            if they have them.
        rows: positions of the images to show; by default the first that fit on a page, 32 small
            ones. Lines that exceed the height of a page continue in further columns.
        output: name or position of the output to explain, or several of them, a column for each;
            by default the predicted one of each image.
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

    Returns:
        The panels, line by line.

    Raises:
        TypeError: `explanations` are something else, or `images` no numbers.
        ValueError: the inputs are no images, or images of other than 1, 3 or 4 channels and none
            are given to show; the explanations differ in rows, players or outputs, or `rows` or
            `output` name something that is not there; `images` out of range.
    """
    by_name = selection.named(explanations)
    first, *_ = by_name.values()
    _check_images(first)
    of_row = selection.several_outputs_of_rows(first, output, top)
    columns = 1 + len(by_name) * of_row.shape[1]
    size = _size(first.x.shape[-2:])
    per_block = min(_MOST_LINES, max(1, int(_PAGE / (_TITLE + size[1]))))
    if rows is None:
        rows = range(min(len(first.phi), per_block * (4 if of_row.shape[1] == 1 else 1)))
    chosen = [selection.row_index(first, int(row), "rows") for row in rows]
    shown = images_of(first.x, images, chosen)
    of_row = of_row[chosen]
    maps = torch.cat([maps_of(e, chosen, of_row) for e in by_name.values()], dim=1).numpy()
    colours, ends = canvas.signed_scale(maps, 0.995)
    label = [
        selection.shapley_axis(first, " per pixel" if _have_several_pixels(first) else ""),
        *_small_print(by_name, len(set(chosen)), of_row.shape[1]),
    ]
    cells = _cells(ax, len(chosen), columns, per_block, size, len(label) - 1)
    for first_line in cells[:: _per_block(len(cells), per_block)]:
        _write_names(first_line, list(by_name), of_row.shape[1])
    owners = selection.owners(first)
    look: dict[str, Any] = {"cmap": colours.cmap, "norm": colours.norm}
    for line, row in enumerate(chosen):
        picture, *panels = cells[line]
        _write_titles(cells[line], first, row, of_row[line].tolist())
        shown[line].draw(picture)
        edges = borders(owners[row].numpy())
        if not len(edges) and not overlay:
            edges = outline(first.x[row].numpy())
        for axes, values in zip(panels, maps[line], strict=True):
            axes.imshow(values, **look)
            if overlay:
                shown[line].draw_pale(axes, overlay)
            axes.add_collection(
                LineCollection(list(edges), colors=style.SOFT, linewidths=0.5, alpha=0.7)
            )
    panels = Panels(itertools.chain(*cells))
    settings: dict[str, Any] = {"location": "bottom", "aspect": 35, "shrink": 0.8, "extend": ends}
    bar = canvas.colour_bar(panels, colours, "\n".join(label), **settings)
    bar.locator = MaxNLocator(2, symmetric=True)
    return panels


def _check_images(explanation: Explanation) -> None:
    event = explanation.players.event
    if len(event) not in (2, 3) or min(event[-2:]) < 2:
        raise ValueError(
            "Expected explanations of images, rows of shape (height, width) or (channels, "
            f"height, width), but got rows of shape {event}; tables are drawn by `waterfall` "
            "and `beeswarm`, and flat images become images by `x.reshape(-1, 1, height, width)`."
        )


def maps_of(
    explanation: Explanation, rows: list[int], outputs: Tensor
) -> Float[Tensor, "rows outputs height width"]:
    """Of rows by position: the value of a player is spread evenly, channels are summed."""
    owners = selection.owners(explanation)[rows]
    owned = (owners >= 0).flatten(1)
    player = owners.flatten(1).clamp(min=0)
    phi = explanation.phi[rows]
    phi = phi.gather(2, outputs[:, None].expand(-1, phi.shape[1], -1)).mT
    elements = torch.zeros_like(phi[:, 0]).scatter_add_(1, player, owned.to(phi))
    per_element = (phi / elements[:, None]).gather(2, player[:, None].expand(-1, phi.shape[1], -1))
    values = per_element.where(owned[:, None], 0.0)
    return values.reshape(*phi.shape[:2], -1, *owners.shape[-2:]).sum(2)


def _have_several_pixels(explanation: Explanation) -> bool:
    return len(explanation.players) < math.prod(explanation.x.shape[-2:])


def _small_print(by_name: Mapping[str, Explanation], shown: int, outputs: int) -> list[str]:
    rows = len(next(iter(by_name.values())).phi)
    lines = [] if shown == rows else [f"{shown} of {style.count(rows, 'row')}"]
    lines += ["over each map: the output and its prediction"] if outputs > 1 else []
    lines += [*titles.cautions(by_name), *titles.notes(by_name)]
    return [part for line in lines for part in wrap(line, 50)]


def _per_block(lines: int, most: int) -> int:
    """How many lines are below each other, so that blocks beside each other are even."""
    return -(-lines // -(-lines // most))


def _size(shape: Sequence[int]) -> tuple[float, float]:
    """Width and height of an image in inches, of its height and width in pixels."""
    width = float(np.clip(0.17 * np.sqrt(max(shape)), 0.95, 1.8))
    return width, width * min(1, shape[0] / shape[1])


def _cells(
    ax: Axes | None, lines: int, columns: int, most: int, size: tuple[float, float], below: int
) -> list[list[Axes]]:
    """So many lines of axes, of which at most so many are below each other."""
    per_block = _per_block(lines, most)
    blocks = -(-lines // per_block)
    width = max(blocks * columns * (size[0] + 0.1), _NARROWEST)
    height = per_block * (size[1] + _TITLE) + _FOOT + 0.13 * below
    figure = canvas.container(ax, height, width)
    if isinstance(figure, Figure):
        figure.set_layout_engine("compressed")
    # Blocks stand beside each other, with some space between.
    widths = [*[1.0] * columns, 0.15] * blocks
    shape: Any = {"squeeze": False, "subplot_kw": {"axes_class": canvas.Plain}}
    grid = figure.subplots(per_block, len(widths), width_ratios=widths, **shape)
    cells = [line for block in np.split(grid, blocks, axis=1) for line in block[:, :-1].tolist()]
    kept = list(itertools.chain(*cells[:lines]))
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(visible=True, color=style.NEUTRAL, linewidth=0.5)
        if axes not in kept:
            axes.remove()
    return cells[:lines]


def _write_names(cells: list[Axes], names: list[str], outputs: int) -> None:
    """Above the image, and above the columns of each explanation."""
    for axes, name in zip([cells[0], *cells[1::outputs]], ["image", *names], strict=True):
        said = [style.plain(style.shorten(part, 16 * outputs)) for part in name.split("\n")]
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        axes.annotate("\n".join(said), (0, 1), (0, 15), fontsize=style.TEXT, **place)


def _write_titles(
    cells: list[Axes], explanation: Explanation, row: int, outputs: list[int]
) -> None:
    """Over one map for each explanation the prediction, or over each of several its output."""
    said = [selection.amount(explanation, value) for value in explanation.prediction[row].tolist()]
    look: dict[str, Any] = {"loc": "left", "fontsize": style.TEXT, "pad": 3}
    if len(outputs) == 1:
        k = outputs[0]
        title = f"predicted {selection.quantity(explanation, k)}: {said[k]}"
        cells[0].set_title(style.plain(style.shorten(title, 18 * len(cells))), **look)
        return
    for axes, k in zip(cells[1:], itertools.cycle(outputs), strict=False):
        name = style.shorten(explanation.outputs[k], 10)
        axes.set_title(style.plain(f"{name}: {said[k]}"), **look)


class Image(NamedTuple):
    """An image as matplotlib draws it.

    Attributes:
        pixels: grey values, or red, green, blue and perhaps opacity from 0 to 1 on the last axis.
        look: what grey values mean.
    """

    pixels: Float[np.ndarray, "height width *colours"]
    look: dict[str, Any]

    def draw(self, axes: Axes) -> None:
        axes.imshow(self.pixels, **self.look)

    def draw_pale(self, axes: Axes, opacity: float) -> None:
        """In pale grey over what stands there: its colours would be taken for those of a map."""
        bright, look = self.pixels, self.look
        if bright.ndim == 3:
            bright, look = bright[..., :3] @ _BRIGHTNESS, _BLACK_TO_WHITE
        span = (look["vmax"] - look["vmin"]) / 2
        # Beyond the data, towards black.
        end = "vmin" if look["cmap"] == "gray" else "vmax"
        pale = {**look, end: look[end] + (span if end == "vmax" else -span)}
        axes.imshow(bright, **pale, alpha=opacity)


def images_of(x: Tensor, images: Any, rows: list[int]) -> list[Image]:
    """Of some rows of `x`, or in their place of `images`; see `pixel_maps`."""
    if images is None:
        _check_channels(x, "rows", "; give `images` to show instead of them")
        return [_stretched(_channels(x[row])) for row in rows]
    bytes_ = isinstance(images, Tensor | np.ndarray) and images.dtype in (torch.uint8, np.uint8)
    given = to_tensor(images, "images") / (255 if bytes_ else 1)
    _check_channels(given, "`images`", "")
    if len(given) != len(x) or given.shape[-2:] != x.shape[-2:]:
        raise ValueError(
            f"Expected `images` for {len(x)} rows, of {x.shape[-2]} x {x.shape[-1]} pixels as "
            f"these, but got shape {tuple(given.shape)}."
        )
    if not (given >= 0).all() or not (given <= 1).all():
        raise ValueError(
            f"Expected `images` of numbers from 0 to 1, or of bytes, but got {given.min():.3g} to "
            f"{given.max():.3g}; undo their standardisation by `x * std + mean`."
        )
    return [_as_is(_channels(given[row])) for row in rows]


def _check_channels(images: Tensor, what: str, fix: str) -> None:
    channels = images.shape[1] if images.ndim == 4 else 1
    if images.ndim not in (3, 4) or channels not in _CHANNELS:
        raise ValueError(
            f"Expected {what} of 1, 3 or 4 channels, [rows, channels, height, width], but got "
            f"shape {tuple(images.shape)}{fix}."
        )


def _channels(image: Tensor) -> Float[np.ndarray, "channels height width"]:
    return image.reshape(-1, *image.shape[-2:]).numpy()


def _as_is(image: Float[np.ndarray, "channels height width"]) -> Image:
    if len(image) == 1:
        return Image(image[0], _BLACK_TO_WHITE)
    return Image(image.transpose(1, 2, 0), {})


def _stretched(image: Float[np.ndarray, "channels height width"]) -> Image:
    if len(image) == 1:
        # Ink on paper, as in print, whatever the data's own scale.
        low, high = float(image.min()), float(image.max())
        return Image(image[0], {"cmap": "gray_r", "vmin": low, "vmax": max(high, low + 1e-6)})
    colours = image[:3]
    low, high = min(colours.min(), 0), max(colours.max(), 1)
    if (low, high) != (0, 1):
        low, high = colours.min(), colours.max()
    opacity = image[3:].clip(0, 1)
    return _as_is(np.concatenate(((colours - low) / max(high - low, 1e-12), opacity)))


def borders(owners: Int64[np.ndarray, "*channels height width"]) -> np.ndarray:
    """Edges between pixels of different players, of which one has several pixels at least."""
    layers = owners.reshape(-1, *owners.shape[-2:])
    several = owns_several(layers)
    upright = layers[..., 1:] != layers[..., :-1]
    level = layers[:, 1:] != layers[:, :-1]
    return _edges(
        (upright & (several[..., 1:] | several[..., :-1])).any(0),
        (level & (several[:, 1:] | several[:, :-1])).any(0),
    )


def owns_several(
    owners: Int64[np.ndarray, "channels height width"],
) -> Bool[np.ndarray, "channels height width"]:
    """Of each element, whether its player has others at other places, be it in any channel."""
    size = owners[0].size
    place = np.broadcast_to(np.arange(size).reshape(owners.shape[1:]), owners.shape)
    taken = np.unique((owners * size + place)[owners >= 0])
    # Nobody, -1, has none.
    return np.append(np.bincount(taken // size) > 1, False)[owners]


def outline(image: Float[np.ndarray, "*channels height width"]) -> np.ndarray:
    """Edges between pixels above and below half of the range of a small image with one channel.

    The texture of a colour image, or of a large one, would hide the map.
    """
    if (image.ndim == 3 and len(image) > 1) or max(image.shape[-2:]) > _LARGEST_OUTLINED:
        return np.empty((0, 2, 2))
    grey = image.reshape(image.shape[-2:])
    ink = grey > (grey.min() + grey.max()) / 2
    return _edges(ink[:, 1:] != ink[:, :-1], ink[1:] != ink[:-1])


def _edges(
    upright: Bool[np.ndarray, "height fewer"], level: Bool[np.ndarray, "less width"]
) -> Float[np.ndarray, "edges 2 2"]:
    """Lines to the right of some pixels, and below others; their ends as (x, y)."""
    # An edge is half a pixel away from the middles of the two pixels that it parts.
    return np.concatenate(
        (
            np.argwhere(upright)[:, None, ::-1] + [[0.5, -0.5], [0.5, 0.5]],
            np.argwhere(level)[:, None, ::-1] + [[-0.5, 0.5], [0.5, 0.5]],
        )
    )
