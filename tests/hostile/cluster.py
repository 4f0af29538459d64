"""A cluster of Dask on loopback: a scheduler and two workers, in processes of their own."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hostile.processes import started


@contextmanager
def on_loopback(record: Path, none: bool = False) -> Iterator[str | None]:
    """A cluster for as long as the context is open; its address, or None if there is to be none.

    Args:
        record: a file that tells the address, and the workers.
        none: start nothing.
    """
    if none:
        yield None
        return
    child = started(["-m", "tests.hostile.cluster", str(record)], record.with_suffix(".said"))
    try:
        deadline = time.monotonic() + 120
        while not record.exists():
            if child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(child.said.read_text())
            time.sleep(0.05)
        yield json.loads(record.read_text())["address"]
    finally:
        child.send(signal.SIGTERM)
        child.wait()


def kill_worker(record: Path, sent: signal.Signals) -> None:
    """Send a signal to a process that works; a nanny starts another one for it."""
    deadline = time.monotonic() + 30
    while True:
        try:
            os.kill(json.loads(record.read_text())["workers"][0], sent)
            return
        except ProcessLookupError:
            # Killed before, and the record is yet to name the one that was started in its place.
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _serve(record: Path) -> None:
    from distributed import LocalCluster

    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(host="127.0.0.1", memory_limit=0, **options) as cluster:
        # Imported once by each, and not while a run is timed.
        with cluster.get_client() as client:
            client.run(__import__, "tests.hostile.workloads")
        while True:
            cluster.scale(2)  # A worker that is away for long is given up, nanny and all.
            workers = [
                nanny.process.pid for nanny in cluster.workers.values() if nanny.process is not None
            ]
            if len(workers) == 2 and all(workers):
                beside = record.with_suffix(".next")
                beside.write_text(
                    json.dumps({"address": cluster.scheduler_address, "workers": workers})
                )
                beside.replace(record)
            time.sleep(0.1)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
