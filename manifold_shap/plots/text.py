"""Colours the words of a text by their Shapley values: in a notebook or a page."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int64
from matplotlib.colors import to_hex, to_rgb
from torch import Tensor

from manifold_shap import shown
from manifold_shap.explanation import Explanation
from manifold_shap.plots import canvas, selection

# Rows that are shown where none are named.
_ROWS = 8
# What tokenizers write for a space (of SentencePiece and of byte-level BPE) and for a line break.
_MARKS = {"▁": " ", "Ġ": " ", "Ċ": "\n"}
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
    tokens: Sequence[Sequence[str]] | int | None = None,
    row: int | Sequence[int] | None = None,
    output: str | int | None = None,
    *,
    label: Any = None,
) -> "ColouredText":
    """Colours the words of a text by their Shapley values, red where they raise the output.

    Blue ones lower it; one scale serves all rows and explanations. All words of a player have its
    colour, such as those of a sentence. Words of no player, and of players that a row lacks, have
    none.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0, 3.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> coloured = ms.plots.text(explanation, [["it", "is", "good"]])
        >>> coloured
        ColouredText(1 row; shown by a notebook; save("text.html") writes a page)
        >>> 'title="+1.00">it<' in coloured.html
        True

    Args:
        explanations: of the same rows, by names if there are several, which then stand side by
            side.
        tokens: for every row of the explanations a list of its tokens or words: one for each
            position of the row, where padding at its end may be left out, or one for each player.
            Spaces stand as tokenizers mark them: "▁" or "Ġ" is one and "##" at the start of a token
            is none; where no token has a space or the mark of one, there is one between any two.
            Texts that an `Explainer` has explained need none: a number here is a `row`.
        row: position of the row to show, or several; by default all, up to the first 8.
        output: name or position of the output to explain; by default as of `waterfall`.
        label: of a row, or a list of them, instead of positions.

    Raises:
        TypeError: `explanations` are something else.
        ValueError: not as many tokens as positions or players; nothing to plot; the explanations
            differ in rows, players or outputs, or there are no such rows or outputs.
    """
    by_name = selection.named(explanations)
    first, *_ = by_name.values()
    if isinstance(tokens, int | np.integer):
        tokens, row = None, tokens
    chosen = selection.rows_of(first, row, label, _ROWS)
    words = words_of_rows(first, tokens, chosen)
    outputs = shown.outputs_of_rows(first, output).tolist()
    values = [e.phi[row, :, outputs[row]].numpy() for row in chosen for e in by_name.values()]
    limit = canvas.ColourScale(*values).limit
    parts = [_line(each, "font-weight:bold") for each in selection.cautions(by_name)]
    for row, of_row in zip(chosen, words, strict=True):
        k = outputs[row]
        title, *below = selection.title_of_row(first, row, k, output)
        parts += ['<div style="margin:0 0 1em">', _line(title, "font-weight:bold")]
        parts.append(_line("; ".join(filter(None, below)), _SMALL))
        grid = f"display:grid;gap:0 2em;grid-template-columns:repeat({len(by_name)},minmax(0,1fr))"
        parts.append(f'<div style="{grid}">')
        for name, each in by_name.items():
            base = f"{name}: base {shown.amount(each, each.base[row, k].item())}"
            passage = coloured_words(of_row, each.phi[row, :, k].numpy(), limit)
            parts.append(f"<div>{_line(base, _SMALL) if len(by_name) > 1 else ''}{passage}</div>")
        parts.append("</div></div>")
    parts.append(scale(limit, selection.axis(first, None)))
    parts += [_line(each, _SMALL) for each in selection.notes(by_name)]
    look = "font-family:system-ui,sans-serif;line-height:1.7;overflow-wrap:anywhere"
    return ColouredText("\n".join([f'<div style="{look}">', *parts, "</div>"]), len(chosen))


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
        rows = shown.count(self._rows, "row")
        return f'ColouredText({rows}; shown by a notebook; save("text.html") writes a page)'

    @property
    def page(self) -> str:
        """A whole page, which is light or dark as the reader's browser."""
        return _PAGE.format(self.html)

    def save(self, path: str | Path) -> None:
        """Write the page; ValueError unless `path` ends in ".html"."""
        check_page(path)
        Path(path).expanduser().write_text(self.page, encoding="utf-8", errors="replace")


def check_page(path: str | Path) -> None:
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"Expected `path`, of a page, to end in '.html' but got {str(path)!r}.")


class Word(NamedTuple):
    """A token as it is read.

    Attributes:
        before: space and line breaks before it.
        text: without those.
        player: that owns it; -1 where none does.
    """

    before: str
    text: str
    player: int


