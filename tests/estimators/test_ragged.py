"""Rows with players of their own: orderings, and value functions that do not say the owners."""

from itertools import chain, permutations, product

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Coalitions
from manifold_shap.values import Estimate
from tests.examples import Ragged

ORDERING = [["player 3"], ["player 0", "player 1"], ["player 2"]]


def by_hand(value: ms.ValueFunction, x: Tensor, count: int) -> Tensor:
    """Mean marginal contributions along all orders that `ORDERING` leaves of so many players."""
    components = [[int(name[-1]) for name in names if int(name[-1]) < count] for names in ORDERING]
    every = list(product(*map(permutations, components)))
    phi = torch.zeros(len(value.players), len(value.outputs))
    for parts in every:
        mask, before = torch.zeros(1, 1, len(value.players), dtype=torch.bool), value.base(x)[0]
        for player in chain(*parts):
            mask[..., player] = True
            after = value(x, mask)[0, 0]
            phi[player] += (after - before) / len(every)
            before = after
    return phi[:count]


@pytest.mark.parametrize("estimator", [ms.exact_shapley, ms.permutation_shapley, ms.auto_shapley])
def test_an_ordering_may_name_players_that_some_rows_lack(estimator) -> None:
    value, x = Ragged(), Ragged.some_rows()
    found = estimator(value, x, ordering=ORDERING)
    assert found.made_by["ordering"] == ORDERING
    for row, count in enumerate(found.counts.tolist()):
        expected = by_hand(value, x[row : row + 1], count)
        torch.testing.assert_close(found.phi[row, :count], expected, atol=1e-4, rtol=1e-4)


def test_what_was_chosen_is_told_for_each_number_of_players() -> None:
    value, x = Ragged(), Ragged.some_rows()
    with pytest.warns(UserWarning, match="errors are unknown.* `evaluations` of 12 or more"):
        made_by = ms.auto_shapley(value, x, evaluations=6).made_by
    assert made_by["auto"].keys() == made_by["estimator"].keys() == {"1", "2", "3", "4"}
    assert [made_by["estimator"][n] for n in "1234"] == ["exact"] * 3 + ["permutation"]
    assert made_by["auto"]["4"].startswith("permutation: ")


class Keyed(Ragged):
    """Notes the random numbers of each row, by its first element."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = dict[float, set[int]]()

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        keys = coalitions.each_key().expand(len(x), -1)
        for first, own in zip(x[:, 0].tolist(), keys.tolist(), strict=True):
            self.asked.setdefault(first, set()).update(own)
        return super().values(x, coalitions)


def test_draws_of_a_row_are_independent_of_those_of_rows_with_other_counts() -> None:
    value, x = Keyed(), Ragged.some_rows()
    ms.exact_shapley(value, x)
    keys = list(value.asked.values())
    assert len(keys) == 4
    assert len(set.union(*keys)) == sum(map(len, keys))
