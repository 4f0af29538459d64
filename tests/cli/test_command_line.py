"""The commands as a user meets them: errors, exit statuses, help, sweeps."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from manifold_shap import cli
from tests.cli.commands import FOREST, TINY, read

Copy = Callable[..., Path]
Typed = Callable[..., None]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Runs a command in this process, as it is typed."""

    def run(name: str, *words: str) -> None:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
        {"train": cli.main_train, "explain": cli.main_explain}[name]()

    return run


@pytest.mark.parametrize(
    ("name", "words", "error"),
    [
        ("train", ["dta=digits"], "dta"),
        ("explain", ["estimator.evaluation=5"], "evaluation"),
    ],
)
def test_settings_that_there_are_not_are_told_by_hydra(
    typed: Typed, capsys: pytest.CaptureFixture[str], name: str, words: list[str], error: str
) -> None:
    with pytest.raises(SystemExit) as exit:
        typed(name, *words)
    assert exit.value.code == 1
    assert error in capsys.readouterr().err


def fails(frame: Any) -> None:
    """A model of one's own that is broken."""
    raise ZeroDivisionError("in the model\nof a user")


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(
    ("name", "words", "error"),
    [
        ("train", ["seed=abc"], "seed expected a long, but got str"),
        ("train", ["data=table"], "data.path"),
        ("train", ["classifier._target_=no.Such"], "no.Such"),
        ("explain", [], "train.py"),
        (
            "explain",
            [
                "data=iris",
                "model=python",
                f"model.call={__name__}:fails",
                "value_function=marginal",
            ],
            "in the model of a user",
        ),
    ],
)
def test_errors_are_one_line(
    typed: Typed, tmp_path: Path, name: str, words: list[str], error: str
) -> None:
    with pytest.raises(SystemExit) as exit:
        typed(name, f"runs_dir={tmp_path}", *words)
    said = str(exit.value.code)  # Printed to stderr, with status 1.
    assert error in said
    assert "\n" not in said
    assert not list(tmp_path.glob("*/*/*.ckpt"))


def test_an_interruption_is_one_line(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt("3 rows\nare kept.")

    monkeypatch.setattr("manifold_shap.cli.explain.explain", interrupt)
    with pytest.raises(SystemExit) as exit:
        typed("explain")
    assert exit.value.code == 130
    assert capsys.readouterr().out == "Interrupted. 3 rows are kept.\n"


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line(
    irises: Path, copied: Copy, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["data=iris", f"runs_dir={copied(irises, 'classifiers')}", "value_function=marginal"]
    typed("explain", *words, "instances=1", "space=ilr")
    said = capsys.readouterr().err
    (line,) = [line for line in said.splitlines() if "are exactly zero" in line]
    assert line.startswith("Warning: ")
    assert ".py:" not in said


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


def test_help_is_worth_reading_and_does_not_wait_for_torch() -> None:
    code = """
import sys
from manifold_shap import cli
for name in ("train", "explain"):
    sys.argv = [f"{name}.py", "--help"]
    try:
        getattr(cli, f"main_{name}")()
    except SystemExit as exit:
        assert not exit.code
assert not {"torch", "numpy", "pandas"} & set(sys.modules)
"""
    shown = command("-c", code)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("python explain.py data=mnist") > 1
    assert shown.stdout.count("docs/commands.md") == 2


def test_explaining_waits_for_nothing_that_only_trainings_need(digits: Path, copied: Copy) -> None:
    code = (
        "import runpy, sys; runpy.run_path('explain.py', run_name='__main__'); print(*sys.modules)"
    )
    words = ["instances=1", "estimator.evaluations=200", "report=false"]
    done = command("-c", code, f"runs_dir={copied(digits)}", *words)
    assert done.returncode == 0, done.stderr
    imported = done.stdout.splitlines()[-1].split()
    assert "manifold_shap.surrogate.fit" in imported
    assert not {"lightning", "skops", "torchvision"} & set(imported)
    assert "%|" not in done.stderr  # A bar has no place in a log file.


def test_a_sweep_and_a_run_of_it_on_the_command_line(
    typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["data=iris", *FOREST, *TINY]
    typed("train", "-m", f"runs_dir={tmp_path}", *words, "seed=0,1")
    jobs = [path.parent.name for path in tmp_path.rglob("mse_by_size.png")]
    for k in (0, 1):
        assert f"__seed-{k}__" in " ".join(jobs)
    # Of the second seed, whose classifier is another one.
    _, job = sorted(path.parent for path in tmp_path.rglob("tensors.safetensors"))
    typed("explain", f"runs_dir={tmp_path}", f"run='{job}'", "instances=1", "report=false")
    assert (job / "summary.json").exists()
    assert capsys.readouterr().out.count("results and plots in") == 1


@pytest.mark.slow
def test_optuna_finds_the_smallest_validation_error(tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    rate = "value_function.learning_rate"
    sweeper = ["hydra/sweeper=optuna", "hydra.sweeper.n_trials=3", "hydra.sweeper.n_jobs=1"]
    words = [*FOREST, *TINY, *sweeper, f"{rate}=tag(log,interval(1e-4,1e-1))"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    typed = [sys.executable, str(ROOT / "train.py"), "-m", "data=iris", *words]
    subprocess.run(typed, cwd=tmp_path, check=True, timeout=500, env=environment)
    jobs = [path.parent for path in tmp_path.glob("runs/iris/*-sweep/*/config.yaml")]
    found: Any = OmegaConf.load(jobs[0].parent / "optimization_results.yaml")
    errors = [read(job, "metrics.json")["mse_validation"] for job in jobs]
    assert len(errors) == 3
    assert found.best_value == min(errors)
