"""Draws a coloured text with matplotlib."""

from functools import cache
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle

from manifold_shap.plots import canvas, style
from manifold_shap.plots.colours import letters_upon
from manifold_shap.plots.passages import Coloured, Column
from manifold_shap.plots.text_layout import Word, words_of, wrapped
from manifold_shap.plots.titles import headline

# Points: of a line, from its top to the feet of its letters, between columns, below the text.
_LINE, _LETTERS = 14.0, 10.0
_BETWEEN = 18.0
_BAR = 42.0
# Inches.
_WIDE = 6.5
_HIGHEST = 200.0
# Of a figure of the usual width.
_MOST_WORDS = 120


class _Part(NamedTuple):
    """A part of a line.

    Attributes:
        left: points from the left edge.
        words: in order.
        column: that has their values; None for words that say something of the text.
        colour: of letters upon white.
    """

    left: float
    words: list[Word]
    column: Column | None
    colour: str


def draw(shown: Coloured, ax: Axes | None) -> Axes:
    """See `ColouredText.draw`."""
    words = sum(len(passage.words) for passage in shown.passages)
    wide = words > _MOST_WORDS or len(shown.by_name) > 1
    inches = _WIDE if wide else style.WIDTH
    height = 0.0
    if ax is None:
        height = len(_lines(shown, 72 * inches - 4 * style.MARGIN)) * _LINE + _BAR
        if height > 72 * _HIGHEST:
            raise ValueError(
                f"Expected a text that fits in a figure of {_HIGHEST:.0f} inches but it takes "
                f"{height / 72:.0f}; choose fewer `rows`, or `save` it as a page."
            )
    ax = canvas.one_panel(ax, height / 72 + 0.5, "y", inches)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    first, *others = shown.passages
    many = style.count(len(shown.passages), "row")
    headline(ax, shown.by_name, *([many] if others else first.lines))
    width, room = _size(ax)
    if room < height and canvas.is_own(ax):
        figure: Any = ax.figure
        canvas.set_height(figure, figure.get_figheight() + (height - room) / 72)
        width, room = _size(ax)
    ax.set_xlim(0, width)
    ax.set_ylim(room, 0)
    lines = _lines(shown, width)
    most = max(0, int((room - _BAR) / _LINE + 0.01))
    if len(lines) > most:
        rest = f"… and {style.count(len(lines) - most + 1, 'more line')}"
        lines = [*lines[: max(0, most - 1)], [_Part(0, _plain(rest), None, style.SOFT)]]
    _write(ax, lines, shown.limit)
    _draw_scale(ax, shown, len(lines) * _LINE)
    return canvas.finished(ax)


def _size(ax: Axes) -> tuple[float, float]:
    """In points, once all around them has its place."""
    canvas.settle(ax)
    figure: Any = ax.get_figure()
    return 72 * ax.bbox.width / figure.dpi, 72 * ax.bbox.height / figure.dpi


def _plain(text: str) -> list[Word]:
    return words_of([text], [-1], "")


def _lines(shown: Coloured, width: float) -> list[list[_Part]]:
    measure = cache(style.text_width)
    count = len(shown.by_name)
    room = (width - _BETWEEN * (count - 1)) / count
    lefts = [k * (room + _BETWEEN) for k in range(count)]
    lines: list[list[_Part]] = []
    several = len(shown.passages) > 1
    for number, passage in enumerate(shown.passages):
        lines += [[]] if number else []
        for said, colour in zip(
            passage.lines if several else [], (style.INK, style.SOFT), strict=False
        ):
            broken = wrapped(_plain(said), width, measure)
            lines += [[_Part(0, line, None, colour)] for line in broken]
        body = wrapped(passage.words or _plain("(no words)"), room, measure)
        columns = []
        for left, column in zip(lefts, passage.columns, strict=True):
            heading = wrapped(_plain(column.heading), room, measure)
            parts = [_Part(left, line, None, style.SOFT) for line in heading]
            columns.append([*parts, *(_Part(left, line, column, style.INK) for line in body)])
        lines += [[part for part in line if part] for line in zip_longest(*columns)]
    return lines


def _write(ax: Axes, lines: list[list[_Part]], limit: float) -> None:
    measure = cache(style.text_width)
    grounds, shades = [], []
    for number, line in enumerate(lines):
        for part in line:
            x, before = part.left, -1
            for place, word in enumerate(part.words):
                gap = measure(" ") if word.before == " " and place else 0.0
                width = measure(word.text)
                value = part.column.value(word) if part.column else np.nan
                ink = part.colour
                if np.isfinite(value):
                    inside = gap if word.player == before else 0.0
                    corner = (x + gap - inside, number * _LINE + 1)
                    grounds.append(Rectangle(corner, inside + width, _LINE - 1.5))
                    shades.append(style.DIVERGING((1 + value / limit) / 2))
                    ink = letters_upon(shades[-1])
                x, before = x + gap, word.player
                look = {**style.FONT, "color": ink}
                ax.text(x, number * _LINE + _LETTERS, style.plain(word.text), **look)
                x += width
    # Between neighbours of one colour there is to be no seam.
    ax.add_collection(
        PatchCollection(grounds, facecolors=shades, linewidths=0, antialiaseds=False, zorder=1)
    )


def _draw_scale(ax: Axes, shown: Coloured, top: float) -> None:
    """Below the text, which ends so many points from the top."""
    width, height = ax.get_xlim()[1], ax.get_ylim()[0]
    size = min(width, 180.0)
    place = ((width - size) / 2 / width, 1 - (top + 16.0) / height, size / width, 6.0 / height)
    canvas.colour_bar(ax.figure, shown.limit, False, shown.label, cax=ax.inset_axes(place))
