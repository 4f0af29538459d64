"""Cost against the number of players, classes and rows: seconds and peak memory.

Permutations on surrogates of random weights (hidden layers 512-512): cost does not depend on what
was learned. Every point is a process of its own; seconds are medians of five explanations there,
after a small one. Three parts, with all else fixed: `players` (one row, 10 classes), `classes` (one
row, 64 players), both of about 16,384 coalitions, and `rows` (16 players, 10 classes, two pairs of
orders for each row). "Any callable" is the same surrogate as a callable that knows nothing of
orders, which reads a mask for every coalition. Exponents are slopes of least-squares lines through
logarithms. Memory is the most that was resident, torch included.
"""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

import manifold_shap as ms
from benchmarks.plots import Panel, curves
from benchmarks.report import Found, Table, records
from benchmarks.timing import in_own_process, peak_memory, timed
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.perceptron import Perceptron

TITLE = "Growth with players, classes and rows"
QUICK = {"players": [64, 256], "classes": [2, 10], "rows": [100, 1000], "repeats": 1}
HIDDEN = (512, 512)
FITTED = {"players": (64, 4096), "classes": (2, 1000), "rows": (100, 100_000)}
ALONG, BY_MASKS = "along orders", "any callable"
FIXED = {
    "players": {"classes": 10, "rows": 1},
    "classes": {"players": 64, "rows": 1},
    "rows": {"players": 16, "classes": 10},
}
Point = dict[str, Any]
PLAYERS, ROWS = tuple(2**k for k in range(3, 13)), tuple(10**k for k in range(6))


def run(
    players: Sequence[int] = PLAYERS,
    classes: Sequence[int] = (2, 5, 10, 30, 100, 300, 1000),
    rows: Sequence[int] = ROWS,
    evaluations: int = 16_384,  # about, per row
    repeats: int = 5,  # of which seconds are medians
) -> dict[str, Any]:
    """Points of every part, and how cost grows."""
    found: dict[str, Any] = {}
    for part, sizes in (("players", players), ("classes", classes), ("rows", rows)):
        for way in (ALONG, BY_MASKS) if part == "players" else (ALONG,):
            points = []
            for size in sorted(sizes):
                fixed = settings_of(part, size, evaluations)
                points.append(in_own_process(measure, fixed, way, repeats))
                print(part, way, points[-1], flush=True)
            found.setdefault(part, {})[way] = {"points": points, "exponents": growth(part, points)}
    return found


def settings_of(part: str, size: int, evaluations: int) -> dict[str, int]:
    """All but the number that a part is about stays as it is."""
    sizes = {**FIXED[part], part: size}
    orders = max(2, round(evaluations / (sizes["players"] - 1) / 2) * 2)
    return {**sizes, "permutations": 4 if part == "rows" else orders}


def random_value(players: int, classes: int) -> ms.SurrogateValue:
    torch.manual_seed(0)
    surrogate = Perceptron(GameShape((players,), range(players), classes, True), HIDDEN)
    weight = torch.randn(players, classes) / players**0.5
    model = ms.as_model(lambda x: x @ weight, torch.randn(2, players), returns="logits")
    named = ms.Players.of_elements((players,))
    base = torch.full((classes,), 1 / classes)
    return ms.SurrogateValue(surrogate, model, named, ms.spaces.Probability(), base)


def measure(fixed: dict[str, int], way: str, repeats: int) -> Point:
    """One point, in this process."""
    value = random_value(fixed["players"], fixed["classes"])
    x = torch.randn(fixed["rows"], fixed["players"])
    asked: Any = value if way == ALONG else value.__call__
    before = peak_memory()
    ms.permutation_shapley(asked, x[:1], permutations=2)
    orders = fixed["permutations"]
    runs = [
        timed(lambda: ms.permutation_shapley(asked, x, permutations=orders)) for _ in range(repeats)
    ]
    times = [seconds for _, seconds in runs]
    seconds, evaluations = statistics.median(times), runs[0][0].made_by["evaluations"]
    return {
        **fixed,
        "evaluations": evaluations,
        "seconds": seconds,
        "fastest": min(times),
        "slowest": max(times),
        "seconds_per_evaluation": seconds / evaluations,
        "seconds_per_row": seconds / fixed["rows"],
        "peak_megabytes": peak_memory(),
        "megabytes_of_the_work": peak_memory() - before,
    }


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


def tables(found: Found) -> list[Table]:
    points, slopes = {}, {}
    for part, ways in found.items():
        for way, entry in ways.items():
            for one in entry["points"]:
                points[f"{way}, by {part}: {one[part]:,}"] = one
            for cost, slope in entry["exponents"].items():
                slopes[f"{way}, {cost} against {part}"] = slope or {}
    return [records("", points), records("growth", slopes)]


def figures(found: Found) -> dict[str, Figure]:
    """Time above, memory below."""

    def panel(part: str, label: str, key: str, unit: float, log: str) -> Panel:
        of_way = {
            way: [(one[part], one[key] * unit) for one in entry["points"]]
            for way, entry in found[part].items()
        }
        fixed = ", ".join(f"{count} {name}" for name, count in FIXED[part].items())
        return Panel(fixed.replace("1 rows", "1 row"), part, label, of_way, log=log)

    above = [
        panel(part, "ms per row", "seconds_per_row", 1e3, "xy")
        if part == "rows"
        else panel(part, "µs per coalition", "seconds_per_evaluation", 1e6, "xy")
        for part in found
    ]
    below = [panel(part, "peak MB", "peak_megabytes", 1, "x") for part in found]
    return {"": curves(above + below, columns=len(found))}
