"""Sweeps: what they make small, and the sweeper and launchers that can be installed for them.

`pip install 'manifold_shap[sweeps]'` brings these; their tests are skipped without it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from manifold_shap.cli import train as training
from tests.cli.commands import FOREST, TINY, composed

ROOT = Path(__file__).parents[2]
IRIS = ["data=iris", *FOREST, *TINY]


def sweep(place: Path, *words: str) -> list[Path]:
    """The directories of the jobs of a sweep that is run as a command."""
    typed = [sys.executable, str(ROOT / "train.py"), "-m", *IRIS, "progress=false", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        typed, cwd=place, capture_output=True, text=True, timeout=500, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert {path.name for path in place.iterdir()} == {"runs"}
    return sorted(path.parent for path in place.glob("runs/iris/*-sweep/*/metrics.json"))


def metrics(job: Path) -> dict[str, Any]:
    return json.loads((job / "metrics.json").read_text())


def test_the_objective_is_measured_on_validation_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = []
    measure = training.mean_squared_error

    def watched(value: Any, x: Any, *others: Any, **settings: Any) -> Any:
        rows.append(len(x))
        return measure(value, x, *others, **settings)

    monkeypatch.setattr(training, "mean_squared_error", watched)
    config = composed("train", "progress=false", *IRIS)
    config.runs_dir = str(tmp_path / "runs")
    found = training.train(config, tmp_path / "runs" / "iris" / "surrogate-sweep" / "job")
    # Of 150 irises a fifth is for the test, and a tenth for validation.
    assert rows == [30, 30, 15]
    assert found["mse_validation"] > 0
    assert found["mse_validation"] != found["mse"]
    assert "mse_validation" not in training.train(config)


@pytest.mark.slow
def test_optuna_finds_the_smallest_validation_error(tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    jobs = sweep(
        tmp_path,
        "hydra/sweeper=optuna",
        "hydra.sweeper.n_trials=3",
        "hydra.sweeper.n_jobs=1",
        "hydra.sweeper.sampler.seed=0",
        "value_function.learning_rate=tag(log,interval(1e-4,1e-1))",
    )
    found: Any = OmegaConf.load(jobs[0].parent / "optimization_results.yaml")
    errors = {
        json.loads((job / "config.json").read_text())["value_function"]["learning_rate"]: metrics(
            job
        )["mse_validation"]
        for job in jobs
    }
    assert len(errors) == 3
    assert found.best_value == min(errors.values())
    best = found.best_params["value_function.learning_rate"]
    assert errors[best] == found.best_value
