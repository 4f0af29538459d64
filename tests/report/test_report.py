"""The file that `Explanation.report` writes: what it holds, what it leaves out, what it refuses."""

import base64
import hashlib
import io
import math
import re
import xml.dom.minidom
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

import manifold_shap as ms
from manifold_shap import shown
from manifold_shap.estimators.audit import Audit
from manifold_shap.plots import canvas
from tests.plots import helpers

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\"'\u2028"


class Page(HTMLParser):
    """What a page holds.

    Attributes:
        tags: all elements in order, with their attributes.
        rows: what can be read of each row.
        svgs: its figures.
        text: what can be read outside of figures and of rows.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(self.source)
        self.svgs = re.findall(r"<svg.*?</svg>", self.source, re.DOTALL)
        without = re.sub(r"<(svg|style|script).*?</\1>", "", self.source, flags=re.DOTALL)
        self.rows = list(map(_read, re.findall(r"<details.*?</details>", without, re.DOTALL)))
        self.text = _read(re.sub(r"<details.*?</details>", "", without, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def _read(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Page]:
    def write(explanation: ms.Explanation, **settings: Any) -> Page:
        path = tmp_path / "report.html"
        explanation.report(path, **settings)
        return Page(path)

    return write


def rows(count: int, players: int = 4, outputs: int = 2) -> ms.Explanation:
    x = torch.arange(count * players, dtype=torch.float32).reshape(count, players)
    names = tuple(f"class {k}" for k in range(outputs))
    return helpers.explained(x, ms.Players.of_elements((players,)), names)


# -- contents -----------------------------------------------------------------------------------


def test_rows_have_the_values_of_the_second_of_two_classes_as_figures_have(written) -> None:
    explanation = helpers.table().with_labels([7, "b", "c", "d", "e", "f"])
    before, values = plt.get_fignums(), ms.global_values(explanation, ["poor", "rich"] * 3)
    page = written(explanation, global_values=values)
    assert plt.get_fignums() == before
    assert len(page.rows) == 6
    for k, row in enumerate(page.rows):
        phi = explanation.phi[k, :, 1]
        order = phi.abs().argsort(descending=True)
        for said in shown.signed(phi[order].tolist()):
            assert said in row
        prediction = shown.amount(explanation, explanation.prediction[k, 1].item())
        assert f"probability of rich: {prediction}, base 0.50" in row
        assert f"Row {explanation.instances[k]} is at position {k}." in row
        assert row.count("± 0.01") == 5
    assert "age = 39" in page.rows[0]
    assert "gain ($) = 7688" in page.rows[1]
    assert len(page.svgs) == 3
    assert "Mean probability of the true class" in page.svgs[0]
    assert "Probability of rich, 6 rows" in page.svgs[1]
    assert "Shapley values of probability of rich" in page.text


def test_of_more_classes_rows_have_the_predicted_one_and_outputs_are_chosen(written) -> None:
    explanation = rows(5, players=15, outputs=4)
    page = written(explanation)
    for k, row in enumerate(page.rows):
        best = int(explanation.prediction[k].argmax())
        assert f"probability of class {best}: " in row
        assert "5 other features" in row
    options = [attributes["value"] for attributes in page.named("option")]
    assert options == ["1", "2", "3", "4"]
    hidden = [each for _, each in page.tags if "data-output" in each and "hidden" in each]
    assert len(hidden) == 3
    # For readers of screens, and on paper.
    controls = {each["id"] for tag in ("select", "input") for each in page.named(tag)}
    assert controls == {each["for"] for each in page.named("label")} == {"output", "search"}
    assert "@media screen and (prefers-color-scheme: dark)" in page.source


def test_bars_of_a_row_leave_room_for_the_lines_of_their_errors(written) -> None:
    explanation = helpers.table()
    errors = 10 * explanation.phi.abs()
    page = written(replace(explanation, standard_error=errors, model_error=0 * errors))
    assert "2 standard errors of sampling and learning" in page.text
    lines = [each["style"] or "" for each in page.named("u")]
    ends = [list(map(float, re.findall(r"[-\d.]+", line))) for line in lines]
    assert len(ends) == 30
    assert all(left >= 0 and left + width <= 100 for left, width in ends)


@pytest.mark.parametrize(
    ("made_by", "said"),
    [
        ({}, "error of the value function is unknown"),
        (
            {"quality": {"chosen": "vae", "mse": {"marginal": 0.04, "vae": 0.01}}},
            "Value function: vae has a root mean squared error of 0.1 (0.2 off the manifold)",
        ),
        (
            {"model": {"name": "SVC", "accuracy": 0.96667, "rows": 30}},
            "SVC. It predicts the right class for 96.67% of 30 test rows.",
        ),
        (
            {"model": {"name": "Ridge", "r2": 0.4567, "rows": 1}},
            "Ridge. Its R², the share of the variance explained, is 0.457 on 1 test row.",
        ),
        ({"model": {}}, "Which model is explained was not recorded"),
        ({"auto": {"5": "exact: all", "8": "odd: 8", "9": "odd: 9"}}, "auto exact, odd output"),
        ({"estimator": {"5": "exact", "8": "odd", "9": "odd"}}, "estimator: exact, odd "),
    ],
)
def test_the_model_and_the_qualities_are_told(written, made_by: dict, said: str) -> None:
    assert said in written(replace(helpers.ragged((6,)), made_by=made_by)).text


def test_cautions_stand_at_the_top_and_an_audit_is_a_sentence(written) -> None:
    explanation = helpers.ragged((6,))
    audit = Audit.of(*[torch.zeros(2, 1, 1)] * 2, torch.zeros(2, 1, 1), ("a",), ("a",), "exact")
    made_by = {
        "quality": {"chosen": "vae", "mse": {"vae": 2.0}, "warning": "no better than chance: 2.0"},
        "half_trained": True,
        "hints": ["Look twice."],
        "audit": audit.to_dict(),
    }
    page = written(
        replace(
            explanation,
            made_by=made_by,
            standard_error=torch.full_like(explanation.phi, math.nan),
            prediction=explanation.prediction + 1.0,
        )
    )
    for said in (
        "Half-trained value function.",
        "No better than chance.",
        "Look twice.",
        "Standard errors are unknown.",
        "Shapley values do not add up to prediction - base",
    ):
        assert said in page.text.split("Model and quality", 2)[0]
    assert "2 rows were estimated again without bias, by 'exact'" in page.text


def test_values_that_are_unknown_are_left_out_and_said(written) -> None:
    explanation = helpers.table()
    phi = explanation.phi.clone()
    phi[1, 2], phi[:, 4] = math.nan, math.inf
    page = written(replace(explanation, phi=phi))
    assert "Some Shapley values are not known." in page.text
    assert [row.count("± 0.01") for row in page.rows[:2]] == [4, 3]
    assert not re.search(r"\bnan\b", " ".join([page.text, *page.rows]), re.IGNORECASE)


def test_interactions_are_of_the_row_and_of_all(written) -> None:
    def product(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.where(mask, x[:, None], 0.0).prod(-1, keepdim=True)

    found = ms.shapley_interactions(product, torch.tensor([[2.0, 3.0], [1.0, 1.0]]))
    page = written(found.shapley, interactions=found)
    assert "Largest interactions: x0 × x1: +6.00." in page.rows[0]
    (drawn,) = [each for each in page.svgs if "Interactions" in each]
    assert "+3.50" in drawn  # The mean of 6 and 1.


def pixels(url: str | None) -> np.ndarray:
    kind, content = str(url).split(",")
    assert kind == "data:image/png;base64"
    return plt.imread(io.BytesIO(base64.b64decode(content)))


def test_pictures_have_maps_on_the_scale_of_figures(written) -> None:
    explanation = helpers.digits()
    images = [each for each in written(explanation).named("img") if each["alt"]]
    maps = [each for each in images if str(each["alt"]).startswith("Map of the Shapley")]
    assert len(maps) == 15
    top = explanation.prediction[0].argsort(descending=True)
    phi = explanation.phi[0, :, top[0]].reshape(4, 6).numpy()
    every = torch.stack([explanation.phi[k, :, j] for k in range(5) for j in range(3)])
    scale = canvas.ColourScale(every.numpy())
    expected = canvas.DIVERGING(np.clip(0.5 + phi / scale.limit / 2, 0, 1))
    np.testing.assert_allclose(pixels(maps[0]["src"]), expected, atol=0.02)


def test_where_superpixels_are_stands_on_their_map(written) -> None:
    page = written(helpers.ragged())
    places = re.findall(r'<b aria-hidden="true" style="(.*?)">(.*?)</b>', page.source)
    assert [said for _, said in places] == ["0", "1", "2", "0", "1"]
    assert places[0][0] == "left:16.7%;top:25.0%"
    assert "Shapley value per pixel" in page.rows[0]


def test_rows_are_pictures_only_where_they_must_be(written) -> None:
    grey = helpers.explained(torch.rand(3, 4, 6), ms.Players.of_elements((4, 6)), ("a", "b"))
    assert not written(grey).named("img")
    shown_as = written(grey, images=torch.rand(3, 1, 4, 6)).named("img")
    assert len(shown_as) == 1 + 3 * 2


@pytest.mark.parametrize(
    ("explanation", "tokens"),
    [
        (helpers.texts(), None),
        (helpers.ragged((6,)), [["Good", "is,", "good."], ["Is", "bad!"]]),
    ],
)
def test_texts_have_coloured_words_and_words_with_punctuation_count(
    written, explanation: ms.Explanation, tokens: Any
) -> None:
    page = written(explanation, tokens=tokens)
    spans = [each["title"] for each in page.named("span") if "title" in each]
    values = [*explanation.phi[0, :, 0].tolist(), *explanation.phi[1, :2, 0].tolist()]
    assert spans == shown.signed(values)
    assert "good." in page.rows[0]
    assert "word 1" not in " ".join(page.rows)
    (drawn,) = page.svgs
    assert "Mean Shapley value (" in drawn
    assert {"good (2 ×)", "is (2 ×)"} <= set(re.findall(r">([^<>]*×\))<", drawn))


def test_words_in_log_ratios_are_coloured_for_the_predicted_class(written) -> None:
    explanation = helpers.composed_texts()
    page = written(explanation)
    spans = [each["title"] for each in page.named("span") if "title" in each]
    p = ms.simplex.ilr_inv(explanation.prediction, explanation.basis)
    towards = explanation.projections()[[0, 1], :, p.argmax(1)]
    expected = [*towards[0].tolist(), *towards[1, :2].tolist()]
    assert spans == shown.signed(expected)
    assert "class that is predicted" in page.rows[0]
    assert "raises the output" not in page.text


def test_series_are_figures_on_their_values(written) -> None:
    x = torch.randn(3, 2, 12, generator=torch.Generator().manual_seed(0))
    players = ms.Players.segments((2, 12), 4)
    explanation = helpers.explained(x, players, ("a", "b")).with_labels([2, 0, 1])
    page = written(explanation, series={"pressure": x[:, 0], "<b>": x[:, 1]})
    drawn = [each for each in page.svgs if "Shapley value of a segment" in each]
    assert len(drawn) == 3
    assert all("pressure" in each and "&lt;b&gt;" in each for each in drawn)
    flat = helpers.explained(torch.rand(2, 9), ms.Players.segments((9,), 3), ("a", "b"))
    assert "of a segment" not in written(flat).source
    assert "of a segment" in written(flat, series=flat.x).source


def test_compositions_have_norms_and_the_class_in_favour(written) -> None:
    explanation = helpers.composed(5, 4)
    page = written(explanation)
    first = explanation.summarize(0).iloc[0]
    towards = first.filter(like="on ").astype(float).idxmax().removeprefix("on ")
    assert f"{first['norm']:.3g} towards {towards}" in page.rows[0]
    # A norm has no sign.
    assert not [each for each in page.named("i") if each["class"]]
    assert len([each for each in page.svgs if "+ x" in each]) == 2


# -- size ---------------------------------------------------------------------------------------


def test_what_is_too_large_has_fewer_rows(written) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(60, 3, 200, 200, generator=generator)
    page = written(helpers.explained(x, ms.Players.patches((3, 200, 200), 100), ("a",)))
    assert 2_000_000 < len(page.source.encode()) <= 3_000_000
    assert 5 < len(page.rows) < 60
    assert f"{len(page.rows)} of 60 rows are listed" in page.text
    positions = [int(re.findall(r"^Row (\d+)", row)[0]) for row in page.rows]
    assert positions == sorted(positions)


# -- what is written by others ------------------------------------------------------------------


def test_nothing_of_anyone_elses_is_a_tag(written) -> None:
    """Names, labels, values and texts are shown as they are."""
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    explanation = helpers.explained(
        x, ms.Players.of_elements((3,), [HOSTILE, "b", f"{HOSTILE} c"]), ("other", HOSTILE),
        instances=(HOSTILE, "two"),
        made_by={
            "value_function": HOSTILE, "estimator": HOSTILE, HOSTILE: HOSTILE, "hints": [HOSTILE],
            "quality": {"chosen": HOSTILE, "mse": {HOSTILE: 1.0, "marginal": 2.0}},
            "half_trained": True,
        },
    )  # fmt: skip
    values = ms.global_values(explanation, [HOSTILE, "other"])
    table = written(explanation, title=HOSTILE, global_values=values)
    for each in table.svgs:
        assert not xml.dom.minidom.parseString(each).getElementsByTagName("script")
    page = written(explanation, title=HOSTILE, tokens=[[HOSTILE, "is", "x"]] * 2)
    for each in (page, table):
        assert len(each.named("script")) == 1
        assert not [tag for tag in each.named("img") if tag.get("src") == "x"]
        assert not [attributes for _, attributes in each.tags if "onerror" in attributes]
    assert page.text.count("<script>alert(1)") > 5


def test_nothing_is_fetched_from_anywhere_and_one_script_may_run(written) -> None:
    page = written(helpers.composed(4, 3))
    (policy,) = [each["content"] or "" for each in page.named("meta") if "http-equiv" in each]
    (script,) = re.findall(r"<script>(.*?)</script>", page.source, re.DOTALL)
    own = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{own}'" in policy
    for tag, attributes in page.tags:
        for name in ("src", "href", "xlink:href", "srcset", "action", "data"):
            target = attributes.get(name) or ""
            assert target.startswith(("#", "data:")) or not target, (tag, target)


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("any_type")
def test_what_does_not_fit_is_refused(written, tmp_path: Path) -> None:
    explanation = helpers.table()
    found = ms.shapley_interactions(
        lambda x, mask: mask.sum(-1, keepdim=True).float(), torch.zeros(2, 3)
    )
    for settings, said in (
        ({"tokens": [["a"]]}, "Expected `tokens` of rows whose players differ"),
        ({"interactions": found}, "differ in their rows"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            written(explanation, **settings)
    with pytest.raises(ValueError, match=r"to end in '\.html' but got"):
        explanation.report(tmp_path / "report.pdf")
    assert not list(tmp_path.glob("report.*"))
