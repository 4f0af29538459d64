"""Seven ways where columns are categories: what each draws, how far values agree, and the plots."""

from typing import Any

import numpy as np
import pytest

from benchmarks.support import people_measures
from benchmarks.support.differences import jackknife
from benchmarks.support.people import COLUMNS


def found_of(phi: Any, sex: list[str]) -> dict[str, Any]:
    """Values of sex, and none of other columns, of each way."""
    values = {}
    for way, one in phi.items():
        values[way] = np.zeros((len(sex), len(COLUMNS)))
        values[way][:, COLUMNS.index("sex")] = one
    return {
        "phi": {way: one.tolist() for way, one in values.items()},
        "standard_error": {way: (0 * one).tolist() for way, one in values.items()},
        "people": {"sex": sex},
        "prediction": [0.45, 0.9, 0.5, 0.1],
    }


def test_categories_are_apart_by_the_share_of_variance_between_them() -> None:
    sex = ["Female", "Female", "Male", "Male"]
    found = found_of({"one": [-1, -1, 2, 2], "other": [-1, 1, -1, 1], "third": [0, 2, 2, 4]}, sex)
    told = [people_measures.separation(found, way, "sex") for way in ("one", "other", "third")]
    assert told == pytest.approx([1, 0, 0.5])
    assert people_measures.by_sex(found, "third") == (1, 3)


def test_noise_of_draws_does_not_bring_categories_together() -> None:
    generator = np.random.default_rng(0)
    sex = ["Female", "Male"] * 10_000
    means = np.where(np.array(sex) == "Male", 1.0, -1.0)
    own, noise = means + generator.normal(0, 0.5, 20_000), generator.normal(0, 1, 20_000)
    found = found_of({"noisy": own + noise}, sex)
    assert people_measures.separation(found, "noisy", "sex") < 0.5
    found["standard_error"]["noisy"] = np.ones((20_000, len(COLUMNS))).tolist()
    # Of variances 1 between and 0.25 within.
    assert people_measures.separation(found, "noisy", "sex") == pytest.approx(0.8, abs=0.05)


def test_the_jackknife_of_a_mean_has_its_standard_error() -> None:
    figures = np.array([1.0, 2.0, 4.0, 9.0])
    mean, error = jackknife(lambda k: float(figures[np.arange(4) != k].mean()), 4)
    assert mean == 4
    assert error == pytest.approx(figures.std(ddof=1) / 2)
