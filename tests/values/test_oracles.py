"""Learned value functions against conditional expectations that are known in closed form."""

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from manifold_shap.vae.fit import choose_temper, fit_imputer

COVARIANCE = torch.tensor(
    [[1.0, 0.8, 0.5, 0.2], [0.8, 1.0, 0.6, 0.3], [0.5, 0.6, 1.0, 0.7], [0.2, 0.3, 0.7, 1.0]]
)
DIRECTION = torch.tensor([1.0, -0.5, 0.7, 0.4])


def gaussian_rows(count: int, seed: int) -> Tensor:
    noise = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return noise @ torch.linalg.cholesky(COVARIANCE).T


def linear_and_square(x: Tensor) -> Tensor:
    """a'x, and its square: a model that is linear and one that is not."""
    along = x @ DIRECTION
    return torch.stack((along, along.square()), dim=1)


def gaussian_truth(x: Tensor, mask: Tensor) -> Tensor:
    """E[a'X | x_S] and E[(a'X)² | x_S] = E² + a'Σ_{S̄|S}a, for one coalition."""
    absent = ~mask
    regression = COVARIANCE[absent][:, mask] @ torch.linalg.inv(COVARIANCE[mask][:, mask])
    mean = x.clone()
    mean[:, absent] = x[:, mask] @ regression.T
    left = COVARIANCE[absent][:, absent] - regression @ COVARIANCE[mask][:, absent]
    along = mean @ DIRECTION
    spread = DIRECTION[absent] @ left @ DIRECTION[absent]
    return torch.stack((along, along.square() + spread), dim=1)


def distance(value: ms.ValueFunction, x: Tensor, masks: Tensor, truth: Tensor) -> Tensor:
    """Mean squared distance to the truth, in units of its variance, for each output."""
    values = value(x, masks.expand(len(x), -1, -1))
    return (values - truth).square().mean((0, 1)) / truth.var((0, 1))


@pytest.fixture(scope="module")
def gaussian_case() -> tuple[Tensor, Tensor, Tensor]:
    x, masks = gaussian_rows(100, seed=1), all_coalitions(4)[1:-1]
    truth = torch.stack([gaussian_truth(x, mask) for mask in masks], dim=1)
    return x, masks, truth


@pytest.fixture(scope="module")
def gaussian_imputer() -> ms.VAEImputer:
    rows = gaussian_rows(3000, seed=0)
    return fit_imputer(
        rows,
        posterior="encoder",
        importance=True,
        latent=4,
        hidden=(64, 64),
        components=2,
        max_epochs=8,
    )


@pytest.mark.parametrize("posterior", ["bank", "encoder"])
def test_vae_on_gaussian_data(
    gaussian_case: tuple[Tensor, Tensor, Tensor], gaussian_imputer: ms.VAEImputer, posterior: str
) -> None:
    imputer = gaussian_imputer
    if posterior == "bank":
        imputer = ms.VAEImputer(imputer.network, imputer.reference, imputer.players)
        imputer.temper = choose_temper(imputer, gaussian_rows(500, seed=2))
    value = ms.imputed_value(linear_and_square, imputer, "identity", draws=200)
    off = ms.imputed_value(
        linear_and_square, ms.MarginalImputer(imputer.reference), "identity", draws=200
    )
    learned, spliced = distance(value, *gaussian_case), distance(off, *gaussian_case)
    assert (learned < 0.05).all()
    assert (learned < 0.2 * spliced).all()


SIGMA = 0.5


def mixture_rows(count: int, seed: int) -> Tensor:
    """Frye et al. (2021), Eq. (11): twenty noisy readings of one hidden bit."""
    generator = torch.Generator().manual_seed(seed)
    bit = torch.randint(2, (count, 1), generator=generator)
    return bit + SIGMA * torch.randn(count, 20, generator=generator)


def mixture_truth(x: Tensor, mask: Tensor) -> Tensor:
    """The share of the hidden bit in E[X_i | x_S], and so E of the two outputs of `readings`."""
    present = mask.float()
    log_odds = (present * (2 * x[:, None] - 1)).sum(-1) / (2 * SIGMA**2)
    chance = log_odds.sigmoid()
    known = (present * x[:, None]).sum(-1)
    mean = (known + (20 - present.sum(-1)) * chance) / 20
    # X_1 and X_20 are independent given the bit, which is its own square.
    first, last = mask[..., 0], mask[..., 19]
    own_first, own_last = x[:, None, 0], x[:, None, 19]
    product = torch.where(
        first & last,
        own_first * own_last,
        chance * torch.where(first, own_first, 1.0) * torch.where(last, own_last, 1.0),
    )
    return torch.stack((mean, product), dim=2)


def readings(x: Tensor) -> Tensor:
    return torch.stack((x.mean(1), x[:, 0] * x[:, 19]), dim=1)


@pytest.mark.slow
@pytest.mark.usefixtures("many_calls")
def test_vae_and_surrogate_on_a_mixture_of_two() -> None:
    train, x = mixture_rows(4000, seed=0), mixture_rows(100, seed=1)
    mask = ms.shapley_pairs(100, 20, least=2000)
    truth = mixture_truth(x, mask)
    scale = truth.var((0, 1))
    imputer = fit_imputer(train, latent=2, hidden=(64, 64), components=2, max_epochs=6)
    surrogate = ms.fit_surrogate(readings, train, output="identity", hidden=(64, 64), max_epochs=6)
    values = {
        "vae": ms.imputed_value(readings, imputer, "identity", draws=100),
        "surrogate": surrogate,
        "marginal": ms.imputed_value(readings, ms.MarginalImputer(train), "identity", draws=100),
    }
    distances = {
        name: (value(x, mask) - truth).square().mean((0, 1)) / scale
        for name, value in values.items()
    }
    assert (distances["vae"] < 0.06).all()
    assert (distances["surrogate"] < 0.06).all()
    assert (distances["marginal"] > 0.2).all()


def test_the_truth_of_the_mixture_is_the_mean_over_matching_rows() -> None:
    # The oracle itself: rows whose first reading is close to x's estimate the conditional mean.
    train, x = mixture_rows(400_000, seed=3), mixture_rows(3, seed=1)
    mask = torch.zeros(3, 1, 20, dtype=torch.bool)
    mask[..., 0] = True
    truth = mixture_truth(x, mask)[:, 0]
    for row, expected in zip(x, truth, strict=True):
        close = train[(train[:, 0] - row[0]).abs() < 0.02]
        outputs = readings(close)
        error = outputs.std(0) / len(close) ** 0.5
        assert ((outputs.mean(0) - expected).abs() < 4 * error + 0.02).all()
