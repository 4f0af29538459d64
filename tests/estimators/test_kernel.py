"""KernelSHAP, made unbiased: against their definitions, exact values, and the jackknife."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

import manifold_shap as ms
from manifold_shap import kernel_shapley
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.regression import Pairs, Regression
from tests.examples import Recorded, Table, table, uniform


def pairs_of(game: Any, x: Tensor, evaluations: int) -> Pairs:
    """The pairs that `kernel_shapley` takes, before the players are renamed for each row."""
    evaluator = Evaluator(ms.as_value_function(game, x), x)
    return Regression.of_game(evaluator, evaluations, "leverage", 0).pairs


@pytest.fixture(params=["leverage", "kernel"])
def estimator(request: pytest.FixtureRequest) -> Callable[..., ms.Explanation]:
    return partial(kernel_shapley, law=request.param)


def constrained_fit(game: Table, x: Tensor, pairs: Pairs, without: int) -> Tensor:
    """KernelSHAP as defined: weighted least squares on coalitions, given the sum (one row).

    Of all pairs but one.
    """
    keep = torch.arange(len(pairs.mask)) != without
    mask = torch.cat((pairs.mask[keep], ~pairs.mask[keep]))
    weight, n = pairs.weight[keep].repeat(2), mask.shape[1]
    inside, everybody = mask.double(), torch.ones(1, 1, n, dtype=torch.bool)
    target = (game(x, mask[None]) - game.table[0])[0].double()
    total = (game(x, everybody) - game.table[0])[0].double()
    weighted = (weight[:, None] * inside).T
    one = torch.ones(n, 1).double()
    system = torch.cat(
        (torch.cat((weighted @ inside, one), 1), torch.cat((one.T, torch.zeros(1, 1)), 1))
    )
    return torch.linalg.solve(system, torch.cat((weighted @ target, total)))[:n]


@pytest.mark.parametrize("evaluations", [40, 60])
def test_errors_are_those_of_the_jackknife(evaluations: int) -> None:
    # Of 60 coalitions of 6 players 12 are those of one player, or all but one: they are not drawn.
    game, x = table(6), uniform(1, 6)
    value = Recorded(game, 6, classes=3)
    explanation = kernel_shapley(value, x, evaluations=evaluations)
    # The same pairs as this row was evaluated at them.
    pairs = pairs_of(game, x, evaluations)._replace(mask=torch.cat(value.masks, 1)[0, 0::2])
    drawn = range(len(pairs.mask) - pairs.sampled, len(pairs.mask))
    others = torch.stack([constrained_fit(game, x, pairs, j) for j in drawn])
    apart = others - others.mean(0)
    count = pairs.sampled
    expected = torch.einsum("jio,jiq->ioq", apart, apart) * count / (count - 1)
    assert explanation.covariance is not None
    torch.testing.assert_close(explanation.covariance[0], expected.float(), rtol=1e-3, atol=1e-6)
    root = explanation.covariance.diagonal(dim1=2, dim2=3).sqrt()
    torch.testing.assert_close(explanation.standard_error, root)


def test_games_of_pairs_of_players_are_fitted_exactly(
    estimator: Callable[..., ms.Explanation],
) -> None:
    x = uniform(1, 12)
    # The square of a sum is one of players and pairs.
    explanation = estimator(
        lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True).square() + 7, x, evaluations=60
    )
    expected = (x * x.sum(1, keepdim=True))[..., None]
    torch.testing.assert_close(explanation.phi, expected, rtol=1e-4, atol=1e-4)
    assert explanation.standard_error.max() < 1e-4
    # A game of three players is not, but for a few samples that happen not to show it.
    three = estimator(
        lambda x, mask: mask[..., :3].all(-1, keepdim=True), uniform(9, 12), evaluations=60
    )
    assert three.standard_error.max() > 0.01


@pytest.mark.parametrize("sampled", [False, True])
def test_weights_make_up_for_the_law(
    estimator: Callable[..., ms.Explanation], sampled: bool
) -> None:
    """From nothing, values are sums over the drawn pairs, up to a sampling error of some .1."""

    def total(x: Tensor, mask: Tensor) -> Tensor:
        return (x[:, None] * mask).sum(-1, keepdim=True).expand(-1, -1, 2)

    x = torch.arange(17.0)[None]
    value = Recorded(total, 17, sampled)
    found = estimator(value, x, evaluations=60_000, start=torch.zeros(1, 17, 2))
    torch.testing.assert_close(found.phi[..., 0], x, rtol=0, atol=0.5)


def test_evaluations_are_two_for_each_pair_and_share_their_draws() -> None:
    value = Recorded(table(8), 8, sampled=True)
    explanation = kernel_shapley(value, uniform(2, 8), evaluations=40, seed=3)
    mask, keys = torch.cat(value.masks, 1), torch.cat(value.keys, 1)
    assert mask.shape == (2, 40, 8)
    coalition, complement = mask.unflatten(1, (20, 2)).unbind(2)
    assert torch.equal(coalition, ~complement)
    assert not torch.equal(mask[0], mask[1])
    assert torch.equal(keys[:, 0::2], keys[:, 1::2])
    assert len(keys.unique()) == 2 * 20
    assert explanation.made_by == {
        "version": ms.__version__,
        "value_function": "callable",
        "evaluations": 2 * 40,
        "estimator": "kernel",
        "law": "leverage",
        "pairs": 20,
        "seed": 3,
    }


@pytest.mark.usefixtures("many_calls")
def test_there_is_no_bias(estimator: Callable[..., ms.Explanation]) -> None:
    # Five of ten pairs of two players are drawn beside all of one. Over seeds, a right mean fails
    # any of 100 comparisons with a probability of 1e-4; that of least squares alone does.
    game, x, count = table(5, 20), uniform(1, 5), 150
    exact = ms.exact_shapley(game, x).phi
    bound = stats.t.isf(1e-4 / (2 * exact.numel()), count - 1)
    runs = [estimator(game, x, evaluations=20, seed=seed).phi - exact for seed in range(count)]
    deviation = torch.stack(runs).double()
    assert (deviation.mean(0) / deviation.std(0)).abs().max() * count**0.5 < bound


@pytest.mark.usefixtures("many_calls")
def test_a_start_is_made_unbiased_by_few_evaluations() -> None:
    """Fewer than players: 150 runs, 48 numbers; beyond 4.5 errors once in 3,000 times."""
    game, x = table(6, outputs=8), uniform(1, 6)
    exact = ms.exact_shapley(game, x).phi
    start = 0.7 * exact + 0.1
    found = [
        ms.kernel_shapley(game, x, evaluations=4, start=start, seed=seed) for seed in range(150)
    ]
    phi = torch.stack([each.phi[0] for each in found])
    error = phi.std(0) / len(phi) ** 0.5
    assert (((phi.mean(0) - exact[0]) / error).abs() < 4.5).all()
    squared = torch.stack([each.standard_error[0] for each in found]).square().mean(0)
    ratio = squared.mean().sqrt() / phi.var(0).mean().sqrt()
    assert ratio.item() == pytest.approx(1, abs=0.12)
    assert max(each.efficiency_gap for each in found) < 1e-5


@pytest.mark.parametrize("players", [3, 4, 8])
def test_the_fewest_evaluations_determine_all_values(players: int) -> None:
    least = min(2 * players, 2**players - 2)
    for seed in range(10):
        found = kernel_shapley(table(players), uniform(1, players), evaluations=least, seed=seed)
        assert bool(found.phi.isfinite().all())
        assert found.efficiency_gap < 1e-4
    with pytest.raises(ValueError, match=f"`evaluations` of at least {least} for {players} pl"):
        kernel_shapley(table(players), uniform(1, players), evaluations=least - 2)
