"""The file that `Explanation.report` writes: what it holds, what it leaves out, what it refuses."""

import base64
import gzip
import io
import json
import math
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import fsspec
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.linear_model import LinearRegression

import manifold_shap as ms
from manifold_shap.audits import Audit
from manifold_shap.plots import style
from manifold_shap.plots.colours import LIGHT, dark
from manifold_shap.report import bundle, facts, overall
from manifold_shap.report.page import LARGEST, Given
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


def rows(count: int, players: int = 4, outputs: int = 2) -> ms.Explanation:
    x = torch.arange(count * players, dtype=torch.float32).reshape(count, players)
    names = tuple(f"class {k}" for k in range(outputs))
    return helpers.explained(x, ms.Players.of_elements((players,)), names)


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


def test_many_players_are_summed(written) -> None:
    explanation = rows(2, players=90)
    page = written(explanation)
    (of, _) = page.data["rows"][1]["outputs"]
    # As many as have a line of their own: what nobody can look at takes no room.
    assert len(of["steps"]) == of["lines"] == 12
    assert 12 <= len(page.data["players"]) < 90
    assert page.data["players"][str(of["steps"][0][0])] == f"x{of['steps'][0][0]}"
    assert of["rest"][0] == 78
    assert of["rest"][2] == style.signed([of["steps"][0][1], of["rest"][1]])[1]
    total = sum(step[1] for step in of["steps"]) + of["rest"][1]
    assert total == pytest.approx(of["prediction"] - of["base"], abs=1e-2)


@pytest.mark.parametrize(("players", "lines"), [(12, 12), (13, 13), (14, 12), (30, 12)])
def test_one_more_player_has_a_line_but_not_two(written, players: int, lines: int) -> None:
    (of, _) = written(rows(3, players=players)).data["rows"][0]["outputs"]
    assert (len(of["steps"]), of["lines"], of["rest"][0]) == (lines, lines, players - lines)


@pytest.mark.parametrize("scale", [1e-10, 1e-4, 1.0, 1e5, 1e12])
def test_numbers_of_any_size_are_said_in_one_way(written, scale: float) -> None:
    explanation = helpers.explained(
        torch.ones(2, 3), ms.Players.of_elements((3,)), ("a",), ms.Identity()
    )
    phi = explanation.phi.sign() * torch.tensor([1.25, 0.5, 0.0]).reshape(1, 3, 1) * scale
    error = torch.full_like(phi, 0.031 * scale)
    page = written(replace(explanation, phi=phi, standard_error=error))
    for k, line in enumerate(page.data["rows"]):
        steps = line["outputs"][0]["steps"]
        assert [step[3] for step in steps] == style.signed(phi[k].flatten().double().tolist())
        assert all(len(step[3]) <= 9 for step in steps)
        assert all(any(digit in step[3] for digit in "125") for step in steps[:2])
        # What is said in the table is what is said below it.
        (largest,) = style.signed([float(phi[k, 0, 0])])
        assert largest == steps[0][3]
        assert all(f"x{step[0]} = 1 {step[3]} " in page.text for step in steps)
        # The text of an error is a number of two digits.
        for step in steps:
            assert float(step[4].replace("−", "-")) == pytest.approx(0.031 * scale, rel=1e-3)


def test_sums_of_other_players_leave_out_what_is_not_known(written) -> None:
    explanation = rows(2, players=20)
    phi = explanation.phi.clone()
    phi[0, 3] = math.inf
    (of, _) = written(replace(explanation, phi=phi)).data["rows"][0]["outputs"]
    assert of["rest"][0] == 7
    known = phi[0, :, of["output"]][phi[0, :, of["output"]].isfinite()].sum()
    total = sum(step[1] for step in of["steps"]) + of["rest"][1]
    assert total == pytest.approx(float(known), abs=1e-3)


@pytest.mark.parametrize(
    "explanation", [helpers.digits(), helpers.composed()], ids=["pictures", "compositions"]
)
def test_a_page_has_light_and_dark_colours_whatever_matplotlib_draws_on(
    written, explanation: ms.Explanation
) -> None:
    light = written(explanation).source
    with plt.style.context("dark_background"):
        assert written(explanation).source == light
    for kind in (LIGHT, dark()):
        for name in ("ground", "ink", "soft", "raises", "lowers", "neutral"):
            assert f"--{name}: {vars(kind)[name]};" in light


