"""Our permutations against those of other packages, on the same value function, in one run.

    pip install -e '.[peers]'
    MANIFOLD_SHAP_DATA=... python benchmarks/peers.py --out benchmarks/results

Every side explains the same test rows by the same surrogate, in its default settings: a callable
that gives the values of coalitions, all classes at once. shap and lightshap take all of them;
captum and shapiq explain one class per run, so that all classes take as many runs. Each side has
the batch size that is best for it of those tried. Two figures for each:

- values per second: coalitions evaluated, divided by the number of runs that all classes take, of
  permutations on every side;
- error at equal time: root mean square of phi - reference, relative to that of the reference, with
  the budget that takes about as many seconds for all classes as the run allows; medians over five
  seeds, and their mean over a few rows. Here other packages have their kernel methods as well, and
  ours is `auto_shapley`. The reference is exact, or the mean of long runs of `coalition_shapley`
  (262,144 coalitions of digits, 21,376 of MNIST), whose own error is given.

Ours is measured in float32 and with products in bfloat16, and against the bare float32 forward of
the surrogate, one coalition per input row, at its best batch size. The sides alternate; figures are
medians. `--out` names a folder for peers.json, peers.md and peers.png.
"""

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from matplotlib.figure import Figure
from omegaconf import OmegaConf
from torch import Tensor

import manifold_shap as ms
from benchmarks.figures import machine, markdown, ranked, wait, write
from benchmarks.packages import ONE_CLASS, Counted, Side, sides
from manifold_shap.training.classifier import fit_classifier, load_classifier

CONF = Path(__file__).resolve().parent.parent / "conf"
BATCH_SIZES = {
    "shap": [16, 128, 1024],
    "lightshap": [1],
    "captum": [16, 128, 1024],
    "shapiq": [16, 128, 1024],
    "ours": [2048, 4096, 8192, 16384],
    "ours, bf16": [2048, 4096, 8192, 16384],
}
# So few players are enumerated.
_FEW = 13
# Runs of which errors are medians.
_SEEDS = 5
_MOST = 2**20
# Values behind the reference of a row, about, and the longest run that it is the mean of.
_REFERENCE = 2**24
_LONGEST = 2**16
# Seconds and phi (and more) of a run with a budget.
Once = Callable[[int], tuple[Any, ...]]


