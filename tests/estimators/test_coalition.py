"""Coalition sampling: against enumeration, with honest errors, linearized or not."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions, sample_stratified_pairs, stratum_weights
from manifold_shap.estimators.moments import StratifiedMoments, with_sum
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.values.base import Linearized
from tests.examples import uniform

few = settings(deadline=None, max_examples=15)
seeds = st.integers(0, 10_000)


class Polynomial:
    """Random interactions of two and three of `players`, for two outputs; rows scale them."""

    def __init__(self, players: int, seed: int = 0) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.one = torch.randn(players, 2, generator=draw)
        self.two = torch.randn(players, players, 2, generator=draw) / players
        self.three = torch.randn(players, 2, generator=draw)

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        m = mask * x[:, None]
        two = torch.einsum("bmi,bmio->bmo", m, torch.einsum("bmj,ijo->bmio", m, self.two))
        return m @ self.one + two + (m @ self.three) ** 3 / x.shape[1]


class Cheap(ms.SurrogateValue):
    """However small the network, linearizing it pays."""

    def linearized(self) -> Linearized:
        return super().linearized()._replace(cost=1.0)


class Full(ms.SurrogateValue):
    """A network that is never linearized."""

    def linearized(self) -> None:
        return None


def network(
    players: int = 6,
    space: str = "probability",
    hidden: tuple[int, ...] = (16, 16),
    scale: float = 3,
    kind: type[ms.SurrogateValue] = Cheap,
) -> ms.SurrogateValue:
    """A surrogate with random weights, those of the first layer scaled, of a linear model."""
    torch.manual_seed(0)
    outputs = ms.as_space(space).outputs(("a", "b", "c"))
    surrogate = Perceptron(
        GameShape((players,), range(players), len(outputs), ms.as_space(space).on_simplex), hidden
    )
    with torch.no_grad():
        surrogate.first.weight.mul_(scale)
    model = ms.as_model(torch.nn.Linear(players, 3), torch.randn(8, players), returns="logits")
    base = torch.full((len(outputs),), 1 / 3 if space == "probability" else 0.1)
    names = ms.Players.of_elements((players,))
    return kind(surrogate, model, names, ms.as_space(space), base)


def z_scores(found: ms.Explanation, exact: ms.Explanation) -> Tensor:
    return (found.phi - exact.phi) / found.standard_error


@pytest.mark.usefixtures("many_calls")
@pytest.mark.parametrize("game", ["polynomial", "network", "linearized"])
def test_95_percent_intervals_cover_95_percent(game: str) -> None:
    """400 rows of games with their own coalitions: a coverage outside 92 to 98 % is an error.

    Values of one row err together. Even if its 24 or more of them count as four, the standard error
    of the coverage is 0.5 %; 93.5 to 94.5 % are expected (fewer than 95, for errors are skewed).
    """
    value = {
        "polynomial": Polynomial(12),
        "network": network(12, kind=Full),
        "linearized": network(12),
    }[game]
    x = uniform(400, 12)
    found = ms.coalition_shapley(value, x, coalitions=384, seed=3)
    assert found.made_by.get("linearized") == (game == "linearized")
    z = z_scores(found, ms.exact_shapley(value, x))
    assert 0.92 < (z.abs() < 1.96).double().mean() < 0.98


@pytest.mark.parametrize("players", [6, 12])
def test_intervals_of_the_defaults_cover(players: int) -> None:
    """200 rows or 600, whose values err together: see above."""
    value: Any = Polynomial(players)
    x = uniform(600 if players == 6 else 200, players)
    found = ms.coalition_shapley(value, x, seed=4)
    assert found.made_by["coalitions"] == 256
    z = z_scores(found, ms.exact_shapley(value, x))
    assert 0.92 < (z.abs() < 1.96).double().mean() < 0.98


@pytest.mark.parametrize("players", [17, 64, 150, 400])
def test_auto_spends_what_it_may(players: int) -> None:
    found = ms.auto_shapley(Polynomial(players), uniform(1, players), target_error=None)
    spent = found.made_by["evaluations"] / (64 * (players + 1))
    assert found.made_by["estimator"] == ("odd" if players <= 128 else "kernel")
    assert 0.75 < spent <= 1


@pytest.mark.parametrize("evaluations", [500, 800, 3000])
def test_auto_keeps_to_its_budget(evaluations: int) -> None:
    value = network(20, hidden=(256, 256))
    found = ms.auto_shapley(value, uniform(1, 20), evaluations=evaluations)
    assert found.made_by["evaluations"] <= evaluations


@pytest.mark.usefixtures("many_calls")
@pytest.mark.parametrize("linearized", [True, False])
def test_the_mean_of_many_runs_is_exact(linearized: bool) -> None:
    """Means over 2,000 runs, of 30 numbers: beyond 4.5 standard errors once in 5,000 times."""
    value = network(10, kind=Cheap if linearized else Full)
    x = uniform(1, 10).expand(2000, -1)
    found = ms.coalition_shapley(value, x, coalitions=128, seed=5)
    exact = ms.exact_shapley(value, x[:1])
    error = found.phi.std(0) / math.sqrt(len(x))
    assert (((found.phi.mean(0) - exact.phi[0]) / error).abs() < 4.5).all()
    # What linearization misses has few degrees of freedom, which its errors allow for.
    ratio = found.standard_error.square().mean(0).sqrt() / found.phi.std(0)
    assert ((ratio > 0.9) & (ratio < (1.3 if linearized else 1.1))).all()


def test_linearization_is_worth_its_cost() -> None:
    value, x = network(12, hidden=(32, 32), scale=1), uniform(100, 12)
    exact = ms.exact_shapley(value, x)
    linearized = ms.coalition_shapley(value, x, coalitions=256)
    full = ms.coalition_shapley(network(12, hidden=(32, 32), scale=1, kind=Full), x, coalitions=64)
    assert linearized.made_by["evaluations"] <= full.made_by["evaluations"]
    squares = [(found.phi - exact.phi).square().mean() for found in (linearized, full)]
    assert squares[0] < 0.7 * squares[1]


def test_errors_are_below_those_of_permutations() -> None:
    """For as many values: the sum that all players are known to have is used."""
    value, x = network(10, kind=Full), uniform(200, 10)
    exact = ms.exact_shapley(value, x)
    coalitions = ms.coalition_shapley(value, x, coalitions=64)
    permutations = ms.permutation_shapley(value, x, permutations=78)
    assert coalitions.made_by["evaluations"] <= 1.01 * permutations.made_by["evaluations"]
    squares = [(found.phi - exact.phi).square().mean() for found in (coalitions, permutations)]
    assert squares[0] < 0.7 * squares[1]


def test_interactions_of_two_players_are_exact() -> None:
    """So are those of a coalition and its complement together: every two meet in one of them."""
    value, x = Polynomial(8), uniform(5, 8)
    value.three.zero_()
    found, exact = ms.coalition_shapley(value, x, coalitions=32), ms.exact_shapley(value, x)
    torch.testing.assert_close(found.phi, exact.phi, rtol=0, atol=1e-5)
    assert found.standard_error.max() < 1e-5


@given(st.integers(2, 6), seeds)
@few
def test_who_adds_nothing_gets_nothing(players: int, seed: int) -> None:
    inner = Polynomial(players, seed)

    def value(x: Tensor, mask: Tensor) -> Tensor:
        return inner(x, mask & (torch.arange(players) != 1))

    found = ms.coalition_shapley(value, uniform(3, players), coalitions=32, seed=seed)
    assert found.phi[:, 1].abs().max() < 1e-5
    assert found.standard_error[:, 1].max() < 1e-5


@pytest.mark.parametrize("batch_size", [1, 7, 50, 1000, 100_000])
@pytest.mark.parametrize("linearized", [True, False])
def test_batch_size_does_not_change_a_number(batch_size: int, linearized: bool) -> None:
    value: Any = network(12) if linearized else Polynomial(12)
    x = uniform(5, 12)
    whole = ms.coalition_shapley(value, x, coalitions=96, seed=2)
    cut = ms.coalition_shapley(value, x, coalitions=96, seed=2, batch_size=batch_size)
    torch.testing.assert_close(cut.phi, whole.phi, rtol=0, atol=1e-6)
    torch.testing.assert_close(cut.standard_error, whole.standard_error, rtol=1e-4, atol=1e-6)
    assert cut.made_by["evaluations"] == whole.made_by["evaluations"]


def test_coalitions_are_evaluated_in_full_where_that_pays() -> None:
    """Twice where linearized values are nearly exact, in every round where they are not."""
    x, evaluations = uniform(3, 12), {}
    for scale in (0.01, 30.0):
        value = network(12, hidden=(32, 32), scale=scale)
        found = ms.coalition_shapley(value, x, coalitions=1024)
        evaluations[scale] = found.made_by["evaluations"] / len(x)
        assert z_scores(found, ms.exact_shapley(value, x)).abs().max() < 6
    least, most = (1024 + rounds * 16 * 14 for rounds in (2, 8))
    assert evaluations[0.01] < least + 4
    assert most - 4 < evaluations[30.0] < most + 4


@pytest.mark.parametrize("batch_size", [40, 3000])
def test_the_batch_does_not_decide_which_are_evaluated_in_full(batch_size: int) -> None:
    value, x = network(12, hidden=(32, 32), scale=1), uniform(5, 12)
    whole = ms.coalition_shapley(value, x, coalitions=512, seed=2)
    cut = ms.coalition_shapley(value, x, coalitions=512, seed=2, batch_size=batch_size)
    torch.testing.assert_close(cut.phi, whole.phi, rtol=1e-4, atol=1e-6)
    assert cut.made_by["evaluations"] == whole.made_by["evaluations"]


def test_target_error_is_met() -> None:
    value, x = network(), uniform(4, 6)
    found = ms.coalition_shapley(value, x, target_error=0.02)
    every = value(x, all_coalitions(6).expand(4, -1, -1))
    spread = every.amax(1) - every.amin(1)
    assert found.made_by["coalitions"] < 2**16
    assert (found.standard_error.amax((1, 2)) <= 0.02 * spread.amax(1)).all()
    with pytest.warns(UserWarning, match="2 of 2 rows are above target_error=1e-06"):
        ms.coalition_shapley(Polynomial(4), uniform(2, 4), target_error=1e-6, coalitions=64)


def test_covariances_of_log_ratios_rotate() -> None:
    value, x = network(5, "ilr"), uniform(400, 5)
    found = ms.coalition_shapley(value, x, coalitions=512)
    assert found.covariance is not None
    diagonal = found.covariance.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(diagonal.clamp(min=0).sqrt(), found.standard_error)
    turned = found.in_basis(ms.Partition.of_tree([["0", "2"], "1"], ("0", "1", "2")))
    exact = ms.exact_shapley(value, x).in_basis(turned.partition)
    assert 0.92 < (z_scores(turned, exact).abs() < 1.96).double().mean() < 0.98


def test_log_ratios_of_a_mean_are_linearized_too() -> None:
    value, x = ms.LogRatioOfMean(network(10)), uniform(200, 10)
    found = ms.coalition_shapley(value, x, coalitions=384)
    assert found.made_by["linearized"]
    z = z_scores(found, ms.exact_shapley(value, x))
    assert 0.92 < (z.abs() < 1.96).double().mean() < 0.98
    along = ms.permutation_shapley(value, x, permutations=64)
    assert (z_scores(along, ms.exact_shapley(value, x)).abs() < 1.96).double().mean() > 0.92


def test_draws_of_a_value_function_are_in_the_errors() -> None:
    """One draw for each value: errors are mostly theirs, and fall with the root of the pairs."""
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    model = ms.as_model(torch.nn.Linear(4, 3), x, returns="logits")
    value = ms.imputed_value(model, ms.MarginalImputer(x), draws=1)
    few, many = (ms.coalition_shapley(value, x[:40], coalitions=count) for count in (128, 512))
    exact = ms.exact_shapley(ms.imputed_value(model, ms.MarginalImputer(x), draws=200), x[:40])
    assert 0.9 < (z_scores(many, exact).abs() < 1.96).double().mean() < 0.98
    assert 1.8 < few.standard_error.mean() / many.standard_error.mean() < 2.2


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.booleans(), st.integers(1, 3), seeds)
@few
def test_moments_are_those_of_all_samples(
    sizes: list[int], crossed: bool, outputs: int, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    weights = torch.tensor([0.25, 0.75])
    parts = [torch.randn(3, size, 2, 2, 4, outputs, generator=draw).double() for size in sizes]
    moments = StratifiedMoments((3, 4, outputs), weights, torch.device("cpu"), crossed)
    for part in parts:
        moments.add(torch.arange(3), part)
    samples = torch.cat(parts, 1) * weights[:, None, None]
    torch.testing.assert_close(moments.mean, samples.flatten(1, 2).sum(2).mean(1))
    # Of a stratum with two samples, the variance of the mean is (a - b)²/4.
    apart = samples[:, :, 0] - samples[:, :, 1]
    products = torch.einsum("btsio,btsjq->bijoq", apart, apart) / (4 * samples.shape[1] ** 2)
    own = products.diagonal(dim1=1, dim2=2).movedim(-1, 1)
    for found, expected in ((moments.own(), own), (moments.summed(), products.sum(2))):
        wanted = expected if crossed else expected.diagonal(dim1=2, dim2=3)
        torch.testing.assert_close(found, wanted)


def test_a_known_sum_is_kept_and_explains_what_varies_with_it() -> None:
    draw = torch.Generator().manual_seed(0)
    shared = torch.randn(1, 100, 2, 2, 1, 1, generator=draw)
    samples = torch.randn(1, 100, 2, 2, 4, 1, generator=draw) * 0.1 + shared
    moments = StratifiedMoments((1, 4, 1), torch.tensor([0.5, 0.5]), torch.device("cpu"))
    moments.add(torch.arange(1), samples)
    mean, variance = with_sum([moments], torch.zeros(1, 1))
    assert mean.sum().abs() < 1e-12
    assert (variance < 0.02 * moments.own()).all()


def test_a_sum_that_varies_by_rounding_alone_changes_nothing() -> None:
    """The contributions of two players to a pair of coalitions always have the same sum."""
    draw = torch.Generator().manual_seed(0)
    first = torch.randn(1, 16, 2, 8, 1, 1, generator=draw).double()
    samples = torch.cat((first, 1 - first), 4) + 1e-16 * torch.randn(
        1, 16, 2, 8, 2, 1, generator=draw
    )
    moments = StratifiedMoments((1, 2, 1), torch.full((8,), 1 / 8), torch.device("cpu"))
    moments.add(torch.arange(1), samples)
    # The known sum is of single precision.
    mean, variance = with_sum([moments], torch.full((1, 1), 1 + 1e-8, dtype=torch.float64))
    torch.testing.assert_close(mean, moments.mean, atol=1e-7, rtol=0)
    assert (variance >= 0.99 * moments.own()).all()


def test_stratified_pairs_are_of_the_owen_law() -> None:
    """Weighted shares of sizes are those of the uniform law, to 4.5 standard errors."""
    draw = torch.Generator().manual_seed(0)
    mask, weights = sample_stratified_pairs((20_000,), 7, 4, draw), stratum_weights(4)
    assert weights.sum() == pytest.approx(1)
    assert torch.equal(mask[:, :, 0], ~mask[:, :, 1])
    size = mask.sum(-1)
    shares = (size[..., None] == torch.arange(8)).float().mean(2).mul(weights[:, None]).sum(1)
    error = shares.std(0) / math.sqrt(len(shares))
    assert (((shares.mean(0) - 1 / 8) / error).abs() < 4.5).all()
    assert (mask[:, 0, 0].sum(-1) < mask[:, 3, 0].sum(-1)).float().mean() > 0.8


@pytest.mark.parametrize("coalitions", [0, 16, 33, -32])
def test_coalitions_come_in_strata(coalitions: int) -> None:
    with pytest.raises(
        ValueError, match=r"Expected `coalitions` to be a (multiple of 32|whole number)"
    ):
        ms.coalition_shapley(Polynomial(3), uniform(1, 3), coalitions=coalitions)


@pytest.mark.parametrize("target", [0.0, -1.0])
def test_target_error_is_positive(target: float) -> None:
    with pytest.raises(ValueError, match="Expected `target_error` to be a finite number above 0"):
        ms.coalition_shapley(Polynomial(3), uniform(1, 3), target_error=target)


def test_auto_enumerates_few_players() -> None:
    found = ms.auto_shapley(Polynomial(6), uniform(2, 6))
    assert found.made_by["estimator"] == "exact"
    assert found.made_by["auto"] == "exact: all 64 coalitions"
    assert (found.standard_error == 0).all()


def test_auto_linearizes_networks_and_samples_the_rest() -> None:
    found = ms.auto_shapley(network(20), uniform(2, 20))
    assert found.made_by["auto"].startswith("coalition: contributions of all 20 players at once, l")
    found = ms.auto_shapley(Polynomial(129), uniform(1, 129), evaluations=8450)
    assert found.made_by["auto"].startswith("kernel: a regression of 129 players")
    assert found.made_by["evaluations"] <= 8450
    short = ms.auto_shapley(Polynomial(20), uniform(2, 20), evaluations=76)
    assert short.made_by["estimator"] == "permutation"
    assert short.made_by["permutations"] == 4


def test_auto_fits_interactions() -> None:
    found = ms.auto_shapley(Polynomial(20), uniform(2, 20), evaluations=641, seed=3)
    why = "a regression of 20 players on pairs of coalitions, with interactions"
    assert found.made_by["auto"].startswith(f"odd: {why}")
    usual = ms.auto_shapley(Polynomial(20), uniform(2, 20))
    assert usual.made_by["evaluations"] <= 2 * 64 * 21
    same = ms.odd_shapley(Polynomial(20), uniform(2, 20), evaluations=640, seed=3)
    assert torch.equal(found.phi, same.phi)
    to_target = ms.auto_shapley(Polynomial(20), uniform(2, 20), target_error=0.05)
    assert to_target.made_by["estimator"] == "permutation"


@pytest.mark.parametrize(
    ("evaluations", "estimator", "taken"),
    [
        (9600, "odd", 9600),
        (2**14 + 100, "odd", 2**14),
        (2**16 + 2, "kernel", 2**16),
        # All coalitions leave nothing to fit.
        (2**17, "kernel", 2**17 - 2),
    ],
)
def test_auto_fits_interactions_to_so_many_coalitions_and_no_more(
    evaluations: int, estimator: str, taken: int
) -> None:
    found = ms.auto_shapley(Polynomial(17), uniform(1, 17), evaluations=evaluations)
    assert found.made_by["estimator"] == estimator
    assert found.made_by["evaluations"] == pytest.approx(taken, rel=0.01)
    assert (found.standard_error == 0).all() == (taken == 2**17 - 2)


@pytest.mark.parametrize(("players", "expected"), [(16, "kernel"), (17, "coalition")])
def test_auto_fits_networks_where_an_eighth_of_all_coalitions_is_taken(
    players: int, expected: str
) -> None:
    found = ms.auto_shapley(network(players), uniform(1, players))
    assert found.made_by["estimator"] == expected


@pytest.mark.parametrize(
    ("players", "evaluations"),
    [
        (14, 640),
        pytest.param(16, 1632, marks=pytest.mark.slow),
        pytest.param(18, 8192, marks=pytest.mark.slow),
    ],
)
def test_what_auto_fits_errs_less_than_contributions_would(players: int, evaluations: int) -> None:
    game, x = Polynomial(players), uniform(5, players)
    # A regression on all coalitions is exact, for more players than `exact_shapley` takes.
    exact = ms.kernel_shapley(game, x, evaluations=2**players)
    most = evaluations // (players + 1) // 32 * 32
    fits = [ms.auto_shapley(game, x, evaluations=evaluations, seed=seed) for seed in range(8)]
    others = [ms.coalition_shapley(game, x, coalitions=most, seed=seed) for seed in range(8)]
    assert all(found.made_by["estimator"] == "odd" for found in fits)
    fit, other = (
        torch.stack([(one.phi - exact.phi).square().mean() for one in found]).mean()
        for found in (fits, others)
    )
    assert fit < 0.3 * other


@given(st.integers(9, 12), seeds)
@few
def test_the_least_that_auto_fits_determines_all_values(players: int, seed: int) -> None:
    x = uniform(1, players)
    found = ms.auto_shapley(Polynomial(players), x, evaluations=7 * players, seed=seed)
    assert found.made_by["estimator"] == "odd"
    assert found.standard_error.isfinite().all()


def test_auto_keeps_to_an_ordering() -> None:
    players = [f"x{i}" for i in range(20)]
    ordering = [players[:2], players[2:]]
    found = ms.auto_shapley(Polynomial(20), uniform(2, 20), ordering=ordering)
    assert found.made_by["estimator"] == "permutation"
    assert found.made_by["ordering"] == ordering
    assert "an ordering restricts them" in found.made_by["auto"]
    short = ms.auto_shapley(Polynomial(4), uniform(2, 4), ordering=[["x0"], ["x1", "x2", "x3"]])
    assert short.made_by["estimator"] == "exact"


def test_auto_goes_on_to_a_target() -> None:
    found = ms.auto_shapley(network(20), uniform(2, 20), target_error=0.005)
    assert found.made_by["target_error"] == 0.005
    with pytest.raises(
        ValueError, match="Expected `evaluations` to be a whole number of at least 1"
    ):
        ms.auto_shapley(Polynomial(3), uniform(1, 3), evaluations=0)
