"""Learners for repetitions of small experiments: against direct means, and on a linear target."""

import pytest
import torch
from torch import Tensor

from benchmarks.support.repetitions import Networks, cell_means, trained_together
from manifold_shap.coalitions import all_coalitions


def test_cell_means_are_means_of_the_rows_that_agree() -> None:
    """With one more row, the mean of all: also where no row agrees."""
    generator = torch.Generator().manual_seed(0)
    sizes = (2, 3, 4)
    x = torch.stack([torch.randint(n, (30,), generator=generator) for n in sizes], 1).float()
    targets = torch.rand(30, 2, generator=generator).double()
    rows = torch.cartesian_prod(*(torch.arange(n) for n in sizes)).float()
    mask = all_coalitions(3).expand(len(rows), -1, -1)
    found = cell_means(x, targets, sizes)(rows, mask)
    counts = []
    for row in range(len(rows)):
        for k, present in enumerate(mask[row]):
            alike = targets[(x[:, present] == rows[row, present]).all(1)]
            direct = torch.cat((alike, targets.mean(0, keepdim=True))).mean(0)
            torch.testing.assert_close(found[row, k], direct, rtol=0, atol=1e-12)
            counts.append(len(alike))
    assert (min(counts), max(counts)) == (0, 30)


def masked(x: Tensor, mask: Tensor) -> Tensor:
    return torch.cat((x * mask, mask.float()), -1)


def test_networks_that_are_trained_together_learn_conditional_means() -> None:
    """Of independent signs, E[xβ + c | x_S] is the sum over S, and c: of another β and c each."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 1000, 3, generator=generator).sign()
    slopes = torch.tensor([[[1.0], [-0.5], [0.0]], [[0.0], [1.0], [0.5]]])
    offsets = torch.tensor([3.0, -2.0])
    targets = x @ slopes + offsets[:, None, None]
    both = trained_together(x, targets, masked, steps=300, seed=0)
    mask = all_coalitions(3)[1:-1].expand(20, -1, -1)  # Nobody and everybody are known.
    for means, some, slope, offset in zip(both, x, slopes, offsets, strict=True):
        found = means(some[:20], mask)
        expected = (some[:20, None] * mask) @ slope + offset
        # The signs of 1,000 rows are not quite independent, nor of mean zero.
        assert (found - expected).square().mean().sqrt() < 0.1
        assert (expected - offset).square().mean().sqrt() > 0.5


def test_one_of_the_networks_is_what_it_is_among_all() -> None:
    networks = Networks(3, 4, 2, torch.Generator().manual_seed(0))
    x = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))
    together = networks(x)
    assert together.shape == (3, 5, 2)
    for k in range(3):
        torch.testing.assert_close(networks.one(k)(x[k]), together[k], rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_seed_trains_the_same_networks(seed: int) -> None:
    x = torch.randn(2, 200, 3, generator=torch.Generator().manual_seed(0))
    targets, mask = x.sum(2, keepdim=True), all_coalitions(3).expand(5, -1, -1)
    one, two = (trained_together(x, targets, masked, steps=3, seed=s)[0] for s in (seed, 0))
    assert torch.equal(one(x[0, :5], mask), two(x[0, :5], mask)) == (seed == 0)
