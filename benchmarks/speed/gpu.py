"""Surrogates are trained on each device by the same settings; errors are on the same test rows and
coalitions. Rates of explaining are of the surrogate that was trained on the first device, which
moves to the others.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.measures import seconds, timed
from benchmarks.support.trained import Trained

TITLE = "A GPU against the CPU"
CAPTION = "values per second over those of the CPU's cores"
QUICK = {"data": ["digits"], "epochs": 1, "rows": 4, "permutations": 4, "repeats": 1}
PRECISIONS = {"cpu": ("32-true", "bf16-mixed"), "cuda": ("32-true", "bf16-mixed", "16-mixed")}
PAIRS = 8  # Pairs of coalitions for each test row.


def run(
    data: Sequence[str] = ("digits", "mnist", "census"),
    networks: Sequence[str] = ("mlp", "conv"),  # of the surrogates; pictures alone have the second
    devices: Sequence[str] = ("cpu", "cuda"),
    epochs: int = 3,
    rows: int = 64,  # test rows to explain
    permutations: int = 4,  # of each
    repeats: int = 3,  # of which rates are medians
) -> dict[str, Any]:
    """Seconds and errors of trainings; values and rows per second."""
    found: dict[str, Any] = {}
    for name in data:
        trained = Trained(name, seed=0)
        for network in networks if name != "census" else networks[:1]:
            values = {on: fitted(trained, network, epochs, on) for on in devices}
            rate = partial(rates, values[devices[0]][0], trained, rows, permutations, repeats)
            found[f"{name} {network}"] = {on: values[on][1] | rate(on) for on in devices}
    return found


def fitted(
    trained: Trained, network: str, epochs: int, device: str
) -> tuple[ms.SurrogateValue, dict[str, float]]:
    """A surrogate that was trained on a device; its seconds, and its error on the test split."""
    trainer = {"accelerator": "gpu" if device == "cuda" else "cpu", "devices": 1}
    value, took = timed(
        lambda: trained.surrogate(max_epochs=epochs, network=network, trainer=trainer), device
    )
    x = trained.data.x_test
    pairs = ms.metrics.shapley_pairs(len(x), len(value.players), PAIRS)
    score = ms.metrics.mean_squared_error(value, x, pairs)
    return value, {"training, seconds": took, "mse": score.mse}


def rates(
    value: ms.SurrogateValue,
    trained: Trained,
    rows: int,
    permutations: int,
    repeats: int,
    device: str,
) -> dict[str, float]:
    """Values of coalitions per second, by precision, and of an imputed value function."""
    imputed, found = trained.off_manifold(draws=4), {}
    values = {f"surrogate, {precision}": value.to(device).in_precision(precision)
              for precision in PRECISIONS[device]}  # fmt: skip
    for name, one in {**values, "imputed, 4 draws": imputed.to(device)}.items():
        x = trained.data.x_test[: max(1, rows // 16) if one is imputed else rows]
        explain = partial(ms.permutation_shapley, one, x, permutations=permutations)
        evaluations = explain().made_by["evaluations"]  # Which warms up, too.
        found[f"{name}, values/s"] = evaluations / seconds({0: explain}, repeats, device)[0]
    imputed.to("cpu")
    value.to("cpu")
    return found


def tables(found: Found) -> list[Table]:
    flat = {f"{name}, {on}": one for name, each in found.items() for on, one in each.items()}
    return [records("data, network, device", flat)]


def summary(found: Found) -> dict[str, Any]:
    rate = "surrogate, 32-true, values/s"
    return {name: on["cuda"][rate] / on["cpu"][rate] for name, on in found.items() if "cuda" in on}
