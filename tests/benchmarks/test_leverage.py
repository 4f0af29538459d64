"""The benchmark of LeverageSHAP: its games, the papers' estimators, and how results are judged."""

import math

import numpy as np
import pytest
import torch

import manifold_shap as ms
from benchmarks.speed import leverage
from benchmarks.support import coalition_games
from tests.benchmarks.conftest import Run

# shap uses what matplotlib is about to remove.
pytestmark = pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning")

PLAYERS = 6
TABLE = np.random.default_rng(0).normal(size=2**PLAYERS)


def noise(mask: np.ndarray) -> np.ndarray:
    """Random values, one for each coalition."""
    return TABLE[(np.atleast_2d(mask) > 0.5) @ 2 ** np.arange(PLAYERS)]


def additive(mask: np.ndarray) -> np.ndarray:
    return 2.0 + np.atleast_2d(mask) @ np.arange(PLAYERS)


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


@pytest.mark.parametrize("side", leverage.PEERS)
def test_an_additive_game_is_no_problem(side: str) -> None:
    found = leverage.PEERS[side](additive, PLAYERS, 40, 0)
    # Sample reuse of what trees leave is not exact.
    error = 0.5 if side == "RegressionMSR" else 1e-4
    assert found == pytest.approx(np.arange(PLAYERS), abs=error)


def test_auto_is_worse_where_any_of_ours_is_better_beyond_a_tenth() -> None:
    def judged(other: list[float]) -> bool:
        sides = dict.fromkeys(leverage.OURS, ([], 0.0)) | {"ours, auto": ([1.0, 1.2, 1.1], 0.0)}
        return leverage.excess(sides | {"ours, odd": (other, 0.0)})["worse"]

    assert not judged([0.95, 1.15, 1.05])
    assert judged([0.5, 0.6, 0.55])
    assert not judged([0.1, 2.4, 0.1])


def test_a_run_has_errors_of_all_sides(run: Run) -> None:
    found = run("speed/leverage", budgets=[5, 20])["diabetes"]
    assert found["players"] == 10
    assert {"ours, auto", "RegressionMSR", "shap, kernel"} < found["sides"].keys()
    for points in found["sides"].values():
        assert all(0 < one["error"] < 2 for one in points)
    assert [one["budget"] for one in found["auto"]] == [5, 20]
    assert 0 < leverage.against(found, "ours, odd", leverage.LEVERAGE, "error")[20] < 1


def test_values_that_are_drawn_have_no_peers() -> None:
    found = leverage.measure("drawn", (2, 2, 2), [10])
    assert all(side.startswith("ours") for side in found["sides"])
