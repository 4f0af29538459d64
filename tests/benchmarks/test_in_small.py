"""Every kind of experiment runs in small, from its settings to its page."""

import os
from pathlib import Path
from typing import Any

import pytest
from torch.utils._pytree import tree_leaves

from benchmarks import report, reproduce
from benchmarks.support import trained

# Settings that make the quick form of an experiment a matter of seconds.
SETTINGS: dict[str, dict[str, Any]] = {
    "papers/categories": {"rows": 6, "background": 60, "draws": 4},
    "papers/compositions": {"seeds": 2, "samples": 200},
    "papers/naive_bayes": {"rows": 50, "donors": 50, "data": ["tictactoe"]},
    "papers/naive_bayes_figures": {"sizes": [50, 100]},
    "papers/one_outlier": {"trees": 10, "outliers": 3, "orders": 8},
    "papers/several_models": {"splits": 2, "rows": 12, "draws": 2},
    "papers/suppressed": {"samples": 100, "draws": 2, "rates": [1e-4], "tuning_epochs": 1},
    "papers/tree_shap": {"trees": 3, "draws": 4, "days": 3},
    "papers/two_forests": {"trees": 40, "permutations": 4},
    "speed/gpu": {"devices": ["cpu"], "networks": ["mlp"]},
    "speed/interactions": {},
    "speed/leverage": {"budgets": [5, 20]},
    "speed/peers": {},
    "speed/streams": {"shared": 128},
    "speed/training": {"data": "iris", "goal": 1.0},
    "truth/global_values": {"repetitions": 3, "truth_rows": 200, "laws": ["mixture"]},
    "truth/shapr": {"draws": 8},
}


@pytest.fixture
def short_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short epoch, and a small network, for all that the settings of the commands train."""
    of_commands = trained.settings
    brief = [f"++{kind}.{word}" for kind in ("value_function", "classifier")
             for word in ("max_epochs=1", "least_batches=10", "hidden=[16]")]  # fmt: skip
    monkeypatch.setattr(trained, "settings", lambda *words: of_commands(*words, *brief))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Other packages warn of their own dependencies.
@pytest.mark.usefixtures("short_trainings")
@pytest.mark.skipif("MANIFOLD_SHAP_DATA" not in os.environ, reason="no MANIFOLD_SHAP_DATA")
@pytest.mark.parametrize("name", SETTINGS)
def test_an_experiment_in_small(name: str, tmp_path: Path) -> None:
    experiment = reproduce.experiment(name)
    result = report.measured(experiment, experiment.chosen(True, SETTINGS[name]), "")
    report.save(experiment, tmp_path, "small", result)
    assert experiment.title in (tmp_path / "small.md").read_text()
    found = tree_leaves(report.load(tmp_path, "small")["found"])
    numbers = [one for one in found if one is None or isinstance(one, (int, float))]
    # Those that are not finite are None in a file.
    assert 0 < sum(one is not None for one in numbers) > 0.9 * len(numbers)
