"""Value functions as games of shapiq."""

import numpy as np
import pytest
import torch

import manifold_shap as ms
from tests.examples import Drawn, Ragged, table, uniform


def test_their_exact_values_are_ours() -> None:
    x = uniform(3, 6)
    game = ms.interop.to_shapiq(table(6), x[1:2], output="1")
    found = ms.shapley_interactions(table(6), x[1:2], index="k-SII").values[0, ..., 1].double()
    theirs = game.exact_values("k-SII", 2)
    pairs = torch.from_numpy(theirs.get_n_order_values(2))
    apart = ~torch.eye(6, dtype=torch.bool)
    torch.testing.assert_close(pairs[apart], found[apart], atol=1e-5, rtol=1e-4)
    first = torch.from_numpy(theirs.get_n_order_values(1))
    torch.testing.assert_close(first, found.diagonal(), atol=1e-5, rtol=1e-4)


def test_values_are_those_of_coalitions() -> None:
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


def test_players_are_those_of_the_row() -> None:
    x = torch.tensor([[1.0, 2, 3, 4, 0, 0, 0, 0]])
    assert ms.interop.to_shapiq(Ragged(), x, output="tanh").n_players == 2


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"Expected one row.* but got 2"):
        ms.interop.to_shapiq(table(3), uniform(2, 3), output=0)
    with pytest.raises(ValueError, match="`output`"):
        ms.interop.to_shapiq(table(3), uniform(1, 3), output="no")
