"""The pages that the commands write."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import manifold_shap as ms
from manifold_shap.shown import number
from tests.cli.commands import ORDERS, explain, read


def test_a_run_writes_its_report_or_none(
    drawn_figures: None, irises: Path, copied: Callable[..., Path]
) -> None:
    place = copied(irises)
    words = ["data=iris", *ORDERS, "compare=[marginal]", "instances=30"]
    explain(place, *words)
    page = place / "iris" / "surrogate" / "report.html"
    text = page.read_text(encoding="utf-8")
    errors = read(place, "iris", "surrogate", "summary.json")["compared"]
    assert f"({number(errors['marginal']['mse_debiased'])} off the manifold)" in text
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
    drawn_figures: None, irises: Path, copied: Callable[..., Path]
) -> None:
    place = copied(irises)
    words = ["data=iris", *ORDERS, "compare=[]", "instances=[3,14,15]", "interactions=true"]
    explain(place, *words, "outputs=[setosa]")
    text = (place / "iris" / "surrogate" / "report.html").read_text(encoding="utf-8")
    assert re.findall(r"<b>Row (\d+)</b>", text) == ["3", "14", "15"]
    assert text.count("Largest interactions: ") == 3
    assert "Interactions (SII)" in text


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
