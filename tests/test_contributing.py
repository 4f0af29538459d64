"""What CONTRIBUTING says it takes to add something is all that it takes.

A dummy of each kind is added in a copy of the repository, with the files that are named there and
no others, and runs there.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

IMPUTER = {
    "manifold_shap/imputers/zero.py": '''"""Imputes zeros."""

import torch

from manifold_shap.imputers.base import Completions, Imputer


class ZeroImputer(Imputer):
    """Absent features are zero."""

    name = "zero"
    support = 1

    def impute(self, x, mask, draws, keys):
        return Completions(self.splice(x, mask, torch.zeros_like(x)[:, None, None]))
''',
    "conf/value_function/zero.yaml": """_target_: manifold_shap.imputers.zero.ZeroImputer
name: zero
title: Zero
output: probability
zero_replacement: 1e-3
draws: 1
""",
    "docs/value_functions.md": "| `ZeroImputer`, `zero` | zeros |\n",
}
ESTIMATOR = {
    "manifold_shap/estimators/first.py": '''"""Estimates nothing: the first player gets it all."""

import torch

from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.ragged import by_player_count


@by_player_count
def first_shapley(value, x, *, evaluations=None, seed=0, batch_size=None, progress=None):
    """All to the first player."""
    game = Evaluator(value, x, batch_size, progress)
    phi = torch.zeros(game.shape)
    phi[:, 0] = game.total
    return game.explanation(phi, {"estimator": "first"})
''',
    "conf/estimator/first.yaml": """_target_: manifold_shap.estimators.first.first_shapley
batch_size: null
seed: ${seed}
""",
    "docs/estimators.md": "| `first_shapley`, `first` | never |\n",
}
DATA = {
    "manifold_shap/data/halves.py": '''"""Two numbers, and whether the first is larger."""

import numpy as np
import pandas as pd
import torch

from manifold_shap.data.base import Table, TensorDataModule


class Halves(TensorDataModule):
    """Whether a is larger than b."""

    name = "halves"

    def read(self) -> Table:
        frame = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 2)), columns=["a", "b"])
        labels = torch.tensor((frame.a > frame.b).to_numpy().astype(int))
        return Table(frame, labels, ("no", "yes"))
''',
    "conf/data/halves.yaml": """_target_: manifold_shap.data.halves.Halves
name: halves
batch_size: 64
validation: 0.2
test: 0.2
seed: ${seed}
root: null
""",
    "README.md": "`halves`\n",
}
TRAIN = [
    "data=halves",
    "classifier=random_forest",
    "classifier.n_estimators=3",
    "value_function.hidden=[8]",
    "value_function.max_epochs=1",
    "+trainer.limit_train_batches=5",
    "runs_dir=runs",
]
EXPLAIN = [
    *("data=halves", "value_function=zero", "estimator=first"),
    *("instances=2", "compare=[]", "runs_dir=runs"),
]


KINDS = {"An imputer": IMPUTER, "An estimator": ESTIMATOR, "A data set": DATA}
CODE = f"""
from hydra import compose, initialize_config_dir
from manifold_shap.cli import CONF
from manifold_shap.cli.explain import explain
from manifold_shap.cli.train import train
with initialize_config_dir(str(CONF), version_base="1.3"):
    train(compose("train", {TRAIN!r}))
    words = {EXPLAIN!r}
    explain(compose("explain", words), [word.split("=")[0] for word in words])
"""


@pytest.mark.parametrize("what", KINDS)
def test_contributing_names_the_number_of_files(what: str) -> None:
    found = re.search(rf"\*\*{what}\*\* \((\d) files?\)", (ROOT / "CONTRIBUTING.md").read_text())
    assert found
    assert int(found[1]) == len(KINDS[what])


@pytest.mark.slow
def test_these_files_are_enough(tmp_path: Path) -> None:
    for part in ("manifold_shap", "conf"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "docs").mkdir()
    for name, text in (pair for files in KINDS.values() for pair in files.items()):
        path = tmp_path / name
        path.write_text((path.read_text() if path.exists() else "") + text)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "runs" / "halves" / "zero" / "explanations.zarr").is_dir()
