"""Estimators: against brute force, closed forms and the axioms, for any value function."""

import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import sample_orders
from manifold_shap.estimators.moments import Moments
from manifold_shap.vae.families import choose_families
from manifold_shap.vae.network import MaskedVAE

few = settings(deadline=None, max_examples=15)
seeds = st.integers(0, 10_000)
sizes = st.integers(1, 5)

EXACT = ms.exact_shapley
SAMPLED = ms.permutation_shapley
Estimator = Callable[..., ms.Explanation]
both = pytest.mark.parametrize("estimator", [EXACT, SAMPLED])


class Table:
    """A game given by a table `[2^n, outputs]` of values, a bare callable.

    Rows differ: each scales the table, relative to the value of nobody, by its first element.
    """

    def __init__(self, table: Tensor) -> None:
        self.table = table

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        code = (mask * 2 ** torch.arange(mask.shape[-1])).sum(-1)
        return self.table[0] + (self.table[code] - self.table[0]) * x.flatten(1)[:, :1, None]


def random_table(players: int, outputs: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(2**players, outputs, generator=torch.Generator().manual_seed(seed))


def rows(players: int, count: int = 3) -> Tensor:
    return torch.rand(count, players, generator=torch.Generator().manual_seed(1)) + 0.5


def brute_force(value: Callable[[Tensor, Tensor], Tensor], x: Tensor, players: int) -> Tensor:
    """Mean marginal contribution over all orders, one call per coalition."""
    phi = torch.zeros(len(x), players, value(x, torch.zeros(len(x), 1, players) > 0).shape[-1])
    for order in itertools.permutations(range(players)):
        mask = torch.zeros(len(x), 1, players, dtype=torch.bool)
        before = value(x, mask)
        for player in order:
            mask[..., player] = True
            after = value(x, mask)
            phi[:, player] += (after - before)[:, 0]
            before = after
    return phi / math.factorial(players)


@pytest.mark.parametrize("players", [1, 2, 4])
@pytest.mark.parametrize("outputs", [1, 3])
def test_exact_equals_brute_force(players: int, outputs: int) -> None:
    game, x = Table(random_table(players, outputs)), rows(players)
    explanation = EXACT(game, x)
    torch.testing.assert_close(explanation.phi, brute_force(game, x, players))
    assert (explanation.standard_error == 0).all()
    assert explanation.made_by == {
        "version": ms.__version__,
        "value_function": "callable",
        "evaluations": 3 * (2**players - 2),
        "estimator": "exact",
    }


@pytest.mark.parametrize("players", [1, 2, 5])
def test_all_permutations_equal_exact(players: int) -> None:
    game, x = Table(random_table(players)), rows(players)
    most = max(2, math.factorial(players))
    explanation = SAMPLED(game, x, permutations=most)
    torch.testing.assert_close(explanation.phi, EXACT(game, x).phi, rtol=1e-4, atol=1e-5)
    assert (explanation.standard_error == 0).all()
    assert explanation.made_by["permutations"] == most


@both
@given(sizes, seeds)
@few
def test_efficiency(estimator: Estimator, players: int, seed: int) -> None:
    explanation = estimator(Table(random_table(players, seed=seed)), rows(players))
    assert explanation.efficiency_gap < 1e-5
    total = explanation.prediction - explanation.base
    torch.testing.assert_close(explanation.phi.sum(1), total, rtol=1e-4, atol=1e-5)


def swapped(table: Tensor) -> Tensor:
    """The same game after players 0 and 1 have changed places."""
    code = torch.arange(len(table))
    return table[(code & ~3) | (code & 1) << 1 | (code & 2) >> 1]


@given(st.integers(2, 5), seeds)
@few
def test_symmetry(players: int, seed: int) -> None:
    table = random_table(players, seed=seed)
    phi = EXACT(Table(table + swapped(table)), rows(players)).phi
    torch.testing.assert_close(phi[:, 0], phi[:, 1], rtol=1e-4, atol=1e-5)
    there = EXACT(Table(swapped(table)), rows(players)).phi
    here = EXACT(Table(table), rows(players)).phi
    torch.testing.assert_close(there[:, [1, 0]], here[:, :2], rtol=1e-4, atol=1e-5)


@both
@given(sizes, seeds)
@few
def test_a_dummy_gets_what_it_adds(estimator: Estimator, players: int, seed: int) -> None:
    table = random_table(players, seed=seed)
    first = torch.arange(len(table)) & 1
    table = table[torch.arange(len(table)) & ~1] + 0.25 * first[:, None]
    x = rows(players)
    phi = estimator(Table(table), x).phi
    torch.testing.assert_close(phi[:, 0], 0.25 * x[:, :1].expand(-1, 2), rtol=1e-4, atol=1e-5)


@both
@given(sizes, seeds)
@few
def test_linearity(estimator: Estimator, players: int, seed: int) -> None:
    v, w = random_table(players, seed=seed), random_table(players, seed=seed + 1)
    x = rows(players)
    combined = estimator(Table(2 * v - 3 * w), x).phi
    parts = 2 * estimator(Table(v), x).phi - 3 * estimator(Table(w), x).phi
    torch.testing.assert_close(combined, parts, rtol=1e-4, atol=1e-4)


@both
def test_linear_model_has_a_closed_form(estimator: Estimator) -> None:
    generator = torch.Generator().manual_seed(2)
    reference, weight = (torch.randn(n, 4, generator=generator) for n in (30, 3))
    imputer = ms.MarginalImputer(reference)
    value = ms.imputed_value(lambda x: x @ weight.T + 1, imputer, "identity", draws=30)
    x = torch.randn(5, 4, generator=generator)
    expected = (x - reference.mean(0))[..., None] * weight.T
    explanation = estimator(value, x)
    torch.testing.assert_close(explanation.phi, expected, rtol=1e-4, atol=1e-5)
    assert explanation.standard_error.max() < 1e-5


KINDS = ("surrogate", "marginal", "table")


def make_game(kind: str, make_value: Callable[..., ms.ValueFunction]) -> object:
    return Table(random_table(4, 3)) if kind == "table" else make_value(kind, draws=5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_estimator_takes_every_value_function(
    make_value: Callable[..., ms.ValueFunction], kind: str
) -> None:
    game, x = make_game(kind, make_value), rows(4)
    exact = EXACT(game, x)
    every = SAMPLED(game, x, permutations=24)
    sampled = SAMPLED(game, x, permutations=8)
    assert exact.phi.shape == sampled.phi.shape == (3, 4, 3)
    torch.testing.assert_close(every.phi, exact.phi, rtol=1e-4, atol=1e-5)
    assert max(exact.efficiency_gap, sampled.efficiency_gap) < 1e-5
    assert torch.equal(sampled.prediction, exact.prediction)
    assert torch.equal(sampled.base, exact.base)


def test_an_explanation_knows_its_value_function(
    make_value: Callable[..., ms.ValueFunction],
) -> None:
    value = make_value("marginal", "ilr")
    explanation = SAMPLED(value, rows(4), permutations=8, seed=3)
    assert explanation.outputs == value.outputs
    assert explanation.players is value.players
    assert explanation.space == "ilr"
    assert explanation.made_by == {
        "version": ms.__version__,
        "value_function": "marginal",
        "draws": 20,
        "draws_seed": 0,
        "evaluations": 3 * 8 * 3,
        "estimator": "permutation",
        "permutations": 8,
        "seed": 3,
    }


def test_sampling_is_unbiased_and_its_errors_are_honest() -> None:
    # The same row 2,000 times has 2,000 independent sets of orders. Each of the 12 means fails a
    # correct estimator with probability 6e-7; the shares have a standard error below 0.005.
    players, count = 6, 2_000
    game, x = Table(random_table(players)), rows(players, 1)
    exact = EXACT(game, x).phi
    sampled = SAMPLED(game, x.expand(count, -1), permutations=64)
    deviation = sampled.phi - exact
    assert (deviation.mean(0).abs() < 5 * deviation.std(0) / count**0.5).all()
    # 97.5 % point of Student's t with 31 degrees of freedom.
    within = (deviation.abs() < 2.04 * sampled.standard_error).float().mean(0)
    assert ((within > 0.925) & (within < 0.975)).all()


def test_standard_errors_are_over_pairs() -> None:
    game, x = Table(random_table(6)), rows(6)
    sampled = SAMPLED(game, x, permutations=80)
    # Running moments over rounds of 32 and 8 pairs against one pass over all.
    generator = torch.Generator().manual_seed(0)
    pairs = torch.cat([sample_orders((3, pairs), 6, generator) for pairs in (32, 8)], dim=1)
    single = torch.zeros(3, 40, 6, 2)
    for b, k in itertools.product(range(3), range(40)):
        for order in (pairs[b, k].tolist(), pairs[b, k].tolist()[::-1]):
            mask = torch.zeros(1, 7, 6, dtype=torch.bool)
            for size, player in enumerate(order):
                mask[:, size + 1 :, player] = True
            single[b, k, order] += game(x[b : b + 1], mask)[0].diff(dim=0) / 2
    torch.testing.assert_close(sampled.phi, single.mean(1))
    torch.testing.assert_close(sampled.standard_error, single.std(1) / 40**0.5)


def moments_of(pairs: Tensor, cuts: list[int], crossed: bool) -> Moments:
    """Of contributions `[rows, pairs, players, outputs]` that come in rounds cut here."""
    rows, count, players, outputs = pairs.shape
    moments = Moments(rows, players, outputs, pairs.device, crossed)
    for start, stop in itertools.pairwise([0, *cuts, count]):
        # A round need not take all rows at a time, nor in their order.
        for some in (torch.arange(rows).flip(0)[:2], torch.arange(rows - 2)):
            moments.add(some, pairs[some, start:stop], torch.ones(len(some), outputs))
    return moments


def contributions(offset: float = 0.0) -> Tensor:
    """Of three rows, 12 pairs, two players and three outputs that go together."""
    generator = torch.Generator().manual_seed(0)
    mix = torch.randn(3, 2, 3, 3, generator=generator, dtype=torch.float64)
    noise = torch.randn(3, 12, 2, 1, 3, generator=generator, dtype=torch.float64)
    return (noise @ mix[:, None])[..., 0, :] + offset


@given(st.sets(st.integers(1, 11)).map(sorted), st.sampled_from([0.0, 1e4]))
@few
def test_covariances_are_those_of_numpy_in_any_split_of_rounds(
    cuts: list[int], offset: float
) -> None:
    pairs = contributions(offset)
    moments = moments_of(pairs, cuts, crossed=True)
    covariance, error = moments.covariance(), moments.standard_error()
    assert covariance is not None
    for row, player in itertools.product(range(3), range(2)):
        expected = np.cov(pairs[row, :, player].numpy(), rowvar=False) / 12
        assert np.allclose(covariance[row, player].numpy(), expected, rtol=1e-7, atol=1e-10)
    assert torch.equal(error, covariance.diagonal(dim1=2, dim2=3).sqrt())
    torch.testing.assert_close(moments.mean, pairs.mean(1))
    assert moments.pairs.tolist() == [12, 12, 12]
    plain = moments_of(pairs, cuts, crossed=False)
    assert plain.covariance() is None
    torch.testing.assert_close(plain.standard_error(), error)
    torch.testing.assert_close(plain.mean, moments.mean)


@pytest.mark.parametrize("crossed", [False, True])
def test_moments_of_one_pair_have_no_error(crossed: bool) -> None:
    moments = moments_of(contributions()[:, :1], [], crossed)
    assert moments.standard_error().isnan().all()
    covariance = moments.covariance()
    assert covariance is None or covariance.isnan().all()


@pytest.mark.parametrize(("classes", "kept"), [(3, True), (65, True), (66, False)])
def test_errors_go_together_in_log_ratio_space_of_not_too_many_classes(
    classes: int, kept: bool
) -> None:
    table = random_table(6, classes)
    game = Table(ms.simplex.ilr(table))
    game.space = ms.as_space("ilr")
    game.classes = [str(k) for k in range(classes)]
    game.outputs = game.space.outputs(game.classes)
    explanation = SAMPLED(game, rows(6), permutations=8)
    assert (explanation.covariance is not None) == kept
    assert explanation.partition == ms.Partition.sequential(game.classes)
    assert torch.equal(
        explanation.standard_error,
        SAMPLED(Table(game.table), rows(6), permutations=8).standard_error,
    )
    if explanation.covariance is not None:
        diagonal = explanation.covariance.diagonal(dim1=2, dim2=3)
        torch.testing.assert_close(explanation.standard_error.square(), diagonal)
    # All orders leave no errors, together or alone.
    assert EXACT(game, rows(6)).covariance is None


def test_rounds_add_up() -> None:
    # 100 pairs are walked in rounds of 32; 6 players keep it below full enumeration.
    game, x = Table(random_table(6)), rows(6, 400)
    sampled = SAMPLED(game, x, permutations=200)
    spread = ((sampled.phi - EXACT(game, x).phi) / sampled.standard_error).std()
    assert spread.item() == pytest.approx(1, abs=0.1)


def test_one_pair_has_no_standard_error() -> None:
    sampled = SAMPLED(Table(random_table(6)), rows(6), permutations=2)
    assert sampled.standard_error.isnan().all()
    assert sampled.efficiency_gap < 1e-5


@both
@pytest.mark.parametrize("batch_size", [1, 7, 1_000])
def test_batch_size_does_not_change_a_number(estimator: Estimator, batch_size: int) -> None:
    game, x = Table(random_table(6)), rows(6, 5)
    whole = estimator(game, x, batch_size=100_000)
    parts = estimator(game, x, batch_size=batch_size)
    assert torch.equal(parts.phi, whole.phi)
    assert torch.equal(parts.standard_error, whole.standard_error)


@both
@pytest.mark.parametrize("kind", ["surrogate", "marginal"])
@pytest.mark.parametrize("batch_size", [7, 1_000])
def test_batch_size_does_not_matter_to_networks(
    make_value: Callable[..., ms.ValueFunction], estimator: Estimator, kind: str, batch_size: int
) -> None:
    # The marginal value at batch_size=1,000 holds a few coalitions, at 7 less than one.
    value, x = make_value(kind), rows(4)
    whole = estimator(value, x, batch_size=100_000)
    parts = estimator(value, x, batch_size=batch_size)
    torch.testing.assert_close(parts.phi, whole.phi, rtol=0, atol=1e-6)


def small_vae(posterior: str) -> ms.VAEImputer:
    """An imputer of four columns that nothing has trained."""
    torch.manual_seed(0)
    reference = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    network = MaskedVAE(choose_families(reference), range(4), 2, (16,), 2)
    network.likelihood.describe(reference)
    weighted = posterior == "weighted"
    return ms.VAEImputer(
        network, reference, posterior="encoder" if weighted else posterior, importance=weighted
    )


@both
@pytest.mark.parametrize("posterior", ["bank", "encoder", "weighted"])
@pytest.mark.parametrize("batch_size", [1, 7, 50])
@pytest.mark.filterwarnings("ignore:The weights of:UserWarning")
def test_batch_size_does_not_matter_to_a_vae(
    estimator: Estimator, posterior: str, batch_size: int
) -> None:
    weight = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    value = ms.imputed_value(lambda x: x @ weight, small_vae(posterior), draws=5)
    whole, parts = (estimator(value, rows(4), batch_size=size) for size in (10_000, batch_size))
    torch.testing.assert_close(parts.phi, whole.phi, rtol=0, atol=1e-5)
    # The draws matter: other ones are other numbers.
    value.seed = 1
    assert (estimator(value, rows(4)).phi - whole.phi).abs().max() > 1e-3


@pytest.mark.parametrize("batch_size", [1, 7, 50])
@pytest.mark.parametrize(
    "options", [None, {"permutations": 8}, {"permutations": 16, "target_error": 0.5}]
)
@pytest.mark.parametrize("ordering", [None, [["x2"], ["x0", "x3", "x1"]]])
@pytest.mark.filterwarnings("ignore:.* rows are above target_error")
def test_batch_size_does_not_matter_to_few_draws(
    make_value: Callable[..., ms.ValueFunction],
    options: dict[str, float] | None,
    ordering: list[list[str]] | None,
    batch_size: int,
) -> None:
    # Other draws would show: three of them leave errors of a tenth.
    value, x = make_value("marginal", draws=3), rows(4)

    def explain(batch_size: int) -> ms.Explanation:
        if options is None:
            return EXACT(value, x, ordering=ordering, batch_size=batch_size)
        return SAMPLED(value, x, ordering=ordering, batch_size=batch_size, **options)

    whole, parts = explain(100_000), explain(batch_size)
    torch.testing.assert_close(parts.phi, whole.phi, rtol=0, atol=1e-6)
    torch.testing.assert_close(
        parts.standard_error, whole.standard_error, rtol=0, atol=1e-6, equal_nan=True
    )


def test_every_row_and_pair_has_draws_of_its_own(
    make_value: Callable[..., ms.ValueFunction],
) -> None:
    value, x = make_value("marginal", draws=3), rows(4, 1).expand(400, -1)
    enough = make_value("marginal", draws=20)
    exact = EXACT(enough, x[:1]).phi
    several = EXACT(value, x).phi
    assert len(several.unique(dim=0)) > 10
    # Draws that all pairs shared would leave the error of one set of draws, however many pairs.
    sampled = SAMPLED(value, x, permutations=22)
    deviation = sampled.phi - exact
    assert (deviation.mean(0).abs() < 5 * deviation.std(0) / 20).all()
    claimed = sampled.standard_error.square().mean(0)
    torch.testing.assert_close(claimed, deviation.square().mean(0), rtol=0.4, atol=0)


def test_batch_size_does_not_matter_to_adaptive_stopping() -> None:
    game, x = Table(random_table(7)), rows(7, 5)
    whole = SAMPLED(game, x, target_error=0.05, batch_size=100_000)
    parts = SAMPLED(game, x, target_error=0.05, batch_size=100)
    assert torch.equal(parts.phi, whole.phi)


def test_seed_decides_the_orders() -> None:
    game, x = Table(random_table(6)), rows(6)
    first = SAMPLED(game, x, permutations=8, seed=1)
    assert torch.equal(SAMPLED(game, x, permutations=8, seed=1).phi, first.phi)
    assert not torch.equal(SAMPLED(game, x, permutations=8, seed=2).phi, first.phi)
    state = torch.random.get_rng_state()
    SAMPLED(game, x, permutations=8)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_exact_rows_do_not_depend_on_each_other() -> None:
    game, x = Table(random_table(4)), rows(4)
    assert torch.equal(EXACT(game, x).phi[1:2], EXACT(game, x[1:2]).phi)


@both
def test_rows_are_not_changed(estimator: Estimator) -> None:
    x = rows(4)
    before = x.clone()
    estimator(Table(random_table(4)), x)
    assert torch.equal(x, before)


@both
def test_images(estimator: Estimator) -> None:
    def total(x: Tensor, mask: Tensor) -> Tensor:
        return (x.flatten(1)[:, None] * mask).sum(-1, keepdim=True)

    x = torch.rand(2, 1, 2, 3)
    explanation = estimator(total, x)
    assert explanation.phi.shape == (2, 6, 1)
    torch.testing.assert_close(explanation.phi[..., 0], x.flatten(1), rtol=1e-4, atol=1e-5)
    assert explanation.outputs == ("0",)
    assert explanation.space == "identity"


@dataclass
class Grouped:
    """Σ of the present elements, where `players` own several elements each."""

    players: ms.Players
    draws: int = 1
    calls: list[int] = field(default_factory=list)

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        return (x[:, None] * self.players.expand(mask)).flatten(2).sum(-1, keepdim=True)


@both
def test_groups_of_features_are_players(estimator: Estimator) -> None:
    players = ms.Players(("a", "b", "c"), torch.tensor([[[0, 1], [1, 2]]]))
    x = torch.rand(4, 1, 2, 2)
    explanation = estimator(Grouped(players), x)
    expected = torch.stack((x[:, 0, 0, 0], x[:, 0, 0, 1] + x[:, 0, 1, 0], x[:, 0, 1, 1]), 1)
    torch.testing.assert_close(explanation.phi[..., 0], expected, rtol=1e-4, atol=1e-5)
    assert explanation.players.names == ("a", "b", "c")


def test_target_error_stops_when_it_is_met() -> None:
    players = 7
    table = random_table(players)
    game, x = Table(table), rows(players, 6)
    explanation = SAMPLED(game, x, target_error=0.02)
    spread = (table.amax(0) - table.amin(0)).max() * x[:, 0]
    worst = explanation.standard_error.amax((1, 2))
    assert (worst <= 0.02 * spread).all()
    assert explanation.made_by["target_error"] == 0.02
    # A tenth of all 7! orders is far more than it takes.
    assert 2 < explanation.made_by["permutations"] < 504
    loose = SAMPLED(game, x, target_error=0.2)
    assert loose.made_by["permutations"] < explanation.made_by["permutations"]


def test_target_error_of_few_players_ends_with_all_orders() -> None:
    game, x = Table(random_table(5)), rows(5)
    explanation = SAMPLED(game, x, target_error=1e-9)
    assert explanation.made_by["permutations"] == 120
    assert (explanation.standard_error == 0).all()
    torch.testing.assert_close(explanation.phi, ms.exact_shapley(game, x).phi)


@both
def test_the_error_of_draws_that_all_orders_share_is_not_known(
    estimator: Estimator, make_value: Callable[..., ms.ValueFunction]
) -> None:
    x = rows(4)
    noisy = estimator(make_value("marginal", draws=5), x)
    assert noisy.standard_error.isnan().all()
    # All 20 reference rows donate, and a surrogate draws nothing.
    for value in (make_value("marginal", draws=20), make_value("surrogate")):
        assert not value.noisy
        assert (estimator(value, x).standard_error == 0).all()
    reference = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    sampled = ms.imputed_value(lambda x: x, ms.GaussianImputer(reference), "identity", draws=5)
    assert estimator(sampled, x).standard_error.isnan().all()


def test_one_player_leaves_no_noise() -> None:
    reference = torch.randn(30, 1, generator=torch.Generator().manual_seed(0))
    value = ms.imputed_value(lambda x: x, ms.MarginalImputer(reference), "identity", draws=2)
    assert value.noisy
    assert (EXACT(value, reference[:3]).standard_error == 0).all()


def test_target_error_counts_the_noise_of_draws(
    make_value: Callable[..., ms.ValueFunction],
) -> None:
    value, x = make_value("marginal", "identity", draws=3), rows(4)
    explanation = SAMPLED(value, x, target_error=0.05)
    error = explanation.standard_error
    # More than all 24 orders: each pair draws afresh, and tells what the draws leave open.
    assert explanation.made_by["permutations"] > 24
    assert (error > 0).any()
    exact = EXACT(make_value("marginal", "identity", draws=20), x).phi
    assert ((explanation.phi - exact).abs() < 5 * error + 1e-4).all()


def test_target_error_that_cannot_be_met_is_warned_of() -> None:
    game, x = Table(random_table(7)), rows(7)
    with pytest.warns(UserWarning, match=r"3 of 3 rows are above target_error=1e-06 after 16"):
        explanation = SAMPLED(game, x, target_error=1e-6, permutations=16)
    assert explanation.made_by["permutations"] == 16


def test_target_error_is_not_met_by_one_pair_of_unknown_error() -> None:
    game, x = Table(random_table(7)), rows(7)
    with pytest.warns(UserWarning, match="3 of 3 rows are above target_error"):
        SAMPLED(game, x, target_error=0.5, permutations=2)


def test_target_error_of_a_constant_game_is_met_at_once() -> None:
    game = Table(torch.full((2**7, 1), 0.3))
    explanation = SAMPLED(game, rows(7), target_error=0.01)
    assert (explanation.phi == 0).all()
    assert explanation.made_by["permutations"] <= 16


@dataclass
class Memory:
    """A table game on a device with room for `most` values per call."""

    table: Table
    most: int
    sizes: list[int] = field(default_factory=list)

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        self.sizes.append(mask.shape[0] * mask.shape[1])
        if self.sizes[-1] > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return self.table(x, mask)


@both
@pytest.mark.parametrize(("players", "count"), [(6, 5), (2, 300)])
def test_out_of_memory_halves_the_batch(estimator: Estimator, players: int, count: int) -> None:
    table, x = Table(random_table(players)), rows(players, count)
    expected = estimator(table, x)
    game = Memory(table, most=40)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        explanation = estimator(game, x)
    assert torch.equal(explanation.phi, expected.phi)
    messages = [str(entry.message) for entry in caught]
    assert len(messages) == 1
    assert "Out of memory at batch_size=8192: halved" in messages[0]
    # It remembers what fits: hardly any call fails after the first ones.
    assert sum(size > 40 for size in game.sizes) < 20


@both
def test_a_single_coalition_that_does_not_fit_is_an_error(estimator: Estimator) -> None:
    game = Memory(Table(random_table(3)), most=0)
    with pytest.raises(torch.OutOfMemoryError):
        estimator(game, rows(3, count=1))


@both
def test_other_errors_of_a_game_are_its_own(estimator: Estimator) -> None:
    def broken(x: Tensor, mask: Tensor) -> Tensor:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        estimator(broken, rows(3))


@both
def test_errors_at_the_door(estimator: Estimator) -> None:
    game = Table(random_table(3))
    with pytest.raises(ValueError, match="Expected `batch_size` of at least 1 but got 0"):
        estimator(game, rows(3), batch_size=0)
    with pytest.raises(ValueError, match="Expected at least one row in `x` but got none"):
        estimator(game, torch.zeros(0, 3))
    with pytest.raises(ValueError, match=r"Expected `x` of shape \(rows, \*event\) .* `x\[:1\]`"):
        estimator(game, torch.zeros(3))
    holed = rows(3)
    holed[2, 1] = torch.nan
    with pytest.raises(ValueError, match="entries of `x` are NaN or infinite, the first in row 2"):
        estimator(game, holed)


@both
@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (lambda x, mask: 1.0, TypeError, "to return a tensor but got float"),
        (lambda x, mask: mask.sum(), ValueError, r"\(3, 1, outputs\) for 3 rows .* but got \(\)"),
        (lambda x, mask: mask.sum(-1), ValueError, r"got \(3, 1\); a single output is `values\["),
        (lambda x, mask: x[:2, None], ValueError, r"\(3, 1, outputs\) .* but got \(2, 1, 4\)"),
        # Right for one coalition per row, and wrong for several.
        (lambda x, mask: x[:, None], ValueError, r"\(\d, \d+, outputs\) .* but got \(\d, 1, 4\)"),
    ],
)
def test_values_of_another_shape(
    estimator: Estimator,
    function: Callable[[Tensor, Tensor], object],
    kind: type[Exception],
    message: str,
) -> None:
    with pytest.raises(kind, match=message):
        estimator(function, rows(4))


