"""Running moments: those of all samples at once, in any split of rounds."""

import itertools

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from manifold_shap.estimators.moments import Moments

few = settings(deadline=None, max_examples=15)


def moments_of(pairs: Tensor, cuts: list[int], crossed: bool) -> Moments:
    """Of contributions `[rows, pairs, players, outputs]` that come in rounds cut here."""
    rows, count, players, outputs = pairs.shape
    moments = Moments((rows, players, outputs), pairs.device, crossed)
    for start, stop in itertools.pairwise([0, *cuts, count]):
        # A round need not take all rows at a time, nor in their order.
        for some in (torch.arange(rows).flip(0)[:2], torch.arange(rows - 2)):
            moments.add(some, pairs[some, start:stop], torch.ones(len(some), outputs))
    return moments


def contributions(offset: float = 0.0) -> Tensor:
    """Of three rows, 12 pairs, two players and three outputs that go together."""
    generator = torch.Generator().manual_seed(0)
    mix = torch.randn(3, 2, 3, 3, generator=generator, dtype=torch.float64)
    noise = torch.randn(3, 12, 2, 1, 3, generator=generator, dtype=torch.float64)
    return (noise @ mix[:, None])[..., 0, :] + offset


@given(st.sets(st.integers(1, 11)).map(sorted), st.sampled_from([0.0, 1e4]))
@few
def test_covariances_are_those_of_numpy_in_any_split_of_rounds(
    cuts: list[int], offset: float
) -> None:
    pairs = contributions(offset)
    moments = moments_of(pairs, cuts, crossed=True)
    covariance = moments.variance(torch.arange(3))
    for row, player in itertools.product(range(3), range(2)):
        expected = np.cov(pairs[row, :, player].numpy(), rowvar=False) / 12
        assert np.allclose(covariance[row, player].numpy(), expected, rtol=1e-7, atol=1e-10)
    torch.testing.assert_close(moments.mean, pairs.mean(1))
    assert moments.counts.tolist() == [[12, 12]] * 3
    plain = moments_of(pairs, cuts, crossed=False)
    variance = covariance.diagonal(dim1=2, dim2=3)
    torch.testing.assert_close(plain.variance(torch.arange(3)), variance)
    torch.testing.assert_close(plain.mean, moments.mean)
