"""Colours the words of a text by their Shapley values: in a notebook or a page."""

from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite

import numpy as np
from jaxtyping import Float

from manifold_shap.explanation import Explanation
from manifold_shap.plots import selection, style, titles
from manifold_shap.plots.text_layout import Word, check_tokens, owners_of_tokens, runs, words_of

# Rows that are shown where none are named.
_ROWS = 8
# Of the strongest colours: on light and dark grounds alike, words stay readable upon them.
_OPACITY = 0.75
_SMALL = "font-size:0.85em;opacity:0.8"
_PAGE = """<!doctype html>
<html><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Shapley values of a text</title></head>
<body style="max-width:60em;margin:2em auto;padding:0 1em">
{}</body></html>
"""


def text(
    explanations: Explanation | Mapping[str, Explanation],
    tokens: Sequence[Sequence[str]],
    rows: Sequence[int] | None = None,
    output: str | int | None = None,
    separator: str | None = None,
) -> "ColouredText":
    """Colours the words of a text by their Shapley values, red where they raise the output.

    Blue ones lower it; one scale, up to the largest value, serves all rows and explanations. All
    words of a player have its colour, such as those of a sentence. Words of no player, and of
    players that a row lacks, have none.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0, 3.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> coloured = ms.plots.text(explanation, [["it", "is", "good"]])
        >>> coloured
        ColouredText(1 row; shown by a notebook; its `page` is HTML)
        >>> 'title="+1.00">it<' in coloured.html
        True

    Args:
        explanations: of the same rows, by names if there are several, which then stand side by
            side.
        tokens: for every row of the explanations a list of its tokens or words: one for each
            position of the row, where padding at its end may be left out, or one for each player.
        rows: positions of the rows to show; by default all, up to the first 8.
        output: name or position of the output to explain; by default as of `waterfall`.
        separator: what stands between tokens, "" for nothing. By default as tokenizers mark it: "▁"
            or "Ġ" is a space and "##" at the start of a token is none; where no token has a space
            or the mark of one, there is a space between them.

    Raises:
        TypeError: `explanations` are something else, or tokens no text.
        ValueError: not as many tokens as positions or players; nothing to plot; the explanations
            differ in rows, players or outputs, or `rows` or `output` name something that is not
            there.
    """
    by_name = selection.named(explanations)
    first, *_ = by_name.values()
    check_tokens(tokens, len(first.phi))
    rows = range(min(len(first.phi), _ROWS)) if rows is None else rows
    chosen = [selection.row_index(first, int(row), "rows") for row in rows]
    of_row = selection.outputs_of_rows(first, output).tolist()
    values = [e.phi[row, :, of_row[row]] for row in chosen for e in by_name.values()]
    limit = max(float(each.nan_to_num(0).abs().max()) for each in values) or 1.0
    parts = [
        '<div style="font-family:system-ui,sans-serif;line-height:1.7;overflow-wrap:anywhere">',
        *(_line(each, "font-weight:bold") for each in titles.cautions(by_name)),
    ]
    for row in chosen:
        players = owners_of_tokens(tokens[row], selection.owners(first)[row], row)
        words = words_of(tokens[row], players, separator)
        why = selection.why_of_row(first, output)
        parts.append(_passage(by_name, row, of_row[row], words, limit, why))
    parts += [_scale(first, limit), *(_line(each, _SMALL) for each in titles.notes(by_name))]
    return ColouredText("\n".join([*parts, "</div>"]), len(chosen))


class ColouredText:
    """Text whose words are coloured by their values, as `text` makes it.

    A notebook shows it as HTML.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> "good" in ms.plots.text(explanation, [["good", "grief"]]).html
        True

    Attributes:
        html: a part of a page, complete in itself. Its words have the colour of the page around
            it, light or dark; a pointer over a word shows its value.
    """

    def __init__(self, html: str, rows: int) -> None:
        self.html = html
        self._rows = rows

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        rows = style.count(self._rows, "row")
        return f"ColouredText({rows}; shown by a notebook; its `page` is HTML)"

    @property
    def page(self) -> str:
        """A whole page, which is light or dark as the reader's browser.

        Path("texts.html").write_text(coloured.page, encoding="utf-8")
        """
        return _PAGE.format(self.html)


def _line(text: str, look: str) -> str:
    return f'<div style="{look}">{escape(text)}</div>'


def _passage(
    by_name: Mapping[str, Explanation],
    row: int,
    output: int,
    words: list[Word],
    limit: float,
    why: str,
) -> str:
    """A row: its output and prediction, and its words under each explanation."""
    first, *_ = by_name.values()
    said = selection.amount(first, first.prediction[row, output].item())
    columns = []
    for name, explanation in by_name.items():
        base = f"base {selection.amount(explanation, explanation.base[row, output].item())}"
        heading = f"{' '.join(name.split())}: {base}" if len(by_name) > 1 else base
        columns.append(_column(heading, words, explanation.phi[row, :, output].numpy(), limit))
    return "\n".join(
        (
            '<div style="margin:0 0 1em">',
            _line(f"Predicted {selection.quantity(first, output)}: {said}", "font-weight:bold"),
            _line("; ".join(filter(None, (selection.row_name(first, row), why))), _SMALL),
            '<div style="display:grid;gap:0 2em;'
            f'grid-template-columns:repeat({len(by_name)},minmax(0,1fr))">',
            *columns,
            "</div></div>",
        )
    )


def _column(
    heading: str, words: list[Word], values: Float[np.ndarray, " players"], limit: float
) -> str:
    found = []
    for first, *others in runs(words):
        inside = escape(first.text) + "".join(_gap(each) + escape(each.text) for each in others)
        # Of words of nobody, and of players that the row lacks, there is none.
        value = float(values[first.player]) if first.player >= 0 else float("nan")
        # Neighbours of one player are coloured together with the spaces between them.
        found.append(_gap(first) + (_span(inside, value, limit) if isfinite(value) else inside))
    text = "".join(found) or "<i>no words</i>"
    return f'<div>{_line(heading, _SMALL)}<div dir="auto">{text}</div></div>'


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


def _scale(explanation: Explanation, limit: float) -> str:
    low, high = style.signed([-limit, limit])
    shades = ",".join(map(_colour, (-1.0, 0.0, 1.0)))
    bar = f"display:inline-block;width:8em;height:0.8em;background:linear-gradient(90deg,{shades})"
    label = selection.shapley_axis(explanation, kinds=selection.kinds(explanation))
    return (
        f'<div style="font-size:0.85em">{low} <span style="{bar}"></span> {high} '
        f"{escape(label)}</div>"
    )
