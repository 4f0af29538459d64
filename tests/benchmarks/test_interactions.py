"""The comparison of interactions: games whose interactions are known, and errors at equal time."""

from pathlib import Path
from typing import Any

import pytest
import torch

import manifold_shap as ms
from benchmarks.speed import interactions
from benchmarks.support.products import of_all, of_few
from tests.benchmarks.conftest import Run


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


def test_errors_are_read_between_points() -> None:
    points = [{"seconds": t, "error": e} for t, e in ((1.0, 0.4), (4.0, 0.2), (16.0, 0.1))]
    assert interactions.at_time(points, 4.0) == pytest.approx(0.2)
    assert interactions.at_time(points, 2.0) == pytest.approx(0.08**0.5)
    assert interactions.at_time(points, 0.5) is None
    assert interactions.at_time(points, 17.0) is None


def test_interactions_in_small(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("shapiq")
    found = run("speed/interactions")
    assert found.keys() == interactions.GAMES.keys()
    for sides in found.values():
        assert sides.keys() == {"ours", "KernelSHAPIQ"}
        assert sides["ours"][0]["budget"] == 2 * 10**2
        errors = [point["error"] for point in sides["ours"]]
        assert errors[0] > 1.3 * errors[1] > 0
        budgets = [point["budget"] for point in sides["KernelSHAPIQ"]]
        assert budgets == [128, 256, 512]
    page = (tmp_path / "interactions.md").read_text()
    assert page.count("| products of all players, ours | ") == len(sides["ours"])
    assert (tmp_path / "interactions.png").exists()
