"""Error against budget, for every estimator on the same value functions, in one run.

    MANIFOLD_SHAP_DATA=... python benchmarks/budget.py --out benchmarks/results

Each estimator explains the same few test rows, in one call and with its default batch size, within
budgets of 4, 16, ... evaluations per player and row. The value functions are briefly trained
surrogates of the digits (64 players), census (13) and MNIST (784) data. A figure is

    error = |phi - reference| / |reference|,

the root of sums of squares over players and outputs, a mean over rows and seeds (± its standard
error over seeds). The reference is exact where players are few, and otherwise by coalitions of
another seed, at 16 times the largest budget. Its own error is given, and `error / expected` is what
the standard errors of both sides promise: far above 1 at large budgets, the reference or these
errors would be wrong. Seconds are per row, medians over seeds; the estimators alternate. A curve
ends where its estimator is exact, and begins with the first budget that it takes. Evaluations are
those counted, where a linearized coalition is one, although it costs a few.

As errors fall with the root of time, what an estimator takes for the error of another is the ratio
of error² · seconds; `time` is that ratio to permutations, both at their largest budget.

`--out` names a folder for `budget.json`, `budget.md` and `budget.png`.
"""

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

import manifold_shap as ms
from benchmarks.figures import Panel, draw, machine, markdown, number, write
from benchmarks.peers import surrogate_on
from manifold_shap.estimators.auto import auto_shapley
from manifold_shap.estimators.coalition import affordable
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.kernel import kernel_shapley
from manifold_shap.estimators.sample_reuse import sample_reuse_shapley

# phi of rows within so many evaluations per row, by a seed.
Estimator = Callable[[Any, Tensor, int, int], ms.Explanation]
DATA = ("digits", "census", "mnist")
REFERENCE_SEED = 2**31 - 1
# Players up to which the reference is exact.
MAX_EXACT = 14


