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
from tests.plots.helpers import ragged

GOOD = ["it", "is", "not", "good"]


def sentence(*values: float, index: list[int] | None = None) -> ms.Explanation:
    """One row, with a player for each position or some for each player."""
    index = index or list(range(len(values)))
    players = ms.Players(range(len(values)), index)
    phi = torch.tensor(values)[None, :, None]
    base = torch.tensor([[0.25]])
    return ms.Explanation(
        phi, torch.zeros_like(phi), base, base + phi.nansum(1), torch.zeros(1, len(index)),
        players, ("rating",), ms.spaces.Identity(),
    )  # fmt: skip


def two_rows() -> ms.Explanation:
    """Of four words and a padding, and of two; the players of the second are in reverse."""
    owners = torch.tensor([[0, 1, 2, 3, -1], [1, 0, -1, -1, -1]])
    phi = torch.tensor([[0.1, -0.02, -0.4, 0.3], [0.2, -0.1, torch.nan, torch.nan]])[..., None]
    base = torch.full((2, 1), 0.5)
    return ms.Explanation(
        phi, 0 * phi, base, base + phi.nansum(1), torch.zeros(2, 5), ms.Players.of_rows((5,), 4),
        ("yes",), ms.spaces.Identity(), owners=owners,
    )  # fmt: skip


TWO = [GOOD, ["very", "good"]]


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
    page = Spans(text(two_rows(), TWO).html)
    assert [word for word, *_ in page.found] == [*GOOD, "very", "good"]
    values = [0.1, -0.02, -0.4, 0.3, -0.1, 0.2]
    assert [float(said.replace("−", "-")) for _, said, _ in page.found] == pytest.approx(values)
    for (*_, (red, _, blue, opacity)), value in zip(page.found, values, strict=True):
        assert (red > blue) == (value > 0)
        assert opacity == pytest.approx(0.75 * abs(value) / 0.4, abs=1e-3)
    read = "".join(page.read)
    for said in ("yes: 0.48", "base 0.5, row 1 (position 1 of 2)", "−0.400", "+0.400"):
        assert said in read
    assert "Shapley value (model output)" in read


def test_names_and_words_are_no_markup() -> None:
    explanation = replace(sentence(0.5, -0.5), outputs=("<b>$y$</b>",))
    html = text({"<i>a</i>": explanation, "b": explanation}, [["<script>", "a & b"]]).html
    assert "<script>" not in html
    assert "<b>" not in html
    assert "<i>" not in html
    assert [word for word, *_ in Spans(html).found] == ["<script>", "a & b"] * 2


def test_a_page_is_whole_and_has_the_same_text(tmp_path: Path) -> None:
    coloured = text(two_rows(), [GOOD, ["très", "好"]])
    assert coloured._repr_html_() in coloured.page
    coloured.save(tmp_path / "text.html")
    assert (tmp_path / "text.html").read_text(encoding="utf-8") == coloured.page
    assert coloured.page.startswith("<!doctype html>")
    assert 'name="color-scheme" content="light dark"' in coloured.page


def test_explanations_stand_side_by_side_on_one_scale() -> None:
    on = two_rows()
    both = {"on": on, "off": replace(on, phi=2 * on.phi, base=on.base + 1)}
    coloured = text(both, TWO, rows=[0])
    page = Spans(coloured.html)
    opacity = [colour[-1] for *_, colour in page.found]
    np.testing.assert_allclose(opacity[4:], 2 * np.array(opacity[:4]), atol=1e-3)
    assert {"on: base 0.5", "off: base 1.5"} <= set(page.read)
    assert "repeat(2," in coloured.html


def test_a_player_of_several_words_is_one_run_of_its_colour() -> None:
    explanation = sentence(0.5, -0.25, index=[0, 0, 1, 1, 1])
    by_word = text(explanation, [["very", "good", ".", "Not", "cheap"]])
    assert [word for word, *_ in Spans(by_word.html).found] == ["very good", ". Not cheap"]
    by_player = text(explanation, [["very good. ", "Not\ncheap"]])
    assert [word for word, *_ in Spans(by_player.html).found] == ["very good. ", "Not\ncheap"]


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
    ((joined, *_),) = Spans(text(sentence(1.0, index=[0, 0, 0, 0]), [tokens]).html).found
    assert joined == said


def test_padding_may_be_given_or_left_out_and_has_no_colour() -> None:
    explanation = two_rows()
    whole = text(explanation, [[*GOOD, "<pad>"], ["very", "good", "<pad>", "<pad>", "<pad>"]])
    assert [word for word, *_ in Spans(whole.html).found] == [*GOOD, "very", "good"]
    assert "&lt;pad&gt;" in whole.html


def test_as_many_tokens_as_positions_or_players_are_expected() -> None:
    explanation = two_rows()
    with pytest.raises(ValueError, match="row 0 of `tokens` to hold 4 of positions"):
        text(explanation, [GOOD[:3], TWO[1]])
    with pytest.raises(ValueError, match=r"a list for each of 2 rows but got 1; for a single row"):
        text(explanation, [GOOD])
    with pytest.raises(ValueError, match="or 3 of players but got"):
        text(ragged(), [["a"] * 6, ["a"] * 6])
    assert text(ragged(), [["a", "b", "c"], ["a", "b"]], rows=[1]).html.count("title=") == 2
