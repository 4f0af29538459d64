"""Cost against the number of players, classes and rows: seconds and peak memory.

    python benchmarks/scaling.py --out benchmarks/results

Permutations on surrogates of random weights (hidden layers 512-512): cost does not depend on what
was learned. Every point is a process of its own; seconds are medians of five explanations there,
after a small one. Three parts (`--parts`), with all else fixed:

- `players`: one row, 10 classes, about 16,384 coalitions. Also for the same surrogate as a callable
  that knows nothing of orders, which reads a mask for every coalition ("any callable").
- `classes`: one row, 64 players, about as many coalitions.
- `rows`: 16 players, 10 classes, two pairs of orders for each row.

Growth exponents are slopes of least-squares lines through logarithms: of seconds per evaluated
coalition against players, from 64 to 4,096 (0 where it does not grow), and of seconds per order of
all players, which takes players - 1 coalitions; of seconds per coalition against classes, all of
them; of seconds in all against rows, from 100 on (1 where each row costs the same).

Memory is the most that was resident, torch included, and how much of that came after the surrogate
was built.
`--out` names a folder for `scaling.json`, `scaling.md` and `scaling.png`.
"""

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

import manifold_shap as ms
from benchmarks.figures import Panel, draw, machine, markdown, write
from manifold_shap.surrogate.network import Surrogate

PARTS = ("players", "classes", "rows")
HIDDEN = (512, 512)
FITTED = {"players": (64, 4096), "classes": (2, 1000), "rows": (100, 100_000)}
ALONG, BY_MASKS = "along orders", "any callable"
# What is shown of a point, and in which unit.
COLUMNS = {
    "players": ("players", 1),
    "classes": ("classes", 1),
    "rows": ("rows", 1),
    "coalitions": ("evaluations", 1),
    "seconds": ("seconds", 1),
    "µs per coalition": ("seconds_per_evaluation", 1e6),
    "ms per row": ("seconds_per_row", 1e3),
    "peak MB": ("peak_megabytes", 1),
    "MB of the work": ("megabytes_of_the_work", 1),
}
FIXED = {
    "players": {"classes": 10, "rows": 1},
    "classes": {"players": 64, "rows": 1},
    "rows": {"players": 16, "classes": 10},
}
Point = dict[str, Any]


def random_value(players: int, classes: int) -> ms.SurrogateValue:
    torch.manual_seed(0)
    surrogate = Surrogate((players,), range(players), classes, True, HIDDEN)
    weight = torch.randn(players, classes) / players**0.5
    model = ms.as_model(lambda x: x @ weight, torch.randn(2, players), returns="logits")
    named = ms.Players.of_elements((players,))
    base = torch.full((classes,), 1 / classes)
    return ms.SurrogateValue(surrogate, model, named, ms.as_space("probability"), base)


