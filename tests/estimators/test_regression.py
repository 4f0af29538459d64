"""Regressions on few coalitions: the least that is documented always works."""

import pytest
import torch

import manifold_shap as ms


def game(players: int, seed: int = 0):
    """Random values, one for each coalition."""
    values = torch.randn(2**players, generator=torch.Generator().manual_seed(seed))
    bits = 2 ** torch.arange(players)
    return lambda x, mask: values[(mask.long() * bits).sum(-1)][..., None]


@pytest.mark.parametrize("players", [3, 4, 8])
def test_the_fewest_evaluations_determine_all_values(players: int) -> None:
    x, least = torch.zeros(1, players), min(2 * players, 2**players - 2)
    for seed in range(10):
        found = ms.kernel_shapley(game(players), x, evaluations=least, seed=seed)
        assert bool(found.phi.isfinite().all())
        assert found.efficiency_gap < 1e-4


def test_fewer_are_refused_with_the_least() -> None:
    with pytest.raises(ValueError, match="`evaluations` of at least 12 for 6 players"):
        ms.kernel_shapley(game(6), torch.zeros(1, 6), evaluations=10)
