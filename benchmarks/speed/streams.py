"""Growth: seconds, peak memory and disk of `explain_rows` by rows, with an estimator that computes
nothing. Workers: test rows of the census explained by one and by two Dask workers of one thread,
processes on this machine; beside them one process and two without an engine or a store.
"""

import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from distributed import Client, LocalCluster
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.explained import explanation
from benchmarks.support.measures import in_own_process, peak_memory, timed
from benchmarks.support.trained import brief_surrogate

TITLE = "Many rows, streamed"
QUICK = {"rows": [2000, 4000], "shared": 512, "pairs": 8, "epochs": 1, "repeats": 1}
PLAYERS = 13
BLOCK, SHARED_BLOCK = 4096, 256  # Rows, of the growth and of workers.


def run(
    rows: Sequence[int] = (1_000, 10_000, 100_000, 1_000_000),  # of the growth
    shared: int = 6_000,  # rows that workers share
    pairs: int = 64,  # of orders, for each row
    epochs: int = 3,  # of the surrogate
    repeats: int = 3,
) -> dict[str, Any]:
    """Points and exponents of growth, and seconds of all runs of workers."""
    by_rows = [in_own_process(streamed, count) for count in rows]
    costs = ("seconds", "peak_megabytes", "disk_megabytes")
    slopes = {c: np.polyfit(np.log(rows), np.log([o[c] for o in by_rows]), 1)[0] for c in costs}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # Workers compute with as many as this process.
    workers = by_workers(shared, pairs, epochs, repeats)
    torch.set_num_threads(threads)
    return {"growth": {"rows": by_rows, "exponents": slopes}, "workers": workers}


def nothing(value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
    """An estimator that computes nothing: numbers of the right shapes."""
    return explanation(x, x, [f"x{k}" for k in range(PLAYERS)], "")


def game(x: Tensor, mask: Tensor) -> Tensor:
    """The value function that has these values."""
    return (x[:, None] * mask).sum(-1, keepdim=True)


def streamed(rows: int) -> dict[str, float]:
    """One point, in this process."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        x = np.lib.format.open_memmap(place / "x.npy", "w+", np.float32, (rows, PLAYERS))
        x[:] = np.random.default_rng(0).standard_normal(x.shape, np.float32)
        x.flush()
        ms.explain_rows(place / "warm.zarr", game, x[:10], nothing)
        store = place / "rows.zarr"
        _, seconds = timed(lambda: ms.explain_rows(store, game, x, nothing, block=BLOCK))
        size = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    return {
        "rows": rows,
        "seconds": seconds,
        "peak_megabytes": peak_memory(),
        "disk_megabytes": size / 2**20,
    }


def by_workers(rows: int, pairs: int, epochs: int, repeats: int) -> dict[str, Any]:
    value, data = brief_surrogate("census", epochs)
    x, runs = data.x_test[torch.arange(rows) % len(data.x_test)], []
    estimator = partial(ms.permutation_shapley, permutations=2 * pairs, progress=False)
    few: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "memory_limit": None}
    with (
        tempfile.TemporaryDirectory() as scratch,
        ProcessPoolExecutor(2, get_context("spawn"), torch.set_num_threads, (1,)) as pool,
        LocalCluster(n_workers=2, threads_per_worker=1, **few) as machines,
        Client(machines) as client,
    ):
        store = Path(scratch, "rows.zarr")
        for repeat in range(-1, repeats):  # In the first one they read the value function.
            for count in (1, 2):
                some = list(client.scheduler_info(n_workers=-1)["workers"])[:count]
                how: Any = {"block": SHARED_BLOCK, "overwrite": True}
                how["executor"] = client.get_executor(workers=some)
                _, seconds = timed(partial(ms.explain_rows, store, value, x, estimator, **how))
                own = partial(alone, estimator, value)
                _, unaided = timed(lambda: list(pool.map(own, x.tensor_split(count))))  # noqa: B023
                if repeat >= 0:
                    runs.append({"workers": count, "seconds": seconds, "unaided": unaided})
    return {"runs": runs}


def alone(estimator: Any, value: ms.ValueFunction, x: Tensor) -> None:
    for rows in x.split(SHARED_BLOCK):
        estimator(value, rows)


def ratio(found: Found, what: str) -> float:
    """How many times as fast two are as one."""
    one, two = (
        statistics.median(run[what] for run in found["workers"]["runs"] if run["workers"] == count)
        for count in (1, 2)
    )
    return one / two


def tables(found: Found) -> list[Table]:
    growth = found["growth"]
    return [
        records("growth", {f"{one['rows']:,} rows": one for one in growth["rows"]}),
        records("", {"exponent against rows": growth["exponents"]}),
        Table(["speed, two / one", ""], [["workers", ratio(found, "seconds")],
              ["without an engine", ratio(found, "unaided")]]),
    ]  # fmt: skip


def summary(found: Found) -> dict[str, Any]:
    told = {f"exponent of {k} in rows": v for k, v in found["growth"]["exponents"].items()}
    told["speed of two Dask workers over one"] = ratio(found, "seconds")
    told["of two processes, without an engine"] = ratio(found, "unaided")
    return told
