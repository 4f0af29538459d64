"""Our permutations against those of other packages, on the same value function, in one run.

    pip install -e '.[peers]'
    MANIFOLD_SHAP_DATA=... python benchmarks/peers.py --out benchmarks/results/peers.json

Every side explains the same test row by the same surrogate, in its default settings: a callable
that gives the values of coalitions, all classes at once. shap and lightshap take all of them;
captum and shapiq explain one class per run, so that all classes take as many runs. Each side has
the batch size that is best for it of those tried. Two figures for each:

- values per second: coalitions evaluated, divided by the number of runs that all classes take;
- error at equal time: root mean square of phi - reference, relative to that of the reference (our
  4,096 permutations of another seed), after as many seconds for all classes as the run allows.

Ours is measured in float32 and with products in bfloat16, and against the bare float32 forward of
the surrogate, one coalition per input row, at its best batch size. The sides alternate; figures are
medians.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import Tensor

import manifold_shap as ms
from manifold_shap.training.classifier import fit_classifier, load_classifier

CONF = Path(__file__).resolve().parent.parent / "conf"
BATCH_SIZES = {
    "shap": [16, 128, 1024],
    "lightshap": [1],
    "captum": [16, 128, 1024],
    "shapiq": [16, 128, 1024],
    "ours": [2048, 4096, 16384],
    "ours, bf16": [2048, 4096, 16384],
}
# phi of a row (or of its first class) by so many permutations, in batches of this size.
Side = Callable[[int, int], np.ndarray]


class Counted:
    """The surrogate as a function of coalitions of one row, which counts them."""

    def __init__(self, value: ms.SurrogateValue, x: Tensor) -> None:
        self.value, self.x, self.count = value, x[None], 0

    @torch.no_grad()
    def __call__(self, coalitions: Any) -> np.ndarray:
        mask = torch.as_tensor(np.atleast_2d(np.asarray(coalitions))) > 0.5
        self.count += len(mask)
        return self.value(self.x, mask[None])[0].numpy()


def surrogate(name: str, epochs: int) -> tuple[ms.SurrogateValue, Tensor]:
    """The default surrogate of a data set, briefly trained, and a test row."""
    value, data = surrogate_on(name, epochs)
    return value, data.x_test[0]


def surrogate_on(name: str, epochs: int) -> tuple[ms.SurrogateValue, Any]:
    """The default surrogate of a data set, briefly trained, and the data."""
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
    return value, data


def sides(value: ms.SurrogateValue, x: Tensor) -> tuple[dict[str, Side], Counted]:
    """All packages on one game."""
    import lightshap
    import shap
    import shapiq
    from captum.attr import ShapleyValueSampling

    game, players = Counted(value, x), len(value.players)
    nobody, everybody = np.zeros((1, players)), np.ones((1, players))
    masker = shap.maskers.Independent(nobody)
    explainer = shap.PermutationExplainer(game, masker, seed=0)
    sampling = ShapleyValueSampling(lambda z: torch.from_numpy(game(z)))
    half = value.in_precision("bf16-mixed")

    def by_shap(permutations: int, size: int) -> np.ndarray:
        most = permutations // 2 * (2 * players + 1)
        return explainer(everybody, max_evals=most, batch_size=size, silent=True).values[0]

    def by_lightshap(permutations: int, size: int) -> np.ndarray:
        settings = {"method": "permutation", "how": "sampling", "tol": 0.0, "verbose": False}
        most = max(1, permutations // (2 * players))
        return lightshap.explain_any(game, everybody, nobody, max_iter=most, **settings).shap_values

    def by_captum(permutations: int, size: int) -> np.ndarray:
        start, end = torch.zeros(1, players), torch.ones(1, players)
        settings = {"n_samples": permutations, "perturbations_per_eval": size}
        return sampling.attribute(end, start, target=0, **settings)[0].numpy()

    def by_shapiq(permutations: int, size: int) -> np.ndarray:
        approximator = shapiq.PermutationSamplingSV(players, random_state=0)
        budget = permutations * (players - 1) + 2
        found = approximator.approximate(budget, lambda z: game(z)[:, 0], batch_size=size)
        return found.get_n_order_values(1)

    def ours(which: ms.SurrogateValue, permutations: int, size: int) -> np.ndarray:
        even = max(2, permutations // 2 * 2)
        found = ms.permutation_shapley(which, x[None], permutations=even, batch_size=size)
        game.count += found.made_by["evaluations"]
        return found.phi[0].numpy()

    return {
        "shap": by_shap,
        "lightshap": by_lightshap,
        "captum": by_captum,
        "shapiq": by_shapiq,
        "ours": lambda permutations, size: ours(value, permutations, size),
        "ours, bf16": lambda permutations, size: ours(half, permutations, size),
    }, game


def timed(work: Side, game: Counted, permutations: int, size: int) -> tuple[float, int, np.ndarray]:
    game.count = 0
    start = time.perf_counter()
    phi = work(permutations, size)
    return time.perf_counter() - start, game.count, phi


def forward_rate(value: ms.SurrogateValue, x: Tensor) -> float:
    """Values per second of the bare network, one coalition per input row, at its best size."""
    rates = []
    for size in (1024, 4096, 16384):
        mask = torch.rand(size, 1, len(value.players)) < 0.5
        rows = x.expand(size, *x.shape)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            with torch.no_grad():
                value.surrogate(rows, mask)
            times.append(time.perf_counter() - start)
        rates.append(size / statistics.median(times))
    return max(rates)


def measure(name: str, epochs: int, seconds: float, repeats: int) -> dict[str, Any]:
    value, x = surrogate(name, epochs)
    works, game = sides(value, x)
    classes, players = len(value.outputs), len(value.players)
    reference = ms.permutation_shapley(value, x[None], permutations=4096, seed=1).phi[0].numpy()
    some = max(4, 20_000 // players // 2 * 2)
    best, rates = {}, {side: [] for side in works}
    for side, work in works.items():
        sizes = BATCH_SIZES[side]
        times = {size: timed(work, game, some, size)[0] for size in sizes}
        best[side] = min(times, key=times.__getitem__)
    runs = {side: classes if side in ("captum", "shapiq") else 1 for side in works}
    for _ in range(repeats):
        for side, work in works.items():
            took, count, _ = timed(work, game, some, best[side])
            rates[side].append(count / took / runs[side])
    figures: dict[str, Any] = {"forward": {"values_per_second": forward_rate(value, x)}}
    for side, work in works.items():
        rate = statistics.median(rates[side])
        permutations = max(2, round(seconds * rate / players) // 2 * 2)
        took, _, phi = timed(work, game, permutations, best[side])
        wanted = reference if np.size(phi) == reference.size else reference[:, 0]
        gap = np.asarray(phi, dtype=float).reshape(wanted.shape) - wanted
        figures[side] = {
            "values_per_second": rate,
            "batch_size": best[side],
            "seconds": took * runs[side],
            "relative_error": float(np.sqrt((gap**2).mean() / (wanted**2).mean())),
        }
    fastest = figures["ours"]["values_per_second"]
    half = figures["ours, bf16"]["values_per_second"]
    for entry in figures.values():
        entry["ours / this"] = fastest / entry["values_per_second"]
        entry["ours, bf16 / this"] = half / entry["values_per_second"]
    return {"players": players, "classes": classes, "sides": figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    choices = ["digits", "census", "mnist"]
    parser.add_argument("--data", nargs="+", default=choices, choices=choices)
    parser.add_argument("--epochs", type=int, default=3, help="of the surrogate")
    parser.add_argument("--seconds", type=float, default=2.0, help="for one row, all classes")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    report: dict[str, Any] = {"torch": torch.__version__, "threads": torch.get_num_threads()}
    for name in chosen.data:
        report[name] = measure(name, chosen.epochs, chosen.seconds, chosen.repeats)
        print(name, json.dumps(report[name], indent=2), flush=True)
    if chosen.out:
        chosen.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