@both
@pytest.mark.parametrize("size", [0, 2, 4])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_values_that_are_not_finite(estimator: Estimator, size: int, number: float) -> None:
    x = rows(4)
    x[1] = 7

    def holed(x: Tensor, mask: Tensor) -> Tensor:
        bad = (mask.sum(-1) == size) & ((x[:, :1] == 7) | (size == 0))
        return torch.zeros(*mask.shape[:2], 2).masked_fill(bad[..., None], number)

    row = 0 if size == 0 else 1
    message = rf"Expected finite values .* for 1 rows, the first of them row {row} of `x`"
    for batch_size in (1, 1_000):
        with pytest.raises(ValueError, match=message):
            estimator(holed, x, batch_size=batch_size)


@both
def test_whole_numbers_are_values(estimator: Estimator) -> None:
    explanation = estimator(lambda x, mask: mask.sum(-1, keepdim=True), rows(4))
    assert torch.equal(explanation.phi, torch.ones(3, 4, 1))


@both
def test_no_gradients_are_recorded(estimator: Estimator) -> None:
    weight = torch.ones(4, 2, requires_grad=True)
    graphs = []

    def linear(x: Tensor, mask: Tensor) -> Tensor:
        values = (x[:, None] * mask) @ weight
        graphs.append(values.requires_grad)
        return values

    explanation = estimator(linear, rows(4).requires_grad_())
    assert not any(graphs)
    assert not any(getattr(explanation, name).requires_grad for name in ("phi", "base", "x"))


