"""Enumeration: what it costs, what it refuses, and what it cannot know."""

import pytest
import torch

import manifold_shap as ms
from tests.examples import table, uniform


@pytest.mark.parametrize("players", [1, 2, 4])
def test_every_coalition_is_evaluated_once(players: int) -> None:
    explanation = ms.exact_shapley(table(players), uniform(3, players))
    assert explanation.made_by == {
        "version": ms.__version__,
        "value_function": "callable",
        "evaluations": 3 * (2**players - 2),
        "estimator": "exact",
    }


def test_rows_do_not_depend_on_each_other() -> None:
    game, x = table(4), uniform(3, 4)
    whole = ms.exact_shapley(game, x).phi
    assert torch.equal(whole[1:2], ms.exact_shapley(game, x[1:2]).phi)


def test_one_player_leaves_no_noise() -> None:
    reference = torch.randn(30, 1, generator=torch.Generator().manual_seed(0))
    value = ms.imputed_value(lambda x: x, ms.MarginalImputer(reference), "identity", draws=2)
    assert value.sampled
    assert (ms.exact_shapley(value, reference[:3]).standard_error == 0).all()


def test_too_many_players_for_enumeration() -> None:
    with pytest.raises(ValueError, match=r"at most 16 players for exact enumeration .* got 17"):
        ms.exact_shapley(lambda x, mask: mask.sum(-1, keepdim=True), torch.zeros(1, 17))
