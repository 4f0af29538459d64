"""Error against budget, for every estimator on the same value functions.

Each estimator explains the same few test rows, in one call and with its default batch size, within
budgets of 4, 16, ... evaluations per player and row. A figure is |phi - reference| / |reference|,
over players and outputs, a mean over rows and seeds. `error / expected` is what the standard errors
of both sides promise: far above 1 at large budgets, the reference or these errors would be wrong.
Seconds are per row, medians over seeds; estimators alternate. A curve ends where its estimator is
exact, and begins with the first budget that it takes. Evaluations are those counted, where a
linearized coalition is one, although it costs a few. `time` is what an estimator takes for the
error of permutations: the ratio of error² · seconds, both at their largest budget.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

import manifold_shap as ms
from benchmarks.plots import Panel, curves
from benchmarks.report import Found, Table, records, spread
from benchmarks.support.references import reference, relative
from benchmarks.support.trained import brief_surrogate
from benchmarks.timing import timed

TITLE = "Error against budget"
ERRORS = "standard errors over seeds"
QUICK = {"data": ["digits"], "rows": 1, "seeds": 2, "budgets": [4, 16], "epochs": 1}
Estimator = Callable[..., ms.Explanation]


def even(estimator: Estimator) -> Estimator:
    """One whose budgets are even."""
    return lambda value, x, evaluations, seed: estimator(
        value, x, evaluations=evaluations // 2 * 2, seed=seed
    )


# phi of rows within so many evaluations per row, by a seed.
ESTIMATORS: dict[str, Estimator] = {
    "permutation": even(ms.permutation_shapley),
    "adaptive": even(ms.adaptive_shapley),
    "exact": lambda value, x, evaluations, seed: ms.exact_shapley(value, x),
    "coalition": even(ms.coalition_shapley),
    "kernel": even(ms.kernel_shapley),
    "odd": even(ms.odd_shapley),
    "auto": even(ms.auto_shapley),
}


def run(
    data: Sequence[str] = ("digits", "census", "mnist"),  # digits, census or mnist
    estimators: Sequence[str] = tuple(ESTIMATORS),  # some of `ESTIMATORS`
    epochs: int = 3,  # of the surrogates
    rows: int = 4,  # to explain
    seeds: int = 5,  # of every budget
    budgets: Sequence[int] = (4, 16, 64, 256, 1024),  # evaluations per player
    most: int = 66_000,  # evaluations per row
    times: int = 16,  # the reference has so many times the largest budget
    device: str = "cpu",  # of the surrogate
) -> dict[str, Any]:
    """Curves of every estimator."""
    found = {}
    for name in data:
        value, loaded = brief_surrogate(name, epochs, device)
        several = sorted(factor * len(value.players) for factor in budgets)
        fit = [budget for budget in several if budget <= most] or several[:1]
        chosen = {key: ESTIMATORS[key] for key in estimators}
        found[name] = measure(value, loaded.x_test[:rows], fit, seeds, times, chosen)
        print(name, found[name], flush=True)
    return found


def measure(
    value: Any,
    x: Tensor,
    budgets: Sequence[int],
    seeds: int,
    times: int,
    estimators: Mapping[str, Estimator] = ESTIMATORS,
) -> dict[str, Any]:
    """Points of every estimator, and the budgets that one has refused, with its words."""
    best, of_best = reference(value, x, times * max(budgets))
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in estimators}
    refused: dict[str, dict[int, str]] = {}
    for budget in budgets:
        runs: dict[str, list[dict[str, Any]]] = {}
        for name, estimator in estimators.items():
            if found[name] and found[name][-1]["exact"]:
                continue
            try:  # A first run, which is not timed, warms up and shows whether it can.
                estimator(value, x[:1], budget, 0)
                runs[name] = []
            except ValueError as refusal:
                refused.setdefault(name, {})[budget] = str(refusal)
        for seed in range(seeds):
            for name, done in runs.items():
                done.append(one_run(estimators[name], value, x, budget, seed, best, of_best))
        for name, done in runs.items():
            error, apart = spread([one["error"] for one in done], of_mean=True)
            expected = statistics.mean(one["expected"] for one in done)
            found[name].append({
                "budget": budget,
                "evaluations": done[0]["evaluations"],
                "seconds": statistics.median(one["seconds"] for one in done),
                "relative_error": error,
                "standard_error": apart,
                "error_by_expected": error / expected if expected > 0 else None,
                "exact": done[0]["exact"],
            })  # fmt: skip
    return {
        "players": len(value.players),
        "reference": relative(of_best, best).mean().item(),
        "curves": found,
        "time": time_ratios(found),
        "refused": refused,
    }


def one_run(
    estimator: Estimator, value: Any, x: Tensor, budget: int, seed: int, best: Tensor, error: Tensor
) -> dict[str, Any]:
    """Seconds and evaluations per row, the error, and that which standard errors promise."""
    found, seconds = timed(lambda: estimator(value, x, budget, seed), value.device)
    return {
        "seconds": seconds / len(x),
        "evaluations": found.made_by["evaluations"] // len(x),
        "error": relative(found.phi - best, best).mean().item(),
        "expected": relative(found.standard_error.hypot(error), best).mean().item(),
        "exact": bool((found.standard_error == 0).all()),
    }


def time_ratios(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Seconds for one and the same error, relative to permutations; exact values have none."""
    last = {name: points[-1] for name, points in found.items() if points}
    cost = {
        name: one["relative_error"] ** 2 * one["seconds"]
        for name, one in last.items()
        if not one["exact"]
    }
    base = cost.get("permutation")
    return {name: own / base for name, own in cost.items()} if base else {}


def tables(found: Found) -> list[Table]:
    rows = {}
    for data, entry in found.items():
        for name, points in entry["curves"].items():
            for one in points:
                error = one["relative_error"], one["standard_error"]
                figures = {"seconds": one["seconds"], "relative error": error}
                last = {"time": entry["time"].get(name)} if one is points[-1] else {}
                expected = {"error / expected": one["error_by_expected"], **last}
                rows[f"{data}, {name}, {one['evaluations']:,}"] = figures | expected
    return [records("data, estimator, evaluations", rows)]


def figures(found: Found) -> dict[str, Figure]:
    panels = []
    for data, entry in found.items():
        each = [(name, one) for name, points in entry["curves"].items() for one in points]
        sampled: dict[str, list[tuple[float, float]]] = {}
        for name, one in each:
            if not one["exact"]:
                sampled.setdefault(name, []).append((one["seconds"], one["relative_error"]))
        marks = {name: one["seconds"] for name, one in each if one["exact"]}
        floor = entry["reference"]
        levels = {"error of the reference": floor} if floor else {}
        title = f"{data}, {entry['players']} players"
        exact = ",\n".join(sorted(marks, key=marks.__getitem__))
        of_marks = (marks, f"exact values by\n{exact}" if exact else "")
        axes = title, "seconds per row", "relative error"
        panels.append(Panel(*axes, sampled, levels, *of_marks))
    return {"": curves(panels)}
