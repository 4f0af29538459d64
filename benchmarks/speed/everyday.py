"""Measures what everyday commands take, here and in another checkout: starts, demo, threads.

*Cold starts*: seconds of new processes whose files the machine has in memory, in turn, each over
those of `python -c "import torch"` in the same turn. *Demo*: the commands of `make demo`, alone and
with a busy loop on every core. *Threads*: training steps per second with as many threads as there
are cores, alone and with those loops, where threads that wait spin as long as OpenMP of GNU has
them by default, and as the commands have them. To be run on a machine that has nothing else to do:

    python benchmarks/reproduce.py speed/everyday against=../checkout-of-0.1.0
"""

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.report import Found, Table, records

TITLE = "Everyday commands"
QUICK = {"repeats": 1, "epochs": 1, "demo": False}
HERE = Path(__file__).resolve().parents[2]
TORCH = "import torch"
STARTS = {
    "import manifold_shap": ["-c", "import manifold_shap"],
    "import torch, manifold_shap": ["-c", "import torch, manifold_shap"],
    "train.py --help": ["train.py", "--help"],
    "explain.py --help": ["explain.py", "--help"],
    "explain.py compare=[]": ["explain.py", "compare=[]"],
}
# How often a thread looks whether others are done: by default of OpenMP, and in the commands.
SPINS = {"spinning": "300000", "sleeping soon": "1000"}
SHORT = ["classifier.max_epochs=1", "value_function.max_epochs=1"]


def run(
    against: str | None = None,  # another checkout, such as one of version 0.1.0
    repeats: int = 5,  # of each start
    epochs: int = 10,  # of the trainings by several threads
    demo: bool = True,  # whether the demo is run
) -> dict[str, Any]:
    """Seconds of starts and of the demo by checkout, and steps per second by threads."""
    places = {"here": HERE} | ({} if against is None else {"there": Path(against).resolve()})
    found: dict[str, Any] = {"starts": starts(places, repeats)}
    found["demo"] = {name: demos(place) for name, place in places.items()} if demo else {}
    found["threads"] = {
        load: {name: steps_per_second(spins, epochs, load) for name, spins in SPINS.items()}
        for load in ("alone", "busy")
    }
    return found


def starts(places: Mapping[str, Path], repeats: int) -> dict[str, dict[str, float]]:
    """Seconds of each start over those of importing torch: the medians over turns."""
    ratios: dict[str, dict[str, list[float]]] = {name: {} for name in ("seconds", *STARTS)}
    with TemporaryDirectory() as runs:
        for side, place in places.items():
            python(["train.py", *SHORT, *where(runs, side)], place)
        for turn in range(-1, repeats):  # The first brings the files into memory.
            for side, place in places.items():
                torch = python(["-c", TORCH], place)
                for name, words in STARTS.items():
                    run_dir = where(runs, side) if words[-1] == "compare=[]" else []
                    ratio = python([*words, *run_dir], place) / torch
                    if turn >= 0:
                        ratios[name].setdefault(side, []).append(ratio)
                if turn >= 0:
                    ratios["seconds"].setdefault(side, []).append(torch)
    print(ratios, flush=True)
    return {
        name: {side: statistics.median(figures) for side, figures in by_side.items()}
        for name, by_side in ratios.items()
    }


def demos(place: Path) -> dict[str, float]:
    """Seconds of the demo of a checkout, alone and with busy cores."""
    found = {}
    for load in ("alone", "busy"):
        with TemporaryDirectory() as runs, busy(load):
            found[load] = sum(
                python([*words, f"runs_dir={runs}", "progress=false"], place)
                for words in demo_commands(place)
            )
        print(place, load, found[load], flush=True)
    return found


def demo_commands(place: Path) -> list[list[str]]:
    """The words of the commands that `make demo` runs, without the interpreter."""
    makefile = (place / "Makefile").read_text(encoding="utf-8")
    _, _, demo = makefile.partition("\ndemo:")
    recipe = demo.partition("\n\n")[0]
    return [line.split() for line in re.findall(r"^\t\$\(BIN\)/python (.*)$", recipe, re.M)]


def steps_per_second(spins: str, epochs: int, load: str) -> float:
    """Of the default surrogate of digits, as its training recorded it: 100 steps an epoch."""
    words = ["classifier.max_epochs=1", f"value_function.max_epochs={epochs}"]
    with TemporaryDirectory() as runs, busy(load):
        python(["train.py", *words, *where(runs, "here")], HERE, GOMP_SPINCOUNT=spins)
        metrics = Path(runs, "here", "digits", "surrogate", "metrics.json")
        recorded = json.loads(metrics.read_text(encoding="utf-8"))
    rate = 100 * recorded["epochs"] / recorded["train_seconds"]
    print(load, spins, rate, flush=True)
    return float(rate)


def where(runs: str, side: str) -> list[str]:
    return [f"runs_dir={Path(runs, side)}", "progress=false"]


def python(words: Sequence[str], place: Path, **settings: str) -> float:
    """Seconds of a new interpreter with these words, in a checkout, whose package it imports."""
    own = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment = {**own, "PYTHONPATH": str(place), **settings}
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, *words],
        cwd=place,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - start


@contextmanager
def busy(load: str) -> Iterator[None]:
    """While it lasts, a loop on every core where `load` is "busy"."""
    count = len(os.sched_getaffinity(0)) if load == "busy" else 0
    loop = [sys.executable, "-S", "-c", "while True: pass"]
    loops = [subprocess.Popen(loop) for _ in range(count)]
    try:
        yield
    finally:
        for process in loops:
            process.kill()
            process.wait()


def tables(found: Found) -> list[Table]:
    starts = {name: one for name, one in found["starts"].items() if name != "seconds"}
    first = {f"python -c '{TORCH}', seconds": found["starts"]["seconds"]}
    threads = {
        load: {**one, "times": one["sleeping soon"] / one["spinning"]}
        for load, one in found["threads"].items()
    }
    shown = [records("", first), records("over import torch", starts)]
    shown += [records("demo, seconds", found["demo"])] if found["demo"] else []
    return [*shown, records("training steps per second", threads)]


def summary(found: Found) -> dict[str, Any]:
    return {
        f"{name}, over `{TORCH}`": one["here"]
        for name, one in found["starts"].items()
        if name != "seconds"
    }
