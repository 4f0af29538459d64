"""How streamed rows grow: seconds, peak memory and disk of `explain_rows` by rows.

The estimator computes nothing, so that what is left is `explain_rows` itself, in blocks of the same
size.
"""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.timing import in_own_process, peak_memory, timed

TITLE = "Many rows, streamed"
QUICK = {"rows": [2000, 4000]}
PLAYERS, OUTPUTS = 13, 2


def run(rows: Sequence[int] = (10_000, 100_000, 1_000_000), block: int = 4096) -> dict[str, Any]:
    """Points, and exponents of their costs."""
    by_rows = [in_own_process(streamed, count, block) for count in rows]
    return {
        "rows": by_rows,
        "exponents": {
            cost: exponent(rows, [one[cost] for one in by_rows])
            for cost in ("seconds", "peak_megabytes", "disk_megabytes")
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


def exponent(sizes: Iterable[int], costs: Iterable[float]) -> float:
    """The slope of log(cost) against log(size)."""
    return float(np.polyfit(np.log(list(sizes)), np.log(list(costs)), 1)[0])


def tables(found: Found) -> list[Table]:
    points = {f"{one['rows']:,} rows in {one['blocks']:,} blocks": one for one in found["rows"]}
    return [records("", points), records("", {"exponent against rows": found["exponents"]})]