@both
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_callable_computes_where_the_rows_are(estimator: Estimator, device: str) -> None:
    devices = set()

    def total(x: Tensor, mask: Tensor) -> Tensor:
        devices.update((x.device.type, mask.device.type))
        return (x[:, None] * mask).sum(-1, keepdim=True)

    x = rows(4)
    explanation = estimator(total, x.to(device))
    assert devices == {device}
    assert explanation.phi.device.type == "cpu"
    torch.testing.assert_close(explanation.phi[..., 0], x)


@both
def test_an_explanation_shares_no_memory(
    make_value: Callable[..., ms.ValueFunction], estimator: Estimator
) -> None:
    value, x = make_value("marginal"), rows(4)
    base = value.base.clone()
    explanation = estimator(value, x)
    explanation.base.zero_()
    explanation.x.zero_()
    assert torch.equal(value.base, base)
    assert torch.equal(x, rows(4))


def test_memory_of_masks_is_that_of_a_chunk() -> None:
    largest = []

    def size(x: Tensor, mask: Tensor) -> Tensor:
        largest.append(mask.untyped_storage().nbytes() / mask.shape[0] / mask.shape[2])
        return mask.sum(-1, keepdim=True)

    # One order of 300 players is 299 coalitions; chunks of 10 straddle its end.
    explanation = SAMPLED(size, rows(300, 2), permutations=4, batch_size=10)
    assert max(largest) <= 10
    assert torch.equal(explanation.phi, torch.ones(2, 300, 1))


def test_too_many_players_for_enumeration() -> None:
    with pytest.raises(ValueError, match=r"at most 16 players for exact enumeration .* got 17"):
        EXACT(Grouped(ms.Players.of_elements((17,))), torch.zeros(1, 17))


@pytest.mark.parametrize("permutations", [0, -2, 7])
def test_permutations_come_in_pairs(permutations: int) -> None:
    with pytest.raises(ValueError, match="Expected `permutations` to be a positive even number"):
        SAMPLED(Table(random_table(3)), rows(3), permutations=permutations)


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan])
def test_target_error_is_positive(target: float) -> None:
    with pytest.raises(ValueError, match="Expected `target_error` to be positive"):
        SAMPLED(Table(random_table(3)), rows(3), target_error=target)


@both
def test_progress_does_not_change_a_number(
    estimator: Estimator, capsys: pytest.CaptureFixture[str]
) -> None:
    game, x = Table(random_table(4)), rows(4)
    assert torch.equal(estimator(game, x, progress=True).phi, estimator(game, x).phi)
    assert capsys.readouterr().err == ""
