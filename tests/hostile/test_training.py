"""Trainings on two devices are killed, and continued on as many or on another number."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch

from tests.hostile.processes import Child, started

pytestmark = pytest.mark.slow


def start(place: Path, devices: int, said: str) -> Child:
    place.mkdir(exist_ok=True)
    words = ["-m", "tests.hostile.training", str(place), str(devices)]
    return started(words, place / said)


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
    last = place / "fit" / "last.ckpt"
    deadline = time.monotonic() + 200
    while not last.exists() or torch.load(last, weights_only=True)["epoch"] < 2:
        assert child.poll() is None, child.said.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> torch.Tensor:
    """What two devices end with that nothing disturbs."""
    place = tmp_path_factory.mktemp("whole")
    child = start(place, 2, "said")
    assert child.wait() == 0, child.said.read_text()
    return torch.load(place / "line.pt")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found by /proc")
@pytest.mark.parametrize("victim", ["all", "the first", "the second"])
def test_two_devices_that_are_killed_end_with_the_same_bytes(
    victim: str, tmp_path: Path, whole: torch.Tensor
) -> None:
    child = start(tmp_path, 2, "said")
    until_mid_training(tmp_path, child)
    ranks = sorted(workers(child))
    if victim == "all":
        child.send(signal.SIGKILL)
        assert child.wait() == 137
    else:
        os.kill(ranks[victim == "the second"], signal.SIGKILL)
        assert child.wait() == 1
        assert "the same call continues from the last" in " ".join(child.said.read_text().split())
    # At once, while others that outlive the one that started them may still be there.
    again = start(tmp_path, 2, "again")
    assert again.wait() == 0, again.said.read_text()
    assert torch.equal(torch.load(tmp_path / "line.pt"), whole)
    assert sorted(path.name for path in (tmp_path / "fit").iterdir()) == ["best.ckpt", "last.ckpt"]


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_training_is_continued_on_another_number_of_devices(
    before: int, after: int, tmp_path: Path, whole: torch.Tensor
) -> None:
    child = start(tmp_path, before, "said")
    until_mid_training(tmp_path, child)
    child.send(signal.SIGKILL)
    child.wait()
    again = start(tmp_path, after, "again")
    assert again.wait() == 0, again.said.read_text()
    # Sums over the rows of a batch are made in another order.
    torch.testing.assert_close(torch.load(tmp_path / "line.pt"), whole, rtol=1e-4, atol=1e-5)
