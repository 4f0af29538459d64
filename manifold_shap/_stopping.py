"""Lets long work in a thread stop between two steps, when nobody waits for it any more."""

import threading
from concurrent.futures import CancelledError


class _Own(threading.local):
    stop: threading.Event | None = None


_own = _Own()


def heed(stop: threading.Event) -> None:
    """From now on, work in this thread stops when the event is set."""
    _own.stop = stop


def stop_if_asked() -> None:
    """Raise CancelledError if work in this thread should stop."""
    if _own.stop is not None and _own.stop.is_set():
        raise CancelledError("Nobody waits for this work any more.")
