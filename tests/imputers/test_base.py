"""Nested coalitions take one factorisation for each run, and are completed as single ones."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Listed, Nested
from manifold_shap.imputers import gaussian
from manifold_shap.imputers.base import Imputer
from tests.examples import normal

# Nine players own fourteen elements, which stand in no order.
OWNERS = torch.tensor([3, 0, 8, 1, 1, 2, 4, 8, 5, 6, 7, 0, 8, 3])
NINE = ms.Players(tuple("abcdefghi"), OWNERS)
KEYS = torch.tensor([[1, 2, 3], [1, 5, 6]])
KINDS = [ms.imputers.GaussianImputer, ms.imputers.CopulaImputer, ms.imputers.EmpiricalImputer]


def nested(players: int, first: int = 1, last: int | None = None, seed: int = 0) -> Nested:
    """Two orders of each of two rows; of their coalitions those of these sizes."""
    generator = torch.Generator().manual_seed(seed)
    orders = torch.rand(2, 2, players, generator=generator).argsort(-1)
    return Nested(orders, KEYS[:, :1].expand(-1, 2), first, last)


def compare(imputer: Imputer, x: Tensor, coalitions: Nested, draws: range) -> None:
    found = imputer.impute(x, coalitions, draws)
    expected = imputer.impute(x, Listed(coalitions.masks(), coalitions.each_key()), draws)
    counts = torch.ones(expected.rows.shape[:3], dtype=torch.bool)
    if expected.log_weights is not None:  # Donors of no weight may be any.
        counts = expected.log_weights > -torch.inf
        torch.testing.assert_close(found.log_weights, expected.log_weights, rtol=2e-4, atol=2e-4)
        torch.testing.assert_close(found.threshold, expected.threshold, rtol=2e-4, atol=2e-4)
    torch.testing.assert_close(found.rows[counts], expected.rows[counts], rtol=1e-4, atol=2e-4)


@given(
    st.sampled_from(KINDS),
    st.lists(st.integers(0, 5), min_size=2, max_size=9).filter(lambda own: len({*own}) > 1),
    st.integers(1, 8),
    st.integers(0, 3),
    st.integers(1, 4),
    st.integers(0, 2**31),
)
@settings(deadline=None, max_examples=20)
def test_runs_of_any_players_are_completed_as_single_coalitions(
    make: Callable[..., Imputer], owners: list[int], run: int, first: int, draws: int, seed: int
) -> None:
    index = torch.tensor(owners).unique(return_inverse=True)[1]
    players = ms.Players(tuple(f"p{k}" for k in range(int(index.max()) + 1)), index)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaussian, "_LEAST_NESTED_PLAYERS", 0)
        imputer = make(normal(40, len(owners), seed), players)
        size = min(run, len(players) - 1)
        coalitions = nested(len(players), (size + 1) // 2, size, seed)
        compare(imputer, normal(2, len(owners), seed + 1), coalitions, range(first, first + draws))
