"""The file that `Explanation.report` writes: what it holds, what it leaves out, what it refuses."""

import base64
import hashlib
import io
import itertools
import json
import math
import re
import xml.dom.minidom
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import manifold_shap as ms
from manifold_shap.audits import Audit
from manifold_shap.plots import style
from tests.plots import helpers

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\"'\u2028"


class Page(HTMLParser):
    """What a page holds.

    Attributes:
        tags: all elements in order, with their attributes.
        text: what can be read.
        scripts: the content of scripts, in order.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._inside, self._words = "", []
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self._words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._words).split())

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.scripts[0])

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Page]:
    def write(explanation: ms.Explanation, **settings: Any) -> Page:
        path = tmp_path / "report.html"
        explanation.report(path, **settings)
        return Page(path)

    return write


def svgs(page: Page) -> list[str]:
    """The figures of a page."""
    start = "data:image/svg+xml;base64,"
    urls = [each.get("src") or "" for each in page.named("img")]
    drawn = [url.removeprefix(start) for url in urls if url.startswith(start)]
    return [base64.b64decode(each).decode() for each in drawn]


def rows(count: int, players: int = 4, outputs: int = 2) -> ms.Explanation:
    x = torch.arange(count * players, dtype=torch.float32).reshape(count, players)
    names = tuple(f"class {k}" for k in range(outputs))
    return helpers.explained(x, ms.Players.of_elements((players,)), names)


def undrawn() -> ms.Explanation:
    """Rows whose players are their own, of which no figure is drawn."""
    return helpers.ragged((6,))


# -- contents ---------------------------------------------------------------------------------


def test_the_values_of_every_row_and_output_are_those_of_the_explanation(written) -> None:
    explanation = helpers.table()
    found = written(explanation).data
    assert len(found["rows"]) == 6
    for k, row in enumerate(found["rows"]):
        assert row["outputs"][0]["output"] == int(explanation.prediction[k].argmax())
        for of in row["outputs"]:
            j = of["output"]
            assert of["rest"] == [0, 0, ""]
            assert {step[0] for step in of["steps"]} == set(range(len(explanation.players)))
            said = style.signed([float(explanation.phi[k, step[0], j]) for step in of["steps"]])
            assert [step[3] for step in of["steps"]] == said
            for player, phi, error, _, off in of["steps"]:
                assert off == "0.01"
                assert phi == pytest.approx(float(explanation.phi[k, player, j]), rel=1e-3)
                assert error == pytest.approx(0.01, rel=1e-3)
            assert of["base"] + sum(step[1] for step in of["steps"]) == pytest.approx(
                of["prediction"], abs=2e-3
            )


def test_values_are_in_the_users_own_units(written) -> None:
    page = written(helpers.table())
    values = page.data["rows"][0]["values"]
    assert values == {"0": "39", "1": "0", "2": "f", "3": "Rome", "4": "0"}
    assert "age = 39" in page.text


@pytest.mark.parametrize(
    ("quality", "said"),
    [
        ({}, "Its error was not measured"),
        ({"chosen": "vae", "mse": {"vae": math.nan}}, "Its error was not measured"),
        (
            {"chosen": "vae", "mse": {"marginal": 0.04, "vae": 0.01}, "rows": 500},
            "On 500 held-out rows, the mean squared error of vae is 0.01; that of the value",
        ),
        (
            {"chosen": "vae", "mse": {"vae": -0.001, "marginal": 0.04}},
            "is −0.001; that of the value function off the manifold is 0.04.",
        ),
    ],
)
def test_an_error_that_is_not_known_is_not_made_up(written, quality: dict, said: str) -> None:
    page = written(replace(undrawn(), made_by={"quality": quality}))
    assert said in page.text
    assert "nan" not in page.text.split("How to read")[0]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            {"name": "SVC", "accuracy": 0.96667, "rows": 30},
            "SVC. It predicts the right class for 96.67% of 30 test rows.",
        ),
        (
            {"name": "Ridge", "r2": 0.4567, "rows": 1},
            "Ridge. Its R², the share of the variance explained, is 0.457 on 1 test row.",
        ),
        ({"name": HOSTILE[:25]}, f"{HOSTILE[:25]}. How good it is was not measured."),
        ({}, "Which model is explained was not recorded"),
    ],
)
def test_the_model_and_its_quality_are_named(written, model: Any, said: str) -> None:
    assert said in written(replace(undrawn(), made_by={"model": model})).text


def test_cautions_stand_at_the_top(written) -> None:
    known = {"chosen": "vae", "mse": {"vae": 2.0}, "warning": "no better than chance: 2.0"}
    made_by = {"quality": known, "half_trained": True, "hints": ["Look twice."]}
    explanation = replace(undrawn(), made_by=made_by)
    error = torch.full_like(explanation.phi, math.nan)
    page = written(
        replace(explanation, standard_error=error, prediction=explanation.prediction + 1.0)
    )
    for said in (
        "Half-trained value function.",
        "No better than chance.",
        "Look twice.",
        "Standard errors are unknown.",
        "Shapley values do not add up to prediction - base",
    ):
        assert said in page.text
        assert page.text.index(said) < page.text.index("How good the value function is")
    assert {step[2] for row in page.data["rows"] for step in row["outputs"][0]["steps"]} == {None}


def test_values_that_are_not_known_are_left_out_and_said(written) -> None:
    explanation = helpers.table()
    phi = explanation.phi.clone()
    phi[1, 2], phi[:, 4] = math.nan, math.inf
    page = written(replace(explanation, phi=phi))
    assert "Some Shapley values are not known." in page.text
    first, second = (row["outputs"][0]["steps"] for row in page.data["rows"][:2])
    assert [len(first), len(second)] == [4, 3]
    assert not re.search(r"\bnan\b", page.text, re.IGNORECASE)


def test_an_audit_is_a_sentence(written) -> None:
    explanation = helpers.table()
    audit = Audit.of(
        explanation.phi, explanation.phi, explanation.standard_error,
        explanation.players.names, explanation.outputs, "exact",
    )  # fmt: skip
    page = written(replace(explanation, made_by={"audit": audit.to_dict()}))
    assert "6 rows were estimated again without bias, by 'exact'" in page.text


def test_interactions_are_of_the_row_and_of_all(written) -> None:
    def product(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.where(mask, x[:, None], 0.0).prod(-1, keepdim=True)

    found = ms.shapley_interactions(product, torch.tensor([[2.0, 3.0], [1.0, 1.0]]))
    page = written(found.shapley, interactions=found)
    ((pair,),) = page.data["rows"][0]["pairs"]
    assert pair == [0, 1, 6.0, 0.0, "+6.00", "exact"]
    (drawn,) = [each for each in svgs(page) if "Interaction (" in each]
    assert "+3.50" in drawn  # The mean of 6 and 1.


def test_pictures_have_maps_that_are_images(written) -> None:
    page = written(helpers.digits())
    assert len(page.data["rows"]) == 5
    for row in page.data["rows"]:
        assert len(row["maps"]) == 3
        for url in row["maps"]:
            kind, content = url.split(",")
            assert kind == "data:image/png;base64"
            assert base64.b64decode(content).startswith(b"\x89PNG")
    assert all(each["src"] != "" and "alt" in each for each in page.named("img") if "src" in each)


def test_rows_are_pictures_only_where_they_must_be(written) -> None:
    grey = helpers.explained(torch.rand(3, 4, 6), ms.Players.of_elements((4, 6)), ("a", "b"))
    assert "maps" not in written(grey).data["rows"][0]
    shown = written(grey, images=torch.rand(3, 1, 4, 6))
    assert len(shown.data["rows"][0]["maps"]) == 2


def test_texts_have_words_with_their_values(written) -> None:
    explanation, tokens = texts()
    page = written(explanation, tokens=tokens)
    assert [word[1:] for word in page.data["rows"][1]["words"]] == [["is", 0], ["bad", 1]]
    assert page.data["rows"][0]["values"] == {"0": "it", "1": "is", "2": "good"}
    assert "is (2 ×)" in re.sub(r"[+−]\S+ ", "", page.text)


def texts() -> tuple[ms.Explanation, list[list[str]]]:
    x = torch.tensor([[4.0, 2.0, 3.0], [2.0, 5.0, 0.0]])
    players = ms.Players.tokens(3, padding=0)
    value = ms.imputed_value(
        lambda x: x.sum(1, True), ms.imputers.MarginalImputer(x, players), "identity"
    )
    return ms.exact_shapley(value, x), [["it", "is", "good"], ["is", "bad"]]


def series(rows: int = 3, channels: int = 2, time: int = 12, length: int = 4) -> ms.Explanation:
    x = torch.randn(rows, channels, time, generator=torch.Generator().manual_seed(0))
    return helpers.explained(x, ms.Players.segments((channels, time), length), ("a", "b"))


def pixels(url: str) -> np.ndarray:
    """Red, green and blue of a map."""
    image = Image.open(io.BytesIO(base64.b64decode(url.split(",")[1]))).convert("RGB")
    return np.asarray(image, dtype=int)


def test_series_have_curves_on_the_colours_of_their_segments(written) -> None:
    explanation = series()
    page = written(
        explanation, series={"pressure": explanation.x[:, 0], "<b>": explanation.x[:, 1]}
    )
    for k, row in enumerate(page.data["rows"]):
        drawn = row["curves"]
        assert (drawn["names"], drawn["time"], drawn["others"]) == (["pressure", "<b>"], 12, 0)
        for channel, line in enumerate(drawn["lines"]):
            points = np.array([each.split(",") for each in line.split()], dtype=float)
            # Upwards is downwards on a screen; a hundredth of the height is lost by rounding.
            assert -np.corrcoef(points[:, 1], explanation.x[k, channel].numpy())[0, 1] > 0.999
        for place, of in enumerate(row["outputs"]):
            colours = pixels(drawn["maps"][place])
            assert colours.shape == (2, 12, 3)
            phi = explanation.phi[k, :, of["output"]].numpy()
            red = colours[..., 0] - colours[..., 2]
            assert (np.sign(red) == np.sign(np.repeat(phi, 4))).all()


def test_what_is_a_series_and_what_is_none(written) -> None:
    by_channel = helpers.explained(torch.randn(2, 3, 8), ms.Players.channels((3, 8)), ("a",))
    assert written(by_channel).data["rows"][0]["curves"]["names"] == [
        f"channel {k}" for k in range(3)
    ]
    flat = helpers.explained(torch.randn(2, 8), ms.Players.segments((8,), 2), ("a",))
    assert "curves" not in written(flat).data["rows"][0]
    (name,) = written(flat, series=10 * flat.x).data["rows"][0]["curves"]["names"]
    assert name == ""
    picture = helpers.explained(torch.rand(2, 4, 6), ms.Players.of_elements((4, 6)), ("a", "b"))
    assert "curves" not in written(picture).data["rows"][0]


def test_series_that_do_not_fit_are_refused(written) -> None:
    explanation = series()
    for given in (explanation.x[:2], {"a": explanation.x[:, 0]}, torch.ones(3)):
        with pytest.raises(ValueError, match=r"Expected `series` as the rows.* but got"):
            written(explanation, series=given)
    with pytest.raises(ValueError, match="`series` without NaN"):
        written(explanation, series=explanation.x / 0)


@pytest.mark.parametrize("classes", [2, 12])
def test_compositions_have_paths_to_the_prediction(written, classes: int) -> None:
    explanation = helpers.composed(5, classes, rows=3)
    page = written(explanation)
    state = ms.simplex.ilr_inv(explanation.prediction, explanation.basis).exp()
    for k, row in enumerate(page.data["rows"]):
        shares = row["path"][-1]["shares"]
        assert sum(shares) == pytest.approx(1, abs=2e-3)
        assert max(shares[: len(page.data["classes"])]) == pytest.approx(
            float(state[k].max()), abs=2e-3
        )
        norms = {step["player"]: step["norm"] for step in row["path"][1:-1]}
        for player, norm in norms.items():
            assert norm == pytest.approx(float(explanation.norms()[k, player]), rel=1e-3)


@pytest.mark.parametrize("kind", ["table", "pictures", "text", "series", "compositions"])
def test_a_page_can_be_read_by_who_does_not_see_it(written, kind: str) -> None:
    explanation, tokens = texts()
    page = {
        "table": lambda: written(helpers.table()),
        "pictures": lambda: written(helpers.digits()),
        "text": lambda: written(explanation, tokens=tokens),
        "series": lambda: written(series()),
        "compositions": lambda: written(helpers.composed(5, 4)),
    }[kind]()
    ids = [each["id"] for _, each in page.tags if "id" in each]
    assert len(set(ids)) == len(ids)
    assert {each["href"] for each in page.named("a")} <= {f"#{each}" for each in ids}
    labelled = {each["for"] for each in page.named("label")}
    assert {each["id"] for each in page.named("select")} <= labelled
    assert all("alt" in each for each in page.named("img"))
    assert all("scope" in each for each in page.named("th"))
    assert len(page.named("caption")) == len(page.named("table"))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


# -- all rows together ------------------------------------------------------------------------


def test_bars_are_of_all_rows_and_global_values_and_swarms_of_some(written) -> None:
    explanation = rows(1_000)
    spike = explanation.phi.clone()
    spike[:, 2] += 5.0
    explanation = replace(explanation, phi=spike, prediction=explanation.base + spike.sum(1))
    values = ms.global_values(explanation, ["class 0", "class 1"] * 500)
    page = written(explanation, global_values=values)
    known, bars, swarm, *_ = svgs(page)
    assert f"{float(explanation.phi[:, 2, 1].abs().mean()):.2f}" in bars
    assert "1000 rows" in bars
    assert "300 rows" in swarm
    assert style.number(values.accuracy) in known
    assert "400 of 1000 rows are listed" in page.text
    assert "1000 rows, 4 features, 2 outputs" in page.text
    labels = [row["label"] for row in page.data["rows"]]
    assert len(set(labels)) == 400
    assert max(map(int, labels)) > 900
    # The same explanation is the same page.
    assert written(explanation, global_values=values).source == page.source


def test_a_single_row_has_no_swarm_and_rows_with_players_of_their_own_no_mean(written) -> None:
    assert len(svgs(written(helpers.table()[:1]))) == 2
    assert svgs(written(helpers.ragged((6,)))) == []


def test_some_of_many_classes_are_drawn(written) -> None:
    explanation = rows(10, outputs=1_000)
    page = written(explanation)
    assert "5 of 1000 outputs are shown here" in page.text
    for k, row in enumerate(page.data["rows"]):
        assert row["outputs"][0]["output"] == int(explanation.prediction[k].argmax())
        assert len(row["outputs"]) == 5


# -- size -------------------------------------------------------------------------------------


def test_what_is_too_large_has_fewer_rows(written) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(150, 3, 144, 144, generator=generator)
    players = ms.Players.patches((3, 144, 144), 72)
    page = written(helpers.explained(x, players, ("a",)))
    assert 1_000_000 < len(page.source.encode()) <= 3_000_000
    assert "data:image/jpeg" in page.source
    assert 50 < len(page.data["rows"]) < 150
    assert f"{len(page.data['rows'])} of 150 rows are listed" in page.text


# -- what is written by others ----------------------------------------------------------------


def test_nothing_of_anyone_elses_is_a_tag(written) -> None:
    """Names, labels, values and texts are shown as they are."""
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    explanation = helpers.explained(
        x, ms.Players.of_elements((3,), [HOSTILE, "\ud800 b", f"{HOSTILE} c"]), (HOSTILE, "other"),
        instances=(HOSTILE, "two"),
        made_by={
            "value_function": HOSTILE, "estimator": HOSTILE, HOSTILE: HOSTILE, "hints": [HOSTILE],
            "quality": {"chosen": HOSTILE, "mse": {HOSTILE: 1.0, "marginal": 2.0}},
            "half_trained": True,
        },
    )  # fmt: skip
    values = ms.global_values(explanation, [HOSTILE, "other"])
    table = written(explanation, title=HOSTILE, global_values=values)
    drawn = [xml.dom.minidom.parseString(each) for each in svgs(table)]
    assert len(drawn) == 2 * 2 + 1
    assert not [each for each in drawn if each.getElementsByTagName("script")]
    page = written(explanation, title=HOSTILE, tokens=[[HOSTILE, "is", "x"]] * 2)
    plain = written(replace(helpers.explained(x, ms.Players.of_elements((3,)), ("a", "b"))))
    assert len(page.named("script")) == len(table.named("script")) == 2
    assert len(plain.named("script")) == 2
    assert not [each for each in page.named("img") if each.get("src") == "x"]
    assert not [each for _, each in page.tags if "onerror" in each]
    assert page.data["outputs"][0].count("alert(1)") == 1
    assert page.text.count("<script>alert(1)") > 5


def test_nothing_is_fetched_from_anywhere_and_one_script_may_run(written) -> None:
    page = written(helpers.composed(4, 3))
    (policy,) = [each["content"] or "" for each in page.named("meta") if "http-equiv" in each]
    own = base64.b64encode(hashlib.sha256(page.scripts[-1].encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{own}'" in policy
    for tag, attributes in page.tags:
        for name in ("src", "href", "srcset", "action", "data"):
            target = attributes.get(name) or ""
            assert target.startswith(("#", "data:")) or not target, (tag, target)
    assert "url(" not in page.source[: page.source.index("</style>")]


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.usefixtures("any_type")
def test_what_does_not_fit_is_refused(written) -> None:
    explanation = helpers.table()
    found = ms.shapley_interactions(
        lambda x, mask: mask.sum(-1, keepdim=True).float(), torch.zeros(2, 3)
    )
    for settings, error, said in (
        ({"tokens": [["a"]]}, ValueError, "a list for each of 6 rows but got 1"),
        ({"interactions": found}, ValueError, "`interactions` of the rows, players and outputs"),
    ):
        with pytest.raises(error, match=re.escape(said)):
            written(explanation, **settings)