def test_quality_is_said_in_a_sentence(written) -> None:
    known = {"chosen": "vae", "mse": {"marginal": 0.04, "vae": 0.01}, "rows": 500, "warning": ""}
    page = written(replace(helpers.table(), made_by={"quality": known, "seed": 7}))
    assert (
        "On 500 held-out rows, the mean squared error of vae is 0.01, 0.25 times that of the "
        "value function off the manifold (0.04)." in page.text
    )
    assert "seed 7" in page.text


@pytest.mark.parametrize(
    "quality",
    [{}, {"chosen": "vae"}, {"chosen": "vae", "mse": {"vae": None}}, {"chosen": "vae", "mse": {}}],
)
def test_a_quality_that_is_not_known_is_not_made_up(written, quality: dict) -> None:
    page = written(replace(helpers.table(), made_by={"quality": quality}))
    assert "Its error was not measured" in page.text
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
        ({"name": "SVC", "accuracy": math.nan}, "SVC. How good it is was not measured."),
        (None, "Which model is explained was not recorded"),
        ({}, "Which model is explained was not recorded"),
    ],
)  # fmt: skip
def test_the_model_and_its_quality_are_named(written, model: Any, said: str) -> None:
    page = written(replace(helpers.table(), made_by={} if model is None else {"model": model}))
    assert said in page.text
    assert page.text.index(said) < page.text.index("How good the value function is")
    assert said not in page.text.split("How it was made")[-1]


