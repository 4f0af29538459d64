"""Every imputer obeys the contract, and nested coalitions take one factorisation for each run."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.imputers import empirical, gaussian, kernel
from manifold_shap.imputers.base import Imputer
from manifold_shap.values import ImputedValue
from tests.imputers.contract import (
    NINE,
    OWNERS,
    ImputerOfRowsContract,
    assert_same,
    joined,
    nested,
    random_rows,
)


class TestMarginal(ImputerOfRowsContract):
    def make(self, reference: Tensor, players: ms.Players) -> Imputer:
        return ms.MarginalImputer(reference, players)


class TestBaseline(ImputerOfRowsContract):
    def make(self, reference: Tensor, players: ms.Players) -> Imputer:
        return ms.BaselineImputer(
            reference[0] if isinstance(reference, Tensor) else reference, players
        )


class TestContrastive(ImputerOfRowsContract):
    def make(self, reference: Tensor, players: ms.Players) -> Imputer:
        return ms.ContrastiveImputer(reference, players)


class TestGaussian(ImputerOfRowsContract):
    def make(self, reference: Tensor, players: ms.Players) -> Imputer:
        return ms.GaussianImputer(reference, players)


class TestCopula(ImputerOfRowsContract):
    def make(self, reference: Tensor, players: ms.Players) -> Imputer:
        return ms.CopulaImputer(reference, players)


class TestEmpirical(ImputerOfRowsContract):
    def make(self, reference: Tensor, players: ms.Players) -> Imputer:
        return ms.EmpiricalImputer(reference, players, bandwidth=0.5)


class TestEmpiricalOfEveryRow(ImputerOfRowsContract):
    def make(self, reference: Tensor, players: ms.Players) -> Imputer:
        return ms.EmpiricalImputer(reference, players, bandwidth=1.0, share=1.0)


class TestExactMatch(ImputerOfRowsContract):
    def make(self, reference: Tensor, players: ms.Players) -> Imputer:
        return ms.ExactMatchImputer(reference, players)

    def rows(self, count: int, elements: int = 4, seed: int = 0) -> Tensor:
        return (random_rows(count, elements, seed) > 2).float()


class TestCausalOfOneComponent(ImputerOfRowsContract):
    def make(self, reference: Tensor, players: ms.Players) -> Imputer:
        return ms.CausalImputer(ms.GaussianImputer(reference, players), [players.names])


class TestCausalOfConfoundedDonors(ImputerOfRowsContract):
    def make(self, reference: Tensor, players: ms.Players) -> Imputer:
        donors = ms.EmpiricalImputer(reference, players, bandwidth=0.5)
        return ms.CausalImputer(donors, [players.names], [True])


class TestCausalOfTwoComponents(ImputerOfRowsContract):
    def make(self, reference: Tensor, players: ms.Players) -> Imputer:
        order = [players.names[1:], players.names[:1]]
        return ms.CausalImputer(ms.GaussianImputer(reference, players), order, [False, True])


# Nested coalitions, of the imputers that factorise.

KEYS = torch.tensor([[1, 2, 3], [1, 5, 6]])
Make = Callable[..., Imputer]
KINDS = [ms.GaussianImputer, ms.CopulaImputer, ms.EmpiricalImputer]
every_imputer = pytest.mark.parametrize("make", KINDS)


def orders() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(*KEYS.shape, len(NINE), generator=generator).argsort(-1)


def along(order: Tensor) -> Tensor:
    """The coalitions of orders but the grand one, `[..., players - 1, players]`."""
    return order.argsort(-1)[..., None, :] <= torch.arange(order.shape[-1] - 1)[:, None]


def usual(make: Make) -> tuple[Imputer, Tensor]:
    return make(random_rows(200, len(OWNERS)), NINE), random_rows(2, len(OWNERS), seed=1)


def value(imputer: Imputer, draws: int = 5) -> ImputedValue:
    weight = torch.randn(len(OWNERS), 3, generator=torch.Generator().manual_seed(1))
    return ms.imputed_value(lambda x: (x @ weight / 3).softmax(-1), imputer, draws=draws)


def single(v: ImputedValue, x: Tensor, mask: Tensor) -> Tensor:
    """Values of the coalitions of runs, one by one."""
    values = v.values(x, mask.flatten(1, 2), KEYS.repeat_interleave(mask.shape[2], 1))
    return values.unflatten(1, mask.shape[1:3])


def compare(imputer: Imputer, x: Tensor, mask: Tensor, draws: range) -> None:
    keys = KEYS[:, :1].expand(-1, mask.shape[1])
    found = joined(list(imputer.impute_nested(x, mask, draws, keys, most=10_000)))
    own = keys.repeat_interleave(mask.shape[2], 1)
    assert_same(found, imputer.impute(x, mask.flatten(1, 2), draws, own))


@given(
    st.sampled_from(KINDS),
    st.lists(st.integers(0, 5), min_size=2, max_size=9),
    st.integers(1, 8),
    st.integers(0, 3),
    st.integers(1, 4),
    st.integers(0, 2**31),
)
@settings(deadline=None, max_examples=20)
def test_runs_of_any_players_are_completed_as_single_coalitions(
    make: Make, owners: list[int], run: int, first: int, draws: int, seed: int
) -> None:
    index = torch.tensor(owners).unique(return_inverse=True)[1]
    players = ms.Players(tuple(f"p{k}" for k in range(int(index.max()) + 1)), index)
    with pytest.MonkeyPatch.context() as patch:
        for module in (gaussian, empirical):
            patch.setattr(module, "LEAST_NESTED_PLAYERS", 0)
        imputer = make(random_rows(40, len(owners), seed), players)
        mask = nested(2, 2, run, len(players), seed)
        x = random_rows(2, len(owners), seed + 1)
        compare(imputer, x, mask, range(first, first + draws))


@every_imputer
def test_collinear_and_constant_columns(make: Make) -> None:
    reference = random_rows(60, len(OWNERS))
    reference[:, 3], reference[:, 7] = 1.0, 2 * reference[:, 2]
    with pytest.warns(UserWarning, match="singular"):
        imputer = make(reference, NINE)
    compare(imputer, reference[:2], nested(2, 3, 6, len(NINE)), range(4))


@every_imputer
@pytest.mark.parametrize("most", [5, 19])
def test_values_along_orders_are_those_of_single_coalitions(make: Make, most: int) -> None:
    imputer, x = usual(make)
    v, seen = value(imputer), []
    expected, model = single(v, x, along(orders())), v.model

    def counted(x: Tensor, *, scale: str) -> Tensor:
        seen.append(len(x))
        return model(x, scale=scale)

    v.model = counted  # type: ignore[assignment]
    found = v.values_along(x, orders(), KEYS, batch_size=most * 2 * v.draws)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert found.std() > 0.05
    assert max(seen) <= most * 2 * v.draws
    assert sum(seen) == KEYS.numel() * (len(NINE) - 1) * v.draws


@every_imputer
def test_few_runs_are_factorised_at_a_time(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    (imputer, x), mask = usual(make), along(orders())
    (whole,) = imputer.impute_nested(x, mask, range(4), KEYS, 10_000)
    for module in (gaussian, kernel):
        monkeypatch.setattr(module, "_MOST_ELEMENTS", 2 * len(OWNERS) ** 2)
    (parts,) = imputer.impute_nested(x, mask, range(4), KEYS, 10_000)
    assert_same(parts, whole, 1e-5)


@every_imputer
def test_players_that_have_not_joined_are_never_read_and_others_stay(make: Make) -> None:
    imputer, x = usual(make)
    # The last two players are absent from all of these.
    mask = along(orders()[:, :1])[:, :, :-1]
    missing = ~NINE.expand(mask[:, 0, -1])
    first, other = (
        joined(list(imputer.impute_nested(some, mask, range(3), KEYS[:, :1], 100))).rows
        for some in (x, torch.where(missing, -1e30, x))
    )
    assert torch.equal(first, other)
    present = NINE.expand(mask.flatten(1, 2))[:, :, None].expand_as(first)
    assert torch.equal(first[present], x[:, None, None].expand_as(first)[present])


@every_imputer
def test_one_causal_component_is_completed_by_its_imputer(make: Make) -> None:
    imputer, x = usual(make)
    causal = value(ms.CausalImputer(imputer, [[*NINE.names]]))
    found = causal.values_along(x, orders(), KEYS)
    assert torch.equal(found, value(imputer).values_along(x, orders(), KEYS))


def test_imputers_that_refuse_padded_rows_name_those_that_take_them() -> None:
    players = ms.Players.tokens(3, padding=0)
    with pytest.raises(ValueError, match=r"GaussianImputer .* padded by 0; .* a MaskTokenImputer"):
        ms.GaussianImputer(torch.rand(8, 3) + 1, players)
