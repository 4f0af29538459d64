"""Sets the look of all figures: colours, type sizes, numbers, and text that fits its place.

Sizes are set on each artist rather than in `matplotlib.rcParams`, which are the caller's.
"""

import math
import numbers
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import blended_transform_factory

from manifold_shap.tables.features import as_text

# Inches and points: 8 pt at this width are still 6 pt in a column of 3.4 inches.
WIDTH = 4.5
TEXT = 8.0
TITLE = 9.0
DPI = 200
MARGIN = 6.0
# Degrees, of labels too wide to stand side by side.
_SLANT = 40

INK = "#222222"
WORDS: dict[str, Any] = {"fontsize": TEXT, "color": INK}
NEUTRAL = "#8c8c8c"
GRID = "#e3e3e3"
# Red and blue of ColorBrewer's RdBu, which every kind of colour vision tells apart.
DIVERGING = colormaps["RdBu_r"]
RAISES, LOWERS = "#c23b3c", "#2f79b5"
# Plasma from dark blue to orange, without its yellow, which is faint on white.
SEQUENTIAL: Colormap = ListedColormap(colormaps["plasma"](range(206)))
# Okabe & Ito (2008), less yellow, which is faint on white.
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#222222")
# How the names of fonts begin that have characters which matplotlib's own lacks.
_WIDE_FONTS = (
    "Noto Sans CJK", "Source Han Sans", "Hiragino Sans", "PingFang", "Yu Gothic", "Microsoft YaHei",
    "Malgun Gothic", "WenQuanYi", "Arial Unicode",
)  # fmt: skip


class _Figure(Figure):
    """A figure that a notebook shows although pyplot does not know it."""

    def draw(self, renderer: Any) -> None:
        for text in self.findobj(Text):
            text.set_fontfamily(_with_wide(text.get_fontfamily()))
        super().draw(renderer)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        picture = BytesIO()
        self.savefig(picture, format="png")
        width, height = self.get_size_inches()
        return picture.getvalue(), {"width": round(96 * width), "height": round(96 * height)}


def laid_out(height: float, width: float = WIDTH) -> Figure:
    """An empty figure of this size in inches, outside of pyplot, whose layout keeps text inside."""
    figure = _Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    figure.set_layout_engine("constrained", w_pad=MARGIN / 72, h_pad=MARGIN / 144)
    return figure


def one_panel(height: float, grid: str, width: float = WIDTH) -> tuple[Figure, Axes]:
    """A laid-out figure and its only axes, with grid lines across one of them ("x" or "y")."""
    figure = laid_out(height, width)
    axes = figure.subplots()
    strip(axes, grid)
    return figure, axes


def panels(figure: Figure, count: int, columns: int) -> list[Axes]:
    """So many axes that share their scales, in lines of `columns`."""
    grid = figure.subplots(-(-count // columns), columns, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[count:]:
        axes.remove()
    return grid.flat[:count].tolist()


def strip(axes: Axes, grid: str) -> None:
    """Remove the box, and draw small ticks and faint lines across one axis ("x" or "y")."""
    axes.set_facecolor("white")
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(NEUTRAL)
    axes.tick_params(labelsize=TEXT, labelcolor=INK, color=NEUTRAL, length=3)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)
    axes.grid(visible=True, axis="x" if grid == "x" else "y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def scale(axis: Axis, label: str, ticks: int | None = None) -> None:
    """Label an axis, and write at most so many round numbers along it."""
    axis.set_label_text(plain(label), **WORDS)
    if ticks is not None:
        axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))


def write_lines(axes: Axes, labels: Sequence[str]) -> None:
    """Label the lines of a plot, the first of them at the top."""
    axes.set_yticks(range(len(labels)), [plain(label) for label in labels])
    axes.set_ylim(len(labels) - 0.5, -0.5)


def headline(figure: Figure, *lines: str) -> None:
    """A title flush left over the whole figure, each line cut to its width."""
    width = 72 * figure.get_figwidth()
    fitted = [plain(shorten(line, width - 2 * MARGIN, TITLE)) for line in lines]
    # Constrained layout leaves room for it.
    figure.suptitle("\n".join(fitted), x=MARGIN / width, ha="left", fontsize=TITLE, color=INK)


