"""Coloured text: which words have which colours, in a notebook and a page."""

import re
from dataclasses import replace
from html import unescape
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


def spans(html: str) -> list[tuple[str, float, list[float]]]:
    """Coloured parts of a page: their text, value and red, green, blue and opacity."""
    found = re.findall(r'rgba\(([^)]*)\)" title="(.*?)">(.*?)</span>', html, re.DOTALL)
    return [
        (unescape(word), float(said.replace("−", "-")), [float(part) for part in colour.split(",")])
        for colour, said, word in found
    ]


def test_words_of_a_page_have_the_colours_and_values_of_their_players() -> None:
    html = text(ragged((6,)), WORDS).html
    words, values, colours = zip(*spans(html), strict=True)
    assert words == ("a b", "c d", "e f", "A", "B C", "D E")
    np.testing.assert_allclose(values, [0.1, -0.3, 0.25, 0.15, 0.4, 0.15])
    for (red, _, blue, opacity), value in zip(colours, values, strict=True):
        assert (red > blue) == (value > 0)
        assert opacity == pytest.approx(0.75 * abs(value) / 0.4, abs=1e-3)
    for said in ("a: 0.55", "base 0.25, row 1<", "−0.400", "+0.400"):
        assert said in html
    assert "Shapley value (model output)" in html
    of_explainer = [word for word, *_ in spans(text(texts()).html)]
    assert of_explainer == ["Good ", "is, ", "good.", "Is ", "bad!"]


def test_names_and_words_are_no_markup() -> None:
    explanation = replace(of_players(0, 1), outputs=("<b>$y$</b>",))
    html = text({"<i>a</i>": explanation, "b": explanation}, [["<script>", "a & b"]]).html
    assert not re.search("<script>|<b>|<i>", html)
    assert [word for word, *_ in spans(html)] == ["<script>", "a & b"] * 2


def test_a_page_is_whole_and_has_the_same_text(tmp_path: Path) -> None:
    coloured = text(of_players(0, 1), [["très", "好"]])
    assert coloured._repr_html_() in coloured.page
    coloured.save(tmp_path / "text.html")
    assert (tmp_path / "text.html").read_text(encoding="utf-8") == coloured.page
    assert coloured.page.startswith("<!doctype html>")
    with pytest.raises(ValueError, match=r"to end in '\.html' but got 'text\.png'"):
        coloured.save("text.png")
    assert 'name="color-scheme" content="light dark"' in coloured.page


def test_explanations_stand_side_by_side_on_one_scale() -> None:
    on = ragged((6,))
    both = {"on": on, "off": replace(on, phi=2 * on.phi, base=on.base + 1)}
    coloured = text(both, WORDS, row=0)
    assert text(texts(), 1).html == text(texts(), row=[1]).html != text(texts()).html
    opacity = np.array([colour[-1] for *_, colour in spans(coloured.html)])
    np.testing.assert_allclose(opacity[3:], 2 * opacity[:3], atol=1e-3)
    assert ">on: base 0.5<" in coloured.html
    assert ">off: base 1.5<" in coloured.html
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
    ((joined, *_),) = spans(text(of_players(0, 0, 0, 0), [tokens]).html)
    assert joined == said


def test_there_is_a_word_for_each_position_or_each_player_and_padding_has_no_colour() -> None:
    explanation = ragged((6,))
    padded = text(explanation, [WORDS[0], [*WORDS[1], "<pad>"]])
    assert [word for word, *_ in spans(padded.html)][-1] == "D E"
    assert "&lt;pad&gt;" in padded.html
    by_player = text(explanation, [["a b ", "Not\ncheap", "c"], ["d", "e"]])
    found = [word for word, *_ in spans(by_player.html)]
    assert found == ["a b ", "Not\ncheap", "c", "d", "e"]
