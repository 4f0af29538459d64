"""The benchmark of LeverageSHAP: its games, the papers' estimators, and how results are judged."""

import math

import numpy as np
import pytest
import torch

import manifold_shap as ms
from benchmarks.speed import leverage
from benchmarks.support import coalition_games

# shap uses what matplotlib is about to remove.
pytestmark = pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning")

PLAYERS = 6
TABLE = np.random.default_rng(0).normal(size=2**PLAYERS)


def noise(mask: np.ndarray) -> np.ndarray:
    """Random values, one for each coalition."""
    return TABLE[(np.atleast_2d(mask) > 0.5) @ 2 ** np.arange(PLAYERS)]


def test_values_of_trees_are_exact() -> None:
    from xgboost import XGBRegressor

    games = coalition_games.tree_games("diabetes", XGBRegressor(n_estimators=20, max_depth=4), 2)
    exact = ms.exact_shapley(games.value, games.x).phi[..., 0].double()
    torch.testing.assert_close(games.phi, exact, rtol=1e-4, atol=1e-4)
    values = games.row(1)(np.eye(10) > 0)
    alone = games.value(games.x[[1]], torch.eye(10)[None] > 0)[0, :, 0]
    assert values == pytest.approx(alone.numpy())


@pytest.mark.parametrize(("players", "budget"), [(4, 12), (7, 40), (10, 300), (60, 300)])
def test_no_coalition_is_drawn_twice(players: int, budget: int) -> None:
    mask, probability = coalition_games.drawn_once(players, budget, seed=0)
    assert len(np.unique(mask, axis=0)) == len(mask) == budget - 2
    assert (mask[::2] != mask[1::2]).all()
    # As many of each size, or all.
    size = mask.sum(1)
    for one in np.unique(size):
        of_size = probability[size == one]
        assert len(of_size) == pytest.approx(of_size[0] * math.comb(players, one))


@pytest.mark.parametrize(
    "explain", [leverage.PEERS[leverage.LEVERAGE], leverage.PEERS["RegressionMSR"]]
)
def test_estimators_of_the_papers_are_exact_on_all_coalitions(
    explain: coalition_games.Explain,
) -> None:
    bits = 2 ** torch.arange(PLAYERS)
    exact = ms.exact_shapley(
        lambda x, mask: torch.from_numpy(TABLE)[(mask.long() * bits).sum(-1)][..., None],
        torch.zeros(1, PLAYERS).double(),
    ).phi[0, :, 0]
    assert explain(noise, PLAYERS, 2**PLAYERS, 0) == pytest.approx(exact.numpy(), abs=1e-4)
