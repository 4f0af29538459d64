"""The commands as a user meets them: errors, exit statuses, help, sweeps."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manifold_shap import cli
from tests.cli.commands import FOREST, TINY, read

Typed = Callable[..., None]
ROOT = Path(__file__).parents[2]
OWN = ["data=iris", "value_function=marginal", "model=python", f"model.call={__name__}:fails"]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Runs a command in this process, as it is typed."""

    def run(name: str, *words: str) -> None:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")  # The command sets it for its process.
        {"train": cli.main_train, "explain": cli.main_explain}[name]()

    return run


def fails(frame: Any) -> None:
    """A model of one's own that is broken."""
    raise ZeroDivisionError("in the model\nof a user")


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["train", "data=iriss"], "Could not find 'data/iriss' Available .* iris mnist series"),
        (["train", "dta=digits"], "dta"),
        (["explain", "estimator.evaluation=5"], "evaluation"),
        (["train", "seed=abc"], "seed expected a long, but got str"),
        (["explain", "checkpoint=step=9.ckpt"], "Read checkpoint=step=9.ckpt; .* needs quotes"),
        (["train", "data=table"], "setting data.path but"),
        (["explain", "data=table"], "setting data.path but"),
        (["train", "model=file"], "setting model.path but"),
        (["train", "classifier._target_=no.Such"], "no.Such"),
        (["train", "data=table", "data.path=none.csv"], "No such file .*none.csv"),
        (["train", "data=table", "data.path=/dev/null"], "No columns to parse"),
        (["explain"], "run train.py first"),
        (["explain", *OWN], "in the model of a user"),
    ],
)
def test_errors_are_one_line(typed: Typed, tmp_path: Path, words: list[str], error: str) -> None:
    with pytest.raises(SystemExit) as exit:
        typed(*words, f"runs_dir={tmp_path}")
    said = str(exit.value.code)  # Printed to stderr, with status 1.
    assert re.search(error, said)
    assert "\n" not in said
    assert not list(tmp_path.rglob("*.ckpt"))


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


def test_imports_wait_until_they_are_needed(digits: Path, copied: Callable[..., Path]) -> None:
    code = """
import sys
from contextlib import suppress
from manifold_shap import cli
words = sys.argv[1:]
for main in (cli.main_train, cli.main_explain):
    sys.argv[1:] = ["--help"]
    with suppress(SystemExit):
        main()
assert not {"torch", "numpy", "pandas"} & set(sys.modules)
sys.argv[1:] = words
cli.main_explain()
assert "manifold_shap.surrogate.fit" in sys.modules
assert not {"lightning", "skops", "torchvision"} & set(sys.modules)
"""
    words = [f"runs_dir={copied(digits)}", "instances=1", "estimator.evaluations=200"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "report=false"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("python explain.py data=mnist") > 1
    assert done.stdout.count("docs/commands.md") == 2
    assert "1 rows in" in done.stdout
    assert "%|" not in done.stderr  # A bar has no place in a log file.


def test_a_sweep_and_a_run_of_it_on_the_command_line(
    typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["data=iris", *FOREST, *TINY]
    typed("train", "-m", f"runs_dir={tmp_path}", *words, "seed=0,1")
    jobs = sorted(path.parent for path in tmp_path.rglob("tensors.safetensors"))
    for k, job in enumerate(jobs):
        assert f"__seed-{k}__" in job.name
        metrics = read(job, "metrics.json")
        assert 0 < metrics["mse_validation"] != metrics["mse"]
    # Of the second seed, whose classifier is another one.
    typed("explain", f"runs_dir={tmp_path}", f"run='{job}'", "instances=1", "report=false")
    assert len(jobs) == 2
    assert (job / "summary.json").exists()
    assert capsys.readouterr().out.count("results and plots in") == 1
