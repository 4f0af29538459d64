"""Laws that every value function, imputer and estimator keeps: a class of tests for each.

A contract is inherited by a test class that says, in a fixture, what is tested; those of the
package are registered in `examples.py`.
"""

import json
import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import (
    Listed,
    Nested,
    Toggled,
    all_coalitions,
    is_proper,
    toggled,
)
from manifold_shap.values.base import put_together
from tests.examples import (
    ESTIMATORS,
    Cramped,
    Estimator,
    Made,
    Ragged,
    Table,
    Watched,
    additive_table,
    brute_force,
    known,
    random_table,
    uniform,
)

Imputer = ms.imputers.Imputer
Explain = Callable[..., ms.Explanation]

devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def keys_of(mask: Tensor) -> Tensor:
    """A key of its own for every coalition."""
    return torch.arange(mask[..., 0].numel()).reshape(mask.shape[:2])


def check_explained(estimator: Estimator, made: Made) -> None:
    """An explanation is efficient, has the ends, and does not depend on the batch size."""
    value, x, *_ = made
    # The fewest settings; regressions need two coalitions for each player at least.
    least = max(40, 6 * len(value.players))
    budget = {"evaluations": least} if "evaluations" in estimator.few else {}
    settings = {**estimator.few, **estimator.fewest, **budget}
    explanation = estimator.estimate(value, x, **settings)
    present = explanation.present[..., None].expand_as(explanation.phi)
    assert explanation.phi.shape == (len(x), len(value.players), len(value.outputs))
    assert torch.equal(explanation.phi.isnan(), ~present)
    assert explanation.efficiency_gap < 1e-4
    torch.testing.assert_close(explanation.prediction, value.prediction(x))
    torch.testing.assert_close(explanation.base, value.base(x))
    assert explanation.space == value.space
    assert explanation.made_by["value_function"] == value.name
    parts = estimator.estimate(value, x, **settings, batch_size=7)
    for found, whole in (
        (parts.phi, explanation.phi),
        (parts.standard_error, explanation.standard_error),
    ):
        torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-5, equal_nan=True)


