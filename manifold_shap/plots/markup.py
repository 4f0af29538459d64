"""Writes a coloured text as HTML that needs no other file and suits light and dark pages."""

from html import escape
from math import isfinite

from manifold_shap.plots import style, titles
from manifold_shap.plots.passages import Coloured, Column, Passage
from manifold_shap.plots.text_layout import Word, runs

# Of the strongest colours: on light and dark grounds alike, words stay readable upon them.
_OPACITY = 0.75
_SMALL = "font-size:0.85em;opacity:0.8"


def part(shown: Coloured) -> str:
    """A part of a page."""
    lines = [
        '<div style="font-family:system-ui,sans-serif;line-height:1.7;overflow-wrap:anywhere">',
        *(_line(each, "font-weight:bold") for each in titles.cautions(shown.by_name)),
        *(_passage(each, shown.limit) for each in shown.passages),
        _scale(shown),
        *(_line(each, _SMALL) for each in titles.notes(shown.by_name)),
        "</div>",
    ]
    return "\n".join(lines)


def page(content: str) -> str:
    """A whole page."""
    return "\n".join(
        (
            "<!doctype html>",
            '<html><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            '<meta name="color-scheme" content="light dark">',
            "<title>Shapley values of a text</title></head>",
            f'<body style="max-width:60em;margin:2em auto;padding:0 1em">\n{content}',
            "</body></html>\n",
        )
    )


def _line(text: str, look: str) -> str:
    return f'<div style="{look}">{escape(text)}</div>'


def _passage(passage: Passage, limit: float) -> str:
    title, where = passage.lines
    sides = f"repeat({len(passage.columns)},minmax(0,1fr))"
    return "\n".join(
        (
            '<div style="margin:0 0 1em">',
            _line(title, "font-weight:bold"),
            _line(where, _SMALL),
            f'<div style="display:grid;grid-template-columns:{sides};gap:0 2em">',
            *(_column(passage.words, column, limit) for column in passage.columns),
            "</div></div>",
        )
    )


def _column(words: list[Word], column: Column, limit: float) -> str:
    found = []
    for first, *others in runs(words):
        inside = escape(first.text) + "".join(_gap(each) + escape(each.text) for each in others)
        value = column.value(first)
        # Neighbours of one player are coloured together with the spaces between them.
        found.append(_gap(first) + (_span(inside, value, limit) if isfinite(value) else inside))
    text = "".join(found) or "<i>no words</i>"
    return f'<div>{_line(column.heading, _SMALL)}<div dir="auto">{text}</div></div>'


def _gap(word: Word) -> str:
    return word.before.replace("\n", "<br>")


def _span(inside: str, value: float, limit: float) -> str:
    said = escape(style.signed([value])[0])
    look = f"border-radius:3px;background:{_colour(value / limit)}"
    return f'<span style="{look}" title="{said}">{inside}</span>'


def _colour(share: float) -> str:
    """From the strongest blue at -1 through nothing to the strongest red at 1."""
    code = style.RAISES if share > 0 else style.LOWERS
    red, green, blue = (int(code[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red},{green},{blue},{_OPACITY * min(abs(share), 1):.3f})"


def _scale(shown: Coloured) -> str:
    low, high = shown.ends
    shades = ",".join(map(_colour, (-1.0, 0.0, 1.0)))
    bar = f"display:inline-block;width:8em;height:0.8em;background:linear-gradient(90deg,{shades})"
    return (
        f'<div style="font-size:0.85em">{low} <span style="{bar}"></span> {high} '
        f"{escape(shown.label)}</div>"
    )
