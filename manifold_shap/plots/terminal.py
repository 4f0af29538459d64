"""Writes a coloured text for a terminal."""

import math
import os
import shutil
import sys
from itertools import zip_longest

from manifold_shap._checks import check_whole
from manifold_shap.plots import style, titles
from manifold_shap.plots.passages import Coloured, Column, Passage
from manifold_shap.plots.text_layout import Word, columns, runs, words_of, wrapped

# Columns: the least of a text that stands beside another, and what parts them.
_NARROWEST = 30
_BETWEEN = 3
# The share of the largest value below which a word stays without colour.
_FAINT = 0.06
# Of the 256 colours that terminals know: letters for weak values, on any ground, and from there on
# grounds that stand out from white and from black, with letters to be read there.
_REDS = ("38;5;167", "38;5;16;48;5;174", "38;5;16;48;5;167", "38;5;231;48;5;160")
_BLUES = ("38;5;68", "38;5;16;48;5;110", "38;5;16;48;5;68", "38;5;231;48;5;26")
# In the middle of each grade of a colour.
_SHARES = (-0.875, -0.625, -0.375, -0.125, 0.0, 0.125, 0.375, 0.625, 0.875)
_RESET, _BOLD = "\033[0m", "\033[1m"


def written(shown: Coloured, width: int | None, color: bool | None) -> str:
    """See `ColouredText.terminal`."""
    width = check_whole("width", shutil.get_terminal_size().columns if width is None else width)
    color = _knows_colours() if color is None else color
    blocks = []
    for passage in shown.passages:
        title, *others = (_plain(each, width) for each in passage.lines)
        head = [f"{_BOLD}{line}{_RESET}" for line in title] if color else title
        lines = [*head, *(line for each in others for line in each)]
        blocks.append("\n".join([*lines, *_side_by_side(passage, shown.limit, width, color)]))
    scale = [_scale(shown)] if color else _plain(f"in brackets: {shown.label}", width)
    said = [line for each in titles.notes(shown.by_name) for line in _plain(each, width)]
    above = [line for each in titles.cautions(shown.by_name) for line in _plain(each, width)]
    between = "\n\n" if len(blocks) > 1 else "\n"
    return "\n".join([*above, between.join([*blocks, "\n".join([*scale, *said])])])


def _knows_colours() -> bool:
    """See https://no-color.org."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and sys.stdout.isatty()


def _plain(text: str, width: int) -> list[str]:
    lines = wrapped(words_of([text], [-1], ""), width, columns)
    return [" ".join(word.text for word in line) for line in lines]


def _side_by_side(passage: Passage, limit: float, width: int, color: bool) -> list[str]:
    """The columns of a passage, or one below another where a line has no room for all."""
    count = len(passage.columns)
    room = (width - _BETWEEN * (count - 1)) // count
    if room < _NARROWEST:
        room = width
    texts = []
    for column in passage.columns:
        lines = [(line, columns(line)) for line in _plain(column.heading, room)]
        texts.append(lines + _lines(passage.words, column, limit, room, color))
    if room == width:
        return [line for each in texts for line, _ in each]
    gap, empty = " " * _BETWEEN, ("", 0)
    return [
        gap.join(line + " " * (room - used) for line, used in parts).rstrip(" ")
        for parts in zip_longest(*texts, fillvalue=empty)
    ]


def _lines(
    words: list[Word], column: Column, limit: float, room: int, color: bool
) -> list[tuple[str, int]]:
    """Lines, with the columns that each of them takes."""
    if not words:
        return [("(no words)", 10)]
    lines = []
    for line in wrapped(words if color else _with_values(words, column, limit), room, columns):
        text, used, before = "", 0, -1
        for place, word in enumerate(line):
            gap = " " if word.before == " " and place else ""
            share = column.value(word) / limit if color else 0.0
            inside = word.player >= 0 and word.player == before
            text += (
                _coloured(gap + word.text, share) if inside else gap + _coloured(word.text, share)
            )
            used, before = used + columns(gap + word.text), word.player
        lines.append((text, used))
    return lines


def _with_values(words: list[Word], column: Column, limit: float) -> list[Word]:
    """The last word of each player followed by its value."""
    # The largest value sets the decimals of all.
    said = [style.signed([value, limit])[0] for value in column.values]
    said = [each if each.strip("+−0.") else "0" for each in said]
    found = []
    for run in runs(words):
        *others, last = run
        value = column.value(last)
        text = f"{last.text}[{said[last.player]}]" if math.isfinite(value) else last.text
        found += [*others, last._replace(text=text)]
    return found


def _scale(shown: Coloured) -> str:
    low, high = shown.ends
    shades = "".join(_coloured("a" if share else " ", share) for share in _SHARES)
    return f"{low} {shades} {high} {shown.label}"


def _coloured(text: str, share: float) -> str:
    """In one of four grades; as it is where a value is next to none, or unknown."""
    if not abs(share) >= _FAINT:
        return text
    grades = _REDS if share > 0 else _BLUES
    grade = min(math.ceil(abs(share) * len(grades)), len(grades)) - 1
    return f"\033[{grades[grade]}m{text}{_RESET}"
