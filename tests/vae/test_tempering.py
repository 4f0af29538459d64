"""The power of a VAE imputer's weights: what it is chosen by."""

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.vae.families import choose_families
from manifold_shap.vae.fit import TEMPERS, choose_temper, largest_good
from manifold_shap.vae.imputer import VAEImputer
from manifold_shap.vae.network import MaskedVAE


def rows(count: int = 300, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(count, 1, generator=generator)
    return hidden + 0.5 * torch.randn(count, 4, generator=generator)


def imputer(sharpness: float = 1.0) -> VAEImputer:
    torch.manual_seed(0)
    network = MaskedVAE(choose_families(rows()), range(4), 2, (16,), 2)
    network.likelihood.describe(rows())
    made = VAEImputer(network, rows(), bank_size=300)
    made.bank.table *= sharpness
    return made


@pytest.mark.parametrize("returns", [None, "values"])
def test_a_likelihood_that_is_too_sure_is_tempered(
    returns: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the error of a model's outputs, or of the elements themselves."""
    monkeypatch.setattr("manifold_shap.vae.fit._PAIRS", 2048)
    x = rows(200, seed=5)
    model = returns and ms.as_model(lambda x: x.sum(1, keepdim=True), x, returns=returns)
    chosen = [choose_temper(imputer(s), x, model, "identity") for s in (1e-3, 100.0)]
    # Where weights hardly differ no power is better than another: the largest it is.
    assert chosen[0] == 1.0
    assert chosen[1] == min(TEMPERS)


def test_one_standard_error_of_the_difference_is_not_held_against_a_larger_power() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(100, generator=generator)
    errors = torch.ones(7, 100)
    # 0.4 is best by a hair, 0.6 and 1.0 worse on all rows, 0.8 worse by less than its noise.
    for k, extra in enumerate((0.3, 0.2, -0.01, 0.1, 0.2, 0.0, 0.4)):
        errors[k] += extra
    errors[5] += noise - noise.mean()
    assert largest_good(errors) == 0.8
    errors[5] += 0.5
    assert largest_good(errors) == 0.4
