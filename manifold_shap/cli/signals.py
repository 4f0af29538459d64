"""Ends a command at once on SIGTERM, and on Ctrl-C wherever it comes."""

import _thread
import multiprocessing
import os
import signal
import sys
import threading
from typing import Any

# Exit statuses on Ctrl-C and on SIGTERM.
INTERRUPTED, _TERMINATED = 130, 143
# Seconds after which Ctrl-C comes again, where it was swallowed.
_SOON = 0.05


def install_handlers() -> None:
    """Let SIGTERM end this process, and Ctrl-C interrupt it even where Python swallows that."""
    signal.signal(signal.SIGTERM, _terminate)
    report = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        # What a finaliser raises Python swallows.
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            # By then the finaliser has ended.
            threading.Timer(_SOON, _interrupt).start()
        else:
            report(unraisable)

    sys.unraisablehook = hook


def _interrupt() -> None:
    """Interrupt the main thread, and what it waits for."""
    main = threading.main_thread().ident
    if sys.platform == "win32" or main is None:
        _thread.interrupt_main()
    else:
        signal.pthread_kill(main, signal.SIGINT)


def _terminate(*_: Any) -> None:
    """End this process and those that it started; nothing in between can delay or swallow it."""
    for child in multiprocessing.active_children():
        child.kill()
    sys.stdout.flush()
    os._exit(_TERMINATED)
