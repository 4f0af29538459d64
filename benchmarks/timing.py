"""Seconds of several works, each repeated in turn, so that what else the machine does meets all."""

import statistics
import time
from collections.abc import Callable, Mapping


def seconds(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The median of each."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(figures) for name, figures in times.items()}
