"""The power of a VAE imputer's weights: what it is chosen by."""

import pytest
import torch

import manifold_shap as ms
from manifold_shap.vae.fit import TEMPERS, choose_temper, largest_good
from tests import examples


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
