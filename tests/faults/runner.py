"""Runs tests on the package with a fault in it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.faults.faults import FAULTS

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.faults.plugin")
# Tests of a room that stand elsewhere as well.
ALSO = {
    "explanation": ("tests/estimators/test_intervals.py",),
    "tables": ("tests/test_explainer.py",),
}


def paths_of(room: str) -> list[str]:
    """The tests of a directory or of a module of the package."""
    folder = f"tests/{room}"
    own = folder if (ROOT / folder).is_dir() else f"tests/test_{room}.py"
    return [own, *ALSO.get(room, ())]


def run(name: str, tests: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run tests up to the first that fails, with this fault; by default those of its room."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, *(tests or paths_of(FAULTS[name].room))],
        cwd=ROOT,
        env={**os.environ, "FAULT": name, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
