"""Seconds of a work, and of several in turn, so that what else the machine does meets all alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it returns, and its seconds."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def seconds(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The median of each."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(timed(work)[1])
    return {name: statistics.median(figures) for name, figures in times.items()}
