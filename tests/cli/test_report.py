"""The tables that the commands print."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

import manifold_shap as ms
from manifold_shap.cli import report
from manifold_shap.data.texts import TextFile
from manifold_shap.plots.style import number
from tests.cli.commands import ORDERS, explain, read
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
    explain(place, *words, "report=false")
    assert not page.exists()


def test_a_report_of_texts_is_given_their_tokens() -> None:
    source = TextFile.__new__(TextFile)
    source.vocabulary = ms.Vocabulary(["good", "bad"])
    x = source.vocabulary.encode(["good bad", "bad"]).float()
    players = ms.Players.tokens(x.shape[1], padding=0)
    value = ms.imputed_value(lambda x: x.sum(1, True), ms.MarginalImputer(x, players), "identity")
    explanation = ms.exact_shapley(value, x)
    settings = source.report_settings(explanation)
    assert settings == {"tokens": [["good", "bad"], ["bad"]]}
