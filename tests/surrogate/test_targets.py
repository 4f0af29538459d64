"""Surrogates of rows that do not lie in memory: the same weights, little memory, nothing twice."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import manifold_shap as ms
from manifold_shap._stored import stored
from manifold_shap.models import as_model
from manifold_shap.spaces import Probability
from manifold_shap.surrogate.targets import training_targets
from manifold_shap.training.rows import TrainingRows
from tests.training.test_loop import CtrlC

X = torch.randn(150, 4, generator=torch.Generator().manual_seed(0))
ROOT = Path(__file__).parents[2]


class Counting:
    """A model that knows how many rows it has seen."""

    rows = 0

    def __call__(self, x: Tensor) -> Tensor:
        self.rows += len(x)
        return x[:, :3].softmax(-1)


def fit(x: Any, model: Any = None, **given: Any) -> ms.SurrogateValue:
    trainer = {"accelerator": "cpu", "limit_train_batches": 5}
    usual = {"hidden": [8], "max_epochs": 3, "batch_size": 16, "trainer": trainer}
    return ms.fit_surrogate(model or Counting(), x, **{**usual, **given})


def weights(value: ms.SurrogateValue) -> Tensor:
    return torch.cat([own.flatten() for own in value.surrogate.state_dict().values()])


def in_file(place: Path, x: Tensor = X) -> np.ndarray:
    np.save(place / "x.npy", x.numpy())
    return np.load(place / "x.npy", mmap_mode="r")


def pairs(x: Tensor = X) -> TensorDataset:
    return TensorDataset(x, torch.zeros(len(x)))


def test_the_same_weights_wherever_rows_lie(tmp_path: Path) -> None:
    expected = fit(X)
    for rows in (pairs(), DataLoader(pairs(), num_workers=2), in_file(tmp_path)):
        found = fit(rows)
        assert torch.equal(weights(found), weights(expected))
        assert torch.equal(found.expectation, expected.expectation)
        assert found.seen is not None
        assert torch.equal(torch.stack(found.seen), torch.stack((X.amin(0), X.amax(0))))
    other = fit(pairs(), x_validation=pairs(X[:9]))
    assert torch.equal(weights(other), weights(fit(X, x_validation=X[:9])))


def test_targets_are_computed_once(tmp_path: Path) -> None:
    x = torch.cat([X] * 5)
    rows, whole = DataLoader(pairs(x), num_workers=1), fit(x)

    trainer = {"accelerator": "cpu", "limit_train_batches": 5, "callbacks": CtrlC(7)}
    with pytest.raises(KeyboardInterrupt):
        fit(rows, directory=tmp_path, trainer=trainer)
    assert {path.name for path in tmp_path.iterdir()} >= {"targets.ckpt", "targets_validation.ckpt"}
    model = Counting()
    continued = fit(rows, model, directory=tmp_path)
    assert torch.equal(weights(continued), weights(whole))
    assert model.rows < len(x)
    with pytest.raises(ValueError, match=r"targets.ckpt to hold the model's outputs on these rows"):
        fit(pairs(x + 1), directory=tmp_path)
    with pytest.raises(ValueError, match="of other rows, another model or another output space"):
        fit(pairs(x), lambda x: (2 * x[:, :3]).softmax(-1), directory=tmp_path)
    with pytest.raises(ValueError, match=r"targets.ckpt to hold .* but it is of .* another model"):
        fit(pairs(x), lambda x: x.softmax(-1), directory=tmp_path)
    for output in ("ilr", "log_odds"):
        with pytest.raises(ValueError, match=rf"targets.ckpt to hold .* rows in '{output}' but"):
            fit(rows, output=output, directory=tmp_path)


def test_kept_targets_are_recognised_by_some_rows_as_the_documentation_says(
    tmp_path: Path,
) -> None:
    x, players = torch.cat([X] * 5), ms.Players.of_elements((4,))
    model = as_model(Counting(), x)

    def targets(x: Tensor) -> Tensor:
        rows = TrainingRows(players, stored(pairs(x)), X, None)
        return training_targets(model, Probability(), rows, tmp_path)[0]

    kept, probes = targets(x), {k * len(x) // 64 for k in range(64)}
    for row in (1, 400, 749):
        changed = x.clone()
        changed[row] += 1
        assert row not in probes
        assert torch.equal(targets(changed), kept)
    for row in sorted(probes)[::21]:
        changed = x.clone()
        changed[row] += 1
        with pytest.raises(ValueError, match="but it is of other rows"):
            targets(changed)


def test_an_explainer_is_trained_on_a_data_set() -> None:
    value = fit(X, hidden=[8, 8])
    few = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 5}}
    one, other = (ms.fit_amortized(value, x, hidden=[8], **few) for x in (X, pairs()))
    assert torch.equal(one(X), other(X))


MEMORY = """
import sys, numpy as np, torch
import manifold_shap as ms
def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
def fit(x, held_out):
    trainer = {"accelerator": "cpu", "limit_train_batches": 5}
    f = lambda x: x[:, :3].softmax(-1)
    return ms.fit_surrogate(f, x, hidden=[8], max_epochs=1, trainer=trainer,
        x_validation=held_out)
x = np.memmap(sys.argv[1], "float32", "r", shape=(100_000, 2000))
fit(torch.zeros(3000, 2000), torch.zeros(1024, 2000))
before = peak()
fit(x, None)
print((peak() - before) / 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    with open(tmp_path / "x", "wb") as file:
        file.truncate(100_000 * 2000 * 4)  # 763 MB of zeros, which take no space.
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "x")]
    # Memory that was freed is given back at once, so that what is measured is what is needed.
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert float(done.stdout) < 200
