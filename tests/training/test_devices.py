"""A training in several processes: the same steps on the same rows, and ends that are clear."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manifold_shap.training.batches import IndexBatches
from tests.training.test_task import X, Y, fit, line

TWO = {"devices": 2, "accelerator": "cpu"}


@settings(max_examples=50, deadline=None)
@given(
    rows=st.integers(1, 40), batch_size=st.integers(1, 50), ranks=st.integers(1, 5), data=st.data()
)
def test_processes_share_every_batch(
    rows: int, batch_size: int, ranks: int, data: st.DataObject
) -> None:
    total, epoch = data.draw(st.integers(1, 90)), data.draw(st.integers(0, 9))
    own = (rows, batch_size, True, 3, total, epoch)
    whole = list(IndexBatches(*own))
    parts = [IndexBatches(*own, rank=rank, ranks=ranks) for rank in range(ranks)]
    shares = [list(part) for part in parts]
    assert {len(share) for share in shares} == {len(whole)}
    for number, batch in enumerate(whole):
        counts = [part.counts(number) for part in parts]
        assert {every for _, every in counts} == {len(batch)}
        met = [share[number][:own] for share, (own, _) in zip(shares, counts, strict=True)]
        assert torch.equal(torch.cat(met), batch)
        # All take part in every step, and none has more than one row more to do than another.
        assert all(len(share[number]) >= 1 for share in shares)
        assert max(len(each) for each in met) - min(len(each) for each in met) <= 1


def test_two_devices_take_the_steps_of_one(tmp_path: Path) -> None:
    # The loss draws numbers, but no gradient depends on them. Batches of 3 rows have parts of 2
    # and 1; the last one of 1 row has one that does not count.
    x = torch.cat([X] * 8)[:301]
    y = torch.cat([Y] * 8)[:301]
    options: dict[str, Any] = {"batch_size": 3, "max_epochs": 2, "patience": None}
    limits = {"limit_train_batches": 1.0}
    one = fit(x, y, trainer={"accelerator": "cpu", **limits}, **options)
    both = fit(x, y, trainer={**TWO, **limits}, directory=tmp_path, **options)
    torch.testing.assert_close(line(both), line(one), rtol=1e-4, atol=1e-5)
    assert both.record["epochs"] == one.record["epochs"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.ckpt", "last.ckpt"]


@pytest.mark.slow
def test_an_interrupted_training_on_two_devices_goes_on(tmp_path: Path) -> None:
    trainer = {**TWO, "limit_train_batches": 5}
    given: dict[str, Any] = {"trainer": trainer, "max_epochs": 3, "schedule": "constant"}
    whole = fit(**given)
    fit(directory=tmp_path, **{**given, "trainer": {**trainer, "max_steps": 5}})
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["epoch"] == 0
    continued = fit(directory=tmp_path, **given)
    assert torch.equal(line(continued), line(whole))
    assert continued.record["validation"] == whole.record["validation"]
