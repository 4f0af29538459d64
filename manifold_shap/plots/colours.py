"""Chooses the colours of figures, for light grounds or for dark ones.

Ground is dark where `matplotlib.rcParams["figure.facecolor"]` is, as it is under the style
"dark_background": whoever draws dark figures with matplotlib draws ours dark, too.
"""

from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from matplotlib import colormaps, rcParams
from matplotlib.colors import Colormap, LinearSegmentedColormap, ListedColormap, to_hex, to_rgba

_PLASMA = colormaps["plasma"]
# Zero has the colour of the ground, as in RdBu.
_BLUES, _REDS = ("#9bd0ff", "#2f86c9"), ("#d6504b", "#ffa79f")


@dataclass(frozen=True)
class Colours:
    """The colours of figures on one background.

    Attributes:
        ground: below everything.
        ink: of text and of what is drawn with a pen.
        soft: of small print, and of borders upon coloured ground.
        neutral: of what has no sign, is missing, or is only a mark.
        grid: faint lines.
        raises: of what raises the output.
        lowers: of what lowers it.
        diverging: from the lowest to the highest value, zero in the middle.
        sequential: from low to high.
        series: of things that have only a name.
    """

    ground: str
    ink: str
    soft: str
    neutral: str
    grid: str
    raises: str
    lowers: str
    diverging: Colormap
    sequential: Colormap
    series: tuple[str, ...]


LIGHT = Colours(
    ground="white",
    ink="#222222",
    soft="#595959",
    neutral="#8c8c8c",
    grid="#e3e3e3",
    # Red and blue of ColorBrewer's RdBu, which every kind of colour vision tells apart.
    raises="#c23b3c",
    lowers="#2f79b5",
    diverging=colormaps["RdBu_r"],
    # From dark blue to orange, without its yellow, which is faint on white.
    sequential=ListedColormap(_PLASMA(range(206))),
    # Okabe & Ito (2008), less yellow, which is faint on white, and with the wine of Tol (2021) for
    # their pink, which is the same grey as their green: neighbours differ in lightness.
    series=("#0072b2", "#e69f00", "#009e73", "#882255", "#56b4e9", "#d55e00", "#222222"),
)
NAMES = tuple(field.name.upper() for field in fields(Colours))


@cache
def dark(ground: str = "#15171a") -> Colours:
    """Lighter colours of the same hues, in the same order; black becomes nearly white."""
    ends = [_BLUES[0], _BLUES[1], ground, _REDS[0], _REDS[1]]
    return Colours(
        ground=ground,
        ink="#e8e8e8",
        soft="#b3b7bd",
        neutral="#8c8c8c",
        grid="#3b4047",
        raises="#ef6a63",
        lowers="#5aa3dc",
        diverging=LinearSegmentedColormap.from_list("diverging on dark ground", ends),
        # From purple to yellow, without its dark blue.
        sequential=ListedColormap(_PLASMA(range(77, 256))),
        series=("#2a82c8", "#f2b233", "#00a878", "#aa4499", "#8ccbf2", "#e2641e", "#e8e8e8"),
    )


def current() -> Colours:
    """Those for the ground that matplotlib draws on."""
    colour = to_rgba(rcParams["figure.facecolor"])
    # What shows nothing of itself stands on a ground that is not known.
    return dark(to_hex(colour)) if colour[3] and is_dark(colour) else LIGHT


def is_dark(colour: Any) -> bool:
    """Whether white letters are easier to read upon a colour, red, green and blue, than black ones.

    >>> is_dark((0.4, 0.0, 0.1)), is_dark((1.0, 0.9, 0.9))
    (True, False)
    """
    linear = np.asarray(colour[:3]) ** 2.2
    # Where the contrasts that WCAG 2 defines are equal.
    return bool(linear @ [0.2126, 0.7152, 0.0722] < 0.179)


def letters_upon(colour: Any) -> str:
    """White or nearly black, whichever is easier to read upon a colour."""
    return "white" if is_dark(colour) else LIGHT.ink
