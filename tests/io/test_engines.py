"""Engines whose processes live and die by themselves write the bytes that one process writes."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path
from threading import Thread
from typing import Any

import pandas as pd
import pytest

import manifold_shap as ms
from manifold_shap.io import transfer
from manifold_shap.io.files import load_checkpoint
from tests.io.shared import FEW, FRAME, ROWS, Watched, allow_failures, drawn_value, game, stuck
from tests.io.test_streaming import contents

distributed = pytest.importorskip("distributed")

BLOCK = 4
BLOCKS = len(ROWS) // BLOCK


class Cluster:
    """A Dask scheduler and its workers of one thread, each a process of its own on loopback."""

    def __init__(self, place: Path, root: Path) -> None:
        self.place, self.root = place, root
        self.scheduler: subprocess.Popen | None = None
        self.workers: list[subprocess.Popen] = []

    @property
    def file(self) -> Path:
        """Where the scheduler says its address."""
        return self.place / "scheduler.json"

    def _start(self, module: str, *words: str) -> subprocess.Popen:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        common = ["--no-dashboard", "--scheduler-file", str(self.file), "--host", "127.0.0.1"]
        command = [sys.executable, "-m", f"distributed.cli.{module}", *common, *words]
        return subprocess.Popen(command, cwd=self.root, **quiet)

    def join(self) -> None:
        """Start one more worker."""
        alone = ["--no-nanny", "--nthreads", "1", "--local-directory", str(self.place)]
        self.workers.append(self._start("dask_worker", *alone))

    def client(self, workers: int) -> Any:
        """A client of so many living workers, after what lacks is started."""
        if self.scheduler is None or self.scheduler.poll() is not None:
            self.close()
            self.scheduler = self._start("dask_scheduler", "--port", "0")
            while not self.file.exists():
                time.sleep(0.02)
        self.workers = [each for each in self.workers if each.poll() is None]
        while len(self.workers) > workers:
            worker = self.workers.pop()
            worker.kill()
            worker.wait()
        for _ in range(workers - len(self.workers)):
            self.join()
        client = distributed.Client(scheduler_file=str(self.file), timeout=60)
        client.wait_for_workers(workers, 120)
        return client

    def close(self) -> None:
        for process in (*self.workers, *([self.scheduler] if self.scheduler else [])):
            process.kill()
            process.wait()
        self.file.unlink(missing_ok=True)
        self.workers = []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("dask"), root)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process writes."""
    path = tmp_path_factory.mktemp("whole") / "rows.zarr"
    ms.explain_rows(path, game, ROWS, FEW, block=BLOCK)
    return contents(path)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    (tmp_path / "begun").mkdir()
    return Watched(tmp_path / "begun", seconds=0.2)


def when(condition: Callable[[], bool], act: Callable[[], object]) -> Thread:
    """Another thread that acts as soon as a condition holds."""

    def wait() -> None:
        while not condition():
            time.sleep(0.01)
        act()

    thread = Thread(target=wait, daemon=True)
    thread.start()
    return thread


def run(path: Path, estimator: Any, executor: Executor | None = None, **changes: Any) -> int:
    return ms.explain_rows(path, game, ROWS, estimator, block=BLOCK, executor=executor, **changes)


def test_dask_workers_write_what_one_process_does(
    cluster: Cluster, tmp_path: Path, watched: Watched, whole: dict[str, bytes]
) -> None:
    watched.seconds = 0.05
    with cluster.client(workers=2) as client:
        assert run(tmp_path / "rows.zarr", watched, client.get_executor()) == len(ROWS)
    assert contents(tmp_path / "rows.zarr") == whole
    begun = watched.begun()
    assert len(begun) == len(set(begun)) == BLOCKS
    assert {process for _, process in begun} <= {worker.pid for worker in cluster.workers}


