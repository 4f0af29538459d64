"""A hundred thousand rows explained into a store: memory, speed, and two processes against one.

A surrogate for the census data is briefly trained; test rows, repeated until there are enough, are
then explained into zarr stores, by fresh processes of one thread each. Figures: peak memory with
many rows against that with few (the rows themselves included); rows per second of two processes
against one on few rows, without their start; and whether the two have written the same bytes. Sides
alternate; times are medians.
"""

import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.trained import brief_surrogate
from benchmarks.timing import in_own_process, peak_memory, timed

TITLE = "A hundred thousand rows"
QUICK = {"few": 200, "many": 400, "pairs": 4, "epochs": 1, "repeats": 1}


def run(
    few: int = 10_000,  # rows
    many: int = 100_000,  # rows
    pairs: int = 64,  # of orders, for each row
    epochs: int = 3,  # of the surrogate
    repeats: int = 3,  # of the runs on few rows
) -> dict[str, Any]:
    """Seconds and peak memory of every run."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        value, data = brief_surrogate("census", epochs)
        torch.save((value, data.x_test), place / "work.pt")
        runs = [
            in_own_process(explain, place, few, processes, pairs)
            for _ in range(repeats)
            for processes in (1, 2)
        ]
        same = same_bytes(place / f"{few}-1.zarr", place / f"{few}-2.zarr")
        runs.append(in_own_process(explain, place, many, 2, pairs))
    return {"runs": runs, "same_bytes": same}


def explain(place: Path, rows: int, processes: int, pairs: int) -> dict[str, Any]:
    """Explain so many rows, and say what it took."""
    torch.set_num_threads(1)
    value, x = torch.load(place / "work.pt", weights_only=False)
    x = x[torch.arange(rows) % len(x)]
    estimator = partial(ms.permutation_shapley, permutations=2 * pairs)
    store = place / f"{rows}-{processes}.zarr"
    spawn = get_context("spawn")
    with ProcessPoolExecutor(processes, spawn, torch.set_num_threads, (1,)) as pool:
        for begun in [pool.submit(ms.Players.of_elements, (2,)) for _ in range(processes)]:
            begun.result()  # Every process has imported the package.
        executor = pool if processes > 1 else None
        _, seconds = timed(
            partial(ms.explain_rows, store, value, x, estimator, executor=executor, overwrite=True)
        )
        peak = pool.submit(peak_memory).result() if executor else peak_memory()
    print(rows, processes, seconds, flush=True)
    return {"rows": rows, "processes": processes, "seconds": seconds, "peak_megabytes": peak}


def same_bytes(one: Path, other: Path) -> bool:
    files = [{p.relative_to(s): p for p in s.rglob("*") if p.is_file()} for s in (one, other)]
    return files[0].keys() == files[1].keys() and all(
        path.read_bytes() == files[1][name].read_bytes() for name, path in files[0].items()
    )


def median(found: Found, key: str, rows: int, processes: int) -> float:
    of = [o[key] for o in found["runs"] if (o["rows"], o["processes"]) == (rows, processes)]
    return statistics.median(of)


def tables(found: Found) -> list[Table]:
    few, many = (f(one["rows"] for one in found["runs"]) for f in (min, max))
    peak = median(found, "peak_megabytes", many, 2) / median(found, "peak_megabytes", few, 2)
    faster = median(found, "seconds", few, 1) / median(found, "seconds", few, 2)
    ratios = [["peak memory, many rows / few", peak], ["speed, two processes / one", faster]]
    runs = {f"run {number + 1}": one for number, one in enumerate(found["runs"])}
    return [records("", runs), Table(["", ""], [*ratios, ["same bytes", found["same_bytes"]]])]
