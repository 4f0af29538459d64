"""Sets the look of all figures: type sizes, colours, lines, numbers, and text that fits its place.

They are set on each artist rather than in `matplotlib.rcParams`, which are the caller's.
"""

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps, rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import ListedColormap
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.ticker import MaxNLocator

from manifold_shap.tables.features import as_text

# Inches and points: 8 pt at this width are still 6 pt in a column of 3.4 inches.
WIDTH = 4.5
TEXT = 8.0
SMALL = 6.5
TITLE = 9.0
DPI = 200
MARGIN = 6.0

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


def __getattr__(name: str) -> Any:
    """Ground and ink, which are those of matplotlib's settings when something is drawn."""
    if name == "GROUND":
        return rcParams["figure.facecolor"]
    if name == "INK":
        return rcParams["text.color"]
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


def scale(axis: Axis, label: str, ticks: int = 6) -> None:
    """Label an axis, and write at most so many round numbers along it."""
    axis.set_label_text(plain(label), fontsize=TEXT)
    axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))


def dates(axis: Axis) -> None:
    """Write days since 1970 as dates."""
    locator = AutoDateLocator(minticks=2, maxticks=7)
    axis.set_major_locator(locator)
    axis.set_major_formatter(ConciseDateFormatter(locator))


def write_lines(axes: Axes, labels: Sequence[str]) -> None:
    """Label the lines of a plot, the first of them at the top."""
    axes.set_yticks(range(len(labels)), [plain(label) for label in labels])
    axes.set_ylim(len(labels) - 0.5, -0.5)


def below_axis(labels: Sequence[str], room: int = 50) -> dict[str, Any]:
    """Of labels below an axis: side by side where it has room for so many letters, or slanted."""
    if max(map(len, labels)) * len(labels) <= room:
        return {"ha": "center"}
    return {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}


def shorten(text: str, most: int = 30) -> str:
    """On one line and at most so many characters, by an ellipsis two thirds along.

    Long names tend to differ at their ends, so the end is kept.
    """
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    head = 2 * most // 3
    return f"{text[:head].rstrip()}…{text[len(text) - max(most - head - 1, 0) :].lstrip()}"


def plain(text: str) -> str:
    """The text as matplotlib shows it literally: a dollar sign starts no formula.

    Halves of characters, which no font draws, become question marks.
    """
    return text.encode(errors="replace").decode().replace("$", r"\$")


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
