"""Value functions as games of shapiq; Shapley values and interactions as those that it has."""

import numpy as np
import pytest
import torch

import manifold_shap as ms
from tests.examples import Drawn, Ragged, table, uniform


@pytest.mark.parametrize("index", ["SV", "SII", "k-SII"])
def test_values_and_interactions_are_those_of_its_own_computation(index: str) -> None:
    x, order = uniform(2, 5), 1 if index == "SV" else 2
    explained = ms.exact_shapley(table(5), x)
    if order == 2:
        explained = ms.shapley_interactions(table(5), x, index=index)
    ours = explained.to_shapiq(-1, "1")
    theirs = ms.interop.to_shapiq(table(5), x[1:], output="1").exact_values(index, order)
    assert ours.index == theirs.index == index
    assert (ours.n_players, ours.min_order, ours.max_order) == (5, 0, order)
    if index == "SV":
        assert ours.baseline_value == pytest.approx(theirs.baseline_value, abs=1e-5)
    assert not ours.estimated
    for k in range(1, order + 1):
        np.testing.assert_allclose(
            ours.get_n_order_values(k), theirs.get_n_order_values(k), rtol=1e-4, atol=1e-5
        )


def test_a_game_has_the_values_of_coalitions() -> None:
    mask = np.array([[0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
    x = uniform(1, 4)
    game = ms.interop.to_shapiq(table(4), x, output=0, batch_size=1)
    expected = table(4)(x, torch.from_numpy(mask)[None] > 0)[0, :, 0]
    np.testing.assert_allclose(game(mask), expected, rtol=1e-6)
    assert list(game.player_name_lookup) == ["x0", "x1", "x2", "x3"]


def test_a_coalition_has_one_value_whatever_is_drawn() -> None:
    game = ms.interop.to_shapiq(Drawn(4), torch.zeros(1, 4), output=0, seed=3)
    mask = np.array([[1, 0, 0, 1], [0, 1, 0, 0]])
    first = game(mask)
    assert np.array_equal(game(mask[::-1]), first[::-1])
    other = ms.interop.to_shapiq(Drawn(4), torch.zeros(1, 4), output=0, seed=4)
    assert not np.array_equal(other(mask), first)


def test_the_budget_is_that_of_one_row() -> None:
    x = uniform(5, 6)
    several, one = (ms.permutation_shapley(table(6), some, permutations=8) for some in (x, x[:1]))
    assert several.made_by["evaluations"] == 5 * one.made_by["evaluations"] > 0
    assert several.to_shapiq(4, 0).estimation_budget == one.made_by["evaluations"]
    assert several.to_shapiq(4, 0).estimated
    # How they were shared among rows of different numbers of players is not known.
    ragged = ms.exact_shapley(Ragged(), Ragged.some_rows())
    assert ragged.made_by["evaluations"] > 0
    assert ragged.to_shapiq(0, "tanh").estimation_budget is None


def test_players_are_those_of_the_row() -> None:
    explanation = ms.exact_shapley(Ragged(), Ragged.some_rows())
    counts = [explanation.to_shapiq(row, "tanh").n_players for row in range(5)]
    assert counts == [3, 1, 4, 3, 2]
    pairs = ms.shapley_interactions(Ragged(), Ragged.some_rows())
    assert [pairs.to_shapiq(row, "tanh").n_players for row in range(5)] == counts
    x = torch.tensor([[1.0, 2, 3, 4, 0, 0, 0, 0]])
    assert ms.interop.to_shapiq(Ragged(), x, output="tanh").n_players == 2


def test_bad_input() -> None:
    explanation = ms.exact_shapley(table(3), uniform(2, 3))
    pairs = ms.shapley_interactions(table(3), uniform(2, 3))
    for made in (explanation, pairs):
        with pytest.raises(ValueError, match="`row`"):
            made.to_shapiq(2, 0)
        with pytest.raises(ValueError, match="`output`"):
            made.to_shapiq(0, "no")
    with pytest.raises(ValueError, match=r"Expected one row.* but got 2"):
        ms.interop.to_shapiq(table(3), uniform(2, 3), output=0)
    with pytest.raises(ValueError, match="`output`"):
        ms.interop.to_shapiq(table(3), uniform(1, 3), output="no")


def test_errors_that_are_not_known_are_not_zero() -> None:
    explanation = ms.exact_shapley(table(3), uniform(1, 3))
    unknown = torch.full_like(explanation.standard_error, torch.nan)
    object.__setattr__(explanation, "standard_error", unknown)
    assert explanation.to_shapiq(0, 0).estimated
