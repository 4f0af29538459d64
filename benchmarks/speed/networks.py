"""What linearized contributions of a convolutional surrogate are worth: errors at equal time.

`coalition_shapley` explains the same few test rows with contributions that are linearized behind
the first layer and corrected, and with exact ones. Each gets the budget that takes about so many
seconds per row. A figure is |phi - reference| / |reference|, over players and outputs, a mean over
rows and seeds: of all outputs, and of the one with the largest prediction alone.
"""

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Found, Table, records, spread
from benchmarks.speed.budget import in_full
from benchmarks.support.references import calibrated, reference, relative
from benchmarks.support.trained import Trained
from benchmarks.timing import timed

TITLE = "Linearized contributions of convolutional surrogates"
ERRORS = "standard errors over seeds"
QUICK = {
    "data": "digits", "epochs": 1, "rows": 1, "seeds": 2, "seconds": 0.2, "values": 2**14,
}  # fmt: skip


def linearized(value: ms.ValueFunction, x: Tensor, evaluations: int, seed: int) -> ms.Explanation:
    """Most of the contributions linearized."""
    return ms.coalition_shapley(value, x, evaluations=evaluations, seed=seed)


Side = Callable[[Any, Tensor, int, int], ms.Explanation]
SIDES: dict[str, Side] = {"linearized": linearized, "exact": in_full}


def run(
    data: str = "mnist",  # pictures: mnist, fashion_mnist or digits
    epochs: int = 5,  # of the surrogate
    rows: int = 4,  # to explain
    seeds: int = 3,
    seconds: float = 5.0,  # per row and run, about
    values: int = 2**20,  # behind the reference of a row, about
) -> dict[str, Any]:
    """Errors of both sides at equal time, of all outputs and of the predicted one."""
    torch.set_num_threads(1)
    loaded = Trained(data, seed=0)
    value = ms.fit_surrogate(
        loaded.model,
        loaded.data.x_train,
        players=loaded.data.players,
        network="conv",
        max_epochs=epochs,
        trainer={"accelerator": "cpu"},
    )
    x = loaded.data.x_test[:rows]
    best, _ = reference(value, x, values)
    found = {}
    for which, outputs in (("all outputs", None), ("the predicted one", 1)):
        games = [(value.select(outputs, row), row) for row in x.split(1)]
        names = [game.outputs for game, _ in games]
        true = [
            phi[None][..., [value.outputs.index(name) for name in own]]
            for phi, own in zip(best, names, strict=True)
        ]
        for name, side in SIDES.items():
            found[f"{which}, {name}"] = measure(side, games, true, seeds, seconds)
            print(which, name, found[f"{which}, {name}"], flush=True)
    return found


def measure(
    side: Side,
    games: Sequence[tuple[ms.ValueFunction, Tensor]],
    true: Sequence[Tensor],
    seeds: int,
    seconds: float,
) -> dict[str, Any]:
    """The error with the budget of about so many seconds, and what this takes.

    Args:
        side: one of `SIDES`.
        games: the value function of the outputs to explain, and a row.
        true: Shapley values of each of them, `[1, players, outputs]`.
        seeds: number of runs.
        seconds: of a row.
    """
    players = len(games[0][0].players)

    def seconds_of(evaluations: int) -> float:
        return timed(lambda: side(*games[0], evaluations, 0))[1]

    # The least that pays for 32 coalitions, and for the exact contributions of 16 of them.
    budget = calibrated(seconds_of, seconds, 64 * (players + 1))
    errors, times = [], []
    for seed in range(seeds):
        runs = [timed(partial(side, value, row, budget, seed)) for value, row in games]
        times += [took for _, took in runs]
        apart = [
            relative(explained.phi - phi, phi).item()
            for (explained, _), phi in zip(runs, true, strict=True)
        ]
        errors.append(statistics.mean(apart))
    error, standard_error = spread(errors, of_mean=True)
    return {
        "budget": budget,
        "seconds": statistics.median(times),
        "relative_error": error,
        "standard_error": standard_error,
    }


def tables(found: Found) -> list[Table]:
    rows = {
        name: {
            "seconds": one["seconds"],
            "relative error": (one["relative_error"], one["standard_error"]),
        }
        for name, one in found.items()
    }
    return [records("outputs, contributions", rows)]
