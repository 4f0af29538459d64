"""Gaussian mixtures: densities, posteriors and draws against closed forms of scipy and sums."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from manifold_shap.coalitions import all_coalitions
from manifold_shap.oracles import GaussianMixture

# Of each statistical test; there are about 60 comparisons in this file.
FALSE_ALARM = 1e-5


def components(law: GaussianMixture) -> list[tuple[float, np.ndarray, np.ndarray]]:
    parts = (law.weights, law.means, law.covariances)
    return [(w.item(), m.numpy(), c.numpy()) for w, m, c in zip(*parts, strict=True)]


@pytest.mark.parametrize("count", [1, 3])
def test_posteriors_are_those_of_scipy(count: int) -> None:
    law = GaussianMixture.random(5, count, seed=4)
    x = law.sample(4).x
    mask = all_coalitions(5)[1:].expand(4, -1, -1)
    posterior = law.posterior(x, mask)
    for row in range(4):
        for k, present in enumerate(mask[row].numpy()):
            seen = x[row].double().numpy()[present]
            each = [
                w * stats.multivariate_normal(m[present], c[np.ix_(present, present)]).pdf(seen)
                for w, m, c in components(law)
            ]
            expected = torch.tensor(each).double() / sum(each)
            torch.testing.assert_close(posterior[row, k], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("present", [(), (0,), (1, 2), (0, 1, 3)])
def test_draws_have_the_conditional_distribution(present: tuple[int, ...]) -> None:
    """Projections of draws against the mixture of conditional normals, by Kolmogorov-Smirnov."""
    law = GaussianMixture.random(4, seed=6)
    x = law.sample(2, seed=1).x
    mask = torch.zeros(2, 1, 4, dtype=torch.bool)
    mask[..., list(present)] = True
    drawn = law.draw(x, mask, range(20_000), torch.tensor([[0], [1]]))
    absent = [j for j in range(4) if j not in present]
    direction = np.array([1.0, -0.5, 0.7, 0.3])[absent]
    for row in range(2):
        shares = law.posterior(x, mask)[row, 0].numpy()
        seen = x[row].double().numpy()[list(present)]
        parts = [conditional(m, c, list(present), absent, seen) for _, m, c in components(law)]
        laws = [
            (s, stats.norm(direction @ m, math.sqrt(direction @ c @ direction)))
            for s, (m, c) in zip(shares, parts, strict=True)
        ]
        along = drawn.x[row, 0][:, absent].double().numpy() @ direction
        found = stats.kstest(along, lambda t, laws=laws: sum(s * each.cdf(t) for s, each in laws))
        assert found.pvalue > FALSE_ALARM
        counts = torch.bincount(drawn.y[row, 0], minlength=3).numpy()
        often = shares * 20_000 > 5
        if often.sum() > 1:
            rest = counts[often].sum() / shares[often].sum()
            assert stats.chisquare(counts[often], shares[often] * rest).pvalue > FALSE_ALARM


def conditional(
    mean: np.ndarray,
    covariance: np.ndarray,
    present: list[int],
    absent: list[int],
    seen: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Moments of the absent elements of a normal given the present ones."""
    cross = covariance[np.ix_(absent, present)]
    gain = cross @ np.linalg.inv(covariance[np.ix_(present, present)])
    left = covariance[np.ix_(absent, absent)] - gain @ cross.T
    return mean[absent] + gain @ (seen - mean[present]), left