def words_of_rows(
    explanation: Explanation, tokens: Sequence[Sequence[str]] | None, rows: Sequence[int]
) -> list[list[Word]]:
    """The words of some rows; see `text`."""
    if tokens is None and shown.has_words(explanation):
        tokens = [[word for word in row if pd.notna(word)] for row in explanation.x.to_numpy()]
    given = () if tokens is None else tokens
    texts = isinstance(tokens, str) or any(isinstance(each, str) for each in given)
    if texts or len(given) != len(explanation):
        fix = "for a single row `[tokens]`, of a vocabulary `vocabulary.decode(explanation.x)`"
        if shown.has_words(explanation):
            fix = "leave it out, the explanation has its words; `row=0` is one text"
        raise ValueError(
            f"Expected `tokens`, a list of words for each of {len(explanation)} rows, but got "
            f"{'texts' if texts else len(given)}; {fix}."
        )
    owners, found = explanation.owner, []
    for row in rows:
        players = _players_of_tokens(given[row], owners[row], row)
        read = _read(given[row])
        found.append([Word(*word, k) for word, k in zip(read, players, strict=True)])
    return found


def words_of_players(explanation: Explanation, tokens: Any = None) -> pd.Series:
    """What each player of each row says, as it is written."""
    found: dict[tuple[int, int], str] = defaultdict(str)
    for row, words in enumerate(words_of_rows(explanation, tokens, range(len(explanation)))):
        for word in words:
            found[row, word.player] += word.before + word.text
    return pd.Series(found).drop(-1, level=1, errors="ignore").str.strip()


def _players_of_tokens(
    tokens: Sequence[str], owners: Int64[Tensor, " *event"], row: int
) -> list[int]:
    """The player of each token of a row: one token for each position, or one for each player."""
    players, positions = int(owners.max()) + 1, int((owners >= 0).flatten().nonzero().max()) + 1
    if owners.ndim == 1 and len(tokens) in (len(owners), positions):
        return owners[: len(tokens)].tolist()
    if len(tokens) == players:
        return list(range(players))
    raise ValueError(
        f"Expected row {row} of `tokens` to hold {positions} of positions or {players} of players "
        f"but got {tokens!r:.100}; give the tokens as the model reads them, special ones included."
    )


def _read(tokens: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What stands before each token, and the token without the marks of its tokenizer."""
    marked = any(token[:1] in _MARKS or token != token.strip() for token in tokens)
    for place, token in enumerate(tokens):
        before = "" if marked or place == 0 else " "
        if len(token) > 2 and token.startswith("##"):
            before, token = "", token[2:]
        rest = token.lstrip("".join(_MARKS))
        token = "".join(_MARKS[mark] for mark in token[: len(token) - len(rest)]) + rest
        said = token.lstrip()
        space = before + token[: len(token) - len(said)]
        # A space or a line break that is a token has a value, too.
        yield (space, said) if said else ("", "⏎\n" if "\n" in space else "\N{NO-BREAK SPACE}")


def coloured_words(
    words: Sequence[Word], values: Float[np.ndarray, " players"], limit: float
) -> str:
    """A passage of HTML; neighbours of one player are coloured together with the spaces between."""
    found = []
    keys = (word.player if word.player >= 0 else -1 - k for k, word in enumerate(words))
    for _, run in groupby(zip(keys, words, strict=True), lambda each: each[0]):
        first, *others = (word for _, word in run)
        inside = escape(first.text + "".join(word.before + word.text for word in others))
        # Of words of nobody, and of players that the row lacks, there is no value.
        value = float(values[first.player]) if first.player >= 0 else float("nan")
        if isfinite(value):
            look = f"border-radius:3px;background:{_colour(value / limit)}"
            said, _ = shown.signed([value, limit])
            inside = f'<span style="{look}" title="{said}">{inside}</span>'
        found.append(escape(first.before) + inside)
    return (
        f'<div dir="auto" style="white-space:pre-wrap">{"".join(found) or "<i>no words</i>"}</div>'
    )


def scale(limit: float, label: str, pictures: bool = False) -> str:
    """The scale of the colours of words, or of pixels, as HTML."""
    low, high = shown.signed([-limit, limit])
    shades = ",".join(map(_colour, (-1.0, 0.0, 1.0)))
    if pictures:
        shades = ",".join(to_hex(canvas.DIVERGING(share)) for share in np.linspace(0, 1, 11))
    bar = f"display:inline-block;width:8em;height:0.8em;background:linear-gradient(90deg,{shades})"
    return (
        f'<div style="font-size:0.85em">{low} <span style="{bar}"></span> {high} '
        f"{escape(label)}</div>"
    )


def _line(text: str, look: str) -> str:
    return f'<div style="{look}">{escape(text)}</div>'


def _colour(share: float) -> str:
    """From the strongest blue at -1 through nothing to the strongest red at 1."""
    red, green, blue = (
        round(255 * each) for each in to_rgb(canvas.RAISES if share > 0 else canvas.LOWERS)
    )
    return f"rgba({red},{green},{blue},{_OPACITY * min(abs(share), 1):.3f})"
