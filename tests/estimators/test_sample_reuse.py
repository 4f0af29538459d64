"""Regression-adjusted sample reuse: against its definition, exact values, and its lack of bias."""

from collections.abc import Callable
from pathlib import Path

import hydra
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

import manifold_shap as ms
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.kernel import kernel_shapley, sample_reuse_shapley
from manifold_shap.estimators.regression import Pairs, Regression
from tests.examples import Drawn, Table, table, uniform

few = settings(deadline=None, max_examples=15)
seeds = st.integers(0, 10_000)


def half_differences(game: Table, x: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """(v(S) - v(N∖S))/2 of every pair less that of equal shares, for one row; and the shares."""
    players = pairs.mask.shape[1]
    ends = game(x, torch.tensor([[[False]], [[True]]]).expand(2, 1, players).transpose(0, 1))[0]
    share = (ends[1] - ends[0]).double() / players
    halves = (game(x, pairs.mask[None]) - game(x, ~pairs.mask[None]))[0].double() / 2
    return halves - (pairs.mask.double().sum(1, keepdim=True) - players / 2) * share, share


def by_definition(game: Table, x: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """One refit for each drawn pair, and what it leaves: values and standard errors."""
    y, share = half_differences(game, x, pairs)
    u = pairs.mask.double() - pairs.mask.double().mean(1, keepdim=True)
    root, known = pairs.weight.sqrt()[:, None], len(pairs.mask) - pairs.sampled
    estimates, corrections = [], []
    for j in range(known, len(pairs.mask)):
        others = torch.arange(len(pairs.mask)) != j
        beta = torch.linalg.lstsq((root * u)[others], (root * y)[others], driver="gelsd").solution
        moment = pairs.weight[:, None, None] * u[:, :, None] * (y - u @ beta)[:, None]
        corrections.append(moment[j] * pairs.sampled)
        estimates.append(beta + moment[:known].sum(0) + corrections[-1])
    error = torch.stack(corrections).std(0) / pairs.sampled**0.5
    return share + torch.stack(estimates).mean(0), error


@pytest.mark.parametrize(("players", "evaluations"), [(5, 20), (6, 40), (6, 60), (9, 90)])
def test_values_and_errors_are_those_of_one_refit_for_each_pair(
    players: int, evaluations: int
) -> None:
    game, x = table(players), uniform(2, players)
    explanation = sample_reuse_shapley(game, x, evaluations=evaluations, seed=1)
    regression = Regression.of_game(Evaluator(game, x), evaluations, "leverage", 1, spare=1)
    pairs = regression.pairs
    for b in range(2):
        phi, error = by_definition(game, x[b : b + 1], pairs)
        torch.testing.assert_close(explanation.phi[b], phi.float(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(
            explanation.standard_error[b], error.float(), rtol=1e-4, atol=1e-5
        )


def test_there_is_no_bias_where_the_regression_has_one() -> None:
    # Five of ten pairs of two players are drawn beside all of one. Over seeds, a right mean fails
    # any of 100 comparisons with a probability of 1e-4.
    game, x, count = table(5, 20), uniform(1, 5), 150
    exact = ms.exact_shapley(game, x).phi
    bound = stats.t.isf(1e-4 / (2 * exact.numel()), count - 1)

    def largest(estimator: Callable[..., ms.Explanation]) -> float:
        runs = [estimator(game, x, evaluations=20, seed=seed).phi - exact for seed in range(count)]
        deviation = torch.stack(runs).double()
        return (deviation.mean(0) / deviation.std(0)).abs().max().item() * count**0.5

    assert largest(sample_reuse_shapley) < bound
    assert largest(kernel_shapley) > 1.5 * bound


def test_games_of_pairs_of_players_are_found_exactly() -> None:
    generator = torch.Generator().manual_seed(3)
    alone = torch.randn(12, generator=generator)
    both = torch.randn(12, 12, generator=generator).triu(1)

    def value(x: Tensor, mask: Tensor) -> Tensor:
        m = mask.float()
        return (m @ alone + ((m @ both) * m).sum(-1))[..., None] + 7

    explanation = sample_reuse_shapley(value, uniform(1, 12), evaluations=60)
    expected = (alone + (both + both.T).sum(1) / 2)[None, :, None]
    torch.testing.assert_close(explanation.phi, expected, rtol=1e-4, atol=1e-4)
    assert explanation.standard_error.max() < 1e-4


@pytest.mark.parametrize(("players", "evaluations"), [(8, 112), (8, 160), (10, 256)])
def test_intervals_cover_exact_values_as_often_as_they_say(players: int, evaluations: int) -> None:
    # 60 sets of coalitions, each for 25 games of random values: the share's own error is below 1 %.
    covered = []
    for seed in range(60):
        game, x = table(players, 25, seed), uniform(1, players)
        exact = ms.exact_shapley(game, x).phi
        sampled = sample_reuse_shapley(game, x, evaluations=evaluations, seed=seed)
        covered.append((sampled.phi - exact).abs() < 1.96 * sampled.standard_error)
    assert 0.92 < torch.cat(covered).float().mean() < 0.98


def test_values_agree_with_exact_ones_on_a_surrogate(
    make_value: Callable[..., ms.ValueFunction],
) -> None:
    # Four players have 14 coalitions: twelve of them are all of one player, and some of two.
    value, x = make_value("surrogate", "ilr"), uniform(3, 4)
    exact = ms.exact_shapley(value, x).phi
    runs = [sample_reuse_shapley(value, x, evaluations=12, seed=seed) for seed in range(40)]
    for run in runs:
        assert run.covariance is not None
        root = run.covariance.diagonal(dim1=2, dim2=3).clamp(min=0).sqrt()
        torch.testing.assert_close(root, run.standard_error)
    phi = torch.stack([run.phi for run in runs])
    assert ((phi.mean(0) - exact).abs() < 4 * phi.std(0) / 40**0.5 + 1e-6).all()


def test_many_coalitions_leave_nothing_to_correct() -> None:
    game, x = table(12, 20), uniform(1, 12)
    regression = kernel_shapley(game, x, evaluations=2_000)
    corrected = sample_reuse_shapley(game, x, evaluations=2_000)
    assert ((corrected.phi - regression.phi).abs() < 0.5 * regression.standard_error).all()
    torch.testing.assert_close(
        corrected.standard_error, regression.standard_error, rtol=0.2, atol=0
    )


def test_outputs_and_rows_are_what_they_are_alone() -> None:
    game, x = table(7, 3), uniform(4, 7)
    together = sample_reuse_shapley(game, x, evaluations=80)
    some = sample_reuse_shapley(game, x[2:], evaluations=80)
    torch.testing.assert_close(some.phi, together.phi[2:], rtol=0, atol=1e-6)
    game.table = game.table[:, 1:2]
    one = sample_reuse_shapley(game, x, evaluations=80)
    torch.testing.assert_close(one.phi, together.phi[..., 1:2], rtol=0, atol=1e-6)


def test_errors_are_of_the_draws_too() -> None:
    # Rows have draws of their own; coalitions, which decide on the spread, are those of ten seeds.
    actual, claimed = [], []
    for seed in range(10):
        sampled = sample_reuse_shapley(Drawn(6), uniform(500, 6), evaluations=56, seed=seed)
        deviation = sampled.phi - torch.arange(6)[:, None]
        assert (deviation.mean(0).abs() < 5 * deviation.std(0) / 500**0.5).all()
        actual.append(deviation.square().mean())
        claimed.append(sampled.standard_error.square().mean())
    assert sum(claimed) / sum(actual) == pytest.approx(1.0, abs=0.3)


def test_an_explanation_knows_how_it_was_made() -> None:
    first = sample_reuse_shapley(table(7), uniform(3, 7), evaluations=80, seed=1)
    assert first.made_by == {
        "version": ms.__version__,
        "value_function": "callable",
        "evaluations": 3 * 80,
        "estimator": "sample_reuse",
        "pairs": 40,
        "seed": 1,
    }


def test_too_few_or_odd_evaluations_are_refused() -> None:
    with pytest.raises(ValueError, match="`evaluations` of at least 18 for 8 players but got 14"):
        sample_reuse_shapley(table(8), uniform(3, 8), evaluations=14)
    with pytest.raises(ValueError, match=r"a positive even number .* but got 41"):
        sample_reuse_shapley(table(8), uniform(3, 8), evaluations=41)


def test_the_configuration_makes_the_estimator(root: Path) -> None:
    with hydra.initialize_config_dir(str(root / "conf"), version_base="1.3"):
        overrides = ["estimator=sample_reuse", "estimator.evaluations=80", "seed=5"]
        config = hydra.compose("explain", overrides)
    estimator = hydra.utils.instantiate(config.estimator, _partial_=True)
    made_by = estimator(table(7), uniform(3, 7), progress=False).made_by
    assert (made_by["pairs"], made_by["seed"]) == (40, 5)


def test_a_start_is_made_unbiased_by_few_evaluations() -> None:
    """Fewer than players: 300 runs, 48 numbers; beyond 4.5 errors once in 3,000 times."""
    game, x = table(6, outputs=8), uniform(1, 6)
    exact = ms.exact_shapley(game, x).phi
    start = 0.7 * exact + 0.1
    found = [
        ms.sample_reuse_shapley(game, x, evaluations=4, start=start, seed=seed)
        for seed in range(300)
    ]
    phi = torch.stack([each.phi[0] for each in found])
    error = phi.std(0) / len(phi) ** 0.5
    assert (((phi.mean(0) - exact[0]) / error).abs() < 4.5).all()
    squared = torch.stack([each.standard_error[0] for each in found]).square().mean(0)
    ratio = squared.mean().sqrt() / phi.var(0).mean().sqrt()
    assert ratio.item() == pytest.approx(1, abs=0.1)
    assert max(each.efficiency_gap for each in found) < 1e-5


def test_a_right_start_of_an_additive_game_stays() -> None:
    weights = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    x = uniform(3, 5)
    exact = x[..., None] * weights
    found = ms.sample_reuse_shapley(
        lambda x, mask: (x[:, None] * mask) @ weights, x, evaluations=6, start=exact
    )
    torch.testing.assert_close(found.phi, exact)
    assert found.standard_error.max() < 1e-6
    assert found.made_by["start"] == "given"


def test_a_start_has_the_shape_of_the_values() -> None:
    game, x = table(4), uniform(3, 4)
    for start in (torch.zeros(3, 5, 2), torch.full((3, 4, 2), torch.nan)):
        with pytest.raises(ValueError, match="Expected `start` to be finite values of shape"):
            ms.sample_reuse_shapley(game, x, start=start)
