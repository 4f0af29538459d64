"""The door for rows: what it takes, and what it says to the rest."""

import numpy as np
import pandas as pd
import pytest
import torch

import manifold_shap as ms
from manifold_shap._checks import check_rows, to_tensor

PLAYERS = ms.Players.of_elements((2,))
ROWS = torch.tensor([[0.5, 1.0], [2.0, 3.0]])
ARRAY = ROWS.double().numpy()


def read_only() -> np.ndarray:
    array = ROWS.numpy().copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "x",
    [
        ROWS,
        ROWS.double(),
        ROWS.clone().requires_grad_(),
        ARRAY,
        read_only(),
    ],
    ids=["tensor", "float64", "grad", "array", "read-only"],
)
def test_tensors_and_arrays_are_rows(x: object) -> None:
    rows = check_rows(x, PLAYERS)
    assert torch.equal(rows, ROWS)
    assert rows.dtype == torch.float32
    assert not rows.requires_grad


def test_reversed_rows_whole_and_truth_numbers() -> None:
    assert torch.equal(to_tensor(ARRAY[::-1]), ROWS.flip(0))
    assert to_tensor(np.array([[1, 2]])).tolist() == [[1, 2]]
    assert to_tensor(np.array([[True]])).tolist() == [[1]]


@pytest.mark.parametrize(
    ("x", "got"),
    [
        (pd.DataFrame(ARRAY), "DataFrame"),
        (pd.Series([1.0]), "Series"),
        ([["red", "blue"]], "list"),
        (np.array([["1", "2"]]), "an array of <U1"),
        (np.array([[1, "red"]], dtype=object), "an array of object"),
        (None, "NoneType"),
    ],
    ids=["frame", "series", "list", "text", "objects", "none"],
)
def test_other_types_are_told_the_way(x: object, got: str) -> None:
    advice = r"`Schema.fit\(frame\).encode\(frame\)` .* `frame.to_numpy\(dtype='float32'\)`"
    with pytest.raises(TypeError, match=f"array of numbers but got {got}; .*{advice}"):
        check_rows(x, PLAYERS)


def test_a_frame_gets_in_by_the_advice() -> None:
    frame = pd.DataFrame(ARRAY)
    assert torch.equal(check_rows(frame.to_numpy(dtype="float32"), PLAYERS), ROWS)


@pytest.mark.parametrize("estimator", [ms.exact_shapley, ms.permutation_shapley])
def test_every_door_is_this_one(estimator: object) -> None:
    frame = pd.DataFrame(ARRAY)
    value = ms.imputed_value(lambda x: x, ms.MarginalImputer(ARRAY), "identity")
    mask = torch.ones(2, 1, 2, dtype=torch.bool)
    for call in (
        lambda: value(frame, mask),
        lambda: value.prediction(frame),
        lambda: ms.MarginalImputer(frame),
        lambda: estimator(value, frame),
        lambda: ms.mean_squared_error(value, frame, mask),
    ):
        with pytest.raises(TypeError, match=r"got DataFrame; a table becomes one by `Schema.fit"):
            call()


def test_errors_call_rows_by_their_name() -> None:
    with pytest.raises(
        ValueError, match=r"Expected `x_train` of shape .* one row as `x_train\[:1\]`"
    ):
        check_rows(torch.zeros(2), PLAYERS, "x_train")
    with pytest.raises(ValueError, match="entries of `x_train` are NaN or infinite"):
        check_rows(torch.tensor([[0, torch.nan]]), PLAYERS, "x_train")
