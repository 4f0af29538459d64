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
@pytest.mark.parametrize(
    ("estimator", "spare"), [(ms.kernel_shapley, 0), (ms.sample_reuse_shapley, 2)]
)
def test_the_fewest_evaluations_determine_all_values(estimator, spare: int, players: int) -> None:
    x, least = torch.zeros(1, players), min(2 * players + spare, 2**players - 2)
    for seed in range(10):
        found = estimator(game(players), x, evaluations=least, seed=seed)
        assert bool(found.phi.isfinite().all())
        assert found.efficiency_gap < 1e-4


@pytest.mark.parametrize(("estimator", "least"), [("kernel", 12), ("sample_reuse", 14)])
def test_fewer_are_refused_with_the_least(estimator: str, least: int) -> None:
    explain = getattr(ms, f"{estimator}_shapley")
    with pytest.raises(ValueError, match=f"`evaluations` of at least {least} for 6 players"):
        explain(game(6), torch.zeros(1, 6), evaluations=least - 2)


@pytest.mark.usefixtures("many_calls")
def test_few_evaluations_leave_no_bias() -> None:
    x = torch.zeros(1, 6)
    exact = ms.exact_shapley(game(6), x).phi[0, :, 0]

    def estimate(seed: int) -> Tensor:
        return ms.sample_reuse_shapley(game(6), x, evaluations=14, seed=seed).phi[0, :, 0]

    found = torch.stack([estimate(seed) for seed in range(400)])
    # Six means, normal to a good approximation: 4.5 errors happen once in 25,000 runs.
    error = found.std(0) / 400**0.5
    assert ((found.mean(0) - exact).abs() < 4.5 * error).all()
