"""The comparison of interactions: games whose interactions are known, and errors at equal time."""

from typing import Any

import pytest
import torch

import manifold_shap as ms
from benchmarks.support.products import of_all, of_few


@pytest.mark.parametrize("make", [of_few, of_all])
def test_closed_forms_are_those_of_enumeration(make: Any) -> None:
    game = make(10, 3, seed=1)
    found = ms.shapley_interactions(game, torch.zeros(1, 10)).values[0].double()
    found = found * (1 - torch.eye(10))[..., None]
    torch.testing.assert_close(found, game.interactions(), atol=1e-6, rtol=0)


def test_products_are_of_two_to_six_players() -> None:
    game = of_few(64, 10, seed=0)
    sizes = (1 - game.outside).sum(1)
    assert set(sizes.tolist()) == {2.0, 3.0, 4.0, 5.0, 6.0}
    mask = game.outside[:1] == 0
    there = (game.outside[:, ~mask[0]] == 1).all(1)
    assert there[0]
    torch.testing.assert_close(game(mask, mask)[0], game.worth[there].sum(0))
