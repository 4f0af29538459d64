"""Learned value functions against true ones, of laws that are known."""

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.oracles import GaussianMixture, true_value
from manifold_shap.vae.fit import choose_temper, fit_imputer

COVARIANCE = torch.tensor(
    [[1.0, 0.8, 0.5, 0.2], [0.8, 1.0, 0.6, 0.3], [0.5, 0.6, 1.0, 0.7], [0.2, 0.3, 0.7, 1.0]]
)
NORMAL = GaussianMixture([1.0], [[0.0] * 4], [COVARIANCE])
# Frye et al. (2021), Eq. (11): twenty noisy readings of one hidden bit.
READINGS = GaussianMixture(
    [0.5, 0.5], torch.tensor([[0.0], [1]]).expand(2, 20), [torch.eye(20) / 4] * 2
)


def linear_and_square(x: Tensor) -> Tensor:
    """a'x, and its square: a model that is linear and one that is not."""
    along = x @ torch.tensor([1.0, -0.5, 0.7, 0.4])
    return torch.stack((along, along.square()), dim=1)


def readings(x: Tensor) -> Tensor:
    return torch.stack((x.mean(1), x[:, 0] * x[:, 19]), dim=1)


def distance(value: ms.ValueFunction, truth: ms.ValueFunction, x: Tensor, least: int) -> Tensor:
    """Mean squared distance to the truth, in units of its variance, for each output."""
    mask = ms.metrics.shapley_pairs(len(x), len(value.players), least=least)
    values, expected = value(x, mask), truth(x, mask)
    return (values - expected).square().mean((0, 1)) / expected.var((0, 1))


@pytest.fixture(scope="module")
def normal_imputer() -> ms.VAEImputer:
    few = {"latent": 4, "hidden": (64, 64), "components": 2, "max_epochs": 8}
    return fit_imputer(NORMAL.sample(3000).x, posterior="encoder", importance=True, **few)


@pytest.mark.parametrize("posterior", ["bank", "encoder"])
def test_vae_on_gaussian_data(normal_imputer: ms.VAEImputer, posterior: str) -> None:
    imputer = normal_imputer
    if posterior == "bank":
        imputer = ms.VAEImputer(imputer.network, imputer.reference, imputer.players)
        imputer.temper = choose_temper(imputer, NORMAL.sample(500, seed=2).x)
    truth = true_value(linear_and_square, NORMAL, "identity", draws=500)
    learned, spliced = (
        distance(
            ms.imputed_value(linear_and_square, each, "identity", draws=200),
            truth,
            NORMAL.sample(100, seed=1).x,
            1000,
        )
        for each in (imputer, ms.imputers.MarginalImputer(imputer.reference))
    )
    assert (learned < 0.05).all()
    assert (learned < 0.2 * spliced).all()


@pytest.mark.slow
@pytest.mark.usefixtures("many_calls")
def test_vae_and_surrogate_on_a_mixture_of_two() -> None:
    train, x = READINGS.sample(4000).x, READINGS.sample(100, seed=1).x
    truth = true_value(readings, READINGS, "identity", draws=1000)
    few = {"hidden": (64, 64), "max_epochs": 6}
    vae = ms.imputed_value(
        readings, fit_imputer(train, latent=2, components=2, **few), "identity", draws=100
    )
    surrogate = ms.fit_surrogate(readings, train, space="identity", **few)
    for learned in (vae, surrogate):
        assert (distance(learned, truth, x, 2000) < 0.06).all()
    marginal = ms.imputed_value(readings, ms.imputers.MarginalImputer(train), "identity", draws=100)
    assert (distance(marginal, truth, x, 2000) > 0.2).all()
