"""Warnings name the line of the caller, once."""

import warnings
from typing import Any

import pytest
import torch

import manifold_shap as ms
from manifold_shap._messages import warn


def test_warnings_name_the_line_of_the_caller() -> None:
    reference = torch.randn(200, 2)
    calls: Any = torch.no_grad()(lambda: ms.imputers.GaussianImputer(reference[:, [0, 0]]))
    with pytest.warns(UserWarning, match="covariance of `reference`") as caught:
        calls()
    assert [each.filename for each in caught] == [__file__]
    assert caught[0].lineno == calls.__wrapped__.__code__.co_firstlineno
    value = ms.imputed_value(_sums, ms.imputers.MarginalImputer(reference), "identity")
    with pytest.warns(UserWarning, match="far outside") as caught:
        ms.auto_shapley(value, [[70.0, 80.0]])
    assert [each.filename for each in caught] == [__file__]


def test_warnings_are_given_once_for_a_line_of_the_caller() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            warn("The same again.")
    assert [str(each.message) for each in caught] == ["The same again."]


def _sums(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1, keepdim=True)
