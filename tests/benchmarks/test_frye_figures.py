"""One outlier, splices, evaluations for equal errors, one class at a time, forests: in small."""

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.papers import fewer_evaluations, one_outlier, splices
from manifold_shap import _random
from manifold_shap.coalitions import Coalitions
from manifold_shap.values.base import Estimate


class Noisy(ms.ValueFunction):
    """A sum over players, with noise of this scale in every value but the known ones."""

    def __init__(self, players: int, scale: float) -> None:
        elements, work = ms.Players.of_elements((players,)), ms.values.Work(sampled=True)
        super().__init__(ms.values.GameSpec(elements, ("v", "w"), work=work))
        self.scale = scale

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        mask, keys = coalitions.masks(), coalitions.each_key()
        exact = (x[:, None] * mask).sum(-1, keepdim=True) + mask[..., :1] * mask[..., 1:2]
        return Estimate((exact + self.scale * _random.normal(keys, (1,))).expand(-1, -1, 2))

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


def test_an_outlier_is_wrong_beyond_doubt_by_standard_errors() -> None:
    phi, error = torch.full((20,), 0.1), torch.full((20,), 0.3)
    phi[:5] = torch.tensor([5.0, 4.0, 1.0, 3.0, 2.0])
    phi[7], error[7], error[2] = 2.5, 0.4, 0.3
    assert one_outlier.doubtless(phi, error) == pytest.approx(1.5 / 0.5)
    assert one_outlier.outranked(phi.tolist()) == 2


def test_coalitions_are_nested_and_distances_those_of_the_nearest() -> None:
    mask = splices.coalitions(4, [3, 9], 16, seed=0)
    assert mask.sum(-1).tolist() == [[3, 9]] * 4
    assert not (mask[:, 0] & ~mask[:, 1]).any()
    references = torch.eye(3)
    x = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    torch.testing.assert_close(splices.apart(x, references), torch.tensor([0.0, 2**0.5]))
