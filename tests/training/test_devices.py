"""A training in several processes: the same steps on the same rows, and ends that are clear."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.test_task import X, Y, fit, line

TWO = {"devices": 2, "accelerator": "cpu"}


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
