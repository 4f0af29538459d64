"""Shapley values by shap, lightshap, captum, shapiq and this package, on the same value function.

Install `.[peers]`. Every side explains the same test rows by the same surrogate, in its default
settings: a callable that gives the values of coalitions, all classes at once. captum and shapiq
explain one class per run, so that all classes take as many runs. Each side has the batch size that
is best for it of those tried, and figures are medians.
"""

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

import manifold_shap as ms
from benchmarks.plots import ranked
from benchmarks.report import Found, Table, records
from benchmarks.support.packages import ONE_CLASS, Counted, Side, require, sides
from benchmarks.support.references import FEW, calibrated, reference, relative
from benchmarks.support.trained import brief_surrogate
from benchmarks.timing import timed

TITLE = "Beside other packages"
QUICK = {"data": ["digits"], "epochs": 1, "seconds": 0.2, "rows": 1}
BATCH_SIZES: dict[str, tuple[int, ...]] = dict.fromkeys(
    ("shap", "lightshap", "captum", "shapiq"), (16, 128, 1024)
)
BATCH_SIZES |= dict.fromkeys(("ours", "ours, bf16"), (2048, 4096, 8192, 16384))
SEEDS = 5  # Runs of which errors are medians.
# Seconds and phi (and more) of a run with a budget.
Once = Callable[[int], tuple[Any, ...]]


def run(
    data: Sequence[str] = ("digits", "mnist", "census"),  # digits, census or mnist
    epochs: int = 3,  # of the surrogate
    seconds: float = 2.0,  # for one row, all classes
    share: float = 1.0,  # of the time of exact values instead, where players are few
    rows: int = 3,  # test rows of the errors
    device: str = "cpu",  # of the surrogate
) -> dict[str, Any]:
    """Errors at equal time."""
    require("peers", "captum", "lightshap", "shap", "shapiq")
    found: dict[str, Any] = {}
    for name in data:
        value, loaded = brief_surrogate(name, epochs, device)
        x = loaded.x_test[:rows].to(device)
        works, game = sides(value, x[0])
        told = errors(works, game, x, best_sizes(works, game), seconds, share)
        found[name] = {"players": len(value.players), "errors": told}
        print(name, found[name], flush=True)
    return found


def once_by(side: str, work: Side, game: Counted, size: int, permutations: int) -> tuple[Any, ...]:
    """Seconds for all classes, phi, and values evaluated."""
    game.count = 0
    phi, took = timed(lambda: work(permutations, size))
    return took * (len(game.value.outputs) if side in ONE_CLASS else 1), phi, game.count


def best_sizes(works: dict[str, Side], game: Counted) -> dict[str, int]:
    """The batch size that is the quickest for each side, by permutations."""
    some = max(4, 20_000 // len(game.value.players) // 2 * 2)
    best: dict[str, int] = {}
    for side, sizes in BATCH_SIZES.items():
        times = {size: once_by(side, works[side], game, size, some)[0] for size in sizes}
        best[side] = min(times, key=times.__getitem__)
    return best


def by_auto(value: ms.SurrogateValue, game: Counted, evaluations: int) -> tuple[float, Any, str]:
    """Seconds, phi and choice of `auto_shapley`."""
    settings: dict[str, Any] = {"evaluations": evaluations, "seed": game.seed}
    found, took = timed(lambda: ms.auto_shapley(value, game.x, **settings))
    return took, found.phi[0].numpy(), found.made_by["auto"]


def errors(
    works: dict[str, Side],
    game: Counted,
    x: Tensor,
    best: dict[str, int],
    seconds: float,
    share: float,
) -> dict[str, Any]:
    """Relative errors at equal time: medians over seeds, and their mean over rows."""
    value, players = game.value, len(game.value.players)
    phi, standard_error = reference(value, x)
    few = players <= FEW
    if few:  # As long as exact values take; the last run, since the first one warms up.
        seconds = share * [by_auto(value, game, 2**players)[0] for _ in range(5)][-1]
    own = relative(standard_error, phi).mean().item()
    found: dict[str, Any] = {"seconds": seconds, "reference": own}
    sides: dict[str, Once] = {
        "ours, auto": partial(by_auto, value, game),
        "ours, bf16, auto": partial(by_auto, value.in_precision("bf16-mixed"), game),
    }
    for side, work in works.items():
        sides[side] = partial(once_by, side, work, game, best.get(side, 1024))
    for side, once in sides.items():
        auto = side.endswith("auto")
        start = 64 * players if auto else 2
        exact = few and auto and share >= 1
        budget = 2**players if exact else calibrated(lambda b: once(b)[0], seconds, start)  # noqa: B023
        found[side] = medians(once, budget, game, x, phi)
    return found


def medians(once: Once, budget: int, game: Counted, x: Tensor, phi: Tensor) -> dict[str, Any]:
    seconds, errors, about = [], [], None
    first, seed = game.x, game.seed
    for game.x, wanted in zip(x.split(1), phi, strict=True):
        runs = []
        for game.seed in range(2, 2 + SEEDS):
            took, estimate, about = once(budget)
            seconds.append(took)
            # Of one class, where a side explains that alone.
            given = torch.as_tensor(estimate).double().reshape(len(wanted), -1)
            own = wanted[:, : given.shape[1]].double()
            runs.append(relative((given - own)[None], own[None]).item())
        errors.append(statistics.median(runs))
    game.x, game.seed = first, seed
    found = {"seconds": statistics.median(seconds), "relative_error": statistics.mean(errors)}
    return found | ({"choice": about} if isinstance(about, str) else {})


def tables(found: Found) -> list[Table]:
    rows = {
        name: {"players": one["players"], "reference": one["errors"]["reference"]}
        for name, one in found.items()
    }
    return [records("data, relative error", rows)]


def figures(found: Found) -> dict[str, Figure]:
    """Errors at equal time; exact values have none to draw."""
    panels = {
        f"{name}, {one['errors']['seconds']:.2g} s, all classes": {
            side: entry["relative_error"]
            for side, entry in one["errors"].items()
            if side not in ("seconds", "reference") and entry["relative_error"] > 1e-6
        }
        for name, one in found.items()
    }
    return {"": ranked(panels, "relative error", "ours")}
