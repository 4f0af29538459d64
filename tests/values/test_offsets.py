"""Shapley values do not lose digits of a model whose numbers are large and close to each other."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsRegressor
from torch import Tensor, nn

import manifold_shap as ms

X = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
ROWS = X[:3]
FEW: dict[str, Any] = {
    "max_epochs": 1, "hidden": [8], "trainer": {"accelerator": "cpu", "limit_train_batches": 10},
}  # fmt: skip
OFFSET = 1e9

Function = Callable[[Any], np.ndarray]


def numbers(offset: float) -> Function:
    """Two outputs in double precision, of different units, which an offset does not round."""

    def of(x: Any) -> np.ndarray:
        x = np.asarray(x, dtype=np.float64)
        found = np.stack((np.sin(x[:, 0]) * x[:, 1] + x[:, 2], 100 * x[:, 3] * x[:, 0]), axis=1)
        return np.round(found * 1024) / 1024 + offset

    return of


def model(offset: float) -> ms.Model:
    return ms.as_model(numbers(offset), X.numpy(), returns="values")


def imputed(imputer: ms.imputers.Imputer, offset: float) -> ms.ImputedValue:
    return ms.imputed_value(model(offset), imputer, "identity", draws=8)


def surrogate(offset: float, **own: Any) -> ms.SurrogateValue:
    return ms.fit_surrogate(model(offset), X, space="identity", **{**FEW, "hidden": [8, 8], **own})


def taught(offset: float, **own: Any) -> ms.SurrogateValue:
    teacher = imputed(ms.imputers.GaussianImputer(X), offset)
    return surrogate(offset, teacher=teacher, teacher_pairs=1000, **own)


class Outputs(nn.Module):
    """Two numbers in double precision."""

    def __init__(self, offset: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.offset = nn.Linear(4, 2).double(), offset

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).tanh() + self.offset


def function(offset: float) -> Any:
    def of(x: Tensor, mask: Tensor) -> Tensor:
        masked = (x[:, None] * mask + 0.5 * ~mask).flatten(0, 1)
        return torch.from_numpy(numbers(offset)(masked)).unflatten(0, mask.shape[:2])

    return of


VALUES: dict[str, Callable[[float], Any]] = {
    "surrogate": surrogate,
    "selected surrogate": lambda at: surrogate(at).select([1]),
    "surrogate with a teacher": taught,
    "guided": lambda at: taught(at, guide=ms.imputers.MixtureImputer(X)),
    "copied model": lambda at: ms.fit_surrogate(
        Outputs(at), X, **{**FEW, "space": "identity", "network": "model", "hidden": None}
    ),
    "retrained": lambda at: ms.retrained_value(
        KNeighborsRegressor(5), X, numbers(at)(X), space="identity"
    ),
    "callable": function,
    "marginal": lambda at: imputed(ms.imputers.MarginalImputer(X), at),
}


def assert_alike(found: Tensor, expected: Tensor) -> None:
    assert found.dtype == torch.float64
    assert (found - expected).abs().max() <= 1e-6 * expected.abs().max()


@pytest.mark.parametrize("name", VALUES)
def test_an_offset_of_the_model_moves_the_base_alone(name: str) -> None:
    value, moved = VALUES[name](0.0), VALUES[name](OFFSET)
    expected, found = (ms.exact_shapley(each, ROWS, seed=1) for each in (value, moved))
    assert_alike(found.phi, expected.phi)
    assert_alike(found.base - OFFSET, expected.base)
    mask = ms.metrics.shapley_pairs(3, len(found.players), least=30)
    error, again = (ms.metrics.mean_squared_error(each, ROWS, mask) for each in (value, moved))
    assert again.debiased == pytest.approx(error.debiased, rel=1e-5)
