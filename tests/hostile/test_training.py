"""Trainings are killed or run out of space, and continued on as many devices or another number.

Their rows are in memory, or in a file that is larger than the memory of a process.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.hostile.processes import Child, started
from tests.hostile.training import FILE, TRAININGS, write_rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found by /proc"),
]


def start(name: str, place: Path, devices: int, said: str, *step: str) -> Child:
    place.mkdir(exist_ok=True)
    words = ["-m", "tests.hostile.training", name, str(place), str(devices), *step]
    return started(words, place / said)


def ended(name: str, place: Path, devices: int, said: str) -> dict[str, Any]:
    """What a training that nothing disturbs any more has learned; it goes on, and never back."""
    before = last_epoch(place)
    child = start(name, place, devices, said)
    while child.poll() is None:
        assert last_epoch(place) >= before
        time.sleep(0.01)
    assert child.wait() == 0, child.said.read_text()
    return torch.load(place / "trained.pt")


def last_epoch(place: Path) -> int:
    """That of the last checkpoint; -1 where there is none."""
    last = place / "fit" / "last.ckpt"
    return torch.load(last, weights_only=True)["epoch"] if last.exists() else -1


def workers(child: Child) -> list[int]:
    """Processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text, line = path.read_text(), (path.parent / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parent = int(text.rpartition(")")[2].split()[1])
        if parent == child.pid and b"spawn_main" in line:
            found.append(int(path.parent.name))
    return found


def until_mid_training(place: Path, child: Child) -> None:
    """Wait for some epochs, of many."""
    deadline = time.monotonic() + 200
    while last_epoch(place) < 2:
        assert child.poll() is None, child.said.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of trainings, beside the file with the rows of some."""
    place = tmp_path_factory.mktemp("trainings")
    write_rows(place / FILE)
    yield place
    (place / FILE).unlink()


@pytest.fixture(scope="module", params=TRAININGS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def whole(name: str, folder: Path) -> dict[int, dict[str, Any]]:
    """By the number of devices, what a training ends with that nothing disturbs."""
    return {
        devices: ended(name, folder / f"{name} {devices}", devices, "said") for devices in (1, 2)
    }


@pytest.mark.parametrize("victim", ["all", "the first", "the second"])
def test_two_devices_that_are_killed_end_with_the_same_bytes(
    victim: str, name: str, folder: Path, whole: dict[int, dict[str, Any]]
) -> None:
    place = folder / f"{name} {victim}"
    child = start(name, place, 2, "said")
    until_mid_training(place, child)
    ranks = sorted(workers(child))
    if victim == "all":
        child.send(signal.SIGKILL)
        assert child.wait() == 137
    else:
        os.kill(ranks[victim == "the second"], signal.SIGKILL)
        assert child.wait() == 1
        assert "the same call continues from the last" in " ".join(child.said.read_text().split())
    # At once, while others that outlive the one that started them may still be there.
    again = ended(name, place, 2, "again")
    assert torch.equal(again["weights"], whole[2]["weights"])
    kept = {path.name for path in (place / "fit").iterdir()}
    assert kept - {"targets.ckpt"} == {"best.ckpt", "last.ckpt"}


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_training_is_continued_on_another_number_of_devices(
    before: int, after: int, name: str, folder: Path, whole: dict[int, dict[str, Any]]
) -> None:
    place = folder / f"{name} {before} {after}"
    child = start(name, place, before, "said")
    until_mid_training(place, child)
    child.send(signal.SIGKILL)
    child.wait()
    again = ended(name, place, after, "again")
    if name == "line":
        # Sums over the rows of a batch are made in another order.
        torch.testing.assert_close(again["weights"], whole[2]["weights"], rtol=1e-4, atol=1e-5)
    else:
        # Each process draws coalitions of its own.
        assert again["loss"] == pytest.approx(whole[after]["loss"], rel=0.1)


def test_no_space_for_a_checkpoint(
    name: str, folder: Path, whole: dict[int, dict[str, Any]]
) -> None:
    steps = (folder / f"{name} 1.steps").read_text().splitlines()
    written = [number for number, step in enumerate(steps) if step.endswith(" last.ckpt")]
    place = folder / f"{name} full"
    child = start(name, place, 1, "said", str(written[3]))
    assert child.wait() == 1
    said = " ".join(child.said.read_text().split())
    assert "No space left" in said
    assert "free some space" in said
    assert last_epoch(place) == 2
    assert torch.equal(ended(name, place, 1, "again")["weights"], whole[1]["weights"])
