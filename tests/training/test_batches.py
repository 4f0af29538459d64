"""Batches of in-memory tensors: every row once, in an order of seed and epoch alone."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manifold_shap.training.batches import IndexBatches, loader


@settings(max_examples=50, deadline=None)
@given(
    rows=st.integers(1, 60),
    batch_size=st.integers(1, 70),
    shuffle=st.booleans(),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 1000),
)
def test_batches_hold_every_row_once(
    rows: int, batch_size: int, shuffle: bool, seed: int, epoch: int
) -> None:
    x = torch.arange(rows)
    batches = loader((x, -x), IndexBatches(rows, batch_size, shuffle, seed, rows, epoch))
    seen = list(batches)
    assert len(seen) == len(batches)
    assert all(len(a) == batch_size for a, _ in seen[:-1])
    assert all(torch.equal(a, -b) for a, b in seen)
    found = torch.cat([a for a, _ in seen])
    assert torch.equal(found.sort().values, x)
    assert shuffle or torch.equal(found, x)


def order(seed: int, epoch: int, rows: int = 50) -> list[int]:
    batches = loader((torch.arange(rows),), IndexBatches(rows, 7, True, seed, rows))
    batches.sampler.set_epoch(epoch)
    return torch.cat([x for (x,) in batches]).tolist()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**40), epoch=st.integers(0, 1000))
def test_order_is_a_function_of_seed_and_epoch(seed: int, epoch: int) -> None:
    torch.manual_seed(epoch)
    assert order(seed, epoch) == order(seed, epoch)
    assert order(seed, epoch) != order(seed, epoch + 1)
    assert order(seed, epoch + 1) != order(seed + 1, epoch)
    assert order(seed, epoch) != order(seed + 2**32, epoch)
