"""The tables that the commands print."""

import math
from dataclasses import replace

import torch

from manifold_shap.cli import report
from tests.plots.helpers import table


def test_a_table_says_errors_that_are_known() -> None:
    explanation = table()
    error = torch.zeros_like(explanation.phi)
    error[0], error[1] = 0.25, math.nan
    lines = report.table(replace(explanation, standard_error=error)).splitlines()[1:]
    assert lines[0].count("± 0.250") == 3
    assert len(lines) > 2
    assert not any("±" in line or "nan" in line for line in lines[1:])
