"""True Shapley values: against means over rows that match, and with honest errors."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.speed import truth
from benchmarks.support.truth import TrueValue, Truth, true_values
from manifold_shap.data.mixture import NAMES, MixtureLaw

LAW = MixtureLaw(seed=1)


def model(frame: pd.DataFrame) -> Any:
    """Two outputs: one of a number and a missing cell, one of a category alone."""
    member = frame["member"].isna().to_numpy()
    first = np.tanh(frame["balance"].to_numpy() / 2000) * (1 + member)
    return np.stack((first, (frame["grade"] == "good").to_numpy()), axis=1)


@pytest.fixture(scope="module")
def value() -> TrueValue:
    return TrueValue(model, LAW, LAW.sample(3, seed=3), ["both", "grade"], draws=100)


def test_values_are_means_over_rows_that_match(value: TrueValue) -> None:
    names = ("region", "grade")
    mask = torch.tensor([name in names for name in NAMES]).expand(3, 1, -1)
    values = torch.stack([value(value.x, mask, torch.full((3, 1), key)) for key in range(20)])
    frame, rows = LAW.sample(100_000, seed=9), LAW.frame(value._cells)
    outputs = model(frame)
    for row in range(3):
        alike = np.ones(len(frame), dtype=bool)
        for name in names:
            own = frame[name].astype(object).fillna("?")
            alike &= (own == rows[name].astype(object).fillna("?")[row]).to_numpy()
        some = outputs[alike]
        error = np.hypot(some.std(0) / alike.sum() ** 0.5, some.std(0) / 2000**0.5)
        assert alike.sum() > 500
        np.testing.assert_array_less(
            abs(values[:, row, 0].mean(0).numpy() - some.mean(0)), 4 * error + 1e-6
        )


def test_true_values_sum_to_the_prediction_and_miss_by_what_they_say(value: TrueValue) -> None:
    found, other = true_values(value, repeats=4), true_values(shifted(value), repeats=4)
    expected = torch.from_numpy(model(LAW.frame(value._cells))).float() - value.base(value.x)
    torch.testing.assert_close(found.phi.sum(1), expected.to(found.phi), atol=1e-5, rtol=0)
    gap = (found.phi - other.phi).square().mean()
    promised = (found.standard_error.square() + other.standard_error.square()).mean()
    assert 0.6 < gap / promised < 1.6


def shifted(value: TrueValue) -> TrueValue:
    """The same value function, by other draws."""
    other = TrueValue(model, LAW, LAW.frame(value._cells), value.outputs, value.draws)
    plain = other.values
    other.values = lambda x, mask, keys: plain(x, mask, keys + 1000)  # type: ignore[method-assign]
    return other


def test_errors_are_without_that_of_the_truth() -> None:
    generator = torch.Generator().manual_seed(0)
    exact = torch.randn(400, 9, 1, generator=generator)
    noise, miss = torch.randn(2, 400, 9, 1, generator=generator)
    known = Truth(exact + 0.5 * noise, torch.full_like(exact, 0.5))
    assert truth.rmse(exact + 0.3 * miss, known) == pytest.approx(0.3, rel=0.1)
