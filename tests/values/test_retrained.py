"""Values of models fitted again for each coalition, against fits by hand."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from manifold_shap.values.retrained import retrained_value

MASKS = all_coalitions(4)
FEATURES, LABELS = load_iris(return_X_y=True)
X, Y = torch.from_numpy(FEATURES).float(), torch.from_numpy(LABELS)


def rows() -> Tensor:
    return X[::30]


def masks(count: int = 5) -> Tensor:
    return MASKS.expand(count, -1, -1)


class Counting:
    """Gaussian naive Bayes fits, and the columns that each of them saw."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def __call__(self, x: Tensor, y: Any) -> Any:
        self.seen.append(x)
        return GaussianNB().fit(x.numpy(), y)


@pytest.mark.parametrize("space", ["probability", "ilr"])
def test_values_are_those_of_models_fitted_by_hand(space: str) -> None:
    train, labels = X[:-10], LABELS[:-10]
    # Wide enough to give no exact zeros.
    estimator = GaussianNB(var_smoothing=0.3)
    value = retrained_value(estimator, train, labels, space=space)
    values = value(rows(), masks())

    def taken(p: Tensor) -> Tensor:
        return ms.spaces.as_space(space)(p if space == "probability" else p.log())

    for k, mask in enumerate(MASKS[1:], start=1):
        fitted = GaussianNB(var_smoothing=0.3).fit(train[:, mask].numpy(), labels)
        p = torch.from_numpy(fitted.predict_proba(rows()[:, mask].numpy()))
        torch.testing.assert_close(values[:, k], taken(p), check_dtype=False)
    # Classes are not balanced here, so that a uniform prior would be noticed.
    frequencies = torch.tensor([50, 50, 40]) / 140
    torch.testing.assert_close(values[:, 0], taken(frequencies).expand(5, -1), check_dtype=False)


def test_each_coalition_is_fitted_once_and_when_it_is_needed() -> None:
    fit = Counting()
    value = retrained_value(fit, X, LABELS)
    assert len(fit.seen) == 1
    some = torch.tensor([[[True, False, True, False]], [[True, False, False, False]]])
    value(rows()[:2], some)
    value(rows()[:2], some)
    assert [x.shape[1] for x in fit.seen] == [4, 1, 2]
    assert torch.equal(fit.seen[2], X[:, [0, 2]])
    ms.exact_shapley(value, rows())
    ms.exact_shapley(value, rows(), batch_size=3)
    # Nobody needs no model.
    assert len(fit.seen) == 15
    assert value.models.keys() == {
        members for size in range(1, 5) for members in itertools.combinations(range(4), size)
    }


def test_a_fit_may_use_gradients_and_return_a_module() -> None:
    def fit(x: Tensor, y: Tensor) -> torch.nn.Module:
        """By one step of Newton from zero, which is least squares."""
        network = torch.nn.Linear(x.shape[1] + 1, 1, bias=False).double()
        torch.nn.init.zeros_(network.weight)
        wide = torch.nn.functional.pad(x.double(), (0, 1), value=1.0)
        (network(wide)[:, 0] - y).square().sum().div(2).backward()
        step = torch.linalg.solve(wide.T @ wide, network.weight.grad[0])
        network.weight.data -= step
        return torch.nn.Sequential(torch.nn.ConstantPad1d((0, 1), 1.0), network)

    features, target, mask = X[:, :3], X[:, 3], all_coalitions(3).expand(5, -1, -1)
    learned = retrained_value(fit, features, target, space="identity")
    expected = retrained_value(LinearRegression(), features, target, space="identity")
    x = rows()[:, :3]
    torch.testing.assert_close(
        learned(x, mask), expected(x, mask), rtol=0, atol=1e-3, check_dtype=False
    )


def test_classes_that_no_training_row_has() -> None:
    def fit(x: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda rows: torch.tensor([[0.2, 0.3, 0.4, 0.1]]).expand(len(rows), -1)

    value = retrained_value(fit, X[:100], Y[:100])
    torch.testing.assert_close(value.expectation, torch.tensor([0.5, 0.5, 0, 0]))
    names = np.array(["setosa", "versicolor", "virginica"])[LABELS]
    assert retrained_value(GaussianNB(), X, names).outputs == ("setosa", "versicolor", "virginica")


def fewer_classes(x: Tensor, y: Any) -> Callable[[Tensor], Tensor]:
    return lambda rows: torch.full((len(rows), x.shape[1]), 1 / x.shape[1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_models": 15}, r"2\^4 = 16 coalitions .* `max_models` is 15"),
        (
            {"fit": lambda x, y: lambda rows: rows[:, :3], "space": "identity"},
            "a number for each of its outputs",
        ),
        (
            {"x_train": pd.DataFrame(X.numpy()), "y_train": pd.Series(Y.numpy())[::-1]},
            "the index of `x_train`",
        ),
        ({"fit": fewer_classes, "y_train": Y.float() + 0.5}, "to hold the 4 classes"),
    ],
)
def test_errors(settings: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"fit": GaussianNB(), "x_train": X, "y_train": Y}
    with pytest.raises(ValueError, match=message):
        retrained_value(**{**arguments, **settings})
