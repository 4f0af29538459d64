"""Every seeded fault turns the tests red that are to notice it: `make faults`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.faults import FAULTS, Fault

# All that tests read.
COPIED = ("manifold_shap", "tests", "conf", "pyproject.toml", "train.py", "explain.py")


@pytest.fixture(scope="module")
def copy(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, in which faults are made and mended."""
    place = tmp_path_factory.mktemp("repository")
    for name in COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place / name)
    return place


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_still_possible(root: Path, fault: Fault) -> None:
    """What a fault replaces stands in the source, once."""
    assert (root / "manifold_shap" / fault.module).read_text().count(fault.right) == 1
    assert all((root / path.partition("::")[0]).exists() for path in fault.tests)


@pytest.mark.slow
def test_without_a_fault_these_tests_are_green(copy: Path) -> None:
    done = run_tests(copy, tuple({path for fault in FAULTS for path in fault.tests}))
    assert done.returncode == pytest.ExitCode.OK, done.stdout[-2000:] + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_turns_tests_red(copy: Path, fault: Fault) -> None:
    path = copy / "manifold_shap" / fault.module
    right = path.read_text()
    path.write_text(right.replace(fault.right, fault.wrong))
    try:
        done = run_tests(copy, fault.tests)
    finally:
        path.write_text(right)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-2000:] + done.stderr
    # Failed by an assertion, or by an error of the package itself, not while tests are collected.
    assert "FAILED" in done.stdout


def run_tests(place: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = {**os.environ, "PYTHONPATH": str(place), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
    )