def surrogate_on(name: str, epochs: int, device: str = "cpu") -> tuple[ms.SurrogateValue, Any]:
    """The default surrogate of a data set, briefly trained, on a device; and the data."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        chosen = compose("train", [f"data={name}", f"value_function.max_epochs={epochs}"])
    data = instantiate(chosen.data)
    data.setup()
    with tempfile.TemporaryDirectory() as place:
        fit_classifier(instantiate(chosen.classifier), data, place, {"accelerator": "cpu"})
        model = load_classifier(Path(place), data)
    settings: Any = OmegaConf.to_container(chosen.value_function, resolve=True)
    own = {key: entry for key, entry in settings.items() if key not in ("name", "teacher_draws")}
    rows = {key: getattr(data, key) for key in ("x_train", "x_validation", "players")}
    value = ms.fit_surrogate(model, **rows, **own, trainer={"accelerator": "cpu"})
    value.to(device)
    return value, data


def timed(work: Side, game: Counted, permutations: int, size: int) -> tuple[float, int, np.ndarray]:
    game.count = 0
    start = time.perf_counter()
    phi = work(permutations, size)
    return time.perf_counter() - start, game.count, phi


def forward_rate(value: ms.SurrogateValue, x: Tensor) -> float:
    """Values per second of the bare network, one coalition per input row, at its best size."""
    rates = []
    for size in (1024, 4096, 16384):
        mask = torch.rand(size, 1, len(value.players), device=x.device) < 0.5
        rows = x.expand(size, *x.shape)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            with torch.no_grad():
                value.surrogate(rows, mask)
            wait(x.device)
            times.append(time.perf_counter() - start)
        rates.append(size / statistics.median(times))
    return max(rates)


def rates(
    works: dict[str, Side], game: Counted, classes: int, repeats: int
) -> tuple[dict[str, float], dict[str, int]]:
    """Values per second of every side by permutations, and its best batch size."""
    players = len(game.value.players)
    some = max(4, 20_000 // players // 2 * 2)
    best: dict[str, int] = {}
    found: dict[str, list[float]] = {side: [] for side in BATCH_SIZES}
    for side, sizes in BATCH_SIZES.items():
        times = {size: timed(works[side], game, some, size)[0] for size in sizes}
        best[side] = min(times, key=times.__getitem__)
    for _ in range(repeats):
        for side in BATCH_SIZES:
            took, count, _ = timed(works[side], game, some, best[side])
            found[side].append(count / took / (classes if side in ONE_CLASS else 1))
    return {side: statistics.median(values) for side, values in found.items()}, best


def calibrated(once: Once, seconds: float, start: int) -> int:
    """The even budget, from `start` on, with which a run takes about so many seconds."""
    budget, tried = start, dict[int, float]()
    while budget not in tried and len(tried) < 20:
        took = tried[budget] = once(budget)[0]
        if 0.93 < took / seconds < 1.07:
            break
        # Fixed costs weigh on short runs, so what these promise is approached by steps.
        longer = int(budget * min(seconds / took, 4)) // 2 * 2
        budget = min(_MOST, max(start, longer, budget + 2 if took < seconds else 0))
    return min(tried, key=lambda budget: abs(math.log(tried[budget] / seconds)))


def error_of(phi: Any, reference: np.ndarray) -> float:
    """Relative to the reference, or to its first class where phi is of that alone."""
    wanted = reference if np.size(phi) == reference.size else reference[:, 0]
    gap = np.asarray(phi, dtype=float).reshape(wanted.shape) - wanted
    return float(np.sqrt((gap**2).mean() / (wanted**2).mean()))


def by_auto(value: ms.SurrogateValue, game: Counted, evaluations: int) -> tuple[float, Any, str]:
    """Seconds, phi and choice of `auto_shapley`."""
    start = time.perf_counter()
    found = ms.auto_shapley(value, game.x, evaluations=evaluations, seed=game.seed)
    return time.perf_counter() - start, found.phi[0].numpy(), found.made_by["auto"]


def references(value: ms.SurrogateValue, x: Tensor) -> tuple[np.ndarray, float]:
    """phi of rows as good as it gets, and its relative error by its own account."""
    if len(value.players) <= _FEW:
        return ms.exact_shapley(value, x).phi.numpy(), 0.0
    coalitions = _REFERENCE // len(value.players) // 32 * 32
    runs = [
        ms.coalition_shapley(value, x, coalitions=min(coalitions, _LONGEST), seed=2**20 + number)
        for number in range(max(1, coalitions // _LONGEST))
    ]
    phi = torch.stack([run.phi for run in runs]).mean(0)
    variance = torch.stack([run.standard_error.square() for run in runs]).mean(0) / len(runs)
    own = variance.mean((1, 2)) / phi.square().mean((1, 2))
    return phi.numpy(), own.sqrt().mean().item()


def by_side(
    work: Side, game: Counted, runs: int, size: int, permutations: int
) -> tuple[float, np.ndarray]:
    """Seconds for all classes, which take so many runs, and phi."""
    took, _, phi = timed(work, game, permutations, size)
    return took * runs, phi


def errors(
    works: dict[str, Side],
    game: Counted,
    x: Tensor,
    best: dict[str, int],
    classes: int,
    seconds: float,
) -> dict[str, Any]:
    """Errors at equal time: as long as it allows, or as `auto_shapley` takes to be exact."""
    value, players = game.value, len(game.value.players)
    few = players <= _FEW
    reference, own = references(value, x)
    if few:
        # The last run, since the first one warms up.
        seconds = [by_auto(value, game, 2**players)[0] for _ in range(5)][-1]
    found: dict[str, Any] = {"seconds": seconds, "reference": own}
    for name, which in (("ours", value), ("ours, bf16", value.in_precision("bf16-mixed"))):
        auto = partial(by_auto, which, game)
        budget = 2**players if few else calibrated(auto, seconds, 64 * players)
        choice = auto(budget)[2]
        found[f"{name}, auto"] = {**_medians(auto, budget, game, x, reference), "choice": choice}
    for side, work in works.items():
        runs = classes if side in ONE_CLASS else 1
        once = partial(by_side, work, game, runs, best.get(side, 1024))
        budget = calibrated(once, seconds, 2)
        found[side] = _medians(once, budget, game, x, reference)
    return found


def _medians(
    once: Once, budget: int, game: Counted, x: Tensor, reference: np.ndarray
) -> dict[str, float]:
    """Of the seconds over all runs, and of the errors over seeds; their mean over rows."""
    seconds, errors = [], []
    first, seed = game.x, game.seed
    for game.x, wanted in zip(x.split(1), reference, strict=True):
        runs = []
        for game.seed in range(2, 2 + _SEEDS):
            took, phi, *_ = once(budget)
            seconds.append(took)
            runs.append(error_of(phi, wanted))
        errors.append(statistics.median(runs))
    game.x, game.seed = first, seed
    return {"seconds": statistics.median(seconds), "relative_error": statistics.mean(errors)}


def measure(
    name: str, epochs: int, seconds: float, repeats: int, rows: int, device: str = "cpu"
) -> dict[str, Any]:
    value, data = surrogate_on(name, epochs, device)
    x = data.x_test[:rows].to(device)
    works, game = sides(value, x[0])
    classes = len(value.outputs)
    found, best = rates(works, game, classes, repeats)
    figures = {"forward": {"values_per_second": forward_rate(value, x[0])}}
    for side, rate in found.items():
        figures[side] = {"values_per_second": rate, "batch_size": best[side]}
    for entry in figures.values():
        entry["ours / this"] = found["ours"] / entry["values_per_second"]
        entry["ours, bf16 / this"] = found["ours, bf16"] / entry["values_per_second"]
    return {
        "players": len(value.players),
        "classes": classes,
        "rates": figures,
        "rows": rows,
        "errors": errors(works, game, x, best, classes, seconds),
    }


def table(report: dict[str, Any], data: list[str]) -> str:
    """Both figures of every side, for every data set."""
    lines = []
    for name in data:
        rates_of, errors_of = report[name]["rates"], report[name]["errors"]
        lines.append([name, "reference", None, None, None, errors_of["reference"], None])
        for side in dict.fromkeys([*rates_of, *errors_of]):
            if side in ("seconds", "reference"):
                continue
            rate, error = rates_of.get(side, {}), errors_of.get(side, {})
            lines.append(
                [
                    name,
                    side,
                    rate.get("values_per_second"),
                    rate.get("ours / this"),
                    rate.get("ours, bf16 / this"),
                    error.get("relative_error"),
                    error.get("seconds"),
                ]
            )
    columns = ["data", "side", "values per second", "ours / this", "ours, bf16 / this"]
    return markdown([*columns, "relative error", "seconds"], lines)


def picture(report: dict[str, Any], data: list[str]) -> Figure:
    """Errors at equal time, a panel for each data set; exact values have none to draw."""
    panels = {}
    for name in data:
        ends = report[name]["errors"]
        title = f"{name}, {ends['seconds']:.2g} s, all classes"
        panels[title] = {
            side: entry["relative_error"]
            for side, entry in ends.items()
            if side not in ("seconds", "reference") and entry["relative_error"] > 1e-6
        }
    return ranked(panels, "relative error", "ours")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    choices = ["digits", "census", "mnist"]
    parser.add_argument("--data", nargs="+", default=choices, choices=choices)
    parser.add_argument("--epochs", type=int, default=3, help="of the surrogate")
    parser.add_argument("--seconds", type=float, default=2.0, help="for one row, all classes")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=3, help="test rows of the errors")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="folder for peers.json, .md and .png")
    chosen = parser.parse_args()
    report: dict[str, Any] = machine(chosen.device)
    for name in chosen.data:
        settings = (chosen.epochs, chosen.seconds, chosen.repeats, chosen.rows, chosen.device)
        report[name] = measure(name, *settings)
        print(table(report, [name]), flush=True)
    if chosen.out:
        text, figure = table(report, chosen.data), picture(report, chosen.data)
        write(chosen.out, "peers", report, text, figure)


if __name__ == "__main__":
    main()
