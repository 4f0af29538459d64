"""Coalitions that grow along an order, of the imputers of moments: the same as one by one."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from benchmarks import along_imputers
from manifold_shap.imputers import base, empirical, gaussian, kernel, normal
from manifold_shap.imputers.base import Completions
from manifold_shap.imputers.causal import CausalImputer
from manifold_shap.imputers.empirical import EmpiricalImputer
from manifold_shap.imputers.gaussian import CopulaImputer, GaussianImputer
from manifold_shap.values import ImputedValue

# Nine players own fourteen elements, which stand in no order.
INDEX = torch.tensor([3, 0, 8, 1, 1, 2, 4, 8, 5, 6, 7, 0, 8, 3])
PLAYERS = ms.Players(tuple("abcdefghi"), INDEX)
KEYS = torch.tensor([[1, 2, 3], [1, 5, 6]])

Make = Callable[..., ms.Imputer]
KINDS = [GaussianImputer, CopulaImputer, EmpiricalImputer]
every_imputer = pytest.mark.parametrize("make", KINDS)


def rows(count: int, elements: int = len(INDEX), seed: int = 0) -> Tensor:
    """Correlated rows; the same distribution for every `count`."""
    generator = torch.Generator().manual_seed(elements)
    mixing = torch.randn(elements, elements, generator=generator)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, elements, generator=generator) @ mixing + 2


def grown(runs: int, run: int, players: int, seed: int) -> Tensor:
    """Growing coalitions `[2 rows, runs, run, players]`: some players never come, some always."""
    generator = torch.Generator().manual_seed(seed)
    arrival = torch.randint(run + 1, (2, runs, 1, players), generator=generator)
    return arrival <= torch.arange(run)[:, None]


def orders(seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*KEYS.shape, len(PLAYERS), generator=generator).argsort(-1)


def along(order: Tensor) -> Tensor:
    """The coalitions of orders but the full one, `[..., players - 1, players]`."""
    return order.argsort(-1)[..., None, :] <= torch.arange(order.shape[-1] - 1)[:, None]


def value(imputer: ms.Imputer, draws: int = 5) -> ImputedValue:
    weight = torch.randn(len(INDEX), 3, generator=torch.Generator().manual_seed(1))
    return ms.imputed_value(lambda x: (x @ weight / 3).softmax(-1), imputer, draws=draws)


def plainly(v: ImputedValue, x: Tensor, mask: Tensor) -> Tensor:
    """Values of the coalitions of runs, one by one."""
    return v.proper_values(x, mask.flatten(1, 2), KEYS.repeat_interleave(mask.shape[2], 1))


def complete(
    imputer: ms.Imputer, x: Tensor, mask: Tensor, draws: range, keys: Tensor
) -> Completions:
    """Completions of nested coalitions in one part."""
    (found,) = imputer.impute_nested(x, mask, draws, keys, most=10_000)
    return found


def compare(imputer: ms.Imputer, x: Tensor, mask: Tensor, draws: range) -> None:
    keys = KEYS[:, :1].expand(-1, mask.shape[1])
    found = complete(imputer, x, mask, draws, keys)
    own = keys.repeat_interleave(mask.shape[2], 1)
    plain = imputer.impute(x, mask.flatten(1, 2), draws, own)
    torch.testing.assert_close(found.rows, plain.rows, rtol=1e-4, atol=2e-4)
    assert (found.log_weights is None) == (plain.log_weights is None)
    if plain.log_weights is not None:
        torch.testing.assert_close(found.log_weights, plain.log_weights, rtol=1e-4, atol=1e-4)


@given(
    st.sampled_from(KINDS),
    st.lists(st.integers(0, 5), min_size=2, max_size=9),
    st.integers(1, 8),
    st.integers(0, 3),
    st.integers(1, 4),
    st.integers(0, 2**31),
)
@settings(deadline=None, max_examples=60)
def test_runs_are_completed_as_single_coalitions(
    make: Make, owners: list[int], run: int, first: int, draws: int, seed: int
) -> None:
    index = torch.tensor(owners).unique(return_inverse=True)[1]
    players = ms.Players(tuple(f"p{k}" for k in range(int(index.max()) + 1)), index)
    with pytest.MonkeyPatch.context() as patch:
        for module in (gaussian, empirical):
            patch.setattr(module, "LEAST_NESTED_PLAYERS", 0)
        imputer = make(rows(40, len(owners), seed), players)
        mask = grown(2, run, len(players), seed)
        compare(imputer, rows(2, len(owners), seed + 1), mask, range(first, first + draws))


@every_imputer
def test_collinear_and_constant_columns(make: Make) -> None:
    reference = rows(60)
    reference[:, 3], reference[:, 7] = 1.0, 2 * reference[:, 2]
    with pytest.warns(UserWarning, match="singular"):
        imputer = make(reference, PLAYERS)
    compare(imputer, reference[:2], grown(3, 6, len(PLAYERS), seed=0), range(4))


@every_imputer
@pytest.mark.parametrize("most", [1, 5, 8, 19, 10_000])
def test_values_along_orders_are_those_of_single_coalitions(make: Make, most: int) -> None:
    v, x = value(make(rows(200), PLAYERS)), rows(2, seed=1)
    found = v.values_along(x, orders(), KEYS, batch_size=most * 2 * v.draws)
    torch.testing.assert_close(found, plainly(v, x, along(orders())), rtol=1e-4, atol=1e-5)
    assert found.std() > 0.05


@every_imputer
def test_rows_at_a_time_are_bounded(make: Make) -> None:
    v, seen = value(make(rows(200), PLAYERS)), []
    model = v.model

    def counted(x: Tensor) -> Tensor:
        seen.append(len(x))
        return model(x)

    v.model = counted  # type: ignore[assignment]
    v.values_along(rows(2, seed=1), orders(), KEYS, batch_size=50)
    assert max(seen) <= 50
    assert sum(seen) == KEYS.numel() * (len(PLAYERS) - 1) * v.draws


@every_imputer
def test_few_runs_are_factorised_at_a_time(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    imputer, x = make(rows(200), PLAYERS), rows(2, seed=1)
    mask = along(orders())
    whole = complete(imputer, x, mask, range(4), KEYS).rows
    for module in (normal, kernel):
        monkeypatch.setattr(module, "_MOST_ELEMENTS", 2 * len(INDEX) ** 2)
    parts = complete(imputer, x, mask, range(4), KEYS).rows
    torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-5)


@every_imputer
def test_a_run_takes_one_factorisation(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    v, factorised = value(make(rows(200), PLAYERS)), []
    cholesky = torch.linalg.cholesky

    def counted(matrix: Tensor) -> Tensor:
        factorised.append(len(matrix))
        return cholesky(matrix)

    monkeypatch.setattr(torch.linalg, "cholesky", counted)
    v.values_along(rows(2, seed=1), orders(), KEYS)
    assert sum(factorised) == KEYS.numel()


@every_imputer
def test_who_has_not_arrived_is_never_looked_at_and_others_stay(make: Make) -> None:
    imputer, x = make(rows(200), PLAYERS), rows(2, seed=1)
    mask = along(orders()[:, :1])
    # The last two players are absent from all of these.
    mask = mask[:, :, :-1]
    missing = ~PLAYERS.expand(mask[:, 0, -1])
    keys = KEYS[:, :1]
    first, other = (
        complete(imputer, some, mask, range(3), keys).rows
        for some in (x, torch.where(missing, -1e30, x))
    )
    assert torch.equal(first, other)
    present = PLAYERS.expand(mask.flatten(1, 2))[:, :, None].expand_as(first)
    assert torch.equal(first[present], x[:, None, None].expand_as(first)[present])


@every_imputer
def test_coalitions_around_one_are_asked_one_by_one(make: Make) -> None:
    v, x = value(make(rows(200), PLAYERS)), rows(2, seed=1)
    start = along(orders())[:, :, 3]
    toggled = torch.eye(len(PLAYERS) + 1, len(PLAYERS), dtype=torch.bool).roll(1, 0)
    plain = plainly(v, x, start[:, :, None] ^ toggled)
    torch.testing.assert_close(v.values_around(x, start, KEYS), plain)


@pytest.mark.parametrize("most", [1, 3, 5, 7, 12, 100])
def test_parts_of_nested_coalitions_are_bounded_and_nested(most: int) -> None:
    mask, seen = grown(3, 5, len(PLAYERS), seed=0), []
    for part, keys in base.nested_parts(mask, KEYS, most):
        assert part.shape[1] * part.shape[2] <= most
        assert not (part[:, :, :-1] & ~part[:, :, 1:]).any()
        assert keys.shape == part.shape[:2]
        seen.append((part.flatten(1, 2), keys.repeat_interleave(part.shape[2], 1)))
    coalitions, keys = (torch.cat(some, dim=1) for some in zip(*seen, strict=True))
    assert torch.equal(coalitions, mask.flatten(1, 2))
    assert torch.equal(keys, KEYS.repeat_interleave(5, 1))


@every_imputer
def test_few_players_are_completed_one_by_one(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    impute = make.impute  # type: ignore[attr-defined]

    def counted(self: ms.Imputer, x: Tensor, mask: Tensor, *others: Any) -> Completions:
        asked.append(mask.shape[1])
        return impute(self, x, mask, *others)

    monkeypatch.setattr(make, "impute", counted)
    few = base.LEAST_NESTED_PLAYERS - 1
    for players, expected in ((few + 1, []), (few, [6, 6, 3])):
        x = rows(40, players)
        list(make(x).impute_nested(x[:2], grown(3, 5, players, 0), range(2), KEYS, most=6))
        assert asked == expected


@every_imputer
def test_permutations_ask_for_nested_coalitions(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    v, x = value(make(rows(200), PLAYERS)), rows(2, seed=1)
    walked = ms.permutation_shapley(v, x, permutations=4)
    assert walked.efficiency_gap < 1e-5
    small = ms.permutation_shapley(v, x, permutations=4, batch_size=60)
    torch.testing.assert_close(small.phi, walked.phi, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(make, "impute_nested", ms.Imputer.impute_nested)
    by_masks = ms.permutation_shapley(v, x, permutations=4)
    torch.testing.assert_close(by_masks.phi, walked.phi, rtol=1e-4, atol=1e-5)


@every_imputer
def test_one_causal_component_walks_as_its_imputer(make: Make) -> None:
    imputer, x = make(rows(200), PLAYERS), rows(2, seed=1)
    causal = value(CausalImputer(imputer, [[*PLAYERS.names]]))
    found = causal.values_along(x, orders(), KEYS)
    assert torch.equal(found, value(imputer).values_along(x, orders(), KEYS))


@pytest.mark.parametrize(
    ("names", "confounding"), [([[*"abcdefghi"]], [True]), ([[*"abc"], [*"defghi"]], None)]
)
def test_other_causal_games_are_asked_one_by_one(names: list, confounding: list | None) -> None:
    x = rows(2, seed=1)
    v = value(CausalImputer(GaussianImputer(rows(200), PLAYERS), names, confounding))
    found = v.values_along(x, orders(), KEYS)
    torch.testing.assert_close(found, plainly(v, x, along(orders())))


@pytest.mark.gpu
@every_imputer
def test_values_along_orders_on_an_accelerator(make: Make) -> None:
    x, weight = rows(2, seed=1), torch.eye(len(INDEX), 3)
    found = []
    for device in ("cpu", "cuda"):
        there = weight.to(device)
        imputer = make(rows(200).to(device), PLAYERS)
        v = ms.imputed_value(lambda x, there=there: (x @ there).softmax(-1), imputer, draws=5)
        found.append(v.values_along(x.to(device), orders().to(device), KEYS.to(device)).cpu())
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)


@every_imputer
def test_the_benchmark_compares_the_same_values(make: Make) -> None:
    imputer = make(rows(50), PLAYERS)
    found = along_imputers.measure(imputer, rows(2, seed=1), draws=2, orders=3, repeats=1)
    assert found["largest_difference"] < 1e-4
    assert found["ratio"] == pytest.approx(found["plain"] / found["along"])
