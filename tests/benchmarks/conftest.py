"""What tests of experiments share: a run from its settings to its page, and short trainings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import report, reproduce
from benchmarks.support import trained

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Measures in the quick form, writes and reads back: what was found, with a page of it."""

    def measure(name: str, **settings: Any) -> dict[str, Any]:
        experiment, short = reproduce.experiment(name), name.partition("/")[2]
        result = report.measured(experiment, experiment.chosen(True, settings), "")
        report.save(experiment, tmp_path, short, result)
        assert experiment.title in (tmp_path / f"{short}.md").read_text()
        return report.load(tmp_path, short)["found"]

    return measure


@pytest.fixture
def short_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short epoch, and a small network, for all that the settings of the commands train."""
    of_commands = trained.settings
    brief = [f"++{kind}.{word}" for kind in ("value_function", "classifier")
             for word in ("max_epochs=1", "least_batches=10", "hidden=[16]")]  # fmt: skip
    monkeypatch.setattr(trained, "settings", lambda *words: of_commands(*words, *brief))
