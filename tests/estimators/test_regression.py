"""Regressions on few coalitions: the least that is documented always works."""

import pytest
import torch
from torch import Tensor

import manifold_shap as ms


def game(players: int, seed: int = 0):
    """Random values, one for each coalition."""
    values = torch.randn(2**players, generator=torch.Generator().manual_seed(seed))
    bits = 2 ** torch.arange(players)
    return lambda x, mask: values[(mask.long() * bits).sum(-1)][..., None]


@pytest.mark.parametrize("players", range(3, 9))
def test_the_fewest_evaluations_determine_all_values(players: int) -> None:
    x, least = torch.zeros(1, players), min(2 * players, 2**players - 2)
    for seed in range(10):
        found = ms.kernel_shapley(game(players), x, evaluations=least, seed=seed)
        assert bool(found.phi.isfinite().all())
        assert found.efficiency_gap < 1e-4


def test_fewer_are_refused_with_the_least() -> None:
    with pytest.raises(ValueError, match="`evaluations` of at least 12 for 6 players"):
        ms.kernel_shapley(game(6), torch.zeros(1, 6), evaluations=10)


@pytest.mark.usefixtures("many_calls")
def test_few_evaluations_leave_no_bias() -> None:
    x = torch.zeros(1, 6)
    exact = ms.exact_shapley(game(6), x).phi[0, :, 0]

    def estimate(seed: int) -> Tensor:
        return ms.kernel_shapley(game(6), x, evaluations=24, seed=seed).phi[0, :, 0]

    found = torch.stack([estimate(seed) for seed in range(400)])
    # Six means, normal to a good approximation: 4.5 errors happen once in 25,000 runs.
    error = found.std(0) / 400**0.5
    assert ((found.mean(0) - exact).abs() < 4.5 * error).all()
