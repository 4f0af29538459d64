"""Seconds of new processes, in turn, each over those of `python -c "import torch"` in the same
turn; and of the demo. For a machine that has nothing else to do.
"""

import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.report import ROOT, Found, Table
from benchmarks.support.measures import timed

TITLE = "Everyday commands"
QUICK = {"repeats": 1, "demo": False}
TORCH = "import torch"
STARTS = {
    "import manifold_shap": ["-c", "import manifold_shap"],
    "import torch, manifold_shap": ["-c", "import torch, manifold_shap"],
    "train.py --help": ["train.py", "--help"],
    "explain.py --help": ["explain.py", "--help"],
    "explain.py compare=[]": ["explain.py", "compare=[]"],
}
# As `make demo` has them.
DEMO = (["train.py", "value_function.max_epochs=10"], ["explain.py"])
SHORT = ["classifier.max_epochs=1", "value_function.max_epochs=1"]


def run(
    repeats: int = 5,  # of each start
    demo: bool = True,  # whether the demo is run
) -> dict[str, Any]:
    """Medians of ratios, and seconds."""
    turns = []
    with TemporaryDirectory() as runs:
        where = [f"runs_dir={runs}", "progress=false"]
        python(["train.py", *SHORT, *where])
        for _ in range(1 + repeats):
            torch = python(["-c", TORCH])
            took = {"seconds": torch}
            for name, words in STARTS.items():
                took[name] = python([*words, *(where if "compare" in name else [])]) / torch
            turns.append(took)
    # The first turn brings the files into memory.
    found = {name: {"here": statistics.median(one[name] for one in turns[1:])} for name in took}
    with TemporaryDirectory() as runs:
        where = [f"runs_dir={runs}", "progress=false"]
        alone = sum(python([*words, *where]) for words in DEMO if demo)
    return {"starts": found, "demo": {"here": {"alone": alone}}}


def python(words: Sequence[str]) -> float:
    """Seconds of a new interpreter with these words."""
    work = partial(subprocess.run, cwd=ROOT, capture_output=True, check=True)
    return timed(partial(work, [sys.executable, *words]))[1]


def tables(found: Found) -> list[Table]:
    starts = {name: one["here"] for name, one in found["starts"].items()}
    first = f"seconds of `{TORCH}`"
    lines = {first if name == "seconds" else f"{name}, over it": v for name, v in starts.items()}
    lines["make demo"] = found["demo"]["here"]["alone"]
    return [Table(["", ""], list(lines.items()))]


def summary(found: Found) -> dict[str, Any]:
    name = "import torch, manifold_shap"
    start, demo = found["starts"][name]["here"], found["demo"]["here"]["alone"]
    return {f"`{name}` over `{TORCH}`": start, "seconds of `make demo`": demo}
