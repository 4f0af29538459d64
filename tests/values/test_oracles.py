"""Learned value functions against true ones, of laws that are known."""

import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.oracles import GaussianMixture, true_value
from manifold_shap.vae.fit import choose_temper

COVARIANCE = torch.tensor(
    [[1.0, 0.8, 0.5, 0.2], [0.8, 1.0, 0.6, 0.3], [0.5, 0.6, 1.0, 0.7], [0.2, 0.3, 0.7, 1.0]]
)
NORMAL = GaussianMixture([1.0], [[0.0] * 4], [COVARIANCE])


def linear_and_square(x: Tensor) -> Tensor:
    """a'x, and its square: a model that is linear and one that is not."""
    along = x @ torch.tensor([1.0, -0.5, 0.7, 0.4])
    return torch.stack((along, along.square()), dim=1)


def test_vae_on_gaussian_data() -> None:
    few = {"latent": 4, "hidden": (64, 64), "components": 2, "max_epochs": 8}
    encoder = ms.fit_imputer(NORMAL.sample(3000).x, posterior="encoder", importance=True, **few)
    assert isinstance(encoder, ms.VAEImputer)
    bank = ms.VAEImputer(encoder.network, encoder.reference, encoder.players)
    bank.temper = choose_temper(bank, NORMAL.sample(500, seed=2).x)
    x, mask = NORMAL.sample(100, seed=1).x, ms.metrics.shapley_pairs(100, 4, least=1000)
    expected = true_value(linear_and_square, NORMAL, "identity", draws=500)(x, mask)

    def distance(imputer: ms.imputers.Imputer) -> Tensor:
        """Mean squared distance to the truth, in units of its variance, for each output."""
        value = ms.imputed_value(linear_and_square, imputer, "identity", draws=200)
        return (value(x, mask) - expected).square().mean((0, 1)) / expected.var((0, 1))

    for learned in (encoder, bank):
        assert (distance(learned) < 0.05).all()
        off_manifold = distance(ms.imputers.MarginalImputer(encoder.reference))
        assert (distance(learned) < 0.2 * off_manifold).all()
