"""Says which faults tests find: `python -m tests.faults run NAME...`.

Without names it tries all of them, or five with `--turn K`, others for the next K, on the tests of
the room of each. The exit status is 1 if one was missed.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.faults import FAULTS

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.faults.plugin")
# Tests of a room that stand elsewhere as well.
ALSO = {
    "explanation": ("tests/estimators/test_intervals.py",),
    "tables": ("tests/test_explainer.py",),
}
WORDS = {pytest.ExitCode.TESTS_FAILED: "found", pytest.ExitCode.OK: "missed"}


def paths_of(name: str) -> list[str]:
    """The tests of its room, a directory or a module of the package."""
    room = name.partition("/")[0]
    folder = f"tests/{room}"
    own = folder if (ROOT / folder).is_dir() else f"tests/test_{room}.py"
    return [own, *ALSO.get(room, ())]


def found(name: str) -> bool:
    """Run the tests of its room with this fault, up to the first that fails, and say which."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, *paths_of(name)],
        cwd=ROOT,
        env={**os.environ, "FAULT": name, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    word = WORDS.get(done.returncode, "no tests run")
    lines = (done.stdout or done.stderr).splitlines()
    by = [line for line in lines if line.startswith(("FAILED", "ERROR"))] or lines[-1:]
    print(f"{word:6} {name} ({time.monotonic() - start:.0f} s): {' '.join(by[:1])}", flush=True)
    return word == "found"


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.faults", description=__doc__)
    parser.add_argument("command", choices=["run"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--turn", type=int, metavar="K")
    asked = parser.parse_args()
    names = asked.names or list(FAULTS)
    if asked.turn is not None:
        names = [names[(5 * asked.turn + k) % len(names)] for k in range(5)]
    missed = [name for name in names if not found(name)]
    sys.exit(min(1, len(missed)))


if __name__ == "__main__":
    main()
