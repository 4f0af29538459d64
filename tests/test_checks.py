"""Settings that a wrong answer would follow from silently."""

from typing import Any

import numpy as np
import pytest
import torch

from manifold_shap._checks import check_number, check_rows, check_seed, check_whole
from manifold_shap.players import Players


@pytest.mark.parametrize("value", [True, 1.0, "4", None, np.float64(3), torch.tensor(3), [1]])
def test_other_things_are_no_whole_numbers(value: object) -> None:
    with pytest.raises(TypeError, match=r"`n` to be a whole number of at least 1 but got .* \(\w"):
        check_whole("n", value)


@pytest.mark.parametrize(
    ("value", "bounds"),
    [(1, {"above": 1}), (0.9, {"low": 1}), (1.5, {"high": 1}), (1, {"below": 1}), (np.nan, {})],
)
def test_numbers_are_finite_and_in_their_range(value: Any, bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"`rate` to be a finite number.* but got"):
        check_number("rate", value, **bounds)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((3, 8, 8), r"but got \(3, 8, 8\); one row is `x\[None\]`\.$"),
        ((2, 8, 8, 3), r"channels come first, such as \(3, 8, 8\).*x.permute\(0, 3, 1, 2\)"),
        ((2, 3, 8, 9), r"\(rows, 3, 8, 8\) but got \(2, 3, 8, 9\); pass rows of the shape"),
    ],
)
def test_rows_of_another_shape_are_told_what_to_do(shape: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_rows(torch.zeros(shape), Players.pixels((3, 8, 8)))


def test_ends_of_a_range_are_in_it() -> None:
    assert check_number("rate", np.float32(1), low=1, high=1) == 1.0
    assert check_seed(2**63 - 1) == 2**63 - 1
    for seed in (-1, 2**63):
        with pytest.raises(ValueError, match="`seed` to be a whole number from 0 to 92233720368"):
            check_seed(seed)
