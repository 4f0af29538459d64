"""Draws signed maps of the pixels of images (Frye et al. 2021, Fig. 6a)."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from torch import Tensor

from manifold_shap.explanation import Explanation
from manifold_shap.plots import canvas, selection, style, titles
from manifold_shap.plots.canvas import Panels

# Inches.
_CELL = 0.95
_GAP = 0.06
_TITLE = 0.22
_LINE = 0.13
_MARGIN = 0.1
_BETWEEN = 0.3
_NARROWEST = 2.4


def pixel_maps(
    explanations: Explanation | Mapping[str, Explanation],
    rows: Sequence[int] | None = None,
    output: str | int | None = None,
    ax: Axes | None = None,
) -> Panels:
    """Draws one line per image: the image, then its signed map under each explanation.

    Red pixels raise the output and blue ones lower it; one colour scale serves the whole figure,
    so that colours compare between lines and between explanations. Half a percent of the pixels
    may lie beyond the ends of the scale, which are then pointed. A thin line is the outline of a
    grey image. The value of a player with several pixels is spread evenly over its elements, and
    the channels of a pixel are summed: a map always sums to `prediction - base`.

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
        rows: positions of the images to show; by default all, up to the first 32. More than eight
            lines continue in further columns.
        output: name or position of the output to explain; by default the predicted one of each
            image.
        ax: axes whose place the maps take; by default a new figure.

    Returns:
        The panels, line by line.

    Raises:
        TypeError: `explanations` are something else, or `ax` is no axes.
        ValueError: the inputs are no images, the explanations differ in rows, players or outputs,
            or `rows` or `output` name something that is not there.
    """
    by_name = selection.named(explanations)
    first, *_ = by_name.values()
    _check_images(first)
    if rows is None:
        rows = range(min(len(first.phi), 32))
    elif len(rows) == 0:
        raise ValueError("Expected `rows` to name at least one image but got none.")
    chosen = [selection.row_index(first, int(row), "rows") for row in rows]
    of_row = selection.outputs_of_rows(first, output)[chosen]
    maps = torch.stack([_maps(e, chosen, of_row) for e in by_name.values()], dim=1)
    largest = maps.abs().max().item()
    # A few extreme pixels would leave all others pale; pointed ends of the colour bar show them.
    limit = float(np.quantile(maps.abs().numpy(), 0.995)) or largest or 1.0
    height, width = first.x.shape[-2:]
    images = first.x[chosen].reshape(len(chosen), -1, height, width).numpy()
    room = 72 * max((1 + len(by_name)) * _CELL, _NARROWEST - 2 * _MARGIN)
    shown = style.count(len(first.phi), "row")
    if set(chosen) != set(range(len(first.phi))):
        shown = f"{len(set(chosen))} of {shown}"
    lines = [shown, *titles.cautions(by_name), *titles.notes(by_name)]
    small = [part for line in lines for part in style.wrapped(line, room)]
    cells, foot = _grid(
        ax, len(chosen), ["image", *by_name], _CELL * min(1, height / width),
        foot=0.6 + _LINE * len(small),
    )  # fmt: skip
    for line, (image, signed) in enumerate(zip(images, maps.numpy(), strict=True)):
        row, k = chosen[line], int(of_row[line])
        said = selection.amount(first, first.prediction[row, k].item())
        title = style.shorten(f"predicted {selection.quantity(first, k)}: {said}", room)
        cells[line][0].set_title(style.plain(title), loc="left", **style.WORDS, pad=3)
        _draw_image(cells[line][0], image)
        outline = _outline(image)
        for axes, values in zip(cells[line][1:], signed, strict=True):
            axes.imshow(values, cmap=style.DIVERGING, vmin=-limit, vmax=limit)
            axes.add_collection(LineCollection(outline, colors="0.3", linewidths=0.5, alpha=0.7))
    split = len(first.players) < height * width
    label = selection.shapley_axis(first, per=" per pixel" if split else "")
    _draw_colour_bar(foot, limit, largest > limit, "\n".join(map(style.plain, [label, *small])))
    return canvas.finished(Panels(itertools.chain(*cells)))


def _check_images(explanation: Explanation) -> None:
    event = explanation.players.event
    if len(event) not in (2, 3) or min(event[-2:]) < 2:
        raise ValueError(
            "Expected explanations of images, rows of shape (1, height, width) or (channels, "
            f"height, width), but got rows of shape {event}; tables are drawn by `waterfall` "
            "and `beeswarm`, and flat images become images by `x.reshape(-1, 1, height, width)`."
        )


def _maps(
    explanation: Explanation, rows: list[int], outputs: Tensor
) -> Float[Tensor, "rows height width"]:
    owners = selection.owners(explanation)[rows]
    owned = (owners >= 0).flatten(1)
    player = owners.flatten(1).clamp(min=0)
    phi = explanation.phi[rows, :, outputs]
    elements = torch.zeros_like(phi).scatter_add_(1, player, owned.to(phi))
    values = (phi / elements).gather(1, player).where(owned, 0.0)
    return values.reshape(len(rows), -1, *owners.shape[-2:]).sum(1)


def _grid(
    ax: Axes | None, lines: int, names: Sequence[str], cell_height: float, foot: float
) -> tuple[list[list[Axes]], Axes]:
    """A line of cells for each image, names above them, and a strip at the foot.

    Images have a fixed shape, so every place is known beforehand, in inches.
    """
    blocks = -(-lines // 8)
    per_block = -(-lines // blocks)
    line_height = _TITLE + cell_height + _GAP
    block_width = max(len(names) * (_CELL + _GAP) - _GAP, _NARROWEST - 2 * _MARGIN) + _BETWEEN
    top = _MARGIN + 0.16 + _LINE * max(name.count("\n") for name in names)
    whole_width = 2 * _MARGIN + blocks * block_width - _BETWEEN
    whole_height = top + per_block * line_height + foot
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
        left = _MARGIN + block * block_width
        y = top + within * line_height + _TITLE
        cells.append(
            [place(left + k * (_CELL + _GAP), y, _CELL, cell_height) for k in range(len(names))]
        )
        for axes, name in zip(cells[-1], names, strict=True):
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(color=style.NEUTRAL, linewidth=0.5)
            if within == 0:
                said = [style.plain(style.shorten(part, 72 * _CELL)) for part in name.split("\n")]
                axes.annotate(
                    "\n".join(said), (0.5, 1), (0, 72 * _TITLE), xycoords="axes fraction",
                    textcoords="offset points", ha="center", va="bottom", weight="bold",
                    **style.WORDS,
                )  # fmt: skip
    width = min(whole_width - 0.7, 3.0)
    return cells, place((whole_width - width) / 2, whole_height - foot + 0.1, width, 0.08)


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
    ink = image[0] > (image[0].min() + image[0].max()) / 2
    upright, level = np.argwhere(ink[:, 1:] != ink[:, :-1]), np.argwhere(ink[1:] != ink[:-1])
    # Ends as (x, y): an edge is half a pixel away from the middles of the two that it parts.
    return [
        *(upright[:, None, ::-1] + [[0.5, -0.5], [0.5, 0.5]]),
        *(level[:, None, ::-1] + [[-0.5, 0.5], [0.5, 0.5]]),
    ]


def _draw_colour_bar(axes: Axes, limit: float, beyond: bool, label: str) -> None:
    # The largest of 1, 2, ... times a power of ten within the limit: three labels never collide.
    power = 10.0 ** np.floor(np.log10(limit))
    end = np.floor(limit / power) * power
    figure: Any = axes.figure
    bar = figure.colorbar(
        ScalarMappable(Normalize(-limit, limit), style.DIVERGING),
        cax=axes,
        orientation="horizontal",
        extend="both" if beyond else "neither",
        ticks=[-end, 0, end],
        format=lambda value, _: style.number(value),
    )
    bar.outline.set_visible(False)
    bar.set_label(label, **style.WORDS)
    axes.tick_params(labelsize=style.TEXT, labelcolor=style.INK, color=style.NEUTRAL, length=2)
