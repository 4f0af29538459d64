"""Batches: every row once, in an order of seed and epoch alone, shared among processes."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manifold_shap.training.batches import IndexBatches, loader


@settings(max_examples=50, deadline=None)
@given(
    rows=st.integers(1, 40),
    batch_size=st.integers(1, 50),
    shuffle=st.booleans(),
    ranks=st.integers(1, 5),
    data=st.data(),
)
def test_batches_hold_every_row_once_and_processes_share_them(
    rows: int, batch_size: int, shuffle: bool, ranks: int, data: st.DataObject
) -> None:
    total, epoch = data.draw(st.integers(1, 90)), data.draw(st.integers(0, 9))
    own = (rows, batch_size, shuffle, 3, total, epoch)
    x = torch.arange(rows)
    batches = loader((x, -x), IndexBatches(*own))
    whole = [a for a, b in batches if torch.equal(a, -b)]
    assert len(whole) == len(batches)
    assert all(len(a) == batch_size for a in whole[:-1])
    found = torch.cat(whole)
    counts = found.bincount(minlength=rows)
    assert counts.max() - counts.min() <= 1
    assert shuffle or torch.equal(found, torch.arange(total) % rows)
    parts = [IndexBatches(*own, rank=rank, ranks=ranks) for rank in range(ranks)]
    shares = [list(part) for part in parts]
    assert {len(share) for share in shares} == {len(whole)}
    for number, batch in enumerate(whole):
        counted = [part.counts(number) for part in parts]
        assert {every for _, every in counted} == {len(batch)}
        met = [share[number][:own] for share, (own, _) in zip(shares, counted, strict=True)]
        assert torch.equal(torch.cat(met), batch)
        # All take part in every step, and none has more than one row more to do than another.
        assert all(len(share[number]) >= 1 for share in shares)
        assert max(len(each) for each in met) - min(len(each) for each in met) <= 1


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