def test_threads_of_one_worker_share_the_value_function(
    tmp_path: Path, watched: Watched, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = list[Path]()

    def counted(path: Path, kind: str) -> dict[str, Any]:
        reads.append(path)
        time.sleep(0.1)
        return load_checkpoint(path, kind)

    monkeypatch.setattr(transfer, "load_checkpoint", counted)
    few: dict[str, Any] = {
        "n_workers": 1,
        "threads_per_worker": 3,
        "dashboard_address": "127.0.0.1:0",
    }
    with distributed.Client(processes=False, **few) as client:
        assert run(tmp_path / "rows.zarr", watched, client.get_executor()) == len(ROWS)
    assert contents(tmp_path / "rows.zarr") == whole
    assert len(reads) == 1


def test_processes_of_loky_write_what_one_process_does(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    loky = pytest.importorskip("loky")
    executor = loky.ProcessPoolExecutor(1)
    try:
        assert run(tmp_path / "rows.zarr", FEW, executor) == len(ROWS)
    finally:
        executor.shutdown()
    assert contents(tmp_path / "rows.zarr") == whole


@pytest.mark.parametrize("parts", [2, 5])
def test_frames_of_dask_are_explained_as_pandas_has_them(
    cluster: Cluster, tmp_path: Path, parts: int
) -> None:
    dataframe = pytest.importorskip("dask.dataframe")
    frame = FRAME.assign(key=range(len(ROWS)))
    explain_frame = ms.FrameExplainer(tmp_path / "value.ckpt", drawn_value(), FEW, keep=["key"])
    table = dataframe.from_pandas(frame, npartitions=parts)
    with cluster.client(workers=2):
        lazy = table.map_partitions(explain_frame, meta=explain_frame(table.head(0)))
        assert list(lazy.columns) == ["key", *explain_frame.columns]
        pd.testing.assert_frame_equal(lazy.compute(), explain_frame(frame), check_exact=True)


class Again(Executor):
    """Makes every call twice, as for a process that was taken for lost."""

    def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        call(*args, **kwargs)
        future.set_result(call(*args, **kwargs))
        return future


class Cancels(Executor):
    """Makes no call."""

    def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


def test_a_finished_block_is_not_explained_again(
    tmp_path: Path, watched: Watched, whole: dict[str, bytes]
) -> None:
    watched.seconds = 0.0
    assert run(tmp_path / "rows.zarr", watched, Again()) == len(ROWS)
    assert len(watched.begun()) == BLOCKS
    assert contents(tmp_path / "rows.zarr") == whole


def test_calls_that_an_executor_cancels_are_told(tmp_path: Path) -> None:
    message = r"has cancelled some.*scheduler is lost.*\n0 of 96 rows are kept .*resume=True"
    with pytest.raises(BrokenExecutor, match=message):
        run(tmp_path / "rows.zarr", FEW, Cancels())


@pytest.mark.slow
def test_a_killed_worker_costs_one_block_and_another_may_join(
    cluster: Cluster, tmp_path: Path, watched: Watched, whole: dict[str, bytes]
) -> None:
    def processes() -> set[int]:
        return {process for _, process in watched.begun()}

    with cluster.client(workers=1) as client:
        watched.seconds = 0.5
        (first,) = cluster.workers
        late = when(lambda: len(watched.begun()) > 2, cluster.join)
        kill = when(lambda: len(processes()) > 1, first.kill)
        assert run(tmp_path / "rows.zarr", watched, client.get_executor()) == len(ROWS)
    late.join(10)
    kill.join(10)
    assert first.wait(10) == -9
    assert contents(tmp_path / "rows.zarr") == whole
    begun = [seed for seed, _ in watched.begun()]
    assert len(set(begun)) == BLOCKS
    assert len(begun) <= BLOCKS + 1


@pytest.mark.slow
def test_blocks_that_kill_every_worker_end_the_call(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.client(workers=1) as client:
        client.run_on_scheduler(allow_failures, count=0)
        with pytest.raises(distributed.KilledWorker) as raised:
            run(tmp_path / "rows.zarr", stuck, client.get_executor())
        assert "resume=True" in raised.value.__notes__[0]
        client.run_on_scheduler(allow_failures)


@pytest.mark.slow
def test_a_run_whose_scheduler_is_lost_is_resumed(
    cluster: Cluster, tmp_path: Path, watched: Watched, whole: dict[str, bytes]
) -> None:
    path = tmp_path / "rows.zarr"
    client = cluster.client(workers=1)
    assert cluster.scheduler is not None
    kill = when(lambda: len(watched.begun()) > 5, cluster.scheduler.kill)
    with pytest.raises(BrokenExecutor, match=r"scheduler is lost.*\n\d+ of 96 rows .*resume=True"):
        run(path, watched, client.get_executor())
    kill.join(10)
    client.close()
    done = len(ROWS) - run(path, FEW, resume=True)
    assert done >= BLOCK
    assert contents(path) == whole