class ValueFunctionContract:
    """What `ValueFunction` promises. A subclass gives the fixture `made`."""

    @pytest.fixture
    def mask(self, made: Made) -> Tensor:
        """The empty coalition, the grand one, and one with and without each player."""
        players = len(made.value.players)
        one = torch.eye(players, dtype=torch.bool)
        ends = torch.tensor([[False], [True]]).expand(2, players)
        masks = torch.cat((ends, one, ~one)).unique_consecutive(dim=0)
        return masks.expand(len(made.x), -1, -1).clone()

    @staticmethod
    def alike(made: Made) -> tuple[Tensor, int]:
        """Rows with as many players as the first, and how many these are."""
        counts = made.value.counts(made.x)
        return made.x[counts == counts[0]], int(counts[0])

    def test_anchors_are_exact_and_of_each_row(self, made: Made, mask: Tensor) -> None:
        value, x, *_ = made
        values = value(x, mask)
        assert values.shape == (*mask.shape[:2], len(value.outputs))
        assert torch.equal(values[:, 0], value.base(x))
        assert torch.equal(values[:, 1], value.prediction(x))
        assert not torch.allclose(values[:, 2], values[:, 0])
        for row in range(len(x)):
            assert torch.equal(value.base(x[row : row + 1]), value.base(x)[row : row + 1])

    @pytest.mark.usefixtures("many_calls")
    def test_auto_explains_it(self, made: Made) -> None:
        check_explained(ESTIMATORS["auto"], made)

    def test_an_estimate_knows_what_is_drawn(self, made: Made, mask: Tensor) -> None:
        value, x, *_ = made
        values, variance, effective = known(value, value.estimate(x, mask))
        assert torch.equal(values, value(x, mask))
        assert variance.shape == values.shape
        assert (variance[:, :2] == 0).all()
        assert not (variance < 0).any()
        if not value.spec.work.sampled:
            assert (variance == 0).all()
        assert ((effective > 0) & (effective < value.spec.work.draws + 1e-3)).all()

    def test_the_variance_is_that_over_keys_or_unknown(self, made: Made, mask: Tensor) -> None:
        value, x, *_ = made
        keys, proper = 300, mask[:, 2:]
        many = proper.repeat(1, keys, 1)
        own = torch.arange(keys).repeat_interleave(proper.shape[1]).expand(len(x), -1)
        found = known(value, value.estimate(x, many, own))[:2]
        values, claimed = (each.unflatten(1, (keys, -1)) for each in found)
        variance = values.double().var(1).mean()
        assert claimed.isnan().all() or 0.8 < (claimed.mean() + 1e-12) / (variance + 1e-12) < 1.25

    def test_chunks_do_not_change_a_value(self, made: Made, mask: Tensor) -> None:
        value, x, *_ = made
        keys = keys_of(mask)
        whole = value(x, mask, keys)
        for step in (1, 2):
            by_row = [
                value(*part)
                for part in zip(x.split(step), mask.split(step), keys.split(step), strict=True)
            ]
            torch.testing.assert_close(torch.cat(by_row), whole)
            parts = zip(mask.split(step, 1), keys.split(step, 1), strict=True)
            torch.testing.assert_close(torch.cat([value(x, *part) for part in parts], 1), whole)

    def test_equal_keys_share_their_draws_and_others_do_not(self, made: Made, mask: Tensor) -> None:
        value, x, *_ = made
        own = keys_of(mask)
        assert torch.equal(value(x, mask, own), value(x, mask, own))
        assert torch.equal(value(x, mask), value(x, mask, torch.zeros_like(own)))
        gap = (value(x, mask, own + 10_000) - value(x, mask, own)).abs().max()
        assert (gap > 1e-4) == value.spec.work.sampled

    @pytest.mark.parametrize("most", [1000, 3])
    def test_values_of_related_coalitions_are_those_of_single_ones(
        self, made: Made, most: int
    ) -> None:
        x, players = self.alike(made)
        generator = torch.Generator().manual_seed(0)
        orders = torch.rand(len(x), 3, players, generator=generator).argsort(-1)
        mask = torch.rand(len(x), 4, players, generator=generator) < 0.5
        lacking = len(made.value.players) - players
        for asked in (
            Nested(orders, keys_of(orders), lacking=lacking),
            Toggled(mask, keys_of(mask), lacking=lacking),
        ):
            pieces = [*asked.split(most)]
            parts = [made.value.values(x[piece.rows], piece.coalitions) for piece in pieces]
            found = put_together(pieces, parts, asked.shape).values
            assert found.shape == (*asked.shape, len(made.value.outputs))
            expected = made.value.values(x, Listed(asked.masks(), asked.each_key())).values
            # Values of nobody and of all are not asked for.
            proper = torch.ones(found.shape[:2], dtype=torch.bool)
            if isinstance(asked, Toggled):
                proper = is_proper(toggled(mask).flatten(1, 2))
            torch.testing.assert_close(found[proper], expected[proper], rtol=1e-4, atol=1e-5)

    def test_a_linearization_is_exact_at_the_coalition_itself(self, made: Made) -> None:
        x, players = self.alike(made)
        linearized = made.value.linearized()
        if linearized is None:
            return
        mask = all_coalitions(players)[1:-1].expand(len(x), -1, -1)
        lacking = len(made.value.players) - players
        asked = Toggled(mask, keys_of(mask), lacking=lacking)
        found, exact = (
            each.values(x, asked).values.unflatten(1, (-1, asked.run))
            for each in (linearized, made.value)
        )
        assert found.shape == exact.shape
        torch.testing.assert_close(found[:, :, 0], exact[:, :, 0])
        # Of networks that nothing has trained it misses much, but has no wrong sign.
        proper = toggled(mask).sum(-1) % players != 0
        missed, change = (found - exact)[proper], (exact - exact[:, :, :1])[proper]
        assert missed.norm() < 1.2 * change.norm()
        assert linearized.cost > 0

    def test_networks_in_training_mode_are_asked_in_evaluation_mode(
        self, made: Made, mask: Tensor
    ) -> None:
        value, x, *_ = made
        expected, base = value(x, mask), value.base(x)
        networks = [each for each in vars(value).values() if isinstance(each, torch.nn.Module)]
        try:
            for network in networks:
                network.train()
            assert torch.equal(value(x, mask), expected)
            assert torch.equal(value.base(x), base)
            assert all(network.training for network in networks)
        finally:
            for network in networks:
                network.eval()

    def test_inputs_are_not_changed_and_arrays_are_taken(self, made: Made, mask: Tensor) -> None:
        value, x, before = made.value, made.x.clone(), mask.clone()
        found = value(x.requires_grad_(), mask)
        assert not found.requires_grad
        assert torch.equal(x, made.x)
        assert torch.equal(mask, before)
        assert torch.equal(value(x.detach().numpy(), mask.numpy()), found)
        # Double precision is no other answer, and ends have the precision of values.
        torch.testing.assert_close(value(x.double(), mask), found, check_dtype=False)
        assert found.dtype == value.base(x).dtype == value.prediction(x).dtype

    def test_it_is_pickled(self, made: Made, mask: Tensor) -> None:
        copied = pickle.loads(pickle.dumps(made.value))
        torch.testing.assert_close(copied(made.x, mask), made.value(made.x, mask))
        assert copied.players.names == made.value.players.names
        assert (copied.outputs, copied.space) == (made.value.outputs, made.value.space)

    def test_provenance_is_plain_data(self, made: Made) -> None:
        value = made.value
        assert json.loads(json.dumps(value.provenance)) == value.provenance
        assert isinstance(value.provenance["value_function"], str)
        assert value.spec.work.draws >= 1
        assert all(isinstance(name, str) for name in (*value.outputs, *value.players.names))
        if value.classes:
            assert value.space.outputs(value.classes) == value.outputs

    def test_every_element_has_an_owner_among_the_players(self, made: Made) -> None:
        value, x, *_ = made
        owners, counts = value.owners(x), value.counts(x)
        assert owners.shape == x.shape
        assert counts.max() <= len(value.players)
        for row, count in zip(owners, counts.tolist(), strict=True):
            assert sorted(set(row.unique().tolist()) - {-1}) == list(range(count))
            assert value.players.by_row or row.min() == 0

    def test_mask_entries_of_players_that_a_row_lacks_are_ignored(
        self, made: Made, mask: Tensor
    ) -> None:
        value, x, *_ = made
        lacking = torch.arange(mask.shape[2]) >= value.counts(x)[:, None, None]
        assert bool(lacking.any()) <= value.players.by_row
        assert torch.equal(value(x, mask | lacking), value(x, mask & ~lacking))

    def test_players_are_grouped(self, made: Made) -> None:
        value, x, *_ = made
        names = value.players.names
        if value.players.by_row or len(names) < 3:
            return
        grouped = value.grouped({"group": [names[2], names[0]]})
        assert grouped.players.names == ("group", names[1], *names[3:])
        mask = all_coalitions(3)[:, torch.arange(len(names) - 1).clamp(max=2)]
        apart = torch.cat((mask[:, :1], mask[:, 1:2], mask[:, :1], mask[:, 2:]), 1)
        masks = [each.expand(len(x), -1, -1) for each in (mask, apart)]
        torch.testing.assert_close(grouped(x, masks[0]), value(x, masks[1]))


