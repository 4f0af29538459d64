"""Finds installed fonts for the characters of a text, so that any script can be read."""

from functools import cache

from matplotlib import rcParams
from matplotlib.font_manager import FontProperties, findfont, fontManager
from matplotlib.ft2font import FT2Font

# It has boxes for all characters, and letters for none.
_BOXES = "Last Resort"
# Beside text without serifs, a font without serifs; of others, the first in the alphabet.
_PREFERRED = ("Noto Sans", "Sans")
# In the place of a character that no font has; a font that comes with matplotlib has it.
MISSING = "\N{REPLACEMENT CHARACTER}"
_OWN = "DejaVu Sans"


def families(text: str) -> list[str]:
    """The user's families of fonts and, for characters that these lack, others that have them.

    >>> families("plain")[-1]
    'DejaVu Sans'
    """
    usual = [*rcParams["font.family"], _OWN]
    lacking = {ord(each) for each in text if not each.isascii()} - _usual(tuple(usual))
    more = {_others()[code] for code in lacking if code in _others()} if lacking else set()
    return list(dict.fromkeys([*usual, *sorted(more)]))


def readable(text: str) -> str:
    """The text, with a replacement for each character that no installed font has.

    Matplotlib would warn of such characters whenever it draws them.

    >>> readable("a" + chr(0xF1234))
    'a\N{REPLACEMENT CHARACTER}'
    """
    if text.isascii() and text.isprintable():
        return text
    usual = _usual((*rcParams["font.family"], _OWN))
    return "".join(
        each if each == "\n" or ord(each) in usual or ord(each) in _others() else MISSING
        for each in text
    )


@cache
def _usual(names: tuple[str, ...]) -> frozenset[int]:
    """Characters of fonts by the names of their families, "sans-serif" among them."""
    paths = {findfont(FontProperties(family=[name])) for name in names}
    return frozenset(code for path in paths for code in FT2Font(path).get_charmap())


@cache
def _others() -> dict[int, str]:
    """The family that has a character, for all characters of upright installed fonts."""
    fonts = sorted(
        {font.name: font for font in fontManager.ttflist if font.style == "normal"}.values(),
        key=lambda font: ([each not in font.name for each in _PREFERRED], font.name),
    )
    found: dict[int, str] = {}
    for font in fonts:
        if _BOXES not in font.name:
            for code in _characters(font.fname):
                found.setdefault(code, font.name)
    return found


def _characters(path: str) -> list[int]:
    try:
        return list(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        # A font that was removed since, or that is damaged.
        return []
