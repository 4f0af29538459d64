"""Measures seconds, of several works in turn, and the peak memory of a process."""

import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch

T = TypeVar("T")


def timed(work: Callable[[], T], device: torch.device | str = "cpu") -> tuple[T, float]:
    """What it returns, and its seconds, until the device has done what it was given."""
    start = time.perf_counter()
    result = work()
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
    return result, time.perf_counter() - start


def seconds(
    works: Mapping[Any, Callable[[], object]], repeats: int, device: torch.device | str = "cpu"
) -> dict[Any, float]:
    """The median of each; works alternate, so that what else the machine does meets all alike."""
    times: dict[Any, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(timed(work, device)[1])
    return {name: statistics.median(figures) for name, figures in times.items()}


def peak_memory() -> float:
    """Most megabytes that were resident at once in this process."""
    # The kernel starts a new program's `ru_maxrss` at the peak of the process that started it.
    status = Path("/proc/self/status")
    if status.exists():
        (peak,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def in_own_process(work: Callable[..., T], *arguments: Any) -> T:
    """The same in a fresh interpreter with as many threads, whose peak memory is its own."""
    threads = torch.get_num_threads()
    with ProcessPoolExecutor(
        1, get_context("spawn"), initializer=torch.set_num_threads, initargs=(threads,)
    ) as pool:
        return pool.submit(work, *arguments).result()
