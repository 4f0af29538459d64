"""Shows progress bars, by default where a person looks."""

import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

from manifold_shap._messages import check_flag

# Seconds of work before a bar appears.
_DELAY = 2


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

    Args:
        progress: whether to show it; None where a person looks: on a terminal or in a notebook, but
            not in tests, in files and pipes that errors are written to, or in worker processes.
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
    shown = _watched() if progress is None else check_flag("progress", progress)
    if not shown:
        return tqdm(over, total=total, initial=initial, disable=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of a notebook without widgets: a bar of text does.
        from tqdm.auto import tqdm as drawn
    return drawn(over, name, total, unit=unit, initial=initial, delay=_DELAY)


def _watched() -> bool:
    """Whether a person looks at what this process writes."""
    if "PYTEST_CURRENT_TEST" in os.environ or multiprocessing.parent_process() is not None:
        return False
    # Code in a notebook runs in a kernel, whose standard error is no terminal.
    return sys.stderr.isatty() or "ipykernel.zmqshell" in sys.modules
