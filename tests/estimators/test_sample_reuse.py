"""Regression-adjusted sample reuse: against its definition, exact values, and its lack of bias."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import hydra
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

import manifold_shap as ms
from manifold_shap import _random as noise
from manifold_shap.estimators.kernel import kernel_shapley
from manifold_shap.estimators.regression import Pairs, choose_pairs
from manifold_shap.estimators.sample_reuse import sample_reuse_shapley

few = settings(deadline=None, max_examples=15)
seeds = st.integers(0, 10_000)


class Table:
    """A game given by a table `[2^n, outputs]`; a row's first element scales it."""

    def __init__(self, players: int, outputs: int = 2, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn(2**players, outputs, generator=generator)

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        code = (mask * 2 ** torch.arange(mask.shape[-1])).sum(-1)
        return self.table[0] + (self.table[code] - self.table[0]) * x[:, :1, None]


def rows(players: int, count: int = 3) -> Tensor:
    return torch.rand(count, players, generator=torch.Generator().manual_seed(1)) + 0.5


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
    game, x = Table(players), rows(players, 2)
    explanation = sample_reuse_shapley(game, x, evaluations=evaluations, seed=1)
    pairs = choose_pairs(Game(game, x), evaluations, "leverage", seed=1)
    for b in range(2):
        phi, error = by_definition(game, x[b : b + 1], pairs)
        torch.testing.assert_close(explanation.phi[b], phi.float(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(
            explanation.standard_error[b], error.float(), rtol=1e-4, atol=1e-5
        )


def test_there_is_no_bias_where_the_regression_has_one() -> None:
    # Five of ten pairs of two players are drawn beside all of one. Over seeds, a right mean fails
    # any of 100 comparisons with a probability of 1e-4.
    game, x, count = Table(5, 20), rows(5, 1), 150
    exact = ms.exact_shapley(game, x).phi
    bound = stats.t.isf(1e-4 / (2 * exact.numel()), count - 1)

    def largest(estimator: Callable[..., ms.Explanation]) -> float:
        runs = [estimator(game, x, evaluations=20, seed=seed).phi - exact for seed in range(count)]
        deviation = torch.stack(runs).double()
        return (deviation.mean(0) / deviation.std(0)).abs().max().item() * count**0.5

    assert largest(sample_reuse_shapley) < bound
    assert largest(kernel_shapley) > 1.5 * bound


@pytest.mark.parametrize("players", [1, 2, 3, 5, 8])
def test_all_coalitions_give_exact_values(players: int) -> None:
    game, x = Table(players), rows(players)
    explanation = sample_reuse_shapley(game, x)
    exact = ms.exact_shapley(game, x).phi
    torch.testing.assert_close(explanation.phi, exact, rtol=1e-4, atol=1e-5)
    assert (explanation.standard_error == 0).all()


def test_games_of_pairs_of_players_are_found_exactly() -> None:
    generator = torch.Generator().manual_seed(3)
    alone = torch.randn(12, generator=generator)
    both = torch.randn(12, 12, generator=generator).triu(1)

    def value(x: Tensor, mask: Tensor) -> Tensor:
        m = mask.float()
        return (m @ alone + ((m @ both) * m).sum(-1))[..., None] + 7

    explanation = sample_reuse_shapley(value, rows(12, 1), evaluations=60)
    expected = (alone + (both + both.T).sum(1) / 2)[None, :, None]
    torch.testing.assert_close(explanation.phi, expected, rtol=1e-4, atol=1e-4)
    assert explanation.standard_error.max() < 1e-4


@pytest.mark.parametrize(("players", "evaluations"), [(8, 112), (8, 160), (10, 256)])
def test_intervals_cover_exact_values_as_often_as_they_say(players: int, evaluations: int) -> None:
    # 60 sets of coalitions, each for 25 games of random values: the share's own error is below 1 %.
    covered = []
    for seed in range(60):
        game, x = Table(players, 25, seed), rows(players, 1)
        exact = ms.exact_shapley(game, x).phi
        sampled = sample_reuse_shapley(game, x, evaluations=evaluations, seed=seed)
        covered.append((sampled.phi - exact).abs() < 1.96 * sampled.standard_error)
    assert 0.92 < torch.cat(covered).float().mean() < 0.98


def test_values_agree_with_exact_ones_on_a_surrogate(
    make_value: Callable[..., ms.ValueFunction],
) -> None:
    # Four players have 14 coalitions: twelve of them are all of one player, and some of two.
    value, x = make_value("surrogate", "ilr"), rows(4)
    exact = ms.exact_shapley(value, x).phi
    runs = [sample_reuse_shapley(value, x, evaluations=12, seed=seed) for seed in range(40)]
    for run in runs:
        assert run.covariance is not None
        root = run.covariance.diagonal(dim1=2, dim2=3).clamp(min=0).sqrt()
        torch.testing.assert_close(root, run.standard_error)
    phi = torch.stack([run.phi for run in runs])
    assert ((phi.mean(0) - exact).abs() < 4 * phi.std(0) / 40**0.5 + 1e-6).all()


def test_values_agree_with_exact_ones_within_their_errors() -> None:
    game, x = Table(10), rows(10)
    exact = ms.exact_shapley(game, x).phi
    sampled = sample_reuse_shapley(game, x, evaluations=400)
    assert ((sampled.phi - exact).abs() < 4 * sampled.standard_error).all()
    assert sampled.standard_error.max() < 0.25 * exact.abs().max()


def test_many_coalitions_leave_nothing_to_correct() -> None:
    game, x = Table(12, 20), rows(12, 1)
    regression = kernel_shapley(game, x, evaluations=2_000)
    corrected = sample_reuse_shapley(game, x, evaluations=2_000)
    assert ((corrected.phi - regression.phi).abs() < 0.5 * regression.standard_error).all()
    torch.testing.assert_close(
        corrected.standard_error, regression.standard_error, rtol=0.2, atol=0
    )


@given(st.integers(1, 9), st.integers(2, 6), seeds)
@few
def test_values_sum_to_what_all_players_add(players: int, each: int, seed: int) -> None:
    evaluations = 2 * each * players + 40
    explanation = sample_reuse_shapley(
        Table(players, seed=seed), rows(players), evaluations=evaluations, seed=seed
    )
    assert explanation.efficiency_gap < 1e-5


@given(seeds)
@few
def test_values_are_linear_in_the_game(seed: int) -> None:
    v, w, x = Table(7, seed=seed), Table(7, seed=seed + 1), rows(7)
    estimate = partial(sample_reuse_shapley, x=x, evaluations=80)
    combined = Table(7)
    combined.table = 2 * v.table - 3 * w.table
    expected = 2 * estimate(v).phi - 3 * estimate(w).phi
    torch.testing.assert_close(estimate(combined).phi, expected, rtol=1e-4, atol=1e-4)


@given(st.integers(2, 6), seeds)
@few
def test_axioms_hold_where_all_coalitions_are_taken(players: int, seed: int) -> None:
    game = Table(players, seed=seed)
    code = torch.arange(len(game.table))
    swapped = game.table[(code & ~3) | (code & 1) << 1 | (code & 2) >> 1]
    game.table = game.table + swapped
    phi = sample_reuse_shapley(game, rows(players)).phi
    torch.testing.assert_close(phi[:, 0], phi[:, 1], rtol=1e-4, atol=1e-5)
    game.table = game.table[code & ~1] + 0.25 * (code & 1)[:, None]
    phi = sample_reuse_shapley(game, rows(players)).phi
    own = 0.25 * rows(players)[:, :1].expand(-1, 2)
    torch.testing.assert_close(phi[:, 0], own, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 7, 1_000])
def test_batch_size_does_not_change_a_number(batch_size: int) -> None:
    game, x = Table(7), rows(7, 5)
    whole = sample_reuse_shapley(game, x, evaluations=90, batch_size=100_000)
    parts = sample_reuse_shapley(game, x, evaluations=90, batch_size=batch_size)
    assert torch.equal(parts.phi, whole.phi)
    assert torch.equal(parts.standard_error, whole.standard_error)


def test_outputs_and_rows_are_what_they_are_alone() -> None:
    game, x = Table(7, 3), rows(7, 4)
    together = sample_reuse_shapley(game, x, evaluations=80)
    some = sample_reuse_shapley(game, x[2:], evaluations=80)
    torch.testing.assert_close(some.phi, together.phi[2:], rtol=0, atol=1e-6)
    game.table = game.table[:, 1:2]
    one = sample_reuse_shapley(game, x, evaluations=80)
    torch.testing.assert_close(one.phi, together.phi[..., 1:2], rtol=0, atol=1e-6)


class Drawn:
    """An additive game whose shares are drawn, for every key anew."""

    noisy = True

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        return mask.float() @ torch.arange(mask.shape[-1]).float()[:, None]

    def proper_values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        error = (mask * noise.normal(keys, (mask.shape[-1],))).sum(-1, keepdim=True)
        return self(x, mask) + error


def test_errors_are_of_the_draws_too() -> None:
    # Rows have draws of their own; coalitions, which decide on the spread, are those of ten seeds.
    actual, claimed = [], []
    for seed in range(10):
        sampled = sample_reuse_shapley(Drawn(), rows(6, 500), evaluations=56, seed=seed)
        deviation = sampled.phi - torch.arange(6)[:, None]
        assert (deviation.mean(0).abs() < 5 * deviation.std(0) / 500**0.5).all()
        actual.append(deviation.square().mean())
        claimed.append(sampled.standard_error.square().mean())
    assert sum(claimed) / sum(actual) == pytest.approx(1.0, abs=0.3)


def test_seed_decides_the_coalitions() -> None:
    game, x = Table(7), rows(7)
    first = sample_reuse_shapley(game, x, evaluations=80, seed=1)
    assert torch.equal(sample_reuse_shapley(game, x, evaluations=80, seed=1).phi, first.phi)
    assert not torch.equal(sample_reuse_shapley(game, x, evaluations=80, seed=2).phi, first.phi)
    assert first.made_by == {
        "version": ms.__version__,
        "value_function": "callable",
        "evaluations": 3 * 80,
        "estimator": "sample_reuse",
        "pairs": 40,
        "seed": 1,
    }


def test_coalitions_that_hang_on_one_pair_are_refused() -> None:
    # Five pairs determine four unknowns, but four of them do not.
    game = Game(Table(5), rows(5))
    seed = next(seed for seed in range(100) if _hangs(choose_pairs(game, 10, "leverage", seed)))
    with pytest.raises(ValueError, match="without any one of their pairs but the 10 drawn do not"):
        sample_reuse_shapley(Table(5), rows(5), evaluations=10, seed=seed)


def _hangs(pairs: Pairs) -> bool:
    """Whether all pairs determine the values, and all but one do not."""
    u = pairs.mask.double() - pairs.mask.double().mean(1, keepdim=True)
    least = min(int(torch.linalg.matrix_rank(torch.cat((u[:j], u[j + 1 :])))) for j in range(5))
    return int(torch.linalg.matrix_rank(u)) == 4 and least == 3


def test_too_few_or_odd_evaluations_are_refused() -> None:
    with pytest.raises(ValueError, match="`evaluations` of at least 16 for 8 players but got 14"):
        sample_reuse_shapley(Table(8), rows(8), evaluations=14)
    with pytest.raises(ValueError, match=r"a positive even number .* but got 41"):
        sample_reuse_shapley(Table(8), rows(8), evaluations=41)


def test_the_configuration_makes_the_estimator(root: Path) -> None:
    with hydra.initialize_config_dir(str(root / "conf"), version_base="1.3"):
        overrides = ["estimator=sample_reuse", "estimator.evaluations=80", "seed=5"]
        config = hydra.compose("explain", overrides)
    estimator = hydra.utils.instantiate(config.estimator, _partial_=True)
    made_by = estimator(Table(7), rows(7), progress=False).made_by
    assert (made_by["pairs"], made_by["seed"]) == (40, 5)


@pytest.mark.gpu
def test_the_device_does_not_change_the_coalitions() -> None:
    game, x = Table(7), rows(7)
    there = sample_reuse_shapley(
        lambda x, mask: game(x.cpu(), mask.cpu()).to(x.device), x.to("cuda"), evaluations=80
    )
    here = sample_reuse_shapley(game, x, evaluations=80)
    torch.testing.assert_close(there.phi, here.phi, rtol=0, atol=1e-6)


def test_a_start_is_made_unbiased_by_few_evaluations() -> None:
    """Fewer than players: 1,200 runs, 12 numbers; beyond 4.5 errors once in 12,000 times."""
    players = 6
    game, x = Table(players), rows(players, 1)
    exact = ms.exact_shapley(game, x).phi
    start = 0.7 * exact + 0.1
    found = [
        ms.sample_reuse_shapley(game, x, evaluations=4, start=start, seed=seed)
        for seed in range(1200)
    ]
    phi = torch.stack([each.phi[0] for each in found])
    error = phi.std(0) / len(phi) ** 0.5
    assert (((phi.mean(0) - exact[0]) / error).abs() < 4.5).all()
    squared = torch.stack([each.standard_error[0] for each in found]).square().mean(0)
    torch.testing.assert_close(squared.sqrt(), phi.std(0), rtol=0.1, atol=0)
    assert max(each.efficiency_gap for each in found) < 1e-5


def test_a_right_start_of_an_additive_game_stays() -> None:
    weights = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    x = rows(5)
    exact = x[..., None] * weights
    found = ms.sample_reuse_shapley(
        lambda x, mask: (x[:, None] * mask) @ weights, x, evaluations=6, start=exact
    )
    torch.testing.assert_close(found.phi, exact)
    assert found.standard_error.max() < 1e-6
    assert found.made_by["start"] == "given"


def test_a_start_has_the_shape_of_the_values() -> None:
    game, x = Table(4), rows(4)
    for start in (torch.zeros(3, 5, 2), torch.full((3, 4, 2), torch.nan)):
        with pytest.raises(ValueError, match="Expected `start` to be finite values of shape"):
            ms.sample_reuse_shapley(game, x, start=start)
