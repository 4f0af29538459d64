"""Enumeration: what it costs, what it refuses, and what it cannot know."""

import pytest
import torch
from torch import Tensor

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


def test_a_base_in_single_precision_takes_none_from_the_prediction() -> None:
    """As of a surrogate, whose base is stored, of a model in double precision."""

    class Mixed(ms.ValueFunction):
        def values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
            return (x[:, None] * mask).sum(-1, keepdim=True)

        def prediction(self, x: Tensor) -> Tensor:
            return x.double().sum(-1, keepdim=True) / 3

        def base(self, x: Tensor) -> Tensor:
            return torch.zeros(len(x), 1)

    x = torch.rand(4, 3, generator=torch.Generator().manual_seed(0))
    explanation = ms.exact_shapley(Mixed(ms.Players.of_elements((3,)), ["sum"]), x)
    assert torch.equal(explanation.prediction, x.double().sum(-1, keepdim=True) / 3)
    total = (explanation.base + explanation.phi.sum(1)).flatten()
    torch.testing.assert_close(total, x.double().sum(-1) / 3, rtol=0, atol=1e-14)
