"""The tables that the commands print."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import manifold_shap as ms
from manifold_shap.cli import report
from manifold_shap.data.texts import TextFile
from manifold_shap.plots.style import number
from tests.cli.commands import ORDERS, explain, explained, read
from tests.plots.helpers import table


def test_a_table_says_errors_that_are_known() -> None:
    explanation = table()
    error = torch.zeros_like(explanation.phi)
    error[0], error[1] = 0.25, math.nan
    lines = report.table(replace(explanation, standard_error=error)).splitlines()[1:]
    assert lines[0].count("± 0.250") == 3
    assert len(lines) > 2
    assert not any("±" in line or "nan" in line for line in lines[1:])


def test_a_run_writes_its_report_or_none(
    drawn_figures: None, irises: Path, copied: Callable[..., Path]
) -> None:
    place = copied(irises)
    words = ["data=iris", *ORDERS, "compare=[marginal]", "instances=30"]
    explain(place, *words)
    page = place / "iris" / "surrogate" / "report.html"
    text = page.read_text(encoding="utf-8")
    errors = read(place, "iris", "surrogate", "summary.json")["compared"]
    assert "the mean squared error of surrogate is" in text
    assert f"({number(errors['marginal']['mse_debiased'])})" in text
    assert "Global Shapley values" in text
    assert "30 rows, 4 features, 3 outputs" in text
    known = read(place, "iris", "classifier", "metrics.json")["classifier_accuracy"]
    said = f"RandomForestClassifier. It predicts the right class for {known:.2%} of 30 test rows."
    assert f"The model that is explained is {said}" in text
    made_by = ms.Explanation.load(place / "iris" / "surrogate" / "explanations.zarr").made_by
    assert made_by["model"] == {"name": "RandomForestClassifier", "accuracy": known, "rows": 30}
    assert "Interactions" not in text
    explain(place, *words, "report=false")
    assert not page.exists()


def test_a_report_has_interactions_where_they_are_asked_for(
    drawn_figures: None,
    irises: Path,
    copied: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[ms.Interactions] = []

    def estimate(*given: Any, **settings: Any) -> ms.Interactions:
        found.append(ms.shapley_interactions(*given, **settings))
        return found[-1]

    monkeypatch.setattr("manifold_shap.cli.page.shapley_interactions", estimate)
    place = copied(irises)
    words = ["data=iris", *ORDERS, "compare=[]", "instances=[3,14,15]", "interactions=true"]
    explain(place, *words, "outputs=[setosa]")
    text = (place / "iris" / "surrogate" / "report.html").read_text(encoding="utf-8")
    data = json.loads(re.findall(r'id="data">(.*?)</script>', text)[0])
    assert [row["label"] for row in data["rows"]] == ["3", "14", "15"]
    assert [len(pairs) for row in data["rows"] for pairs in row["pairs"]] == [6, 6, 6]
    assert "Map of the mean interactions of pairs for" in text
    (interactions,) = found
    one, other, pair, *_ = data["rows"][1]["pairs"][0][0]
    assert pair == pytest.approx(float(interactions.values[1, one, other, 0]), rel=1e-3)
    assert torch.equal(interactions.shapley.x, explained(place, data="iris").x)


def test_all_else_is_written_before_interactions(
    irises: Path, copied: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any, **settings: Any) -> None:
        assert settings["batch_size"] == 64
        raise RuntimeError("stopped")

    monkeypatch.setattr("manifold_shap.cli.page.shapley_interactions", fail)
    place = copied(irises)
    words = ["data=iris", *ORDERS, "compare=[]", "instances=[3,14,15]", "interactions=true"]
    with pytest.raises(RuntimeError, match="stopped"):
        explain(place, *words, "estimator.batch_size=64")
    directory = place / "iris" / "surrogate"
    assert json.loads((directory / "summary.json").read_text())["rows"] == "3,14-15"
    assert (directory / "report.html").exists()


def always(frame: pd.DataFrame) -> np.ndarray:
    """A model of one's own, of irises."""
    return np.tile([0.2, 0.3, 0.5], (len(frame), 1))


def test_the_quality_of_another_model_is_not_that_of_ones_own(
    drawn_figures: None, irises: Path, copied: Callable[..., Path]
) -> None:
    place = copied(irises, "classifier")
    own = ["model=python", "model.call=tests.cli.test_report:always", "value_function=gaussian"]
    explain(place, "data=iris", *own, "instances=2", "compare=[]")
    text = (place / "iris" / "gaussian" / "report.html").read_text(encoding="utf-8")
    assert "the function &#39;always&#39;. How good it is was not measured." in text


def test_a_report_of_texts_is_given_their_tokens() -> None:
    source = TextFile.__new__(TextFile)
    source.vocabulary = ms.Vocabulary(["good", "bad"])
    x = source.vocabulary.encode(["good bad", "bad"]).float()
    players = ms.Players.tokens(x.shape[1], padding=0)
    value = ms.imputed_value(lambda x: x.sum(1, True), ms.MarginalImputer(x, players), "identity")
    explanation = ms.exact_shapley(value, x)
    settings = source.report_settings(explanation)
    assert settings == {"tokens": [["good", "bad"], ["bad"]]}
