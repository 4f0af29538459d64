"""What a surrogate cannot be made of is named, before it is trained."""

from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.imputers import GaussianImputer, MixtureImputer
from tests.learned import TABLE, Masked, classifier, fit
from tests.surrogate.test_targets import TableValue


class Short(Masked):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().forward(x, mask)[:1]


def guided(**changed: Any) -> dict[str, Any]:
    guide = MixtureImputer(TABLE, components=2)
    teacher = ms.imputed_value(classifier, guide, draws=2)
    return {"teacher": teacher, "guide": guide, "x_validation": None, **changed}


def own(network: Any) -> dict[str, Any]:
    return {"network": network, "hidden": None}


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"activation": "tanh"}, "Expected `activation` to be one of"),
        ({"x": TABLE / 0}, "300 of 300 entries of `x_train` are"),
        ({"x_validation": TABLE[:, :2]}, r"`x_validation` of shape \(rows, 3\)"),
        ({"model": lambda x: x}, "Expected the model to return a distribution"),
        ({"players": ms.Players.of_elements((2,))}, r"`x_train` of shape \(rows, 2\)"),
        (own(Short((3,), 2)), r"`network` to return a tensor of shape \(\d+, 2\)"),
        (own(Masked((3,), 2, softmax=False)), "`network` to return a distribution"),
        ({"network": "conv", "patch": 2}, "options of the network 'conv' .*'patch'"),
        ({"network": "transformer", "hidden": [32, 64]}, "one multiple of 32 for all layers"),
        ({"teacher": TableValue(), "teacher_pairs": 1}, "`teacher_pairs` to be a whole number of"),
        ({"teacher": TableValue(), "teacher_share": 1.5}, "above 0 and of at most 1 but got 1.5"),
        (
            {"teacher": TableValue(), "players": ms.Players("abc", [1, 0, 2])},
            "give the same `players` to both",
        ),
        ({"teacher": TableValue(), "space": "ilr"}, "space='ilr', as the surrogate, but it has"),
        (
            {"teacher": TableValue(), "model": lambda x: classifier(1 - x)},
            "it predicts otherwise",
        ),
        ({"teacher": TableValue(torch.inf)}, r"entries of `value\(x, mask\)` are NaN"),
        (guided(teacher=None), "`teacher` to be a value function of an"),
        (guided(guide=GaussianImputer(TABLE)), "`guide` to be a `MixtureImputer`"),
        (guided(guide=MixtureImputer(TABLE[:, :2])), "`guide` to have the surrogate's"),
        (guided(network="conv"), "no `network` and no `x_validation` with a"),
        (guided(x_validation=TABLE), "no `x_validation` with a `guide`"),
    ],
)
def test_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        fit(**{"teacher_pairs": 200, **settings})
