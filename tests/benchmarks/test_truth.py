"""Errors against true Shapley values, without those of the truth."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.speed import truth


def test_errors_are_without_that_of_the_truth() -> None:
    generator = torch.Generator().manual_seed(0)
    exact = torch.randn(400, 9, 1, generator=generator)
    noise, miss = torch.randn(2, 400, 9, 1, generator=generator)
    error = torch.full_like(exact, 0.5)
    known: Any = SimpleNamespace(phi=exact + 0.5 * noise, standard_error=error)
    assert truth.rmse(exact + 0.3 * miss, known) == pytest.approx(0.3, rel=0.1)
