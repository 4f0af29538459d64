"""Shows progress bars, by default where a person looks."""

import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

from manifold_shap._messages import check_flag

# Seconds of work before a bar appears and, where nobody looks, before it is drawn again.
_DELAY, _MINUTE = 2, 60


def progress_bar(
    progress: bool | None,
    total: int | None = None,
    name: str = "",
    unit: str = "it",
    *,
    initial: int = 0,
    over: Iterable[Any] | None = None,
) -> tqdm:
    """A bar on work of more than two seconds, in a notebook as a notebook draws it.

    Where nobody looks, as in a file of what a batch job says, it is drawn once a minute.

    Args:
        progress: whether to show a bar; by default so, but not in tests and in worker processes.
        total: steps in all.
        name: what stands before it.
        unit: what a step is called.
        initial: steps that were done earlier.
        over: what to iterate over, where the bar is to count that.

    Raises:
        TypeError: `progress` is none of True, False and None.

    >>> with progress_bar(None, total=3) as bar:
    ...     bar.update(1)
    """
    shown = watched() if progress is None else check_flag("progress", progress)
    quiet = not shown and (progress is False or _in_test_or_worker())
    often: dict[str, Any] = (
        {"delay": _DELAY} if shown else {"delay": _MINUTE, "mininterval": _MINUTE}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of a notebook without widgets: a bar of text does.
        from tqdm.auto import tqdm as drawn
    return drawn(over, name, total, unit=unit, initial=initial, disable=quiet, **often)


def announce(progress: bool | None, line: str) -> None:
    """Write a line before long work, where `progress_bar` would draw."""
    if progress or (progress is None and not _in_test_or_worker()):
        tqdm.write(line, sys.stderr)


def _in_test_or_worker() -> bool:
    return "PYTEST_CURRENT_TEST" in os.environ or multiprocessing.parent_process() is not None


def watched() -> bool:
    """Whether a person looks at what this process writes."""
    if _in_test_or_worker():
        return False
    # Code in a notebook runs in a kernel, whose standard error is no terminal.
    return sys.stderr.isatty() or "ipykernel.zmqshell" in sys.modules
