"""Draws signed maps of the pixels of images (Frye et al. 2021, Fig. 6a)."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from torch import Tensor

from manifold_shap._checks import check_number
from manifold_shap.explanation import Explanation
from manifold_shap.plots import canvas, selection, style, titles
from manifold_shap.plots.canvas import Panels
from manifold_shap.plots.images import borders, images_of, outline

# Inches.
_GAP = 0.06
_TITLE = 0.22
_LINE = 0.13
_MARGIN = 0.1
_BETWEEN = 0.3
_NARROWEST = 2.4
_PAGE = 10.0
_MOST_LINES = 8


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
        TypeError: `explanations` are something else, `images` no numbers, or `ax` is no axes.
        ValueError: the inputs are no images, or images of other than 1, 3 or 4 channels and none
            are given to show; the explanations differ in rows, players or outputs, or `rows` or
            `output` name something that is not there; `images` or `overlay` out of range.
    """
    by_name = selection.named(explanations)
    first, *_ = by_name.values()
    _check_images(first)
    check_number("overlay", overlay, 0, 1, fix="0.4 shows both the image and its map")
    of_row = selection.several_outputs_of_rows(first, output, top)
    grid = _Grid(first.x.shape[-2:], list(by_name), of_row.shape[1])
    if rows is None:
        rows = range(min(len(first.phi), grid.page))
    elif len(rows) == 0:
        raise ValueError("Expected `rows` to name at least one image but got none.")
    chosen = [selection.row_index(first, int(row), "rows") for row in rows]
    shown = images_of(first.x, images, chosen)
    of_row = of_row[chosen]
    maps = torch.cat([maps_of(e, chosen, of_row) for e in by_name.values()], dim=1).numpy()
    # A few extreme pixels would leave all others pale; pointed ends of the colour bar show them.
    largest = float(np.abs(maps).max())
    limit = float(np.quantile(np.abs(maps), 0.995)) or largest or 1.0
    label = "\n".join(_label(by_name, chosen, of_row.shape[1], grid.room))
    cells, foot = grid.draw(ax, len(chosen), foot=0.6 + _LINE * label.count("\n"))
    owners = selection.owners(first)
    look: dict[str, Any] = {"cmap": style.DIVERGING, "vmin": -limit, "vmax": limit}
    for line, row in enumerate(chosen):
        picture, *panels = cells[line]
        _write_titles(cells[line], first, row, of_row[line].tolist(), grid.room)
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
    canvas.colour_bar(foot.figure, limit, largest > limit, label, cax=foot)
    return Panels(itertools.chain(*cells))


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


def _label(
    by_name: Mapping[str, Explanation], chosen: list[int], outputs: int, room: float
) -> list[str]:
    """What is said below the colour bar: its unit, and small print."""
    first, *_ = by_name.values()
    split = len(first.players) < math.prod(first.x.shape[-2:])
    shown, rows = len(set(chosen)), len(first.phi)
    lines = [] if shown == rows else [f"{shown} of {style.count(rows, 'row')}"]
    lines += ["over each map: the output and its prediction"] if outputs > 1 else []
    lines += [*titles.cautions(by_name), *titles.notes(by_name)]
    small = [part for line in lines for part in style.wrapped(line, room)]
    return [selection.shapley_axis(first, per=" per pixel" if split else ""), *small]


def _write_titles(
    cells: list[Axes], explanation: Explanation, row: int, outputs: list[int], room: float
) -> None:
    """Over one map for each explanation the prediction, or over each of several its output."""
    said = [selection.amount(explanation, value) for value in explanation.prediction[row].tolist()]
    look: dict[str, Any] = {"loc": "left", **style.FONT, "pad": 3}
    if len(outputs) == 1:
        k = outputs[0]
        title = f"predicted {selection.quantity(explanation, k)}: {said[k]}"
        cells[0].set_title(style.plain(style.shorten(title, room)), **look)
        return
    figure: Any = cells[1].figure
    width = 72 * cells[1].get_position().width * figure.bbox.width / figure.dpi
    for axes, k in zip(cells[1:], itertools.cycle(outputs), strict=False):
        left = width - style.text_width(f": {said[k]}")
        name = style.shorten(explanation.outputs[k], left)
        axes.set_title(style.plain(f"{name}: {said[k]}"), **look)


class _Grid:
    """A line of cells for each image, names above them, and a strip at the foot.

    Images have a fixed shape, so every place is known beforehand, in inches.

    Attributes:
        room: points, over which the title of a line may go.
        page: how many lines fit on a page.

    Args:
        shape: height and width of an image, in pixels.
        names: of the explanations.
        outputs: columns that each explanation has.
    """

    def __init__(self, shape: Sequence[int], names: Sequence[str], outputs: int) -> None:
        height, width = shape
        self._width = float(np.clip(0.17 * np.sqrt(max(shape)), 0.95, 1.8))
        self._height = self._width * min(1, height / width)
        self._names, self._outputs = names, outputs
        self._columns = 1 + len(names) * outputs
        self._line = _TITLE + self._height + _GAP
        self._per_block = min(_MOST_LINES, max(1, int(_PAGE / self._line)))
        self._block = max(self._columns * (self._width + _GAP) - _GAP, _NARROWEST - 2 * _MARGIN)
        self.room = 72 * self._block
        self.page = self._per_block * (4 if outputs == 1 else 1)

    def draw(self, ax: Axes | None, lines: int, foot: float) -> tuple[list[list[Axes]], Axes]:
        """The cells of so many lines, and axes for a colour bar in a foot of some height."""
        blocks = -(-lines // self._per_block)
        per_block = -(-lines // blocks)
        top = _MARGIN + 0.16 + _LINE * max(name.count("\n") for name in self._names)
        whole_width = 2 * _MARGIN + blocks * (self._block + _BETWEEN) - _BETWEEN
        whole_height = top + per_block * self._line + foot
        figure = canvas.container(ax, whole_height, whole_width)
        if ax is None:
            figure.set_layout_engine("none")  # type: ignore[attr-defined]

        def place(left: float, top: float, width: float, height: float) -> Axes:
            x, y = left / whole_width, 1 - (top + height) / whole_height
            shares = (x, y, width / whole_width, height / whole_height)
            return figure.add_axes(shares, axes_class=canvas.Plain)

        cells = []
        for line in range(lines):
            block, within = divmod(line, per_block)
            left = _MARGIN + block * (self._block + _BETWEEN)
            y = top + within * self._line + _TITLE
            step = self._width + _GAP
            cells.append(
                [place(left + k * step, y, self._width, self._height) for k in range(self._columns)]
            )
            for axes in cells[-1]:
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set(visible=True, color=style.NEUTRAL, linewidth=0.5)
            if within == 0:
                self._write_names(cells[-1])
        width = min(whole_width - 0.7, 3.0)
        bar = place((whole_width - width) / 2, whole_height - foot + 0.1, width, 0.08)
        return cells, bar

    def _write_names(self, cells: list[Axes]) -> None:
        """Above the image, and above the columns of each explanation."""
        spans = [(0, 1, "image")]
        spans += [
            (1 + k * self._outputs, self._outputs, name) for k, name in enumerate(self._names)
        ]
        for start, columns, name in spans:
            width = columns * (self._width + _GAP) - _GAP
            said = [style.plain(style.shorten(part, 72 * width)) for part in name.split("\n")]
            cells[start].annotate(
                "\n".join(said), (0.5 * width / self._width, 1), (0, 72 * _TITLE),
                xycoords="axes fraction", textcoords="offset points", ha="center", va="bottom",
                **style.FONT,
            )  # fmt: skip
