"""Checks of arguments: what is taken, in which form, and what the errors say."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import manifold_shap as ms
from manifold_shap._checks import (
    check_number,
    check_seed,
    check_whole,
)

PLAYERS = ms.Players.of_elements((2,))
ROWS = torch.tensor([[0.5, 1.0], [2.0, 3.0]])


@given(st.integers(-(2**70), 2**70))
def test_whole_numbers_pass_within_their_range(number: int) -> None:
    assert check_whole("n", number, least=-(2**70)) == number
    if 0 <= number < 2**63:
        assert check_seed(number) == number
    else:
        with pytest.raises(
            ValueError, match=r"`seed` to be a whole number from 0 to 9223372036854"
        ):
            check_seed(number)


@pytest.mark.parametrize("value", [True, 1.0, "4", None, np.float64(3), torch.tensor(3), [1]])
def test_other_things_are_no_whole_numbers(value: object) -> None:
    with pytest.raises(TypeError, match=r"`n` to be a whole number of at least 1 but got .* \(\w"):
        check_whole("n", value)
    assert type(check_whole("n", np.int32(3))) is int


@pytest.mark.parametrize(
    ("value", "bounds", "fits"),
    [
        (1, {"low": 1}, True),
        (1, {"above": 1}, False),
        (np.float32(0.5), {"above": 0, "below": 1}, True),
        (1.5, {"high": 1}, False),
        (float("nan"), {}, False),
    ],
)
def test_numbers_pass_within_their_range(value: Any, bounds: dict, fits: bool) -> None:
    if fits:
        found = check_number("rate", value, **bounds)
        assert (type(found), found) == (float, value)
    else:
        with pytest.raises(ValueError, match=r"`rate` to be a finite number.* but got"):
            check_number("rate", value, **bounds)