def permutation(value: Any, x: Tensor, budget: int, seed: int) -> ms.Explanation:
    orders = max(2, budget // (len(value.players) - 1) // 2 * 2)
    return ms.permutation_shapley(value, x, permutations=orders, seed=seed)


def adaptive(value: Any, x: Tensor, budget: int, seed: int) -> ms.Explanation:
    # A contribution takes two values.
    return ms.adaptive_shapley(value, x, samples=budget // 2, seed=seed)


def exact(value: Any, x: Tensor, budget: int, seed: int) -> ms.Explanation:
    return ms.exact_shapley(value, x)


def coalition(value: Any, x: Tensor, budget: int, seed: int) -> ms.Explanation:
    coalitions = affordable(Evaluator(value, x[:1]), budget)
    return ms.coalition_shapley(value, x, coalitions=coalitions, seed=seed)


def coalition_in_full(value: Any, x: Tensor, budget: int, seed: int) -> ms.Explanation:
    other = copy.copy(value)
    other.linearizes = False
    return coalition(other, x, budget, seed)


def within(estimator: Callable[..., ms.Explanation]) -> Estimator:
    """One whose budget is in evaluations, and even."""
    return lambda value, x, budget, seed: estimator(
        value, x, evaluations=budget // 2 * 2, seed=seed
    )


ESTIMATORS: dict[str, Estimator] = {
    "permutation": permutation,
    "adaptive": adaptive,
    "exact": exact,
    "coalition": coalition,
    "coalition, in full": coalition_in_full,
    "kernel": within(kernel_shapley),
    "sample reuse": within(sample_reuse_shapley),
    "auto": within(auto_shapley),
}


class Reference(NamedTuple):
    """phi as good as it gets, its standard error, and how it was made."""

    phi: Tensor
    standard_error: Tensor
    about: dict[str, Any]

    @classmethod
    def of(cls, value: Any, x: Tensor, evaluations: int) -> "Reference":
        few = len(value.players) <= MAX_EXACT
        found = (exact if few else coalition)(value, x, evaluations, REFERENCE_SEED)
        about = {
            "estimator": found.made_by["estimator"],
            "evaluations": found.made_by["evaluations"] // len(x),
            "relative_error": relative(found.standard_error, found.phi).mean().item(),
        }
        return cls(found.phi, found.standard_error, about)

    def first(self) -> "Reference":
        """That of the first row."""
        return self._replace(phi=self.phi[:1], standard_error=self.standard_error[:1])


class Run(NamedTuple):
    """One explanation of all rows.

    Attributes:
        seconds, evaluations: per row.
        error: relative, the mean over rows.
        expected: the root mean square error that the standard errors promise, the same mean.
        exact: whether nothing was sampled.
    """

    seconds: float
    evaluations: int
    error: float
    expected: float
    exact: bool


def relative(gap: Tensor, reference: Tensor) -> Tensor:
    """|gap| / |reference| of each row, over players and outputs."""
    return gap.flatten(1).norm(dim=1) / reference.flatten(1).norm(dim=1)


def run(
    estimator: Estimator, value: Any, x: Tensor, budget: int, seed: int, reference: Reference
) -> Run:
    start = time.perf_counter()
    found = estimator(value, x, budget, seed)
    seconds = time.perf_counter() - start
    both = found.standard_error.hypot(reference.standard_error)
    return Run(
        seconds / len(x),
        found.made_by["evaluations"] // len(x),
        relative(found.phi - reference.phi, reference.phi).mean().item(),
        relative(both, reference.phi).mean().item(),
        bool((found.standard_error == 0).all()),
    )


def point(budget: int, runs: Sequence[Run]) -> dict[str, Any]:
    errors = [one.error for one in runs]
    expected = statistics.mean(one.expected for one in runs)
    return {
        "budget": budget,
        "evaluations": runs[0].evaluations,
        "seconds": statistics.median(one.seconds for one in runs),
        "relative_error": statistics.mean(errors),
        "standard_error": statistics.stdev(errors) / len(runs) ** 0.5 if len(runs) > 1 else None,
        "error_by_expected": statistics.mean(errors) / expected if expected > 0 else None,
        "exact": runs[0].exact,
    }


def curves(
    estimators: Mapping[str, Estimator],
    value: Any,
    x: Tensor,
    budgets: Sequence[int],
    seeds: int,
    reference: Reference,
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, dict[int, str]]]:
    """Points of every estimator, and the budgets that one has refused, with its words."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in estimators}
    refused: dict[str, dict[int, str]] = {}
    for budget in budgets:
        runs: dict[str, list[Run]] = {}
        for name, estimator in estimators.items():
            if found[name] and found[name][-1]["exact"]:
                continue
            try:  # A first run, which is not timed, warms up and shows whether it can.
                run(estimator, value, x[:1], budget, 0, reference.first())
                runs[name] = []
            except ValueError as error:
                refused.setdefault(name, {})[budget] = str(error)
        for seed in range(seeds):
            for name, done in runs.items():
                done.append(run(estimators[name], value, x, budget, seed, reference))
        for name, done in runs.items():
            found[name].append(point(budget, done))
    return found, refused


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


def measure(
    value: Any,
    x: Tensor,
    budgets: Sequence[int],
    seeds: int,
    reference: int,
    estimators: Mapping[str, Estimator] = ESTIMATORS,
) -> dict[str, Any]:
    """Curves of one value function; `reference` is in units of the largest budget."""
    best = Reference.of(value, x, reference * max(budgets))
    found, refused = curves(estimators, value, x, budgets, seeds, best)
    return {
        "players": len(value.players),
        "outputs": len(value.outputs),
        "rows": len(x),
        "seeds": seeds,
        "reference": best.about,
        "curves": found,
        "time": time_ratios(found),
        "refused": refused,
    }


def table(report: Mapping[str, Any]) -> str:
    """One line for each data set, estimator and budget."""
    columns = [
        "data",
        "estimator",
        "evaluations",
        "seconds",
        "relative error",
        "error / expected",
        "time",
    ]
    lines = []
    for data, entry in report.items():
        for name, points in entry["curves"].items():
            for one in points:
                ratio = entry["time"].get(name) if one is points[-1] else None
                spread = one["standard_error"]
                error = number(one["relative_error"]) + (f" ± {spread:.2g}" if spread else "")
                found = [one["evaluations"], one["seconds"], error, one["error_by_expected"]]
                lines.append([data, name, *found, ratio])
    return markdown(columns, lines)


def panel(data: str, entry: Mapping[str, Any]) -> Panel:
    sampled: dict[str, list[tuple[float, float]]] = {}
    marks: dict[str, float] = {}
    for name, points in entry["curves"].items():
        for one in points:
            if one["exact"]:
                marks[name] = one["seconds"]
            else:
                at = one["seconds"], one["relative_error"]
                sampled.setdefault(name, []).append(at)
    floor = entry["reference"]["relative_error"]
    return Panel(
        f"{data}, {entry['players']} players",
        "seconds per row",
        "relative error",
        sampled,
        {"error of the reference": floor} if floor else {},
        marks,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=DATA, choices=DATA)
    parser.add_argument("--estimators", nargs="+", default=list(ESTIMATORS), choices=ESTIMATORS)
    parser.add_argument("--epochs", type=int, default=3, help="of the surrogate")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=5)
    budgets = [4, 16, 64, 256, 1024]
    parser.add_argument("--budgets", type=int, nargs="+", default=budgets, help="per player")
    parser.add_argument("--most", type=int, default=66_000, help="evaluations per row")
    parser.add_argument("--reference", type=int, default=16, help="times the largest budget")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    report: dict[str, Any] = {}
    for name in chosen.data:
        value, data = surrogate_on(name, chosen.epochs, chosen.device)
        several = sorted(factor * len(value.players) for factor in chosen.budgets)
        fit = [budget for budget in several if budget <= chosen.most] or several[:1]
        estimators = {key: ESTIMATORS[key] for key in chosen.estimators}
        x = data.x_test[: chosen.rows]
        report[name] = measure(value, x, fit, chosen.seeds, chosen.reference, estimators)
        print(name, json.dumps(report[name], indent=2), flush=True)
    print(table(report))
    if chosen.out:
        figure = draw([panel(name, entry) for name, entry in report.items()])
        write(chosen.out, "budget", {**machine(chosen.device), **report}, table(report), figure)


if __name__ == "__main__":
    main()
