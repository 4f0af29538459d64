"""One outlier, splices, evaluations for equal errors, one class at a time, forests: in small."""

from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.papers import fewer_evaluations, grid, one_outlier, splices
from manifold_shap import _random
from tests.benchmarks.conftest import Run
from tests.benchmarks.test_papers import DRUG, Small


class Noisy(ms.ValueFunction):
    """A sum over players, with noise of this scale in every value but the known ones."""

    sampled = True

    def __init__(self, players: int, scale: float) -> None:
        super().__init__(ms.Players.of_elements((players,)), ["v", "w"])
        self.scale = scale

    def values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        exact = (x[:, None] * mask).sum(-1, keepdim=True) + mask[..., :1] * mask[..., 1:2]
        return (exact + self.scale * _random.normal(keys, (1,))).expand(-1, -1, 2)

    def prediction(self, x: Tensor) -> Tensor:
        return (x.sum(1, keepdim=True) + 1).expand(-1, 2)

    def base(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), 2)


def test_contributions_telescope_and_noise_counts_twice() -> None:
    x, y = torch.rand(60, 5, generator=torch.Generator().manual_seed(0)), torch.zeros(60).long()
    exact = fewer_evaluations.contributions(Noisy(5, 0.0), x, y, 200, seed=0)
    torch.testing.assert_close(exact.sum(2), (x.sum(1) + 1)[:, None].expand(-1, 200))
    drawn = fewer_evaluations.contributions(Noisy(5, 0.5), x, y, 200, seed=0)
    shared = fewer_evaluations.contributions(Noisy(5, 0.5), x, y, 200, seed=0, shared=True)
    # The first two players add a product together: 1 to the later of them.
    variance = [fewer_evaluations.variance(c, overall=False) for c in (exact, drawn, shared)]
    assert variance[0] == pytest.approx(2 * 0.25, rel=0.02)
    # Of five contributions along an order, eight ends are noisy, and two are known; shared noise
    # stays in the first and the last contribution alone.
    assert variance[1] == pytest.approx(0.5 + 8 * 0.25, rel=0.03)
    assert variance[2] == pytest.approx(0.5 + 2 * 0.25, rel=0.03)
    found, error = fewer_evaluations.ratio(drawn, exact, overall=False)
    assert found == pytest.approx(variance[1] / variance[0])
    assert 0 < error < 0.1 * found


def test_fewer_evaluations_in_small(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fewer_evaluations, "Trained", Small)
    found = run("papers/fewer_evaluations", data=["abalone"], rows=20, orders=4, epochs=1)
    # Here both value functions draw from the same table: one row, and eight.
    kinds = (fewer_evaluations.LOCAL, fewer_evaluations.SHARED, fewer_evaluations.GLOBAL)
    assert all(1 < found["abalone"][kind][0] < 8 for kind in kinds)


def test_how_far_features_determine_each_other() -> None:
    noise = torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0))
    x = torch.stack((noise[:, 0], noise[:, 0] + noise[:, 1], noise[:, 2]), 1)
    players = ms.Players.of_elements((3,))
    # Half of the second feature is the first, which half of the second is; the third is alone.
    assert fewer_evaluations.determined(x, players) == pytest.approx((0.5 + 0.5 + 0) / 3, abs=0.01)


def test_an_outlier_is_wrong_beyond_doubt_by_standard_errors() -> None:
    phi, error = torch.full((20,), 0.1), torch.full((20,), 0.3)
    phi[:5] = torch.tensor([5.0, 4.0, 1.0, 3.0, 2.0])
    phi[7], error[7], error[2] = 2.5, 0.4, 0.3
    assert one_outlier.doubtless(phi, error) == pytest.approx(1.5 / 0.5)
    assert one_outlier.outranked(phi.tolist()) == 2


def test_one_outlier_in_small(run: Run) -> None:
    found = run("papers/one_outlier", trees=10, outliers=3, orders=8)
    assert len(found["lead"]) == 3
    assert len(found["x"]) == len(found["phi"][one_outlier.OFF]) == 20


def test_coalitions_are_nested_and_distances_those_of_the_nearest() -> None:
    mask = splices.coalitions(4, [3, 9], 16, seed=0)
    assert mask.sum(-1).tolist() == [[3, 9]] * 4
    assert not (mask[:, 0] & ~mask[:, 1]).any()
    references = torch.eye(3)
    x = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    torch.testing.assert_close(splices.apart(x, references), torch.tensor([0.0, 2**0.5]))


def test_splices_in_small(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(splices, "Trained", Small)
    found = run("papers/splices", rows=20, references=50, digit=1)
    shown = found["shown"]
    known = torch.tensor(shown["mask"]).bool()
    for name in (splices.OFF, splices.ON):
        completed = torch.tensor(shown[name])
        assert completed.shape == (splices.SHOWN, 16)
        assert torch.equal(completed[:, known], torch.tensor(shown["digit"])[known].expand(5, -1))
    assert (tmp_path / "splices_curves.png").exists()


def test_partial_sums_of_one_class_at_a_time(run: Run) -> None:
    found = run("papers/one_against_rest", flowers=2)
    assert all(abs(sum(row)) < 1e-5 for row in found["phi"]["one class at a time"])
    assert found["sums"]["compositions"] < 1e-6


@pytest.mark.skipif(not DRUG.exists(), reason="needs MANIFOLD_SHAP_DATA")
def test_two_forests_in_small(run: Run) -> None:
    found = run("papers/two_forests", trees=40, permutations=4)
    bikes = found["forests"]["bicycles"]
    assert sum(bikes["phi"]) == pytest.approx(bikes["prediction"] - bikes["base"], rel=1e-4)
    assert len(bikes["without"]) == len(bikes["features"]) == 11
    assert found["gap"] < 1e-4


@pytest.mark.slow
@pytest.mark.skipif(not DRUG.exists(), reason="needs MANIFOLD_SHAP_DATA")
def test_a_sweep_measures_every_point() -> None:
    found = grid.sweep("paper_grid", {"hidden": "[4,4],[8,8]", "max_epochs": 1}, seed=0)
    rates = [(point["hidden"], point["learning_rate"]) for point in found]
    assert sorted(rates) == [(4, 1e-4), (4, 1e-3), (8, 1e-4), (8, 1e-3)]
    assert len({point["mse_validation"] for point in found}) == 4
    with pytest.raises(RuntimeError, match="no_such"):
        grid.sweep("paper_grid", {"no_such": 1}, seed=0)
