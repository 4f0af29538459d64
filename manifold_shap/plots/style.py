"""The look of every figure: colours, type sizes, and text that fits its place.

Sizes are set on each artist rather than in `matplotlib.rcParams`, which are the caller's.
"""

import math
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

# Inches and points: 8 pt at this width is still 6 pt in a column of 3.4 inches.
WIDTH = 4.5
TEXT = 8.0
TITLE = 9.0
DPI = 200
MARGIN = 6.0
# Of a line or bar in a legend, with the space around it.
HANDLE = 42.0
# Degrees, of labels too wide to stand side by side.
_SLANT = 40

INK = "#222222"
NEUTRAL = "#8c8c8c"
GRID = "#e3e3e3"
# Red and blue of ColorBrewer's RdBu, which every kind of colour vision tells apart.
DIVERGING = colormaps["RdBu_r"]
RAISES, LOWERS = "#c23b3c", "#2f79b5"
# Plasma from dark blue to orange, without its yellow, which is faint on white.
SEQUENTIAL: Colormap = ListedColormap(colormaps["plasma"](range(206)))
# Okabe & Ito (2008), less yellow, which is faint on white.
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#222222")


class _Figure(Figure):
    """A figure that a notebook shows although pyplot does not know it."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        picture = BytesIO()
        self.savefig(picture, format="png")
        width, height = self.get_size_inches()
        return picture.getvalue(), {"width": round(96 * width), "height": round(96 * height)}


def new_figure(width: float, height: float) -> Figure:
    """An empty white figure of this size in inches, outside of pyplot."""
    return _Figure(figsize=(width, height), dpi=DPI, facecolor="white")


def laid_out(height: float, width: float = WIDTH) -> Figure:
    """An empty figure whose layout keeps all text inside."""
    figure = new_figure(width, height)
    figure.set_layout_engine("constrained", w_pad=MARGIN / 72, h_pad=MARGIN / 144)
    return figure


def one_panel(height: float, grid: str, width: float = WIDTH) -> tuple[Figure, Axes]:
    """A figure whose layout keeps all text inside, by default of the usual width, and its axes.

    No box, small ticks, and faint lines across one axis ("x" or "y").
    """
    figure = laid_out(height, width)
    axes = figure.subplots()
    strip(axes, grid)
    return figure, axes


def strip(axes: Axes, grid: str) -> None:
    """No box, small ticks, and faint lines across one axis ("x" or "y")."""
    axes.set_facecolor("white")
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(NEUTRAL)
    axes.tick_params(labelsize=TEXT, labelcolor=INK, color=NEUTRAL, length=3)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)
    axes.grid(visible=True, axis="x" if grid == "x" else "y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def headline(figure: Figure, *lines: str) -> None:
    """A title flush left over the whole figure, each line cut to its width."""
    width = 72 * figure.get_figwidth()
    fitted = [plain(shorten(line, width - 2 * MARGIN, TITLE)) for line in lines]
    # Constrained layout leaves room for it.
    figure.suptitle("\n".join(fitted), x=MARGIN / width, ha="left", fontsize=TITLE, color=INK)


def text_width(text: str, size: float = TEXT) -> float:
    """Width in points of text in matplotlib's own font."""
    width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=size), False)
    return width


def shorten(text: str, width: float, size: float = TEXT) -> str:
    """On one line and at most `width` points wide, by an ellipsis two thirds along.

    Long names tend to differ at their ends, so the end is kept.
    """
    text = " ".join(text.split())
    if text_width(text, size) <= width:
        return text
    for kept in range(len(text) - 1, 0, -1):
        head = -(-2 * kept // 3)
        short = f"{text[:head].rstrip()}…{text[len(text) - (kept - head) :].lstrip()}"
        if text_width(short, size) <= width:
            return short
    return "…"


def plain(text: str) -> str:
    """The text as it is: dollar signs are no formulas to be typeset."""
    return text.replace("$", r"\$")


def below_axis(labels: Sequence[str], room: float) -> tuple[dict[str, Any], float]:
    """How labels below an axis are written so that they do not collide, and how far down they go.

    Side by side where they go into `room`, slanted where their lines do, or else upright; lengths
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


def legend_above(
    axes: Axes,
    handles: Sequence[Any],
    labels: Sequence[str],
    room: float,
    handle: float = HANDLE,
    **settings: Any,
) -> None:
    """A legend over the axes, where it covers no data.

    It has as many columns as go into `room`, in points; each has a `handle` so wide.
    """
    labels = [shorten(label, room - handle) for label in labels]
    columns = max(1, int(room // (max(map(text_width, labels)) + handle)))
    axes.legend(
        handles,
        # Before matplotlib 3.10, labels that start with "_" are dropped.
        [plain(f" {label}" if label.startswith("_") else label) for label in labels],
        ncols=min(columns, len(labels)),
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0,
        borderpad=0.3,
        alignment="left",
        frameon=False,
        fontsize=TEXT,
        title_fontsize=TEXT,
        labelcolor=INK,
        **settings,
    )
