"""Learners for repetitions of small experiments: against direct means, and on a linear target."""

import torch

from benchmarks.support.repetitions import Networks, cell_means
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


def test_one_of_the_networks_is_what_it_is_among_all() -> None:
    networks = Networks(3, 4, 2, torch.Generator().manual_seed(0))
    x = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))
    together = networks(x)
    assert together.shape == (3, 5, 2)
    for k in range(3):
        torch.testing.assert_close(networks.one(k)(x[k]), together[k], rtol=0, atol=1e-5)