def test_an_explainer_tells_which_model_it_explains(written) -> None:
    size = [k % 13 for k in range(90)]
    frame = pd.DataFrame({"size": size, "rooms": [s // 3 + k % 2 for k, s in enumerate(size)]})
    model = LinearRegression().fit(frame, frame["size"] + 2.0 * frame["rooms"])
    explainer = ms.Explainer(model, frame, candidates=["gaussian"])
    page = written(explainer(frame.head(3)))
    assert "The model that is explained is LinearRegression." in page.text
    assert "On 14 held-out rows, the mean squared error of gaussian is" in page.text


def test_settings_are_told_in_words_and_only_those_that_were_set(written) -> None:
    settings = {"_target_": "package.Value", "hidden": [64, 32], "patch": None, "max_epochs": 3}
    made_by = {"estimator": "exact", "settings": settings, "half_trained": True, "seed": 7}
    page = written(replace(helpers.table(), made_by=made_by))
    told = page.text[page.text.rindex("How it was made") :]
    for said in (
        "value function: hidden layers 64, 32", "value function: max epochs 3",
        "half trained yes", "estimator exact", "seed 7",
    ):  # fmt: skip
        assert said in told
    for key in ("_target_", "package.Value", "patch", "None", "settings", "_"):
        assert key not in told.split("Written by")[0].replace("manifold_shap", "")


def test_the_only_value_function_and_that_off_the_manifold_have_sentences() -> None:
    explanation = helpers.table()
    for mse, said in (({"vae": 0.5}, "of vae is 0.5."), ({"vae": 1.0, "marginal": 0.0}, "is 1.")):
        known = {"quality": {"chosen": "vae", "mse": mse}}
        sentence = facts.quality_of(replace(explanation, made_by=known))["sentence"]
        assert sentence.startswith("On test rows, the mean squared error")
        assert sentence.endswith(said)


@pytest.mark.parametrize(
    ("mse", "said"),
    [
        (
            {"vae": -0.001, "marginal": 0.04},
            "is −0.001; that of the value function off the manifold is 0.04.",
        ),
        (
            {"vae": 0.0, "marginal": 0.04},
            "of vae is 0; that of the value function off the manifold is 0.04.",
        ),
        ({"vae": 0.02, "marginal": math.nan}, "of vae is 0.02."),
        ({"vae": 0.02, "marginal": -0.04}, "of vae is 0.02."),
        (
            {"vae": 0.02, "marginal": 0.04, "gaussian": math.nan},
            "0.02, 0.50 times that of the value function off the manifold (0.04).",
        ),
    ],
)
def test_errors_at_or_below_zero_have_no_share_and_what_is_not_known_no_line(
    mse: dict[str, float], said: str
) -> None:
    known = {"quality": {"chosen": "vae", "mse": mse}}
    found = facts.quality_of(replace(helpers.table(), made_by=known))
    assert found["sentence"].endswith(said)
    assert [each["name"].split()[0] for each in found["lines"]] == sorted(
        (name for name, error in mse.items() if math.isfinite(error)), key=lambda name: mse[name]
    )
    assert all(0 <= float(each["width"]) <= 100 for each in found["lines"])


@pytest.mark.parametrize("error", [math.nan, math.inf])
def test_an_error_that_is_no_number_was_not_measured(written, error: float) -> None:
    known = {"chosen": "vae", "mse": {"vae": error, "marginal": 0.04}}
    page = written(replace(helpers.table(), made_by={"quality": known}))
    assert "Its error was not measured" in page.text


def test_cautions_stand_at_the_top(written) -> None:
    known = {"chosen": "vae", "mse": {"vae": 2.0}, "warning": "no better than chance: 2.0"}
    made_by = {"quality": known, "half_trained": True, "hints": ["Look twice."]}
    explanation = replace(helpers.table(), made_by=made_by)
    error = torch.full_like(explanation.phi, math.nan)
    page = written(replace(explanation, standard_error=error))
    for said in (
        "Half-trained value function.",
        "No better than chance.",
        "Look twice.",
        "Standard errors are unknown.",
    ):
        assert said in page.text
        assert page.text.index(said) < page.text.index("How good the value function is")
    assert {step[2] for row in page.data["rows"] for step in row["outputs"][0]["steps"]} == {None}


def test_a_row_without_trouble_has_no_caution(written) -> None:
    assert not [
        each
        for each in written(helpers.table()).named("div")
        if "role" in each and each["role"] == "note"
    ]


def test_values_that_do_not_add_up_are_cautioned_of(written) -> None:
    explanation = helpers.table()
    page = written(replace(explanation, prediction=explanation.prediction + 1.0))
    assert "Shapley values do not add up to prediction - base" in page.text


def test_values_that_are_not_known_are_left_out_and_said(written) -> None:
    explanation = helpers.table()
    phi = explanation.phi.clone()
    phi[1, 2], phi[:, 4] = math.nan, math.inf
    page = written(replace(explanation, phi=phi))
    assert "Some Shapley values are not known." in page.text
    first, second = (row["outputs"][0]["steps"] for row in page.data["rows"][:2])
    assert [len(first), len(second)] == [4, 3]
    assert "nan" not in page.source.lower().split("<main")[1].split("</main")[0]


def test_a_page_without_any_value_that_is_known_says_so(written) -> None:
    explanation = helpers.table()
    page = written(replace(explanation, phi=torch.full_like(explanation.phi, math.nan)))
    assert "None of these values is known." in page.text
    assert "Some Shapley values are not known." in page.text
    assert "None of these values is known." not in written(explanation).text
    assert page.data["rows"][0]["outputs"][0]["steps"] == []
    assert "nan" not in page.source.lower().split("<main")[1].split("</main")[0]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (0, ""), (1, "1 further feature has a smaller one."),
        (2, "2 further features have smaller ones."),
    ],
)  # fmt: skip
def test_features_without_a_line_are_counted(written, more: int, said: str) -> None:
    values = torch.linspace(1.0, 2.0, 15 + more)
    names = tuple(f"x{k}" for k in range(15 + more))
    known = overall.known(ms.GlobalValues(values, 0.1 * values, 0.5, 0.1, names, rows=100))
    assert known["others"] == said
    explanation = rows(2, players=10 + more)
    pairs = torch.ones(2, 10 + more, 10 + more, 2)
    found = ms.Interactions(pairs, 0 * pairs, explanation)
    assert overall.paired(found, 0)["others"] == said
    page = written(explanation, interactions=found)
    assert page.text.count("further feature") == 2 * bool(more)
    own = overall.of_output(rows(4, players=12 + more), range(4), 0)
    assert own["others"] == (said if more > 1 else "")


def test_a_single_row_has_no_errors_of_a_mean(written) -> None:
    page = written(helpers.table()[:1])
    assert "±" not in page.text[: page.text.index("One row")]
    assert "Every row a point" not in page.text
    assert "over 1 row, with standard errors" in page.text


def test_global_values_stand_with_their_errors(written) -> None:
    explanation = helpers.table()
    values = ms.global_values(explanation, ["poor", "rich"] * 3)
    page = written(explanation, global_values=values)
    assert "Global Shapley values" in page.text
    assert "Global Shapley values" not in written(explanation).text
    largest = values.phi.abs().argmax()
    error = float(values.standard_error[largest])
    decimals = max(0, 1 - math.floor(math.log10(error)))
    assert f"{float(values.phi[largest]):.{decimals}f} ± {error:.{decimals}f}" in page.text


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
    assert "3.5" in page.text  # The mean of 6 and 1.


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


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_with_holes_are_drawn_in_silence(written, channels: int) -> None:
    x = torch.rand(2, channels, 6, 7, generator=torch.Generator().manual_seed(0))
    x[0, 0, 0, 0], x[1, 0, 2, 3] = math.nan, math.inf
    explanation = helpers.explained(x, ms.Players.patches((channels, 6, 7), 3), ("a", "b"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = written(explanation)
    drawn = [each["src"] for each in page.named("img") if (each.get("alt") or "").startswith("Pic")]
    for url in drawn:
        assert url is not None
        assert len(np.unique(pixels(url))) > 20  # What is known is not lost.


def test_large_photos_are_made_small(written) -> None:
    x = torch.rand(4, 3, 300, 200)
    players = ms.Players.patches((3, 300, 200), 50)
    page = written(helpers.explained(x, players, ("a", "b")))
    assert len(page.source) < 200_000
    assert "data:image/jpeg" in page.source


def test_texts_have_words_with_their_values(written) -> None:
    x = torch.tensor([[4.0, 2.0, 3.0], [2.0, 5.0, 0.0]])
    players = ms.Players.tokens(3, padding=0)
    value = ms.imputed_value(lambda x: x.sum(1, True), ms.MarginalImputer(x, players), "identity")
    explanation = ms.exact_shapley(value, x)
    page = written(explanation, tokens=[["it", "is", "good"], ["is", "bad"]])
    assert [word[1:] for word in page.data["rows"][1]["words"]] == [["is", 0], ["bad", 1]]
    assert page.data["rows"][0]["values"] == {"0": "it", "1": "is", "2": "good"}
    assert "is (2 ×)" in re.sub(r"[+−]\S+ ", "", page.text)


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
            own = explanation.x[k, channel].numpy()
            assert points[:, 0] == pytest.approx((np.arange(12) + 0.5) / 12 * 1000, abs=0.51)
            # Upwards is downwards on a screen; a hundredth of the height is lost by rounding.
            assert -np.corrcoef(points[:, 1], own)[0, 1] > 0.999
        for place, of in enumerate(row["outputs"]):
            colours = pixels(drawn["maps"][place])
            assert colours.shape == (2, 12, 3)
            phi = explanation.phi[k, :, of["output"]].numpy()
            red = colours[..., 0] - colours[..., 2]
            assert (np.sign(red) == np.sign(np.repeat(phi, 4))).all()
            assert (colours == np.repeat(colours[:1, ::4], 4, axis=1)).all()
            green = colours[0, ::4, 1]
            for side in (phi > 0, phi < 0):  # The larger, the less green.
                assert (np.diff(green[side][np.argsort(np.abs(phi[side]))]) <= 0).all()
    assert len(page.named("polyline")) == 3


def test_what_is_a_series_and_what_is_none(written) -> None:
    by_channel = helpers.explained(torch.randn(2, 3, 8), ms.Players.channels((3, 8)), ("a", "b"))
    assert written(by_channel).data["rows"][0]["curves"]["names"] == [
        f"channel {k}" for k in range(3)
    ]
    flat = helpers.explained(torch.randn(2, 8), ms.Players.segments((8,), 2), ("a", "b"))
    assert "curves" not in written(flat).data["rows"][0]
    (name,) = written(flat, series=10 * flat.x).data["rows"][0]["curves"]["names"]
    assert name == ""
    picture = helpers.explained(torch.rand(2, 4, 6), ms.Players.of_elements((4, 6)), ("a", "b"))
    assert "curves" not in written(picture).data["rows"][0]
    assert "curves" not in written(helpers.table()).data["rows"][0]


def test_padding_at_the_end_of_a_series_is_not_drawn(written) -> None:
    x = torch.randn(2, 1, 12)
    x[1, 0, 8:] = -9.0
    players = ms.Players.segments((1, 12), 4, padding=-9.0)
    value = ms.imputed_value(
        lambda x: x.sum((1, 2))[:, None], ms.MarginalImputer(x, players), "identity"
    )
    page = written(ms.exact_shapley(value, x))
    assert [row["curves"]["time"] for row in page.data["rows"]] == [12, 8]
    assert [len(row["curves"]["lines"][0].split()) for row in page.data["rows"]] == [12, 8]


def test_long_series_keep_their_peaks_and_fit(written) -> None:
    explanation = series(400, 12, 5000, 500)
    x = explanation.x.clone()
    x[:, :, 1234] = 50.0
    page = written(replace(explanation, x=x))
    drawn = page.data["rows"][0]["curves"]
    assert (len(drawn["lines"]), drawn["others"]) == (8, 4)
    for line in drawn["lines"]:
        points = [tuple(map(int, each.split(","))) for each in line.split()]
        assert 120 < len(points) <= 242
        across, _ = min(points, key=lambda point: point[1])
        assert across == pytest.approx(1234.5 / 5, abs=1)
    assert len(page.source.encode()) <= LARGEST
    assert f"{len(page.data['rows'])} of 400 rows are listed" in page.text


def test_maps_of_very_long_series_have_a_pixel_for_each_unit_of_the_drawing(written) -> None:
    explanation = series(2, 1, 100_000, 10_000)
    explanation = replace(explanation, phi=explanation.phi.sign())
    for k, row in enumerate(written(explanation).data["rows"]):
        assert row["curves"]["time"] == 100_000
        for url, of in zip(row["curves"]["maps"], row["outputs"], strict=True):
            colours = pixels(url)
            assert colours.shape == (1, 1000, 3)
            assert (colours == np.repeat(colours[:, ::100], 100, axis=1)).all()
            red = colours[0, ::100, 0] - colours[0, ::100, 2]
            assert (np.sign(red) == np.sign(explanation.phi[k, :, of["output"]].numpy())).all()


def test_series_that_do_not_fit_are_refused(written) -> None:
    explanation = series()
    for given in (
        explanation.x[:2], explanation.x[..., 1:], explanation.x[:, :1],
        {"a": explanation.x[:, 0]}, {"a": explanation.x, "b": explanation.x},
        torch.tensor(5.0), torch.ones(3), explanation.x[:0], explanation.x[..., None],
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"Expected `series` as the rows.* but got"):
            written(explanation, series=given)
    with pytest.raises(ValueError, match="`series` without NaN"):
        written(explanation, series=explanation.x / 0)
    with pytest.raises(TypeError, match="series"):
        written(explanation, series=["a"])
    with pytest.raises(TypeError, match="series"):
        written(explanation, series=5.0)


def test_rows_with_players_of_their_own(written) -> None:
    page = written(helpers.ragged())
    one, other = page.data["rows"]
    assert len(one["outputs"][0]["steps"]) == 3
    assert len(other["outputs"][0]["steps"]) == 2
    ragged = written(helpers.ragged((6,)))
    assert "a mean over rows would be of nothing in particular" in ragged.text


@pytest.mark.parametrize("classes", [2, 3, 4, 12])
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
    assert ("plotly" in {each.get("id") for each in page.named("script")}) == (classes > 2)
    assert len(page.source) < LARGEST


def test_plotly_is_packed_without_loss_and_allowed_by_its_checksum(written) -> None:
    page = written(helpers.composed(4, 3))
    scripts = {
        each.get("id"): text for each, text in zip(page.named("script"), page.scripts, strict=True)
    }
    source = gzip.decompress(base64.b64decode(scripts["plotly"])).decode()
    assert source == bundle.plotly_script()
    (policy,) = [each["content"] for each in page.named("meta") if "http-equiv" in each]
    assert policy is not None
    assert "default-src 'none'" in policy
    for script in (source, scripts[None]):
        assert bundle.checksum(script) in policy
    figures = json.loads(gzip.decompress(base64.b64decode(scripts["figures"])))
    assert len(figures) == 2


def test_without_plotly_a_page_has_no_figures_to_turn(
    written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manifold_shap.report.balances.find_spec", lambda name: None)
    page = written(helpers.composed(4, 3))
    assert "pip install 'manifold_shap[report]'" in page.text
    assert len(page.scripts) == 2


def test_a_selection_of_outputs(written) -> None:
    explanation = replace(helpers.digits(), made_by={"outputs_of": 10})
    assert written(explanation).data["outputs"] == [f"probability of {k}" for k in range(3)]


# -- size -------------------------------------------------------------------------------------


def test_of_many_rows_the_same_sample_is_shown(written) -> None:
    explanation = rows(100_000)
    page = written(explanation)
    assert "400 of 100000 rows are listed" in page.text
    assert "100000 rows, 4 features, 2 outputs" in page.text
    labels = [row["label"] for row in page.data["rows"]]
    assert len(set(labels)) == 400
    assert labels == [row["label"] for row in written(explanation).data["rows"]]
    assert max(map(int, labels)) > 90_000
    assert len(page.source.encode()) < LARGEST / 3


def test_points_of_many_rows_are_of_early_and_late_ones_alike(written) -> None:
    """Rows of a table in order of time, of which the last quarter has other values."""
    explanation = rows(10_000, players=12)
    early = torch.arange(10_000)[:, None, None] < 7_500
    phi = torch.where(early, 1.0, -1.0).expand(-1, 12, 2).contiguous()
    page = written(replace(explanation, phi=phi))
    assert "Shapley values of 300 rows (of 10000) for" in page.text
    path = page.source.partition('<svg viewBox="0 0 1000 40"')[2].partition("</svg>")[0]
    places = [int(each) for each in re.findall(r"M(\d+) ", path)]
    assert len(places) == 300
    # 75 in the mean, with a standard deviation of 7.5.
    assert 37 < sum(place < 500 for place in places) < 113


def test_means_are_over_all_rows_not_over_the_sample(written) -> None:
    explanation = rows(1_000)
    spike = explanation.phi.clone()
    spike[:, 2] += 5.0
    explanation = replace(explanation, phi=spike, prediction=explanation.base + spike.sum(1))
    size = explanation.phi[:, 2, 1].abs()
    page = written(explanation)
    error = float(size.std() / 1_000**0.5)
    decimals = 1 - math.floor(math.log10(error))
    assert f"{float(size.mean()):.{decimals}f} ± {error:.{decimals}f}" in page.text


def test_a_thousand_classes(written) -> None:
    explanation = rows(50, outputs=1_000)
    page = written(explanation)
    assert "10 of 1000 outputs are shown here" in page.text
    for k, row in enumerate(page.data["rows"]):
        assert row["outputs"][0]["output"] == int(explanation.prediction[k].argmax())
        assert len(row["outputs"]) == 5
    assert len(page.source.encode()) < 1_000_000


def test_what_is_too_large_has_fewer_rows(written) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(220, 3, 144, 144, generator=generator)
    players = ms.Players.patches((3, 144, 144), 48)
    page = written(helpers.explained(x, players, ("a", "b")))
    assert 0.6 * LARGEST < len(page.source.encode()) <= LARGEST
    assert 50 < len(page.data["rows"]) < 220
    assert f"{len(page.data['rows'])} of 220 rows are listed" in page.text


def test_a_page_without_plotly_has_the_room_that_it_would_take(written) -> None:
    """Of two classes no path can be turned."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(220, 3, 144, 144, generator=generator)
    players = ms.Players.patches((3, 144, 144), 48)
    partition = ms.Partition.sequential(("a", "b"))
    explanation = helpers.explained(x, players, partition.names, ms.ILR(), partition=partition)
    page = written(explanation)
    assert 0.85 * LARGEST < len(page.source.encode()) <= LARGEST


def test_tables_of_many_columns_fit_with_all_of_their_rows(written) -> None:
    page = written(rows(400, players=40, outputs=10))
    assert len(page.data["rows"]) == 400
    assert len(page.source.encode()) <= LARGEST


def test_the_same_explanation_is_the_same_page(written) -> None:
    assert written(helpers.composed(4, 3)).source == written(helpers.composed(4, 3)).source


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
    page = written(
        explanation, title=HOSTILE, global_values=values, tokens=[[HOSTILE, "is", "x"]] * 2
    )
    plain = written(replace(helpers.explained(x, ms.Players.of_elements((3,)), ("a", "b"))))
    assert len(page.named("script")) == len(plain.named("script")) == 2
    assert not [each for each in page.named("img") if each.get("src") == "x"]
    assert not [each for _, each in page.tags if "onerror" in each]
    assert page.data["outputs"][0].count("alert(1)") == 1
    assert page.text.count("<script>alert(1)") > 5


def test_json_in_a_page_ends_no_script() -> None:
    text = bundle.as_json({"a": ["</script><!--", "&lt;", "\u2028", math.inf, 1e-30]})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": ["</script><!--", "&lt;", "\u2028", None, 1e-30]}


def test_nothing_is_fetched_from_anywhere(written) -> None:
    page = written(helpers.composed(4, 3))
    for tag, attributes in page.tags:
        for name in ("src", "href", "srcset", "action", "data"):
            target = attributes.get(name) or ""
            assert target.startswith(("#", "data:")) or not target, (tag, target)
    assert "url(" not in page.source[: page.source.index("</style>")]


# -- bad input --------------------------------------------------------------------------------


def test_no_rows_are_refused(written) -> None:
    with pytest.raises(ValueError, match=r"at least one row, player and output.*nothing to show"):
        written(helpers.table()[:0])


def test_rows_are_shown_as_one_thing(written) -> None:
    explanation = series()
    tokens = [["a"]] * 3
    for given in (
        {"tokens": tokens, "series": explanation.x}, {"tokens": tokens, "images": explanation.x},
        {"images": explanation.x, "series": explanation.x},
    ):  # fmt: skip
        said = " and ".join(f"`{name}`" for name in given)
        with pytest.raises(ValueError, match=rf"Expected one of .* but got {said}; rows are"):
            written(explanation, **given)


def test_pictures_and_texts_that_are_none_are_refused() -> None:
    explanation = helpers.table()
    names = ("title", "tokens", "images", "series", "global_values", "interactions")
    for settings, error, said in (
        ({"images": torch.rand(6, 1, 6, 7)}, ValueError, "(height, width)"),
        ({"tokens": [*range(1, 7)]}, TypeError, "got 1 for row 0"),
        ({"tokens": [["a"], "b", ["c"], ["d"], ["e"], ["f"]]}, TypeError, "got 'b' for row 1"),
        ({"tokens": [["a"], [7], ["c"], ["d"], ["e"], ["f"]]}, TypeError, "with 7 for row 1"),
        ({"tokens": (["a"] for _ in range(6))}, TypeError, "got generator"),
        ({"tokens": 6}, TypeError, "got int"),
    ):
        with pytest.raises(error, match=re.escape(said)) as caught:
            Given(explanation, **{**dict.fromkeys(names), **settings})
        assert str(caught.value).startswith("Expected ")


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"to end in '\.html' but got"):
        helpers.table().report(tmp_path / "report.pdf")
    assert not list(tmp_path.iterdir())


def test_what_is_of_other_rows_or_players_is_refused(written) -> None:
    explanation = helpers.table()
    values = ms.global_values(explanation, ["poor", "rich"] * 3)
    found = ms.shapley_interactions(
        lambda x, mask: mask.sum(-1, keepdim=True).float(), torch.zeros(2, 3)
    )
    for settings, error, said in (
        ({"tokens": [["a"]]}, ValueError, "a list for each of 6 rows but got 1"),
        ({"tokens": "text"}, ValueError, "a list for each of 6 rows"),
        ({"global_values": explanation}, TypeError, "as `ms.global_values"),
        ({"interactions": values}, TypeError, "as `ms.shapley_interactions"),
        ({"interactions": found}, ValueError, "`interactions` of the rows of the explanation"),
    ):
        with pytest.raises(error, match=re.escape(said)):
            written(explanation, **settings)
    with pytest.raises(ValueError, match="`global_values` of the 24 players"):
        written(helpers.digits(), global_values=values)


def test_a_missing_folder_is_made_and_a_file_stays_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "report.html"
    helpers.table().report(path)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="Could not write"):
        helpers.digits().report(path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


def test_a_folder_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    (tmp_path / "report.html" / "kept").touch()
    with pytest.raises(OSError, match="Could not write"):
        helpers.table().report(tmp_path / "report.html")
    assert (tmp_path / "report.html" / "kept").exists()


def test_an_object_store_takes_a_page() -> None:
    helpers.table().report("memory://reports/report.html")
    found = fsspec.filesystem("memory").cat_file("/reports/report.html")
    assert found.startswith(b"<!doctype html>")


def test_the_package_is_imported_without_the_report() -> None:
    code = """
import sys
import manifold_shap
from manifold_shap.explanation import Explanation
print([name for name in sys.modules if name.startswith(("manifold_shap.report", "plotly"))])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