def legend_above(
    axes: Axes, handles: Sequence[Any], labels: Sequence[str], handle: float = 42.0, **settings: Any
) -> None:
    """A legend over the axes, where it covers no data, from the left edge of the figure.

    It has as many columns as the figure is wide; each has a `handle` of so many points.
    """
    figure: Any = axes.figure
    width = 72 * figure.get_figwidth()
    room = width - 2 * MARGIN
    labels = [shorten(label, room - handle) for label in labels]
    columns = max(1, int(room // (max(map(text_width, labels)) + handle)))
    axes.legend(
        handles,
        # Before matplotlib 3.10, labels that start with "_" are dropped.
        [plain(f" {label}" if label.startswith("_") else label) for label in labels],
        ncols=min(columns, len(labels)),
        loc="lower left",
        bbox_to_anchor=(MARGIN / width, 1),
        bbox_transform=blended_transform_factory(figure.transFigure, axes.transAxes),
        borderaxespad=0,
        borderpad=0.3,
        alignment="left",
        frameon=False,
        fontsize=TEXT,
        title_fontsize=TEXT,
        labelcolor=INK,
        **settings,
    )


def below_axis(labels: Sequence[str], room: float) -> tuple[dict[str, Any], float]:
    """How labels below an axis are written without collisions, and how far down they reach.

    Side by side where they fit into `room`, slanted where their lines do, or else upright; lengths
    are in points, and labels stand evenly over the whole room.
    """
    widest = max(map(text_width, labels))
    if widest + MARGIN <= room / len(labels):
        return {"ha": "center"}, TEXT
    slant = math.radians(_SLANT)
    # The first of them reaches out to the left, and what is drawn has to make room.
    if (room - widest * math.cos(slant)) / len(labels) * math.sin(slant) >= 1.1 * TEXT:
        settings = {"rotation": _SLANT, "ha": "right", "rotation_mode": "anchor"}
        return settings, widest * math.sin(slant) + TEXT
    return {"rotation": 90, "ha": "center"}, widest


def text_width(text: str, size: float = TEXT) -> float:
    """Width of text in points."""
    font = FontProperties(family=_with_wide(FontProperties().get_family()), size=size)
    return text_to_path.get_text_width_height_descent(text, font, False)[0]


def shorten(text: str, width: float, size: float = TEXT) -> str:
    """On one line and at most `width` points wide, by an ellipsis two thirds along.

    Long names tend to differ at their ends, so the end is kept.
    """
    text = " ".join(text.split())
    if text_width(text, size) <= width:
        return text

    def short(kept: int) -> str:
        head = -(-2 * kept // 3)
        return f"{text[:head].rstrip()}…{text[len(text) - (kept - head) :].lstrip()}"

    fitting = bisect_right(range(len(text)), width, key=lambda kept: text_width(short(kept), size))
    return short(max(fitting - 1, 0))


def plain(text: str) -> str:
    """The text as matplotlib shows it literally: a dollar sign starts no formula."""
    return text.replace("$", r"\$")


def _with_wide(families: list[str]) -> list[str]:
    """The families and, for characters that they lack, installed ones that have many."""
    return list(dict.fromkeys([*families, "DejaVu Sans", *_wide_families()]))


@cache
def _wide_families() -> list[str]:
    names = sorted({font.name for font in fontManager.ttflist if font.style == "normal"})
    first = (next((name for name in names if name.startswith(each)), "") for each in _WIDE_FONTS)
    return list(filter(None, first))


def number(value: float) -> str:
    """About three significant digits, and no exponent where none is needed."""
    if not np.isfinite(value):
        return str(value)
    digits = f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"
    return digits.replace("-", "−")


def with_error(value: float, error: float) -> str:
    """`0.0171 ± 0.0011`: both to two digits of the error, if that is known and not zero."""
    if not (np.isfinite(error) and error > 0):
        return number(value)
    decimals = max(0, 1 - int(np.floor(np.log10(error))))
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def feature_value(value: Any) -> str:
    """A cell as a person would write it, with a minus sign."""
    said = as_text(value)
    return said.replace("-", "−", 1) if isinstance(value, numbers.Real) else said


def count(many: int, what: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{many} {what}" if many == 1 else f"{many} {what}s"
