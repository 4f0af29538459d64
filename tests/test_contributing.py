"""What CONTRIBUTING says it takes to add something is all that it takes.

Each test adds a dummy in a copy of the repository, with the files that are named there and no
others, and runs it there.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
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
SPACE = {
    "manifold_shap/spaces.py": '''

@dataclass(frozen=True)
class Squared(OutputSpace):
    """Squares of probabilities."""

    name = "squared"
    unit = "squared probability"

    def __call__(self, prediction: Tensor) -> Tensor:
        return prediction.square()

    def outputs(self, classes: Sequence[str]) -> tuple[str, ...]:
        return tuple(classes)
''',
}
MODEL = {
    "manifold_shap/models/formula.py": '''"""Asks formulas: text of numpy."""

from typing import Any

from manifold_shap.models.predictor import Predictor


class FormulaPredictor(Predictor):
    """A formula of the columns, such as 'a + b'."""

    def __init__(self, model: Any, returns: str | None = None) -> None:
        super().__init__(model, "values")

    @classmethod
    def takes(cls, model: Any) -> bool:
        return isinstance(model, bytes)

    def ask(self, rows: Any) -> Any:
        return rows.eval(self.model.decode())
''',
    "manifold_shap/models/kinds.py": """
from manifold_shap.models.formula import FormulaPredictor  # noqa: E402

KINDS = (FormulaPredictor, *KINDS)
""",
}
VALUE = {
    "manifold_shap/values/product.py": '''"""Multiplies what is known."""

import torch

from manifold_shap.values import ValueFunction


class Product(ValueFunction):
    """The product of the known numbers."""

    name = "product"

    def values(self, x, mask, keys):
        return x[:, None].where(mask, 1).prod(-1, keepdim=True)

    def prediction(self, x):
        return x.prod(-1, keepdim=True)

    def base(self, x):
        return torch.ones(len(x), 1)
''',
    "docs/value_functions.md": "| `Product` | products |\n",
}
CANDIDATE = {
    "manifold_shap/candidates.py": """
from manifold_shap.imputers import ExactMatchImputer  # noqa: E402

IMPUTERS, CANDIDATES = (*IMPUTERS, "exact_match"), (*CANDIDATES, "exact_match")
FITS["exact_match"] = partial(_classical, ExactMatchImputer)
""",
    "manifold_shap/folder.py": """
from manifold_shap.imputers import ExactMatchImputer  # noqa: E402

_CLASSICAL["exact_match"] = ExactMatchImputer
""",
    "docs/your_own_table.md": "| `exact_match` | rows that agree |\n",
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
PLOT = {
    "manifold_shap/plots/dot.py": '''"""Draws a dot."""

from matplotlib.figure import Figure


def dot(explanation):
    """One dot, as high as the first Shapley value."""
    axes = Figure().subplots()
    axes.plot([0], explanation.phi.flatten()[:1], "o")
    return axes
''',
    "manifold_shap/plots/__init__.py": "from manifold_shap.plots.dot import dot as dot\n",
}
TRAIN = [
    "classifier=random_forest",
    "classifier.n_estimators=3",
    "value_function.hidden=[8]",
    "value_function.max_epochs=1",
    "+trainer.limit_train_batches=5",
    "runs_dir=runs",
]
EXPLAIN = ["instances=2", "compare=[]", "runs_dir=runs"]


def number(what: str) -> int:
    """Of files that CONTRIBUTING names."""
    found = re.search(rf"\*\*{what}\*\* \((\d) files?\)", (ROOT / "CONTRIBUTING.md").read_text())
    assert found
    return int(found[1])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what a contribution may touch."""
    for part in ("manifold_shap", "conf"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "docs").mkdir()
    return tmp_path


def run(project: Path, files: Mapping[str, str], code: str) -> None:
    """Write the files, or add to those that are there, and run code."""
    for name, text in files.items():
        path = project / name
        path.write_text((path.read_text() if path.exists() else "") + text)
    environment = {**os.environ, "PYTHONPATH": str(project), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def commands(train: list[str], explain: list[str]) -> str:
    return f"""
import sys
from hydra import compose, initialize_config_dir
from manifold_shap.cli import CONF
from manifold_shap.cli.explain import explain
from manifold_shap.cli.train import train
with initialize_config_dir(str(CONF), version_base="1.3"):
    train(compose("train", {train!r}))
    words = {explain!r}
    explain(compose("explain", words), [word.split("=")[0] for word in words])
"""


def test_an_imputer_a_data_set_and_an_estimator_serve_the_commands(project: Path) -> None:
    """One run of both commands uses all three: each start of Python takes seconds."""
    kinds = {"An imputer": IMPUTER, "An estimator": ESTIMATOR, "A data set": DATA}
    for what, files in kinds.items():
        assert len(files) == number(what)
    train = ["data=halves", *TRAIN]
    explain = ["data=halves", "value_function=zero", "estimator=first", *EXPLAIN]
    run(project, IMPUTER | ESTIMATOR | DATA, commands(train, explain))
    assert (project / "runs" / "halves" / "zero" / "explanations.zarr").is_dir()


def test_a_model_a_value_function_a_candidate_a_space_and_a_plot_serve_python(
    project: Path,
) -> None:
    """One process for all of them: each file is named under its own heading."""
    kinds = {
        "A kind of model": MODEL,
        "A value function": VALUE,
        "A candidate of the front door": CANDIDATE,
        "An output space": SPACE,
        "A plot": PLOT,
    }
    for what, files in kinds.items():
        assert len(files) == number(what)
    code = """
import pandas as pd
import torch
import manifold_shap as ms
from manifold_shap.values.product import Product
codebook = ms.Codebook.fit(pd.DataFrame({"a": [1, 2], "b": [3, 5]}))
row = codebook.rows(pd.DataFrame({"a": [2], "b": [3]}))
assert ms.as_model(b"a + b", codebook)(row).item() == 5
value = Product(ms.Players.of_elements((2,)), ["product"])
assert ms.exact_shapley(value, torch.tensor([[2.0, 3.0]])).phi.flatten().tolist() == [2, 3]
frame = pd.DataFrame({"a": [0, 1, 1, 0] * 20, "b": [0, 1, 0, 0] * 20})
explainer = ms.Explainer(lambda f: f["a"], frame, returns="values", candidates=["exact_match"])
explainer.save("folder")
assert ms.Explainer.load("folder", lambda f: f["a"]).quality.chosen == "exact_match"
x = torch.randn(20, 2)
value = ms.imputed_value(lambda x: x.softmax(-1), ms.MarginalImputer(x), "squared")
explanation = ms.exact_shapley(value, x[:1])
assert explanation.unit == "squared probability"
explanation.save("e.zarr")
assert ms.Explanation.load("e.zarr").space.name == "squared"
assert type(ms.plots.dot(explanation)).__name__ == "Axes"
"""
    run(project, MODEL | VALUE | CANDIDATE | SPACE | PLOT, code)
