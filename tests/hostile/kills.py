"""Kills runs at moments spread over them, runs them again, and compares what they end with."""

import random
import signal
import time
from dataclasses import dataclass
from typing import Any

from tests.hostile import cluster
from tests.hostile.campaign import Campaign, unreadable
from tests.hostile.workloads import contents

SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
# Of each: kills in forked processes, and in fresh ones.
COUNTS = {"train": (60, 10), "explain": (42, 8), "stream": (34, 6), "dask": (22, 6)}
WORKERS_KILLED = 12
# Seconds of computing from a signal to the end that count as "at once" (what the clock says depends
# on who else uses the machine): of a process forked after the imports, and of a fresh one, where
# a signal may come while a compiled module is imported, which Python ends first.
AT_ONCE, AT_ONCE_FRESH = 1.0, 2.0


@dataclass(frozen=True)
class Kill:
    """A moment at which a run is killed.

    Attributes:
        what: the run.
        sent: the signal.
        share: of the duration of a run that nothing disturbs, after which it is sent.
        fresh: whether the process is started for it, imports and all, rather than forked.
        victim: `run`, or `worker` where a process that works for the run is killed.
    """

    what: str
    sent: str
    share: float
    fresh: bool
    victim: str = "run"


@dataclass(frozen=True)
class Outcome:
    """What came of a kill.

    Attributes:
        status: of the run that was killed, 128 + the number of the signal as a shell has it.
        seconds: of computing from the signal to the end.
        over: whether the run had ended before the signal came.
        misses: what is not as promised, empty where all is well.
    """

    kill: Kill
    status: int
    seconds: float
    over: bool
    misses: list[str]


def planned(quick: bool = False) -> list[Kill]:
    """The kills, spread evenly over each run, with signals in turn."""
    if quick:
        shares = (0.3, 0.6, 0.8, 0.95)
        whats = ("train", "explain", "stream")
        return [
            Kill(what, SIGNALS[(k + n) % 3], share, False)
            for n, what in enumerate(whats)
            for k, share in enumerate(shares)
        ]
    chance = random.Random(0)
    kills = []
    for what, counts in COUNTS.items():
        for fresh, count in zip((False, True), counts, strict=True):
            shares = [(k + chance.random()) / count for k in range(count)]
            kills += [Kill(what, SIGNALS[k % 3], share, fresh) for k, share in enumerate(shares)]
    shares = [(k + chance.random()) / WORKERS_KILLED for k in range(WORKERS_KILLED)]
    signals = ("SIGKILL", "SIGTERM")
    workers = [
        Kill("dask", signals[k % 2], share, False, "worker") for k, share in enumerate(shares)
    ]
    return kills + workers


def killed(own: Campaign, kill: Kill) -> Outcome:
    """Kill a run, run it again, and say what is not as promised."""
    seconds, _ = own.whole(kill.what, kill.fresh)
    place = own.prepared(kill.what)
    before = contents(place)
    child = own.start(kill.what, place, kill.fresh)
    time.sleep(max(0.0, child.began + kill.share * seconds - time.monotonic()))
    over, before_signal = child.poll() is not None, child.processor_seconds
    if kill.victim == "worker":
        cluster.kill_worker(own.place / "cluster.json", signal.Signals[kill.sent])
        # A cluster that is slow to replace a worker may have outlasted the run.
        over = child.poll() is not None
    else:
        child.send(signal.Signals[kill.sent])
    status = child.wait()
    took, misses = child.processor_seconds - before_signal, []
    if kill.victim == "worker" or over:
        if status != 0:
            misses.append(f"exit status {status}: {child.said.read_text()[-800:]}")
    else:
        misses += _misses_of_end(kill, status, took, child.said.read_text())
        misses += unreadable(place, before)
    misses += own.misses_in_the_end(kill.what, place, again=status != 0)
    return Outcome(kill, status, took, over, misses)


def _misses_of_end(kill: Kill, status: int, took: float, said: str) -> list[str]:
    """What a signal promises: its exit status, at once, and no traceback of a command."""
    misses, expected = [], 128 + signal.Signals[kill.sent]
    # A signal that comes in the last moments may find the work done.
    if status not in (expected, 0):
        misses.append(f"exit status {status}, not {expected}: {said[-800:]}")
    if took > (AT_ONCE_FRESH if kill.fresh else AT_ONCE):
        misses.append(f"ended after {took:.1f} more seconds of computing")
    is_command = kill.what in ("train", "explain") and not kill.fresh
    if is_command and "Traceback" in said:
        misses.append(f"a traceback: {said[said.index('Traceback') :][:1500]}")
    return misses


def table(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """The figures of all kills, by what was killed."""
    kinds = sorted({(each.kill.what, each.kill.victim) for each in outcomes})
    rows = []
    for what, victim in kinds:
        own = [each for each in outcomes if (each.kill.what, each.kill.victim) == (what, victim)]
        cut = [each for each in own if not each.over]
        rows.append(
            {
                "what": what,
                "victim": victim,
                "moments": len(own),
                "fresh": sum(each.kill.fresh for each in own),
                "in_mid_work": sum(each.status != 0 or victim == "worker" for each in cut),
                "largest_seconds_to_end": max(
                    (each.seconds for each in cut if victim == "run"), default=None
                ),
                "same": sum(not each.misses for each in own),
            }
        )
    return rows
