"""How streamed rows grow, what a billion of them would take, and what breaks first.

*Rows* and *blocks* are measured with an estimator that computes nothing, so that what is left is
`explain_rows` itself: seconds and peak memory by rows, in blocks of the same size, and seconds by
blocks, of the same rows. *Workers*: the same with two Dask workers of one thread, where seconds per
block are those of the scheduler, of this process, and of a worker that does nothing else.

The rest is simulated from these and from stored results (`speed/million`, `speed/matched`): workers
take blocks from one process, which is busy for each of them by turns; a worker that dies, of which
each does once a day, loses the block that it was at. Hours are those to a billion rows.
"""

import heapq
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from distributed import Client
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.speed.engines import cluster
from benchmarks.timing import in_own_process, peak_memory, timed

TITLE = "A billion rows, on paper"
QUICK = {"rows": [2000, 4000], "blocks": [16, 64], "on_dask": 16, "cores": [1, 64]}
RESULTS = Path(__file__).resolve().parents[1] / "results"
BILLION, PLAYERS, OUTPUTS, DAY = 10**9, 13, 2, 86_400.0


def run(
    rows: Sequence[int] = (10_000, 100_000, 1_000_000),
    blocks: Sequence[int] = (8, 32, 128, 512),  # of `few` rows
    few: int = 8192,
    block: int = 4096,
    on_dask: int = 128,  # blocks of `block` rows
    cores: Sequence[int] = (2, 16, 64, 256, 1024),
) -> dict[str, Any]:
    """Points, exponents, seconds per block, and hours to a billion rows by cores."""
    by_rows = [in_own_process(streamed, count, block) for count in rows]
    by_blocks = [in_own_process(streamed, few, few // count) for count in blocks]
    dask = shared(on_dask, block)
    slope, _ = np.polyfit(blocks, [one["seconds"] for one in by_blocks], 1)
    return {
        "rows": by_rows,
        "blocks": by_blocks,
        "exponents": {
            cost: exponent(rows, [one[cost] for one in by_rows])
            for cost in ("seconds", "peak_megabytes", "disk_megabytes")
        },
        "seconds_per_block": {"threads": float(slope), "Dask": dask},
        "hours": {
            name: {str(count): hours(rate, block, count, dask) for count in cores}
            for name, rate in rates().items()
        },
    }


class Nothing:
    """An estimator that computes nothing: numbers of the right shapes."""

    def __call__(self, value: Any, x: Tensor, seed: int = 0) -> ms.Explanation:
        phi = x[..., None].expand(*x.shape, OUTPUTS).contiguous()
        names = tuple(f"class {k}" for k in range(OUTPUTS))
        return ms.Explanation(
            phi, torch.zeros_like(phi), torch.zeros(len(x), OUTPUTS), phi.sum(1), x,
            ms.Players.of_elements(x.shape[1:]), names, ms.spaces.Identity(),
            made_by={"estimator": "nothing", "evaluations": 0},
        )  # fmt: skip


def game(x: Tensor, mask: Tensor) -> Tensor:
    """The value function that has these values."""
    return (x[:, None] * mask).sum(-1, keepdim=True).expand(*mask.shape[:2], OUTPUTS)


def streamed(rows: int, block: int) -> dict[str, float]:
    """One point, in this process."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        x = np.lib.format.open_memmap(place / "x.npy", "w+", np.float32, (rows, PLAYERS))
        x[:] = np.random.default_rng(0).standard_normal(x.shape, np.float32)
        x.flush()
        ms.explain_rows(place / "warm.zarr", game, x[:10], Nothing())
        before, store = peak_memory(), place / "rows.zarr"
        _, seconds = timed(lambda: ms.explain_rows(store, game, x, Nothing(), block=block))
        size = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    point = {
        "rows": rows,
        "blocks": -(-rows // block),
        "seconds": seconds,
        "peak_megabytes": peak_memory(),
        "megabytes_of_the_work": peak_memory() - before,
        "disk_megabytes": size / 2**20,
    }
    print(point, flush=True)
    return point


def shared(blocks: int, size: int) -> float:
    """Seconds per block of so many rows on Dask."""
    x = torch.randn(blocks * size, PLAYERS)
    value = ms.as_value_function(game, x[:1])
    with tempfile.TemporaryDirectory() as scratch, cluster() as machines, Client(machines) as one:
        place = Path(scratch)
        given = {"block": size, "executor": one.get_executor()}
        ms.explain_rows(place / "warm.zarr", value, x[: 4 * size], Nothing(), **given)
        _, seconds = timed(
            lambda: ms.explain_rows(place / "rows.zarr", value, x, Nothing(), **given)
        )
    return seconds / blocks


def exponent(sizes: Iterable[int], costs: Iterable[float]) -> float:
    """The slope of log(cost) against log(size)."""
    return float(np.polyfit(np.log(list(sizes)), np.log(list(costs)), 1)[0])


def rates() -> dict[str, float]:
    """Rows per second and core, of two cores as they were measured."""
    million, matched = (
        json.loads((RESULTS / f"{name}.json").read_text())["found"]
        for name in ("million", "matched")
    )
    auto = matched["here, 32-true"]
    return {
        "amortised, with an audit": million["stream"]["rows_per_second"] / 2,
        "auto, at the error of 64 pairs": auto["rows per second"] / 2,
        "64 pairs of permutations": auto["of 64 pairs"] / 2,
    }


def hours(rate: float, block: int, workers: int, each: float, seed: int = 0) -> float:
    """To a billion rows, from a simulation of the first 20 blocks of each worker, and of 2,000."""
    rng, blocks = np.random.default_rng(seed), max(2000, 20 * workers)
    # When each worker is free, and when the one process that serves them is.
    free, served, done = [0.0] * workers, 0.0, 0
    while done < blocks:
        served = max(served, heapq.heappop(free)) + each
        # Blocks differ by a tenth; one in which its worker dies is begun again elsewhere.
        took = block / rate * max(0.1, rng.normal(1, 0.1))
        lives = rng.random() >= took / DAY
        done += lives
        heapq.heappush(free, served + took)
    # Up to when the last block is begun, all workers are at work.
    return served / done * (BILLION / block) / 3600


def tables(found: Found) -> list[Table]:
    points = {f"{one['rows']:,} rows in {one['blocks']:,} blocks": one
              for one in (*found["rows"], *found["blocks"])}  # fmt: skip
    perfect: Mapping[str, Any] = {f"{name}, hours": one for name, one in found["hours"].items()}
    return [
        records("", points),
        records("", {"exponent against rows": found["exponents"]}),
        records("", {"seconds per block": found["seconds_per_block"]}),
        records("a billion rows, by cores", perfect),
    ]
