"""Draws signed maps of the pixels of images (Frye et al. 2021, Fig. 6a)."""

import itertools
import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from torch import Tensor

from manifold_shap._checks import to_tensor
from manifold_shap.explanation import Explanation
from manifold_shap.plots import canvas, selection, style, titles
from manifold_shap.plots.canvas import Panels

# Inches: above a line of images, and below all of them.
_TOP, _TITLE, _FOOT = 0.3, 0.25, 0.75
_NARROWEST = 2.4
# Images that are shown where none are named.
_ROWS = 8
_CHANNELS = (1, 3, 4)
# Of red, green and blue in brightness (ITU-R BT.601).
_BRIGHTNESS = np.array([0.299, 0.587, 0.114])
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
        explanations: of the same images, by the names to write above the columns.
        rows: positions of the images to show; by default the first 8.
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
    rows = range(min(len(first.phi), _ROWS)) if rows is None else rows
    chosen = [selection.row_index(first, int(row), "rows") for row in rows]
    shown = images_of(first.x, images, chosen)
    of_row = of_row[chosen]
    maps = torch.cat([maps_of(e, chosen, of_row) for e in by_name.values()], dim=1).numpy()
    colours, ends = canvas.signed_scale(maps, 0.995)
    is_spread = len(first.players) < math.prod(first.x.shape[-2:])
    per = " per pixel" if is_spread else ""
    label = [
        selection.shapley_axis(first, per, selection.kinds(first)),
        *_small_print(by_name, len(set(chosen))),
    ]
    cells = _cells(ax, maps.shape[:2], first.x.shape[-2:], len(label) - 1)
    _write_names(cells[0], list(by_name), of_row.shape[1])
    owners = selection.owners(first)
    for line, row in enumerate(chosen):
        picture, *panels = cells[line]
        _write_titles(cells[line], first, row, of_row[line].tolist())
        picture.imshow(shown[line], cmap="gray", vmin=0, vmax=1)
        edges = borders(owners[row].numpy())
        if not len(edges) and not overlay:
            edges = outline(first.x[row].numpy())
        for axes, values in zip(panels, maps[line], strict=True):
            axes.imshow(values, cmap=colours.cmap, norm=colours.norm)
            if overlay:
                # In pale grey: its colours would be taken for those of the map.
                grey = shown[line] if shown[line].ndim == 2 else shown[line][..., :3] @ _BRIGHTNESS
                axes.imshow(grey, cmap="gray", vmin=-0.5, vmax=1, alpha=overlay)
            axes.add_collection(
                LineCollection(list(edges), colors=style.SOFT, linewidths=0.5, alpha=0.7)
            )
    settings: dict[str, Any] = {"location": "bottom", "aspect": 35, "shrink": 0.8, "extend": ends}
    drawn = Panels(cells.flat)
    bar = canvas.colour_bar(drawn, colours, "\n".join(label), **settings)
    bar.locator = MaxNLocator(2, symmetric=True)
    return drawn


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


def _small_print(by_name: Mapping[str, Explanation], shown: int) -> list[str]:
    rows = len(next(iter(by_name.values())).phi)
    lines = [] if shown == rows else [f"{shown} of {style.count(rows, 'row')}"]
    lines += [*titles.cautions(by_name), *titles.notes(by_name)]
    return [part for line in lines for part in wrap(line, 50)]


def _cells(ax: Axes | None, maps: Sequence[int], shape: Sequence[int], below: int) -> NDArray[Any]:
    """A line of axes for each image, with a column for it and for each of its maps."""
    lines, columns = maps[0], 1 + maps[1]
    across = float(np.clip(0.17 * np.sqrt(max(shape)), 0.95, 1.8))
    width = max(columns * (across + 0.1), _NARROWEST)
    high = across * min(1, shape[0] / shape[1])
    height = _TOP + lines * (high + _TITLE) + _FOOT + 0.13 * below
    figure = canvas.container(ax, height, width)
    if isinstance(figure, Figure):
        # Room for the names of the columns.
        top = 1 - _TOP / height
        figure.set_layout_engine("compressed", rect=(0, 0, 1, top))
    kind: Any = {"axes_class": canvas.Plain}
    cells = figure.subplots(lines, columns, squeeze=False, subplot_kw=kind)
    for axes in cells.flat:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(visible=True, color=style.NEUTRAL, linewidth=0.5)
    return cells


def _write_names(cells: NDArray[Any], names: list[str], outputs: int) -> None:
    """Above the image, and above the columns of each explanation."""
    for axes, name in zip([cells[0], *cells[1::outputs]], ["image", *names], strict=True):
        said = "\n".join(wrap(style.plain(style.shorten(name, 32 * outputs)), 17 * outputs))
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        place |= {"fontsize": style.TEXT, "va": "bottom"}
        axes.annotate(said, (0, 1), (0, 15), **place).set_in_layout(False)


def _write_titles(
    cells: NDArray[Any], explanation: Explanation, row: int, outputs: list[int]
) -> None:
    """Over one map for each explanation the prediction, or over each of several its output."""
    said = [selection.amount(explanation, value) for value in explanation.prediction[row].tolist()]
    look: dict[str, Any] = {"loc": "left", "fontsize": style.TEXT, "pad": 3}
    if len(outputs) == 1:
        k = outputs[0]
        title = f"predicted {selection.quantity(explanation, k)}: {said[k]}"
        title = style.plain(style.shorten(title, 18 * len(cells)))
        cells[0].set_title(title, **look)
        return
    for axes, k in zip(cells[1:], itertools.cycle(outputs), strict=False):
        name = style.shorten(explanation.outputs[k], 10)
        axes.set_title(style.plain(f"{name}: {said[k]}"), **look)


def images_of(
    x: Tensor, images: Any, rows: list[int]
) -> list[Float[np.ndarray, "height width *colours"]]:
    """Of some rows of `x`, or in their place of `images`, from 0 to 1; see `pixel_maps`."""
    given = x if images is None else to_tensor(images, "images")
    channels = given.shape[1] if given.ndim == 4 else 1
    alike = len(given) == len(x) and given.shape[-2:] == x.shape[-2:]
    if not alike or given.ndim not in (3, 4) or channels not in _CHANNELS:
        raise ValueError(
            f"Expected `images` of 1, 3 or 4 channels, for {len(x)} rows of {x.shape[-2]} x "
            f"{x.shape[-1]} pixels, but got shape {tuple(given.shape)}; by default they are the "
            "rows themselves."
        )
    if getattr(images, "dtype", None) in (torch.uint8, np.uint8):
        given = given / 255
    if images is not None and not ((given >= 0) & (given <= 1)).all():
        raise ValueError(
            f"Expected `images` of numbers from 0 to 1, or of bytes, but got {given.min():.3g} to "
            f"{given.max():.3g}; undo their standardisation by `x * std + mean`."
        )
    found = []
    for row in rows:
        image = given[row].reshape(-1, *given.shape[-2:])
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


def borders(owners: Int64[np.ndarray, "*channels height width"]) -> np.ndarray:
    """Edges between pixels of different players; none where every pixel is one of its own."""
    layers = owners.reshape(-1, *owners.shape[-2:])
    upright, level = np.diff(layers, axis=2) != 0, np.diff(layers, axis=1) != 0
    if upright.all() and level.all():
        return np.empty((0, 2, 2))
    return _edges(upright.any(0), level.any(0))


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
