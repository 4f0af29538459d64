"""Coloured text: which words have which colours, in a notebook and a page."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

import manifold_shap as ms
from manifold_shap.plots import text
from tests.plots.helpers import explained, ragged, texts

# Of the players of `ragged`, some of which own several words.
WORDS = [list("abcdef"), list("ABCDE")]


def of_players(*index: int) -> ms.Explanation:
    """A row whose positions belong to these players."""
    return explained(torch.zeros(1, len(index)), ms.Players(range(max(index) + 1), index), ("y",))


class Spans(HTMLParser):
    """Coloured parts of a page: their text, value and red, green, blue and opacity."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, str, list[float]]] = []
        self.read: list[str] = []
        self._open = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "span" and "title" in given:
            (colour,) = re.findall(r"rgba\((.*?)\)", given["style"])
            self.found.append(("", given["title"], [float(part) for part in colour.split(",")]))
            self._open = True

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "span"

    def handle_data(self, data: str) -> None:
        self.read.append(data)
        if self._open:
            self.found[-1] = (self.found[-1][0] + data, *self.found[-1][1:])


def test_words_of_a_page_have_the_colours_and_values_of_their_players() -> None:
    page = Spans(text(ragged((6,)), WORDS).html)
    assert [word for word, *_ in page.found] == ["a b", "c d", "e f", "A", "B C", "D E"]
    values = [0.1, -0.3, 0.25, 0.15, 0.4, 0.15]
    assert [float(said.replace("−", "-")) for _, said, _ in page.found] == pytest.approx(values)
    for (*_, (red, _, blue, opacity)), value in zip(page.found, values, strict=True):
        assert (red > blue) == (value > 0)
        assert opacity == pytest.approx(0.75 * abs(value) / 0.4, abs=1e-3)
    read = "".join(page.read)
    for said in ("a: 0.55", "base 0.25, row 1 (position 1 of 2)", "−0.400", "+0.400"):
        assert said in read
    assert "Shapley value (model output)" in read


def test_texts_of_an_explainer_have_their_words_and_those_of_token_ids_are_asked_for() -> None:
    found = [word for word, *_ in Spans(text(texts()).html).found]
    assert found == ["Good ", "is, ", "good.", "Is ", "bad!"]
    with pytest.raises(TypeError, match="Expected `tokens`"):
        text(ragged((6,)))


def test_names_and_words_are_no_markup() -> None:
    explanation = replace(of_players(0, 1), outputs=("<b>$y$</b>",))
    html = text({"<i>a</i>": explanation, "b": explanation}, [["<script>", "a & b"]]).html
    assert not re.search("<script>|<b>|<i>", html)
    assert [word for word, *_ in Spans(html).found] == ["<script>", "a & b"] * 2


def test_a_page_is_whole_and_has_the_same_text(tmp_path: Path) -> None:
    coloured = text(of_players(0, 1), [["très", "好"]])
    assert coloured._repr_html_() in coloured.page
    coloured.save(tmp_path / "text.html")
    assert (tmp_path / "text.html").read_text(encoding="utf-8") == coloured.page
    assert coloured.page.startswith("<!doctype html>")
    assert 'name="color-scheme" content="light dark"' in coloured.page


def test_explanations_stand_side_by_side_on_one_scale() -> None:
    on = ragged((6,))
    both = {"on": on, "off": replace(on, phi=2 * on.phi, base=on.base + 1)}
    coloured = text(both, WORDS, rows=[0])
    page = Spans(coloured.html)
    opacity = [colour[-1] for *_, colour in page.found]
    np.testing.assert_allclose(opacity[3:], 2 * np.array(opacity[:3]), atol=1e-3)
    assert {"on: base 0.5", "off: base 1.5"} <= set(page.read)
    assert "repeat(2," in coloured.html


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["un", "##forget", "##table", "film"], "unforgettable film"),
        (["▁un", "forget", "table", "▁film"], "unforgettable film"),
        (["un", "forget", "table", "Ġfilm"], "unforgettable film"),
        (["a", "b", "c", "d"], "a b c d"),
        (["a", "ĊĊ", "c", "Ġd"], "a⏎\nc d"),
    ],
)
def test_tokens_are_joined_as_tokenizers_mark_them(tokens: list[str], said: str) -> None:
    # One player, so that all is one part of the page.
    ((joined, *_),) = Spans(text(of_players(0, 0, 0, 0), [tokens]).html).found
    assert joined == said


def test_there_is_a_word_for_each_position_or_each_player_and_padding_has_no_colour() -> None:
    explanation = ragged((6,))
    padded = text(explanation, [WORDS[0], [*WORDS[1], "<pad>"]])
    assert [word for word, *_ in Spans(padded.html).found][-1] == "D E"
    assert "&lt;pad&gt;" in padded.html
    by_player = text(explanation, [["a b ", "Not\ncheap", "c"], ["d", "e"]])
    found = [word for word, *_ in Spans(by_player.html).found]
    assert found == ["a b ", "Not\ncheap", "c", "d", "e"]
    with pytest.raises(ValueError, match="row 0 of `tokens` to hold 6 of positions or 3 of player"):
        text(explanation, [["a"] * 5, WORDS[1]])
    with pytest.raises(ValueError, match=r"a list for each of 2 rows but got 1; for a single row"):
        text(explanation, WORDS[:1])
