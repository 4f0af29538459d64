"""Explains blocks on several threads of this process, each of which has some of the cores.

On one block at a time, cores idle wherever Python is at work instead of torch; and threads of torch
that share cores with other processes wait for each other at every step. One block for each core
avoids both. How many threads compute a block depends on the call alone, not on its executor, so
that the numbers are the same on any.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any, Protocol, runtime_checkable

import torch

from manifold_shap import _stopping
from manifold_shap.values.base import ValueFunction
from manifold_shap.values.forwarding import ForwardingValue
from manifold_shap.values.wrapped import CallableValue

# More threads than these wait for Python's lock.
_MOST = 8


@runtime_checkable
class _Submits(Protocol):
    """What is asked of an executor."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any: ...


def check_executor(executor: Any) -> None:
    """Raise TypeError if it is one of no kind."""
    if executor is not None and not isinstance(executor, _Submits):
        raise TypeError(
            "Expected `executor` to have a method `submit`, as those of `concurrent.futures`, but "
            f"got {executor!r:.100}; `ThreadPoolExecutor(2)` is one of two threads."
        )


def blocks_at_once(value: Any, blocks: int) -> int:
    """How many blocks to explain at a time: one for each thread of torch, up to 8.

    A function of the caller's is not called from several threads at once, nor is an accelerator.

    >>> blocks_at_once(lambda x, mask: mask.float(), 100)
    1
    """
    while isinstance(value, ForwardingValue):
        value = value.value
    if not isinstance(value, ValueFunction) or isinstance(value, CallableValue):
        return 1
    on_cpu = value.device.type == "cpu"
    return max(1, min(torch.get_num_threads(), _MOST, blocks)) if on_cpu else 1


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Let this thread compute with so many threads of torch."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def pool_for(executor: Executor | None, count: int) -> Iterator[Executor | None]:
    """The executor or, where there is none, so many threads; None for a single one.

    After an error, or Ctrl-C, the threads stop at the next step of their work.
    """
    if executor is not None or count == 1:
        yield executor
        return
    stop = Event()
    pool = ThreadPoolExecutor(count, initializer=_stopping.heed, initargs=(stop,))
    try:
        yield pool
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        # Threads to come take the number that was set last, in whatever thread that was.
        torch.set_num_threads(torch.get_num_threads())
