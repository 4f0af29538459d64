"""Sets the look of all figures: type sizes, colours, lines, numbers, and text that fits its place.

They are set on each artist rather than in `matplotlib.rcParams`, which are the caller's.
"""

import math
import numbers
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps, rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import ListedColormap
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from manifold_shap.tables.features import as_text

# Inches and points: 8 pt at this width are still 6 pt in a column of 3.4 inches.
WIDTH = 4.5
TEXT = 8.0
SMALL = 6.5
TITLE = 9.0
DPI = 200
MARGIN = 6.0
# Degrees, of labels too wide to stand side by side.
_SLANT = 40

# Of what has no sign, is missing, or is only a mark; of small print; of faint lines. They stand out
# from light and dark grounds alike.
NEUTRAL, SOFT, GRID = "#8c8c8c", "#757575", "#8c8c8c40"
# Red and blue of ColorBrewer's RdBu, which every kind of colour vision tells apart.
RAISES, LOWERS = "#c23b3c", "#2f79b5"
DIVERGING = colormaps["RdBu_r"]
# From dark blue to orange, without the yellow of plasma, which is faint on white.
SEQUENTIAL = ListedColormap(colormaps["plasma"](range(206)))
# Okabe & Ito (2008), less yellow, which is faint on white, and with the wine of Tol (2021) for
# their pink, which is the same grey as their green: neighbours differ in lightness.
SERIES = ("#0072b2", "#e69f00", "#009e73", "#882255", "#56b4e9", "#d55e00", "#222222")

# The ground, and what is drawn with a pen, see `__getattr__`.
GROUND: str
INK: str
FONT: dict[str, Any]


def __getattr__(name: str) -> Any:
    """Ground and ink, which are those of matplotlib's settings when something is drawn."""
    if name == "GROUND":
        return rcParams["figure.facecolor"]
    if name == "INK":
        return rcParams["text.color"]
    if name == "FONT":
        return {"fontsize": TEXT, "color": rcParams["text.color"]}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def strip(axes: Axes, grid: str) -> None:
    """Remove the box, and draw small ticks and faint lines across one axis ("x" or "y")."""
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(NEUTRAL)
    axes.tick_params(labelsize=TEXT, color=NEUTRAL, length=3)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)
    axes.grid(visible=True, axis="x" if grid == "x" else "y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def scale(axis: Axis, label: str, ticks: int | None = None) -> None:
    """Label an axis, and write at most so many round numbers along it."""
    axis.set_label_text(plain(label), fontsize=TEXT)
    if ticks is not None:
        axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))


def ticks(room: float, *ends: float) -> int:
    """How many numbers between such ends stand apart within so many points."""
    widest = max(text_width(number(end)) for end in ends)
    return int(np.clip(room / (1.25 * widest + 10.0) - 1, 2, 6))


def write_lines(axes: Axes, labels: Sequence[str]) -> None:
    """Label the lines of a plot, the first of them at the top."""
    axes.set_yticks(range(len(labels)), [plain(label) for label in labels])
    axes.set_ylim(len(labels) - 0.5, -0.5)


def wrapped(text: str, width: float, size: float = TEXT) -> list[str]:
    """Lines of whole words, at most `width` points wide where words are."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        lines = [*lines[:-1], longer] if text_width(longer, size) <= width else [*lines, word]
    return [shorten(line, width, size) for line in lines if line]


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
    font = FontProperties(size=size)
    return text_to_path.get_text_width_height_descent(_readable(text), font, False)[0]


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
    return _readable(text).replace("$", r"\$")


def _readable(text: str) -> str:
    """The text without what no font draws: control characters and halves of characters."""
    if text.isprintable():
        return text
    return "".join(each if each == "\n" or each.isprintable() else "\ufffd" for each in text)


def number(value: float) -> str:
    """About three significant digits, and no exponent where none is needed."""
    if not np.isfinite(value):
        return str(value)
    digits = f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"
    return digits.replace("-", "−")


def signed(values: Sequence[float]) -> list[str]:
    """Numbers with their signs and the same decimals, three significant digits of the largest.

    What is zero to these decimals has no sign. Where decimals would be many, each has an exponent.

    >>> signed([0.0795, -0.00495, -0.00002])
    ['+0.0795', '−0.0050', '0.0000']
    >>> signed([2.18e-10, -9e12])
    ['+2.18e−10', '−9.00e+12']
    """
    largest = max((abs(value) for value in values), default=0.0)
    decimals = 2 - math.floor(math.log10(largest)) if largest > 0 else 0
    if -5 < decimals <= 6:
        texts = [f"{value:+.{max(decimals, 0)}f}" for value in values]
    else:
        texts = [f"{value:+.2e}" for value in values]
    return [(text if float(text) else text[1:]).replace("-", "−") for text in texts]


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
