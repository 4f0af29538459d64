"""The power of a VAE imputer's weights: what it is chosen by."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import manifold_shap as ms
from manifold_shap.vae.fit import TEMPERS, choose_temper, largest_good
from tests import examples
from tests.learned import few_pairs


@pytest.mark.parametrize("returns", [None, "values"])
def test_a_likelihood_that_is_too_sure_is_tempered(returns: str | None) -> None:
    """By the error of a model's outputs, or of the elements themselves."""
    x, imputer = examples.normal(200, 4, 5), examples.vae()
    model = returns and ms.as_model(lambda x: x.sum(1, keepdim=True), x, returns=returns)
    chosen = []
    for sharpness in (1e-3, 1e5):
        imputer.bank.table *= sharpness
        chosen.append(choose_temper(imputer, x, model, "identity"))
    # Where weights hardly differ no power is better than another: the largest it is.
    assert chosen == [1.0, min(TEMPERS)]


@pytest.mark.parametrize("returns", [None, "values"])
def test_choosing_takes_as_little_of_many_rows_as_of_few(returns: str | None) -> None:
    """512 pairs: their likelihoods are those of all powers, draws of a model those of each."""
    x, imputer, asked = examples.normal(2_000, 4, 5), examples.vae(), 0

    def model(rows: torch.Tensor) -> torch.Tensor:
        nonlocal asked
        asked += len(rows)
        return rows.sum(1, keepdim=True)

    wrapped = returns and ms.as_model(model, x[:2], returns=returns)
    asked = 0
    with few_pairs(math.inf), FlopCounterMode(display=False) as counted:
        choose_temper(imputer, x, wrapped, "identity")
    codes, statistics = imputer.bank.table.shape
    products = statistics + 4 * len(TEMPERS) if returns is None else len(TEMPERS) * statistics
    assert counted.get_total_flops() < 1.1 * 2 * 512 * codes * products
    assert asked < 1.1 * len(TEMPERS) * 512 * 32


def test_one_standard_error_of_the_difference_is_not_held_against_a_larger_power() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(100, generator=generator)
    errors = torch.ones(4, 100)
    # The second is best by a hair, the last worse on all rows, the third by less than its noise.
    for k, extra in enumerate((0.3, -0.01, 0.0, 0.4)):
        errors[k] += extra
    errors[2] += noise - noise.mean()
    assert largest_good(errors) == TEMPERS[2]
    errors[2] += 0.5
    assert largest_good(errors) == TEMPERS[1]