def peak_memory() -> float:
    """Most megabytes that were resident at once in this process."""
    # The kernel starts a new program's `ru_maxrss` at the peak of the process that started it.
    status = Path("/proc/self/status")
    if status.exists():
        (peak,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def measure(
    players: int, classes: int, rows: int, permutations: int, way: str, repeats: int, threads: int
) -> Point:
    """One point, in this process."""
    torch.set_num_threads(threads)
    value = random_value(players, classes)
    x = torch.randn(rows, players)
    asked = value if way == ALONG else value.__call__
    before = peak_memory()
    ms.permutation_shapley(asked, x[:1], permutations=2)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        found = ms.permutation_shapley(asked, x, permutations=permutations)
        times.append(time.perf_counter() - start)
    seconds, evaluations = statistics.median(times), found.made_by["evaluations"]
    return {
        "players": players,
        "classes": classes,
        "rows": rows,
        "permutations": permutations,
        "evaluations": evaluations,
        "seconds": seconds,
        "fastest": min(times),
        "slowest": max(times),
        "seconds_per_evaluation": seconds / evaluations,
        "seconds_per_row": seconds / rows,
        "peak_megabytes": peak_memory(),
        "megabytes_of_the_work": peak_memory() - before,
    }


def in_own_process(**settings: Any) -> Point:
    """`measure` in a fresh interpreter, whose peak memory is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, threads=torch.get_num_threads(), **settings).result()


def orders_for(evaluations: int, players: int) -> int:
    return max(2, round(evaluations / (players - 1) / 2) * 2)


def settings_of(part: str, size: int, evaluations: int) -> dict[str, int]:
    """All but the number that a part is about stays as it is."""
    sizes = {**FIXED[part], part: size}
    orders = 4 if part == "rows" else orders_for(evaluations, sizes["players"])
    return {**sizes, "permutations": orders}


def exponent(points: Iterable[Point], part: str, cost: str) -> dict[str, Any] | None:
    """Slope of log(cost) against log(size) over the sizes that are fitted, and which they are."""
    least, most = FITTED[part]
    fitted = sorted((one[part], one[cost]) for one in points if least <= one[part] <= most)
    if len(fitted) < 2:
        return None
    sizes, costs = np.log(np.array(fitted)).T
    slope = float(np.polyfit(sizes, costs, 1)[0])
    return {"exponent": slope, "from": fitted[0][0], "to": fitted[-1][0]}


def growth(part: str, points: Sequence[Point]) -> dict[str, Any]:
    """Exponents of the costs that a part is about, by name."""
    if part == "rows":
        return {"seconds": exponent(points, part, "seconds")}
    slopes = {"seconds per coalition": exponent(points, part, "seconds_per_evaluation")}
    if part == "players":
        orders = [{**one, "order": one["seconds"] / one["permutations"]} for one in points]
        slopes["seconds per order"] = exponent(orders, part, "order")
    return slopes


def run(part: str, sizes: Sequence[int], evaluations: int, repeats: int) -> dict[str, Any]:
    """Points of a part in every way that it is measured, and how its cost grows."""
    report: dict[str, Any] = {}
    for way in (ALONG, BY_MASKS) if part == "players" else (ALONG,):
        points = []
        for size in sorted(sizes):
            settings = settings_of(part, size, evaluations)
            points.append(in_own_process(**settings, way=way, repeats=repeats))
            print(part, way, json.dumps(points[-1]), flush=True)
        report[way] = {"points": points, "exponents": growth(part, points)}
    return report


def tables(report: Mapping[str, Any]) -> str:
    text = []
    for part, ways in report.items():
        lines = [
            [way, *(one[key] * unit for key, unit in COLUMNS.values())]
            for way, entry in ways.items()
            for one in entry["points"]
        ]
        slopes = [
            [way, cost, *found.values()]
            for way, entry in ways.items()
            for cost, found in entry["exponents"].items()
            if found
        ]
        fitted = ["", "cost", f"exponent against {part}", "from", "to"]
        text += [markdown(["", *COLUMNS], lines), markdown(fitted, slopes)]
    return "\n".join(text)


def panels(report: Mapping[str, Any]) -> list[Panel]:
    """Time above, memory below."""
    cost = {part: "ms per row" if part == "rows" else "µs per coalition" for part in report}
    above = [_panel(part, ways, cost[part], "xy") for part, ways in report.items()]
    return above + [_panel(part, ways, "peak MB", "x") for part, ways in report.items()]


def _panel(part: str, ways: Mapping[str, Any], column: str, log: str) -> Panel:
    key, unit = COLUMNS[column]
    curves = {
        way: [(one[part], one[key] * unit) for one in entry["points"]]
        for way, entry in ways.items()
    }
    fixed = ", ".join(f"{count} {name}" for name, count in FIXED[part].items())
    return Panel(fixed.replace("1 rows", "1 row"), part, column, curves, log=log)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--players", type=int, nargs="+", default=[2**k for k in range(3, 13)])
    classes, rows = [2, 5, 10, 30, 100, 300, 1000], [10**k for k in range(6)]
    parser.add_argument("--classes", type=int, nargs="+", default=classes)
    parser.add_argument("--rows", type=int, nargs="+", default=rows)
    parser.add_argument("--evaluations", type=int, default=16_384, help="about, per row")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    report = {
        part: run(part, getattr(chosen, part), chosen.evaluations, chosen.repeats)
        for part in chosen.parts
    }
    text = tables(report)
    print(text)
    if chosen.out:
        drawn = draw(panels(report), columns=len(report))
        write(chosen.out, "scaling", {**machine(), **report}, text, drawn)


if __name__ == "__main__":
    main()
