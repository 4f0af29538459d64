"""How long a work takes that is done once."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it returns, and its seconds."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start
