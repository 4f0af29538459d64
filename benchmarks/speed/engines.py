"""Rows explained by Dask workers: two against one, and what a killed one costs.

A surrogate for the census data is briefly trained; test rows, repeated until there are enough, are
then explained into zarr stores by workers of one thread each, which are processes of one cluster on
this machine. They have read the value function before the time starts. Beside them, what the
machine itself gives: one process and two that explain as many rows in the same blocks, each for
itself, without an engine or a store. Sides alternate; times are medians. Then, again and again, one
of two workers is killed by SIGKILL after a third of the blocks was begun, its nanny starts another
one, and all blocks that were begun are counted: those beyond the number of blocks were explained
twice.
"""

import os
import signal
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

from distributed import Client, LocalCluster
from torch import Tensor, arange, get_num_threads, set_num_threads

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.trained import brief_surrogate
from benchmarks.timing import timed

TITLE = "Dask workers"
QUICK = {"rows": 512, "block": 64, "pairs": 8, "epochs": 1, "repeats": 1, "kills": 1}


class Noted:
    """An estimator that leaves a file for every block that it begins."""

    def __init__(self, place: Path, pairs: int) -> None:
        self.place, self.pairs = place, pairs

    def __call__(self, value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
        if len(x) > 1:  # Not the first row alone.
            (self.place / f"{os.getpid()}.{uuid4().hex}").touch()
        return ms.permutation_shapley(
            value, x, permutations=2 * self.pairs, seed=seed, progress=False
        )

    def begun(self) -> int:
        """How many blocks."""
        return len(list(self.place.iterdir()))


def run(
    rows: int = 20_000,
    block: int = 256,  # rows of one
    pairs: int = 64,  # of orders, for each row
    epochs: int = 3,  # of the surrogate
    repeats: int = 5,
    kills: int = 20,
) -> dict[str, Any]:
    """Seconds of every run, whether bytes are the same, and blocks begun beyond what there are."""
    value, data = brief_surrogate("census", epochs)
    x = data.x_test[arange(rows) % len(data.x_test)]
    runs, lost, same, threads = [], [], [], get_num_threads()
    set_num_threads(1)  # Workers compute with as many as this process.
    with (
        tempfile.TemporaryDirectory() as scratch,
        ProcessPoolExecutor(2, get_context("spawn"), set_num_threads, (1,)) as pool,
        cluster() as machines,
        Client(machines) as client,
    ):
        place = Path(scratch)
        explain = partial(_explain, place, value, x, block, pairs)
        explain("alone", None)
        for repeat in range(-1, repeats):  # In the first one they read the value function.
            for workers in (1, 2):
                some = list(client.scheduler_info(n_workers=-1)["workers"])[:workers]
                seconds, _ = explain("shared", client.get_executor(workers=some))
                same.append(same_bytes(place / "alone.zarr", place / "shared.zarr"))
                parts = (value, x.tensor_split(workers), block, pairs)
                _, unaided = timed(partial(explain_parts, pool, *parts))
                if repeat >= 0:
                    runs.append({"workers": workers, "seconds": seconds, "unaided": unaided})
        for _ in range(kills):
            machines.scale(2)  # Nannies give up a worker that is away for long.
            client.wait_for_workers(2)
            victim = next(iter(client.run(os.getpid, on_error="ignore").values()))
            _, begun = explain("shared", client.get_executor(), victim)
            same.append(same_bytes(place / "alone.zarr", place / "shared.zarr"))
            lost.append(begun - -(-rows // block))
    set_num_threads(threads)
    return {"runs": runs, "begun_twice": lost, "same_bytes": all(same)}


def cluster() -> LocalCluster:
    """Two workers of one thread."""
    few: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "memory_limit": None}
    return LocalCluster(n_workers=2, threads_per_worker=1, **few)


def explain_parts(
    pool: Executor, value: ms.ValueFunction, parts: Sequence[Tensor], block: int, pairs: int
) -> None:
    """Each part by a process of its own, block by block."""
    list(pool.map(_explain_part, *zip(*((value, x, block, pairs) for x in parts), strict=True)))


def _explain_part(value: ms.ValueFunction, x: Tensor, block: int, pairs: int) -> None:
    for rows in x.split(block):
        ms.permutation_shapley(value, rows, permutations=2 * pairs, progress=False)


def _explain(
    place: Path,
    value: ms.ValueFunction,
    x: Tensor,
    block: int,
    pairs: int,
    name: str,
    executor: Any,
    victim: int | None = None,
) -> tuple[float, int]:
    """Seconds, and how many blocks were begun; the victim is killed after a third of these."""
    notes = place / uuid4().hex
    notes.mkdir()
    estimator = Noted(notes, pairs)

    def kill(process: int) -> None:
        while estimator.begun() < len(x) / block / 3:
            time.sleep(0.005)
        os.kill(process, signal.SIGKILL)

    if victim is not None:
        Thread(target=kill, args=(victim,), daemon=True).start()
    store = place / f"{name}.zarr"
    settings: Any = {"block": block, "executor": executor, "overwrite": True}
    _, seconds = timed(lambda: ms.explain_rows(store, value, x, estimator, **settings))
    print(name, seconds, estimator.begun(), flush=True)
    return seconds, estimator.begun()


def ratio(found: Found, what: str) -> float:
    """How many times as fast two are as one."""
    one, two = (
        statistics.median(run[what] for run in found["runs"] if run["workers"] == workers)
        for workers in (1, 2)
    )
    return one / two


def same_bytes(one: Path, other: Path) -> bool:
    """Whether two stores have the same files."""
    files = [{p.relative_to(s): p for p in s.rglob("*") if p.is_file()} for s in (one, other)]
    return files[0].keys() == files[1].keys() and all(
        path.read_bytes() == files[1][name].read_bytes() for name, path in files[0].items()
    )


def tables(found: Found) -> list[Table]:
    lost = found["begun_twice"]
    figures = [
        ["speed, two workers / one", ratio(found, "seconds")],
        ["speed, two processes / one, without an engine", ratio(found, "unaided")],
        ["kills", len(lost)],
        ["blocks explained twice per kill, most", max(lost, default=0)],
        ["same bytes", found["same_bytes"]],
    ]
    runs = {f"run {number + 1}": one for number, one in enumerate(found["runs"])}
    return [records("", runs), Table(["", ""], figures)]
