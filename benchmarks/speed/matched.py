"""Measures rows per second of `auto` at the error of 64 pairs of permutations, in two checkouts.

    python benchmarks/reproduce.py speed/matched against=../checkout-of-0.1.0

Each checkout, this one and that of `against`, has a process of its own, that imports the package
from there and trains the same small surrogate of 13 columns. There `auto` gets more and more
evaluations, until its error against enumeration is no larger than that of 64 antithetic pairs of
permutations. With so many it explains all rows, in blocks; of permutations a tenth of the rows is
enough to time them.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

TITLE = "Rows per second at equal error"
QUICK = {"rows": 2000, "checked": 20, "budgets": [512, 1024, 8190]}
HERE = Path(__file__).resolve().parents[2]
PLAYERS, BLOCK = 13, 1024


def run(
    against: str | None = None,  # another checkout, such as one of version 0.1.0
    rows: int = 100_000,  # that are explained
    checked: int = 200,  # rows in each error
    budgets: Sequence[int] = (192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8190),
    threads: int = 2,
    precisions: Sequence[str] = ("32-true", "bf16-mixed"),  # of the surrogate here, for `auto`
) -> dict[str, Any]:
    """By checkout: the evaluations that `auto` needs, errors, and rows per second."""
    asked = {"rows": rows, "checked": checked, "budgets": list(budgets), "threads": threads}
    found = {
        f"here, {precision}": in_checkout(HERE, {**asked, "precision": precision})
        for precision in precisions
    }
    if against is not None:
        found["there"] = in_checkout(Path(against).resolve(), {**asked, "precision": "32-true"})
    return found


def in_checkout(place: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What `measure` finds there."""
    done = subprocess.run(
        [sys.executable, "-P", __file__, json.dumps(asked)],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(place, found, flush=True)
    return found


def measure(
    rows: int, checked: int, budgets: Sequence[int], threads: int, precision: str
) -> dict[str, Any]:
    """With the package that is imported, by public functions that both versions have."""
    import torch
    from torch import nn

    import manifold_shap as ms

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    x = torch.randn(20_000, PLAYERS) @ torch.randn(PLAYERS, PLAYERS) / PLAYERS**0.5
    model: Any = nn.Sequential(nn.Linear(PLAYERS, 64), nn.Tanh(), nn.Linear(64, 2)).eval()
    with torch.no_grad():
        model[2].weight.mul_(8)
    trainer = {"accelerator": "cpu"}
    value = ms.fit_surrogate(model, x, max_epochs=3, seed=0, trainer=trainer)
    exact = ms.exact_shapley(value, x[:checked]).phi

    quick = value if precision == "32-true" else value.in_precision(precision)
    pairs = partial(ms.permutation_shapley, value, permutations=128)

    def error(estimator: Any, **budget: Any) -> float:
        gap = estimator(x=x[:checked], seed=1, **budget).phi - exact
        return float(gap.norm() / exact.norm())

    def rate(estimator: Any, count: int, **budget: Any) -> float:
        start = time.perf_counter()
        for first in range(0, count, BLOCK):
            numbers = torch.arange(first, min(first + BLOCK, count)) % len(x)
            estimator(x=x[numbers], **budget)
        return count / (time.perf_counter() - start)

    auto, goal, reached = partial(ms.auto_shapley, quick), error(pairs), float("inf")
    for needed in sorted(budgets):
        reached = error(auto, evaluations=needed)
        if reached <= goal:
            break
    return {
        "evaluations": needed,
        "error": reached,
        "error of 64 pairs": goal,
        "rows per second": rate(auto, rows, evaluations=needed),
        "of 64 pairs": rate(pairs, max(1, rows // 10)),
    }


def tables(found: Mapping[str, Any]) -> list[Any]:
    from benchmarks.report import records

    rows = {name: dict(one) for name, one in found.items()}
    if "there" in rows:
        rate = rows["there"]["rows per second"]
        for one in rows.values():
            one["over auto there"] = one["rows per second"] / rate
            one["over pairs there"] = one["rows per second"] / rows["there"]["of 64 pairs"]
    return [records("checkout", rows)]


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
