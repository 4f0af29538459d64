"""Value functions that are bad on purpose, and which diagnostic finds them.

The law has two clusters, in each of which all numbers are strongly correlated.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Coalitions
from manifold_shap.oracles import (
    GaussianMixture,
    OracleImputer,
)
from manifold_shap.values.base import Estimate

PLAYERS, ROWS, EXPLAINED = 5, 150, 30


class Bad(ms.ValueFunction):
    """Has the right ends, and between them whatever is given."""

    def __init__(self, truth: ms.oracles.TrueValue, between: Callable[..., Tensor]) -> None:
        super().__init__(replace(truth.spec, work=ms.values.Work()))
        self.truth, self.between = truth, between

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        mask = coalitions.masks()
        return Estimate(self.between(x, mask))

    def prediction(self, x: Tensor) -> Tensor:
        return self.truth.prediction(x)

    def base(self, x: Tensor) -> Tensor:
        return self.truth.base(x)


@cache
def case() -> tuple[GaussianMixture, ms.oracles.TrueValue, Callable[[Tensor], Tensor]]:
    common = 0.1 * torch.eye(PLAYERS) + 0.9
    centres = torch.tensor([[-1.0, -1, -1, -1, -1], [1.0, -1, 1, -1, 1]])
    law = GaussianMixture([0.5, 0.5], centres, [common, common])
    weight, shift, out = torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(0)).unbind()

    def model(x: Tensor) -> Tensor:
        return ((x @ weight[:PLAYERS] / 2 + shift[0]).tanh() @ out[:, :3]).softmax(-1)

    return law, ms.oracles.true_value(model, law), model


@cache
def pairs() -> tuple[Tensor, Tensor]:
    law, *_ = case()
    return law.sample(ROWS, seed=1).x, ms.metrics.shapley_pairs(ROWS, PLAYERS, least=1500)


@cache
def made(name: str) -> ms.ValueFunction:
    law, truth, model = case()
    if name == "exact draws":
        return ms.imputed_value(model, OracleImputer(law), draws=64)
    if name == "marginal":
        return ms.imputed_value(
            model, ms.imputers.MarginalImputer(law.sample(4000, seed=2).x), draws=64
        )

    def ignores_the_mask(x: Tensor, mask: Tensor) -> Tensor:
        return truth.base(x)[:, None].expand(-1, mask.shape[1], -1)

    def sees_the_whole_row(x: Tensor, mask: Tensor) -> Tensor:
        return truth.prediction(x)[:, None].expand(-1, mask.shape[1], -1)

    def sees_a_little(x: Tensor, mask: Tensor) -> Tensor:
        return 0.7 * truth(x, mask) + 0.3 * sees_the_whole_row(x, mask)

    own = (ignores_the_mask, sees_the_whole_row, sees_a_little)
    return Bad(truth, {each.__name__: each for each in own}[name])


@cache
def distance(name: str) -> ms.metrics.Score:
    return ms.metrics.mean_squared_error(made(name), *pairs(), truth=case()[1])


HONEST = ["marginal", "ignores_the_mask"]
LEAKING = ["sees_the_whole_row", "sees_a_little"]


@pytest.mark.parametrize("name", HONEST + LEAKING)
def test_the_distance_to_the_truth_and_its_curve_find_them_all(name: str) -> None:
    score = distance(name)
    assert score.debiased > 5 * score.standard_error
    curve = score.by_size
    assert curve.size == [0, 1, 2, 3, 4]
    assert abs(curve.debiased[0]) < 1e-3
    for figure, error in list(zip(curve.debiased, curve.standard_error, strict=True))[1:4]:
        assert figure > 5 * error


def test_leakage_finds_what_knows_too_much_alone() -> None:
    assert all(ms.metrics.leakage(made(name), *pairs()) == 0 for name in HONEST)
    assert all(ms.metrics.leakage(made(name), *pairs()) > 1e-3 for name in LEAKING)


def test_the_truth_itself_is_good_everywhere() -> None:
    score = distance("exact draws")
    assert abs(score.debiased) < 4 * score.standard_error
    for figure, error in zip(score.by_size.debiased, score.by_size.standard_error, strict=True):
        # Both bases are means over 4,096 rows or more, of numbers between 0 and 1.
        assert abs(figure) < 4.5 * error + 1 / 4096
    assert ms.metrics.leakage(made("exact draws"), *pairs()) == 0
