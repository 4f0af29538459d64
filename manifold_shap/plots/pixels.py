"""Signed maps of the pixels of images (Frye et al. 2021, Fig. 6a)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from torch import Tensor

from manifold_shap.explanation import Explanation
from manifold_shap.plots import selection, style, words

# Inches.
_CELL = 0.95
_GAP = 0.06
_TITLE = 0.22
_HEAD = 0.2
_HEAD_LINE = 0.13
_MARGIN = 0.1
_BETWEEN = 0.3
_FOOT = 0.62
_NARROWEST = 2.4
_LINES = 8
_IMAGES = 32
_WITHIN = 0.995


def pixel_maps(
    explanations: Explanation | Mapping[str, Explanation],
    rows: Sequence[int] | None = None,
    output: str | None = None,
) -> Figure:
    """One line per image: the image, then its signed map under each explanation.

    Red pixels raise the output and blue ones lower it; one colour scale serves the whole figure,
    so that colours compare between lines and between explanations. Half a percent of the pixels
    may lie beyond the ends of the scale, which are then pointed. A thin line is the outline of a
    grey image. The value of a player with several pixels is spread evenly over its elements, and
    the channels of a pixel are summed: a map always sums to `prediction - base`.

    Args:
        explanations: of the same images, by the names to write above the columns, in several lines
            if they have them.
        rows: positions of the images to show; by default all, up to the first 32. More than eight
            lines go on in further columns.
        output: name of the output to explain; by default the predicted one of each image.

    Raises:
        ValueError: the inputs are no images, the explanations differ in rows, players or outputs,
            or `rows` or `output` name something that is not there.
    """
    by_name = selection.named(explanations)
    first = next(iter(by_name.values()))
    _check_images(first)
    chosen = _chosen(first, rows)
    of_row = selection.outputs_of_rows(first, output)[chosen]
    maps = torch.stack([_element_values(e, chosen, of_row) for e in by_name.values()], dim=1)
    largest = maps.abs().max().item()
    limit = _limit(maps) or largest or 1.0
    height, width = first.players.event[-2:]
    names = ["image", *by_name]
    written = max(name.count("\n") for name in names)
    head = _HEAD + _HEAD_LINE * written
    grid = _Grid(len(chosen), len(names), _CELL * min(1, height / width), head)
    figure = style.new_figure(grid.width, grid.height)
    images = first.x[chosen].reshape(len(chosen), -1, height, width).numpy()
    for line, (image, signed) in enumerate(zip(images, maps.numpy(), strict=True)):
        cells = [grid.axes(figure, line, column) for column in range(grid.columns)]
        _draw_image(cells[0], image)
        outline = _outline(image)
        for axes, values in zip(cells[1:], signed, strict=True):
            axes.imshow(values, cmap=style.DIVERGING, vmin=-limit, vmax=limit)
            axes.add_collection(LineCollection(outline, colors="0.3", linewidths=0.5, alpha=0.7))
        grid.write(figure, line, _line_title(first, chosen[line], int(of_row[line])))
    grid.write_head(figure, names)
    _draw_colour_bar(figure, grid.colour_bar(figure), limit, largest > limit, _colour_label(first))
    return figure


def _check_images(explanation: Explanation) -> None:
    event = explanation.players.event
    if len(event) not in (2, 3) or min(event[-2:]) < 2:
        raise ValueError(
            "Expected explanations of images, rows of shape (1, height, width) or (channels, "
            f"height, width), but got rows of shape {event}; tables are drawn by `bars` and "
            "`sina`, and flat images become images by `x.reshape(-1, 1, height, width)`."
        )


def _chosen(explanation: Explanation, rows: Sequence[int] | None) -> list[int]:
    if rows is None:
        return list(range(min(len(explanation.phi), _IMAGES)))
    if len(rows) == 0:
        raise ValueError("Expected `rows` to name at least one image but got none.")
    return [selection.row_index(explanation, int(row), "rows") for row in rows]


def _element_values(
    explanation: Explanation, rows: list[int], outputs: Tensor
) -> Float[Tensor, "rows height width"]:
    index = explanation.players.index
    phi = explanation.phi[rows, :, outputs]
    shares = phi / torch.bincount(index.flatten())
    return shares[:, index].reshape(len(rows), -1, *index.shape[-2:]).sum(1)


def _draw_image(axes: Axes, image: Float[np.ndarray, "channels height width"]) -> None:
    low, high = image.min(), image.max()
    if len(image) == 3:
        unit = (image - min(low, 0)) / max(high - min(low, 0), 1)
        axes.imshow(unit.transpose(1, 2, 0))
    else:
        # Ink on paper, as in print, whatever the data's own scale.
        axes.imshow(image.mean(0), cmap="gray_r", vmin=low, vmax=max(high, low + 1e-6))


def _outline(image: Float[np.ndarray, "channels height width"]) -> list[np.ndarray]:
    """Edges between pixels above and below half of the range of an image with one channel.

    The texture of a colour image would hide the map.
    """
    if len(image) > 1:
        return []
    grey = image[0]
    ink = grey > (grey.min() + grey.max()) / 2
    row, column = np.nonzero(ink[:, 1:] != ink[:, :-1])
    upright = np.stack([np.stack([column + 0.5, row + side], -1) for side in (-0.5, 0.5)], 1)
    row, column = np.nonzero(ink[1:] != ink[:-1])
    level = np.stack([np.stack([column + side, row + 0.5], -1) for side in (-0.5, 0.5)], 1)
    return [*upright, *level]


def _line_title(explanation: Explanation, row: int, output: int) -> str:
    prediction = explanation.prediction[row, output].item()
    said = words.amount(prediction, explanation.space)
    return f"predicted {words.quantity(explanation, output)}: {said}"


def _colour_label(explanation: Explanation) -> str:
    index = explanation.players.index
    pixels = index.shape[-2] * index.shape[-1]
    split = len(explanation.players) < pixels
    return words.shapley_axis(explanation, per=" per pixel" if split else "")


@dataclass(frozen=True)
class _Grid:
    """Places in inches. Images have a fixed shape, so every place is known beforehand."""

    lines: int
    columns: int
    cell_height: float
    head: float = _HEAD

    @property
    def line_height(self) -> float:
        return _TITLE + self.cell_height + _GAP

    @property
    def blocks(self) -> int:
        return -(-self.lines // _LINES)

    @property
    def lines_per_block(self) -> int:
        return -(-self.lines // self.blocks)

    @property
    def block_width(self) -> float:
        return max(self.columns * (_CELL + _GAP) - _GAP, _NARROWEST - 2 * _MARGIN)

    @property
    def width(self) -> float:
        return 2 * _MARGIN + self.blocks * (self.block_width + _BETWEEN) - _BETWEEN

    @property
    def height(self) -> float:
        return _MARGIN + self.head + self.lines_per_block * self.line_height + _FOOT

    def axes(self, figure: Figure, line: int, column: int) -> Axes:
        """The frame of one map, with no ticks."""
        left, top = self._corner(line, column)
        axes = figure.add_axes(self._place(left, top + _TITLE, _CELL, self.cell_height))
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set(color=style.NEUTRAL, linewidth=0.5)
        return axes

    def write(self, figure: Figure, line: int, text: str) -> None:
        """The title over a line."""
        left, top = self._corner(line, 0)
        text = style.plain(style.shorten(text, 72 * self.block_width))
        x, y = left / self.width, 1 - (top + _TITLE - 0.05) / self.height
        figure.text(x, y, text, fontsize=style.TEXT, color=style.INK)

    def write_head(self, figure: Figure, names: Sequence[str]) -> None:
        """Names of the columns, over every block."""
        for block in range(self.blocks):
            for column, name in enumerate(names):
                left, _ = self._corner(block * self.lines_per_block, column)
                lines = [style.plain(style.shorten(line, 72 * _CELL)) for line in name.split("\n")]
                x, y = (left + _CELL / 2) / self.width, 1 - (_MARGIN + self.head) / self.height
                y += (_HEAD - 0.14) / self.height
                for line in reversed(lines):
                    figure.text(
                        x, y, line, ha="center", fontsize=style.TEXT, color=style.INK, weight="bold"
                    )
                    y += _HEAD_LINE / self.height

    def colour_bar(self, figure: Figure) -> Axes:
        """A strip at the foot."""
        width = min(self.width - 0.7, 3.0)
        return figure.add_axes(
            self._place((self.width - width) / 2, self.height - _FOOT + 0.1, width, 0.08)
        )

    def _corner(self, line: int, column: int) -> tuple[float, float]:
        """Left and top of a line's cell, from the top left of the figure."""
        block, within = divmod(line, self.lines_per_block)
        left = _MARGIN + block * (self.block_width + _BETWEEN) + column * (_CELL + _GAP)
        return left, _MARGIN + self.head + within * self.line_height

    def _place(
        self, left: float, top: float, width: float, height: float
    ) -> tuple[float, float, float, float]:
        """As shares of the figure, from its bottom left."""
        return (
            left / self.width,
            1 - (top + height) / self.height,
            width / self.width,
            height / self.height,
        )


def _limit(maps: Float[Tensor, "rows several height width"]) -> float:
    # A few extreme pixels would leave all others pale; ends of the colour bar tell of them.
    return float(np.quantile(maps.abs().numpy(), _WITHIN))


def _draw_colour_bar(figure: Figure, axes: Axes, limit: float, beyond: bool, label: str) -> None:
    # The largest of 1, 2, ... times a power of ten within the limit: three labels never collide.
    power = 10.0 ** np.floor(np.log10(limit))
    end = np.floor(limit / power) * power
    bar = figure.colorbar(
        ScalarMappable(Normalize(-limit, limit), style.DIVERGING),
        cax=axes,
        orientation="horizontal",
        extend="both" if beyond else "neither",
        ticks=[-end, 0, end],
        format=lambda value, _: words.number(value),
    )
    bar.outline.set_visible(False)
    bar.set_label(label, fontsize=style.TEXT, color=style.INK)
    axes.tick_params(labelsize=style.TEXT, labelcolor=style.INK, color=style.NEUTRAL, length=2)
