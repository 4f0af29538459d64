"""Stops runs at every step that they take on the disk: killed there, or with no space from there.

A moment that is chosen by the clock seldom falls between two renames. Here each state of the files
that a run goes through is one that it is killed in.
"""

import errno
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tests.hostile.campaign import Campaign, unreadable
from tests.hostile.processes import Child, forked
from tests.hostile.workloads import contents

How = Literal["killed", "full"]
# What Python tells its audit hooks of, before it does it.
_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink")
_TAKES_SPACE = ("open", "os.mkdir", "os.rename", "os.link", "os.symlink")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_KILLED = 137


def watched(
    work: Callable[[], object], place: Path, step: int | None, how: How, counted: Path
) -> None:
    """Do work in this process, which is stopped before a step on files in a directory.

    Args:
        work: the work.
        place: the directory.
        step: number of the step; None to let all of them happen.
        how: `killed`: the process ends there, with a file that it was to write cut off; `full`:
            there is no space from there on.
        counted: a file that receives the steps, a line for each.
    """
    steps: list[str] = []
    ended: list[bool] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if ended or not _is_change(event, arguments, place):
            return
        # Of a rename, what it is called then.
        path = arguments[1 if event == "os.rename" else 0]
        steps.append(f"{event} {Path(os.fsdecode(path)).name}")
        if step is None or len(steps) <= step:
            return
        if how == "full" and event in _TAKES_SPACE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[0]))
        if how == "killed":
            ended.append(True)
            if event == "open":
                os.close(os.open(arguments[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
            os._exit(_KILLED)

    sys.addaudithook(hook)
    try:
        work()
    finally:
        ended.append(True)
        counted.write_text("\n".join(steps))


def _is_change(event: str, arguments: tuple[Any, ...], place: Path) -> bool:
    if event == "open":
        path, _, flags = arguments
        changes = isinstance(path, (str, bytes, os.PathLike)) and flags & _WRITES
    else:
        path, changes = arguments[0] if arguments else "", event in _CHANGES
    # Of directories that are removed as a whole, paths are relative to an open one.
    return bool(changes) and (not os.path.isabs(path) or os.fsdecode(path).startswith(f"{place}/"))


def steps_of(own: Campaign, what: str) -> list[str]:
    """The steps of a run that nothing disturbs: the event, and the name of the file."""
    place = own.prepared(what)
    child, counted = _stopped(own, what, place, None, "killed")
    assert child.wait() == 0, child.said.read_text()
    return counted.read_text().splitlines()


def is_set_aside(step: str) -> bool:
    """Whether it makes room for what is about to come to a path."""
    return step.startswith("os.rename ") and step.endswith(".old")


def stopped(own: Campaign, what: str, step: int, how: How) -> list[str]:
    """What is not as promised where a run is stopped at a step, and then run again."""
    place = own.prepared(what)
    before = contents(place)
    child, _ = _stopped(own, what, place, step, how)
    status, said, misses = child.wait(), child.said.read_text(), []
    if status == 0 and how == "full":
        # Only what is removed can fail without a word.
        return own.misses_in_the_end(what, place, again=False)
    if status != (_KILLED if how == "killed" else 1):
        misses.append(f"exit status {status}: {said[-800:]}")
    elif how == "full":
        misses += _misses_of_message(what, said)
    return misses + unreadable(place, before) + own.misses_in_the_end(what, place)


def _stopped(
    own: Campaign, what: str, place: Path, step: int | None, how: How
) -> tuple[Child, Path]:
    counted = own.place / f"{place.name}.counted"
    work = partial(own.runs[what].run, place, False)
    said = own.place / f"{place.name}.said"
    return forked(partial(watched, work, place, step, how, counted), said), counted


def _misses_of_message(what: str, said: str) -> list[str]:
    """Whether the end says that there is no space; a command does so in one line."""
    errors = [line for line in said.splitlines() if "Error" in line]
    is_clear = bool(errors) and "No space left" in errors[-1]
    if what in ("train", "explain"):
        is_clear = is_clear and "Traceback" not in said
        is_clear = is_clear and ("free some space" in errors[-1] or "runs_dir=" in errors[-1])
    return [] if is_clear else [f"unclear: {said[-1500:]}"]
