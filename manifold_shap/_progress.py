"""Shows progress bars, by default where a person looks."""

import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

from manifold_shap._messages import check_flag

# Seconds of work before a bar appears, and from line to line where there is none.
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

    Where nobody looks, as in a file of what a batch job says, a line a minute.

    Args:
        progress: whether to show a bar; None where a person looks, on a terminal or in a notebook,
            and lines elsewhere, but nothing in tests and in worker processes.
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
    if not shown:
        quiet = progress is False or _in_test_or_worker()
        return _Lines(over, name, total, unit=unit, initial=initial, disable=quiet)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of a notebook without widgets: a bar of text does.
        from tqdm.auto import tqdm as drawn
    return drawn(over, name, total, unit=unit, initial=initial, delay=_DELAY)


class _Lines(tqdm):
    """A line of text every minute in place of a bar."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        often = {"mininterval": _MINUTE, "maxinterval": _MINUTE, "delay": _MINUTE, "miniters": 1}
        form = "{desc}: {percentage:.0f} % of {total_fmt}, {rate_fmt}, {remaining} left"
        every: dict[str, Any] = {**often, "bar_format": form, **settings}
        super().__init__(*args, **every)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        self.fp.write(f"{msg or self}\n")
        self.fp.flush()

    def close(self) -> None:
        if not self.disable and self.last_print_t > self.start_t:
            self.display()
        self.disable = True  # Else an empty line would end the bar.
        super().close()


def _in_test_or_worker() -> bool:
    return "PYTEST_CURRENT_TEST" in os.environ or multiprocessing.parent_process() is not None


def watched() -> bool:
    """Whether a person looks at what this process writes."""
    if _in_test_or_worker():
        return False
    # Code in a notebook runs in a kernel, whose standard error is no terminal.
    return sys.stderr.isatty() or "ipykernel.zmqshell" in sys.modules
