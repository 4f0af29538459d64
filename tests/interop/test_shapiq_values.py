"""Shapley values and interactions as shapiq's, and its plots of them."""

import numpy as np
import pytest
import torch

import manifold_shap as ms
from tests.examples import Ragged, table, uniform


def test_shapley_values_are_those_of_its_own_computation() -> None:
    x = uniform(3, 5)
    ours = ms.exact_shapley(table(5), x).to_shapiq(-1, "1")
    theirs = ms.interop.to_shapiq(table(5), x[2:], output="1").exact_values("SV", 1)
    np.testing.assert_allclose(
        ours.get_n_order_values(1), theirs.get_n_order_values(1), rtol=1e-4, atol=1e-5
    )
    assert ours.index == theirs.index == "SV"
    assert (ours.n_players, ours.min_order, ours.max_order) == (5, 0, 1)
    assert ours.baseline_value == pytest.approx(theirs.baseline_value, abs=1e-5)
    assert not ours.estimated


@pytest.mark.parametrize("index", ["SII", "k-SII"])
def test_interactions_are_those_of_its_own_computation(index: str) -> None:
    x = uniform(2, 5)
    ours = ms.shapley_interactions(table(5), x, index=index).to_shapiq(1, 0)
    theirs = ms.interop.to_shapiq(table(5), x[1:], output=0).exact_values(index, 2)
    assert ours.index == theirs.index == index
    for order in (1, 2):
        np.testing.assert_allclose(
            ours.get_n_order_values(order),
            theirs.get_n_order_values(order),
            rtol=1e-4,
            atol=1e-5,
        )


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


def test_bad_input() -> None:
    explanation = ms.exact_shapley(table(3), uniform(2, 3))
    pairs = ms.shapley_interactions(table(3), uniform(2, 3))
    for made in (explanation, pairs):
        with pytest.raises(ValueError, match="`row`"):
            made.to_shapiq(2, 0)
        with pytest.raises(ValueError, match="`output`"):
            made.to_shapiq(0, "no")


def test_errors_that_are_not_known_are_not_zero() -> None:
    explanation = ms.exact_shapley(table(3), uniform(1, 3))
    unknown = torch.full_like(explanation.standard_error, torch.nan)
    object.__setattr__(explanation, "standard_error", unknown)
    assert explanation.to_shapiq(0, 0).estimated