class ImputerContract:
    """What `Imputer` promises. A subclass gives the fixture `imputer`."""

    @pytest.fixture
    def x(self, imputer: Imputer) -> Tensor:
        """Rows like the reference, but for the exact match among them."""
        rows = imputer.reference[: min(2, len(imputer.reference))]
        return rows.repeat(2, *[1] * (rows.ndim - 1))[:2].clone()

    @staticmethod
    def coalitions(imputer: Imputer) -> Tensor:
        """The empty coalition, the grand one, and nested ones between, `[2, m, players]`."""
        players = len(imputer.players)
        size = torch.tensor([0, players, 1, players // 2, players - 1])
        order = torch.arange(players).flip(0)
        return (order < size[:, None]).expand(2, -1, -1)

    def complete(self, imputer: Imputer, x: Tensor, draws: range, key: int = 3) -> Any:
        """Completions of these coalitions of the rows."""
        mask = self.coalitions(imputer)
        return imputer.impute(x, Listed(mask, torch.full(mask.shape[:2], key)), draws)

    def test_present_players_stay(self, imputer: Imputer, x: Tensor) -> None:
        completed = self.complete(imputer, x, range(3))
        mask = self.coalitions(imputer)
        assert completed.rows.shape == (*mask.shape[:2], 3, *imputer.players.event)
        present = imputer.players.expand(mask)[:, :, None].expand_as(completed.rows)
        kept = x[:, None, None].expand_as(completed.rows)
        assert torch.equal(completed.rows[present], kept[present])
        assert completed.rows.isfinite().all()
        assert completed.rows.dtype == x.dtype
        if completed.log_weights is not None:
            assert completed.log_weights.shape == (*mask.shape[:2], 3)

    def test_absent_players_are_never_read(self, imputer: Imputer, x: Tensor) -> None:
        mask = self.coalitions(imputer)
        keys = torch.zeros(mask.shape[:2], dtype=torch.int64)
        for k in range(mask.shape[1]):
            one, own = mask[:, k : k + 1], keys[:, k : k + 1]
            other = torch.where(imputer.players.expand(one[:, 0]), x, 1.0)
            found = [imputer.impute(rows, Listed(one, own), range(3)) for rows in (x, other)]
            torch.testing.assert_close(found[0].rows, found[1].rows)
            if found[0].log_weights is not None:
                torch.testing.assert_close(found[0].log_weights, found[1].log_weights)

    def test_a_draw_is_the_same_alone_and_among_others(self, imputer: Imputer, x: Tensor) -> None:
        together = self.complete(imputer, x, range(6))
        for some in (range(2), range(1, 4), range(5, 6)):
            part = self.complete(imputer, x, some)
            torch.testing.assert_close(part.rows, together.rows[:, :, some.start : some.stop])
        row = self.complete(imputer, x.flip(0), range(6)).rows.flip(0)
        torch.testing.assert_close(row, together.rows)

    def test_keys_decide(self, imputer: Imputer, x: Tensor) -> None:
        assert torch.equal(
            self.complete(imputer, x, range(3)).rows, self.complete(imputer, x, range(3)).rows
        )
        keys = range(20)
        others = [self.complete(imputer, x, range(1), key).rows for key in keys]
        same = all(torch.equal(others[0], other) for other in others)
        assert same == (imputer.distinct_draws == 1)

    def test_the_variance_of_a_value_is_that_over_keys(self, imputer: Imputer) -> None:
        if imputer.distinct_draws == 1:
            return
        x, keys = imputer.reference[:8], 200
        scale = imputer.reference.flatten(1).std(0).clamp(min=0.1)
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(len(scale), 2, generator=generator) / scale[:, None]
        model = ms.as_model(lambda rows: (rows.flatten(1).float() @ weight).sin(), x)
        draws = min(6, (imputer.distinct_draws or 7) - 1)
        value = ms.ImputedValue(imputer, model, ms.spaces.Identity(), torch.zeros(2), draws)
        mask = self.coalitions(imputer)[:1, 2:].expand(len(x), -1, -1)
        own = torch.arange(keys).repeat_interleave(3).expand(len(x), -1)
        found = known(value, value.estimate(x, mask.repeat(1, keys, 1), own))[:2]
        values, claimed = (each.unflatten(1, (keys, 3)).double() for each in found)
        assert 0.8 < claimed.mean() / values.var(1).mean() < 1.25

    def test_the_whole_support_leaves_nothing_out(self, imputer: Imputer, x: Tensor) -> None:
        if imputer.distinct_draws is None:
            assert imputer.unsampled_fraction(10_000) == 1
            return
        assert imputer.unsampled_fraction(imputer.distinct_draws) == 0
        assert (imputer.unsampled_fraction(1) == 0) == (imputer.distinct_draws == 1)
        means = []
        for key in (0, 1):
            completed = self.complete(imputer, x, range(imputer.distinct_draws), key)
            logs = completed.log_weights
            if logs is None:
                logs = torch.zeros(completed.rows.shape[:3])
            # The empty coalition, the first of these, is never imputed.
            means.append(torch.einsum("bmd,bmd...->bm...", logs.softmax(-1), completed.rows)[:, 1:])
        torch.testing.assert_close(means[0], means[1], rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("most", [3, 1000])
    def test_nested_coalitions_are_completed_as_single_ones(
        self, imputer: Imputer, x: Tensor, most: int
    ) -> None:
        players = len(imputer.players)
        order = torch.rand(2, 2, players, generator=torch.Generator().manual_seed(0)).argsort(-1)
        nested = Nested(order, torch.tensor([[1, 2], [3, 4]]), last=min(4, players - 1))
        plain = imputer.impute(x, Listed(nested.masks(), nested.each_key()), range(3))
        for piece in nested.split(most):
            found = imputer.impute(x[piece.rows], piece.coalitions, range(3))
            rows = plain.rows[piece.rows, piece.which]
            torch.testing.assert_close(found.rows, rows, rtol=1e-3, atol=1e-3)
            if plain.log_weights is not None:
                # Up to a constant of each coalition.
                weights = plain.log_weights[piece.rows, piece.which].softmax(-1)
                torch.testing.assert_close(found.log_weights.softmax(-1), weights)

    def test_samples_have_equal_weights(self, imputer: Imputer, x: Tensor) -> None:
        mask = self.coalitions(imputer)
        keys = torch.full(mask.shape[:2], 3)
        drawn = imputer.sample(x, Listed(mask, keys), range(20))
        assert drawn.shape == (*mask.shape[:2], 20, *imputer.players.event)
        few = imputer.sample(x, Listed(mask, keys), range(3, 9))
        torch.testing.assert_close(few, drawn[:, :, 3:9], rtol=1e-4, atol=1e-4)

    def test_it_is_pickled(self, imputer: Imputer, x: Tensor) -> None:
        assert json.loads(json.dumps(imputer.provenance)) == imputer.provenance
        expected = self.complete(imputer, x, range(4))
        found = self.complete(pickle.loads(pickle.dumps(imputer)), x, range(4))
        torch.testing.assert_close(found.rows, expected.rows)
        torch.testing.assert_close(found.log_weights, expected.log_weights)


class EstimatorContract:
    """What an estimator of any game promises. A subclass gives the fixture `estimator`."""

    @pytest.fixture
    def explain(self, estimator: Estimator) -> Explain:
        """The estimator with few samples."""

        def estimate(value: Any, x: Any, **settings: Any) -> ms.Explanation:
            return estimator.estimate(value, x, **{**estimator.few, **settings})

        return estimate

    # -- axioms -------------------------------------------------------------------------------

    def test_an_additive_game_is_known_exactly(self, explain: Explain) -> None:
        # Player 1 adds nothing, and players 2 and 3 add the same.
        worth = torch.tensor([[1.0, -2], [0, 0], [0.5, 3], [0.5, 3], [-1, 0.25], [2, 1]])
        x = uniform(3, 6)
        explanation = explain(Table(additive_table(worth)), x)
        expected = worth * x[:, :1, None]
        torch.testing.assert_close(explanation.phi, expected, rtol=1e-4, atol=1e-5)
        assert explanation.standard_error.nan_to_num().max() < 1e-4

    @pytest.mark.parametrize("players", [2, 3, 4])
    def test_all_coalitions_give_the_mean_over_all_orders(
        self, estimator: Estimator, players: int
    ) -> None:
        if estimator.all is None:
            return
        count = {"permutations": max(2, math.factorial(players)), "evaluations": 2**players - 2}
        settings = {name: count[name] for name in estimator.all}
        game, x = Table(random_table(players, 3)), uniform(3, players)
        explanation = estimator.estimate(game, x, **settings)
        expected = brute_force(game, x, players).to(explanation.phi)
        torch.testing.assert_close(explanation.phi, expected, rtol=1e-4, atol=1e-5)
        assert (explanation.standard_error == 0).all()

    def test_errors_agree_with_standard_errors(
        self, estimator: Estimator, explain: Explain
    ) -> None:
        if not estimator.sampled:
            return
        off, claimed = [], []
        for seed in range(24):
            game, x = Table(random_table(6, seed=seed)), uniform(2, 6)
            explanation = explain(game, x, seed=seed)
            off.append(explanation.phi - ms.exact_shapley(game, x).phi)
            claimed.append(explanation.standard_error)
        ratio = (
            torch.stack(off).square().mean().sqrt() / torch.stack(claimed).square().mean().sqrt()
        )
        assert 0.7 < ratio < 1.4
        # 24 seeds, 2 rows, 6 players, 2 outputs: 576 deviations, of which few are far out.
        far = (torch.stack(off).abs() > 6 * torch.stack(claimed)).float().mean()
        assert far < 0.01

    def test_units_and_offsets_do_not_matter(self, explain: Explain) -> None:
        table, x = random_table(6), uniform(3, 6)
        once, twice = explain(Table(table), x), explain(Table(2 * table + 3), x)
        torch.testing.assert_close(twice.phi, 2 * once.phi, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(
            twice.standard_error, 2 * once.standard_error, rtol=1e-3, atol=1e-4, equal_nan=True
        )

    def test_linearity(self, estimator: Estimator, explain: Explain) -> None:
        if not estimator.linear:
            return
        v, w, x = random_table(6), random_table(6, seed=1), uniform(3, 6)
        combined = explain(Table(2 * v - 3 * w), x).phi
        parts = 2 * explain(Table(v), x).phi - 3 * explain(Table(w), x).phi
        torch.testing.assert_close(combined, parts, rtol=1e-4, atol=1e-4)

    def test_a_dummy_gets_what_it_adds(self, estimator: Estimator, explain: Explain) -> None:
        if not estimator.dummies:
            return
        code = torch.arange(64)
        table = random_table(6)[code & ~1] + 0.25 * (code & 1)[:, None]
        x = uniform(3, 6)
        explanation = explain(Table(table), x)
        own = 0.25 * x[:, :1].expand(-1, 2)
        torch.testing.assert_close(explanation.phi[:, 0], own, rtol=1e-4, atol=1e-5)

    # -- anchors ------------------------------------------------------------------------------

    def test_evaluations_are_counted_and_bounded(
        self, estimator: Estimator, explain: Explain
    ) -> None:
        game = Watched(Table(random_table(6)))
        explanation = explain(game.wrapped(uniform(5, 6)), uniform(5, 6))
        proper = int(((game.sizes > 0) & (game.sizes < 6)).sum())
        assert explanation.made_by["evaluations"] == proper
        limited = estimator.estimate(Table(random_table(6)), uniform(5, 6), evaluations=1000)
        assert limited.made_by["evaluations"] <= 5 * 1000

    # -- invariances --------------------------------------------------------------------------

    @pytest.mark.parametrize("batch_size", [1, 7])
    def test_batch_size_does_not_change_a_number(self, explain: Explain, batch_size: int) -> None:
        game, x = Table(random_table(6)), uniform(5, 6)
        whole = explain(game, x, batch_size=100_000)
        parts = explain(game, x, batch_size=batch_size)
        assert torch.equal(parts.phi, whole.phi)
        torch.testing.assert_close(
            parts.standard_error, whole.standard_error, rtol=0, atol=0, equal_nan=True
        )

    def test_the_seed_decides(self, estimator: Estimator, explain: Explain) -> None:
        game, x = Table(random_table(6)), uniform(3, 6)
        state = torch.random.get_rng_state()
        first = explain(game, x, seed=1)
        assert torch.equal(explain(game, x, seed=1).phi, first.phi)
        assert torch.equal(explain(game, x, seed=2).phi, first.phi) == (not estimator.sampled)
        assert torch.equal(torch.random.get_rng_state(), state)

    def test_out_of_memory_halves_the_batch(self, explain: Explain) -> None:
        table, x = Table(random_table(6)), uniform(5, 6)
        game = Cramped(table, most=20)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            explanation = explain(game, x)
        assert torch.equal(explanation.phi, explain(table, x).phi)
        messages = [str(entry.message) for entry in caught]
        assert len(messages) == 1
        assert "Out of memory at batch_size=8192: halved" in messages[0]
        # It remembers what fits: hardly any call fails after the first ones.
        assert sum(size > 20 for size in game.sizes) < 20

    # -- numbers ------------------------------------------------------------------------------

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_the_precision_of_the_game_is_kept(self, explain: Explain, dtype: torch.dtype) -> None:
        large = 1e6 if dtype == torch.float64 else 10.0
        explanation = explain(Table(large + random_table(6).to(dtype)), uniform(3, 6))
        for numbers in (explanation.phi, explanation.base, explanation.prediction):
            assert numbers.dtype == dtype
        assert explanation.efficiency_gap < 1e-5

    def test_whole_numbers_and_arrays_are_values(self, explain: Explain) -> None:
        def count(x: Tensor, mask: Tensor) -> Any:
            return mask.sum(-1, keepdim=True).numpy()

        torch.testing.assert_close(explain(count, uniform(3, 6).numpy()).phi, torch.ones(3, 6, 1))

    # -- every value function -----------------------------------------------------------------

    def test_value_functions_are_explained(self, estimator: Estimator, made: Made) -> None:
        check_explained(estimator, made)

    def test_rows_with_players_of_their_own(self, estimator: Estimator, explain: Explain) -> None:
        value, x = Ragged(), Ragged.some_rows()
        counts = torch.tensor([3, 1, 4, 3, 2])
        explanation = explain(value, x)
        lacking = torch.arange(4) >= counts[:, None]
        assert torch.equal(explanation.counts, counts)
        assert torch.equal(explanation.phi.isnan().all(-1), lacking)
        assert torch.equal(explanation.phi.isnan().any(-1), lacking)
        assert explanation.owners is not None
        assert torch.equal(explanation.owners, value.owners(x))
        change = explanation.prediction - explanation.base
        torch.testing.assert_close(explanation.phi.nansum(1), change, rtol=1e-4, atol=1e-5)
        assert torch.equal(explanation.base, value.base(x))
        if estimator.all is None:
            return
        for row, count in enumerate(counts.tolist()):
            pairs = x[row : row + 1].unflatten(1, (-1, 2)).sum(2)[:, :count]

            def plain(pairs: Tensor, mask: Tensor) -> Tensor:
                total = (pairs[:, None] * mask).sum(-1)
                return torch.stack((total.square(), total.tanh()), -1)

            expected = brute_force(plain, pairs, count).to(explanation.phi)
            alone = estimator.estimate(value, x[row : row + 1])
            torch.testing.assert_close(alone.phi[:, :count], expected, rtol=1e-4, atol=1e-4)

    # -- the result ---------------------------------------------------------------------------

    def test_how_it_was_made_is_recorded_and_gradients_are_not(self, explain: Explain) -> None:
        weight, graphs = torch.ones(6, 2, requires_grad=True), []

        def linear(x: Tensor, mask: Tensor) -> Tensor:
            values = (x[:, None] * mask) @ weight
            graphs.append(values.requires_grad)
            return values

        explanation = explain(linear, uniform(3, 6).requires_grad_())
        assert not any(graphs)
        numbers = (explanation.phi, explanation.base, explanation.prediction, explanation.x)
        assert not any(each.requires_grad for each in numbers)
        made_by = explanation.made_by
        assert json.loads(json.dumps(dict(made_by))) == made_by
        assert (made_by["version"], made_by["value_function"]) == (ms.__version__, "callable")

    # -- errors -------------------------------------------------------------------------------

    @pytest.mark.parametrize(("size", "number"), [(0, math.nan), (3, math.inf), (6, math.nan)])
    def test_values_that_are_not_finite_raise_errors(
        self, explain: Explain, size: int, number: float
    ) -> None:
        x = uniform(3, 6)
        x[1] = 7

        def holed(x: Tensor, mask: Tensor) -> Tensor:
            bad = (mask.sum(-1) == size) & (x[:, :1] == 7)
            return torch.zeros(*mask.shape[:2], 2).masked_fill(bad[..., None], number)

        message = "Expected finite values .* for 1 rows, the first of them row 1 of `x`"
        for batch_size in (1, 1000):
            with pytest.raises(ValueError, match=message):
                explain(holed, x, batch_size=batch_size)

    def test_errors_of_a_game_are_its_own(self, explain: Explain) -> None:
        def broken(x: Tensor, mask: Tensor) -> Tensor:
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            explain(broken, uniform(3, 6))
        with pytest.raises(torch.OutOfMemoryError):
            explain(Cramped(Table(random_table(6)), most=0), uniform(1, 6))
