"""The error of a value function, against explicit sums and known games, and its leakage."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap import _random as noise
from manifold_shap.coalitions import Coalitions
from manifold_shap.corrected import CorrectedValue
from manifold_shap.values import Estimate
from tests.examples import VALUES, Padded

X = torch.randn(7, 4, generator=torch.Generator().manual_seed(1))


class Noisy(ms.ValueFunction):
    """v(S) = Σ_{i∈S} x_i, seen through the mean of `draws` noisy numbers of spread `sigma`.

    As of any value function, the anchors are exact.
    """

    def __init__(self, draws: int, sigma: float, seed: int = 0, players: int = 4) -> None:
        work = ms.values.Work(draws, sampled=sigma > 0)
        elements = ms.Players.of_elements((players,))
        super().__init__(ms.values.GameSpec(elements, ("sum",), work=work))
        self.sigma, self.seed = sigma, seed

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        mask, keys = coalitions.masks(), coalitions.each_key()
        drawn = (
            noise.normal(noise.fold(keys, self.seed), (), range(self.spec.work.draws)) * self.sigma
        )
        drawn = drawn + (x[:, None] * mask).sum(-1, keepdim=True)
        spread = drawn.square().mean(2, keepdim=True) - drawn.mean(2, keepdim=True).square()
        values, variance = drawn.mean(2, keepdim=True), spread / max(1, self.spec.work.draws - 1)
        return Estimate(values, variance if self.spec.work.sampled else None)

    def prediction(self, x: Tensor) -> Tensor:
        return x.sum(1, keepdim=True)

    def base(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), 1)


@pytest.mark.parametrize("kind", ["surrogate", "marginal"])
def test_mse_is_the_mean_over_pairs(make_value: Callable[..., ms.ValueFunction], kind: str) -> None:
    value, mask = make_value(kind, "ilr"), ms.metrics.shapley_pairs(7, 4, least=60)
    score = ms.metrics.mean_squared_error(value, X, mask)
    errors = (value(X, mask).double() - value.prediction(X)[:, None]).square().mean(-1)
    by_row = errors.mean(1)
    assert score.mse == pytest.approx(errors.mean().item(), rel=1e-5)
    assert score.standard_error == pytest.approx((by_row.std() / 7**0.5).item(), rel=1e-5)
    assert score.draws == value.spec.work.draws
    assert score.effective_draws == pytest.approx(value.spec.work.draws)
    curve, of_two = score.by_size, errors[mask.sum(-1) == 2]
    assert sum(curve.pairs) == mask.shape[0] * mask.shape[1]
    assert curve.mse[2] == pytest.approx(of_two.mean().item(), rel=1e-5)
    error = of_two.std() / len(of_two) ** 0.5
    assert curve.standard_error[2] == pytest.approx(error.item(), rel=1e-5)
    variance = value.prediction(X).var(0, correction=0).mean().item()
    assert score.variance == pytest.approx(variance, rel=1e-5)
    share = f"{100 - 100 * score.debiased / variance:.0f}".replace("-", "−")
    assert f"explains {share} % of the model's variance, root mean squared" in repr(score)
    known = ms.metrics.mean_squared_error(value, X, mask, truth=value.prediction(X))
    assert known == score
    for figures, all_pairs in ((curve.mse, score.mse), (curve.debiased, score.debiased)):
        weighted = sum(n * mse for n, mse in zip(curve.pairs, figures, strict=True))
        assert weighted / sum(curve.pairs) == pytest.approx(all_pairs)


def test_debiased_removes_the_variance_of_the_draws_and_no_other() -> None:
    # Noise adds sigma²/K = 1 to each squared error, but for a quarter of the pairs: the value of
    # the empty coalition is known. Over 40 x 1,505 pairs the mean of what it adds has a standard
    # error of about 0.014, and the tolerance is five times that.
    mask = ms.metrics.shapley_pairs(7, 4, least=1_500)
    exact = ms.metrics.mean_squared_error(Noisy(1, 0.0), X, mask)
    scores = [ms.metrics.mean_squared_error(Noisy(4, 2.0, seed), X, mask) for seed in range(40)]
    raw = sum(score.mse for score in scores) / 40
    debiased = sum(score.debiased for score in scores) / 40
    drawn = mask.any(-1).float().mean().item()
    assert 0.7 < drawn < 0.8
    assert raw - exact.mse == pytest.approx(drawn, abs=0.07)
    assert debiased == pytest.approx(exact.mse, abs=0.07)
    # Each size as well, of a quarter of the pairs.
    by_size = torch.tensor([score.by_size.debiased for score in scores]).mean(0).tolist()
    assert by_size == pytest.approx(exact.by_size.mse, abs=0.14)


class Unsaid(Noisy):
    """One that does not say what its draws leave open."""

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        return Estimate(super().values(x, coalitions).values)


def noisy(x: Tensor, mask: Tensor) -> Tensor:
    total = (x[:, None] * mask).sum(-1, keepdim=True)
    return total + torch.randn_like(total) * (mask.sum(-1, keepdim=True) % x.shape[1] > 0)


UNSAID: dict[str, Callable[[], Any]] = {
    "of one's own": lambda: Unsaid(4, 2.0),
    "grouped": lambda: Unsaid(4, 2.0).grouped({"both": ["x0", "x1"]}),
    "selected": lambda: Unsaid(4, 2.0).select([0]),
    "a function": lambda: noisy,
    "one draw": lambda: ms.imputed_value(
        lambda x: x.softmax(-1), ms.imputers.MarginalImputer(X), draws=1
    ),
    "corrected": lambda: CorrectedValue(Unsaid(4, 0.0), Unsaid(4, 2.0), *torch.zeros(2, 1)),
}


@pytest.mark.parametrize("kind", UNSAID)
def test_a_variance_that_is_unknown_is_not_zero(kind: str) -> None:
    value = UNSAID[kind]()
    players = 3 if kind == "grouped" else 4
    score = ms.metrics.mean_squared_error(value, X, ms.metrics.shapley_pairs(7, players, least=60))
    assert math.isnan(score.debiased)
    assert score.by_row.isnan().any()
    assert math.isfinite(score.mse)


def test_no_call_is_larger_than_the_batch_size() -> None:
    sizes = []

    class Counted(Noisy):
        def estimate(self, x: Tensor, mask: Tensor, keys: Tensor) -> Estimate:
            sizes.append(mask.shape[0] * mask.shape[1] * self.spec.work.draws)
            return super().estimate(x, mask, keys)

    ms.metrics.mean_squared_error(
        Counted(4, 1.0), X, ms.metrics.shapley_pairs(7, 4, least=300), batch_size=100
    )
    assert max(sizes) <= 100
    sizes.clear()
    small = Counted(4, 1.0)
    small.update(work=replace(small.spec.work, batch_size=60))
    ms.metrics.mean_squared_error(small, X, ms.metrics.shapley_pairs(7, 4, least=300))
    assert 40 < max(sizes) <= 60


def test_shapley_pairs() -> None:
    mask = ms.metrics.shapley_pairs(300, 6, least=10_000)
    assert mask.shape == (300, 34, 6)
    share = torch.bincount(mask.sum(-1).flatten(), minlength=7) / 10_200
    # Sizes 0..5 are equally frequent; five standard errors are 0.018.
    torch.testing.assert_close(share, torch.tensor([1 / 6] * 6 + [0.0]), rtol=0, atol=0.018)
    assert torch.equal(mask, ms.metrics.shapley_pairs(300, 6))
    assert not torch.equal(mask, ms.metrics.shapley_pairs(300, 6, seed=1))
    assert ms.metrics.shapley_pairs(20, 3, least=5).shape == (20, 1, 3)
    mask, value = ms.metrics.shapley_pairs(7, 4), Noisy(1, 1.0)
    for score in (ms.metrics.mean_squared_error, ms.metrics.leakage):
        assert score(value, X) == score(value, X, mask)


def test_errors_under_each_law_are_those_of_its_coalitions() -> None:
    x = torch.rand(5, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    players = ms.Players.pixels((2, 4, 4))
    value = ms.imputed_value(
        lambda x: x.flatten(1).prod(1, True), ms.imputers.MarginalImputer(x, players), "identity"
    )
    found = ms.metrics.errors_by_law(value, x, least=60, seed=3)
    assert list(found) == ["scattered", "blocks"]
    for law in ms.laws.laws_for(players).parts:
        mask = ms.metrics.shapley_pairs(5, 16, 60, 3, law)
        assert found[law.name] == ms.metrics.mean_squared_error(value, x, mask)
    one = ms.metrics.errors_by_law(value, x, ms.laws.LeverageScores(16), least=60)
    assert list(one) == ["leverage"]


def test_coalitions_of_padded_rows_are_of_the_players_they_have() -> None:
    value, x = Padded(), Padded.some_rows()
    mask = ms.metrics.shapley_pairs(5, 6, 50, counts=value.counts(x))
    assert not mask[1].any()
    assert not mask[0, :, 3:].any()


# The game of the callable is scaled by a player, present or not; the corrected game is moved by
# what the model says of the whole row. Leakage is of players that all rows share.
LEAKY = ("callable", "corrected", "grouped by row", "ragged", "padded", "words of padded rows")


@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind not in LEAKY])
def test_no_value_function_of_ours_reads_absent_players(kind: str) -> None:
    value, x, *_ = VALUES[kind]()
    mask = ms.metrics.shapley_pairs(len(x), len(value.players), least=40)
    # Rows in batches of another kind may round otherwise.
    assert ms.metrics.leakage(value, x, mask) < 1e-12


def test_values_of_an_absent_player_come_from_another_row() -> None:
    def leaky(x: Tensor, mask: Tensor) -> Tensor:
        return x[:, None, :1].expand(-1, mask.shape[1], -1)

    x = torch.tensor([[0.0, 1.0], [3.0, 1.0]])
    mask = torch.tensor([[[False, True]], [[True, False]]])
    assert ms.metrics.leakage(leaky, x, mask) == 9 / 2
    with pytest.raises(ValueError, match="at least 2 rows, to take values from, but got 1"):
        ms.metrics.leakage(leaky, x[:1], mask[:1])
    rows = Padded.some_rows()
    with pytest.raises(ValueError, match="leakage"):
        ms.metrics.leakage(Padded(), rows, torch.ones(len(rows), 1, 6, dtype=torch.bool))
