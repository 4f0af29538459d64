"""Every kind of experiment runs in small, from its settings to its page."""

import os
from typing import Any

import pytest
from torch.utils._pytree import tree_leaves

from tests.benchmarks.conftest import Run

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
    "speed/streams": {"shared": 128},
    "speed/training": {"data": "iris", "goal": 1.0},
    "truth/global_values": {"repetitions": 3, "truth_rows": 200, "laws": ["mixture"]},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Other packages warn of their own dependencies.
@pytest.mark.usefixtures("short_trainings")
@pytest.mark.skipif("MANIFOLD_SHAP_DATA" not in os.environ, reason="no MANIFOLD_SHAP_DATA")
@pytest.mark.parametrize("name", SETTINGS)
def test_an_experiment_in_small(name: str, run: Run) -> None:
    found = tree_leaves(run(name, **SETTINGS[name]))
    numbers = [one for one in found if one is None or isinstance(one, (int, float))]
    # Those that are not finite are None in a file.
    assert 0 < sum(one is not None for one in numbers) > 0.9 * len(numbers)
