"""Runs that are killed and given again end as if nothing had happened, and do nothing twice."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch

from tests.hostile.runs import BLOCKS, results, started

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
MOMENTS = {"train": 7, "explain": 6, "stream": 7}
KILLS = [(what, moment) for what, count in MOMENTS.items() for moment in range(count)]


def prepared(what: str, place: Path, trained: Path) -> Path:
    """A new folder, for `explain` with what was trained."""
    place.mkdir()
    if what == "explain":
        shutil.copytree(trained / "runs", place / "runs")
    return place


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, float]]:
    """Folders of runs that nothing disturbs, and their seconds."""
    home, found = tmp_path_factory.mktemp("whole"), {}
    # The first process also waits for the imports of the one that all are forked from.
    for what in ("stream", *MOMENTS):
        shutil.rmtree(home / what, ignore_errors=True)
        place, began = prepared(what, home / what, home / "train"), time.monotonic()
        process = started(what, place)
        process.join()
        assert process.exitcode == 0, (place / f"{what}.said").read_text()
        found[what] = place, time.monotonic() - began
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("what", "moment"), KILLS)
def test_what_is_killed_and_given_again_ends_as_if_undisturbed(
    what: str, moment: int, tmp_path: Path, whole: dict[str, tuple[Path, float]]
) -> None:
    expected, seconds = whole[what]
    place = prepared(what, tmp_path / "place", whole["train"][0])
    process = started(what, place)
    process.join((moment + 0.5) / MOMENTS[what] * seconds)
    if process.exitcode is None and process.pid is not None:
        os.kill(process.pid, SIGNALS[moment % len(SIGNALS)])
    process.join()
    classifier = {
        path: path.stat().st_mtime_ns for path in place.rglob("classifiers/*/*.safetensors")
    }
    if process.exitcode != 0:
        again = started(what, place, again=True)
        again.join()
        assert again.exitcode == 0, (place / f"{what}.said").read_text()
    assert classifier.items() <= {p: p.stat().st_mtime_ns for p in classifier}.items()
    torch.testing.assert_close(results(what, place), results(what, expected), rtol=0, atol=0)
    if what == "stream":
        # The block that the signal has met may have been explained, and not written.
        assert len((place / "explained").read_text().splitlines()) <= BLOCKS + 1
