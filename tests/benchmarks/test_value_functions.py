"""The table of value functions: its models, its clock, and how the choice among them is judged."""

from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import report
from benchmarks.truth import value_functions
from benchmarks.truth.value_functions import compared, misses


def judged(error: float = 1.0, distance: float = 1.0, off: float = 4.0) -> Any:
    """What is missed where the chosen one has these, the other one of two candidates 1."""
    errors = {"marginal": 2.0, "vae": error, "copula": 1.0}
    distances = {"marginal": off, "vae": distance, "copula": 1.0}
    both = {
        name: compared({kind: torch.full((3,), one) for kind, one in figures.items()})
        for name, figures in (("error", errors), ("distance", distances))
    }
    return misses({"data": {"law": {"chosen": "vae", **both}}}).get("law", [])


@pytest.mark.parametrize(
    ("figures", "missed"),
    [
        ({"error": 1.06}, ["error"]),
        ({"distance": 1.06}, ["distance"]),
        ({"off": 1.9}, ["off the manifold"]),
        ({"error": 1.2, "distance": 1.2, "off": 2.0}, ["error", "distance", "off the manifold"]),
    ],
)
def test_a_choice_that_is_not_good_enough_is_told(
    figures: dict[str, float], missed: list[str]
) -> None:
    assert judged(**figures) == missed


def test_errors_of_ratios_are_paired() -> None:
    row = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    found = compared({"marginal": 3 * row, "vae": row, "copula": row + 0.1 * row.flip(0)})
    assert found["over the best"]["vae"] == [1.0, 0.0]
    ratio, error = found["over the best"]["marginal"]
    assert ratio == pytest.approx(3)
    assert error == pytest.approx(0, abs=1e-6)
    ratio, error = found["over the best"]["copula"]
    assert ratio == pytest.approx(1.1)
    assert 0 < error < 0.01


def test_where_it_was_measured_the_choice_is_never_clearly_behind(root: Path) -> None:
    data = report.load(root / "benchmarks/results", "value_functions")["found"]["data"]
    assert set(data) == {*value_functions.PUBLIC, *value_functions.KNOWN}
    for one in data.values():
        ratio, error = one["error"]["over the best"][one["chosen"]]
        assert ratio - 2 * error < value_functions.WITHIN
    missed = [what for whats in misses({"data": data}).values() for what in whats]
    assert "off the manifold" not in missed
