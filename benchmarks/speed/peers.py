"""Every side explains the same test rows by the same surrogate: a callable that gives the values of
coalitions, all classes at once. Sides have equal time of one processor for all classes and, once
more, equal evaluations. captum and shapiq explain one class per run: of more than two classes their
time counts for each, so that they have a part of the time for each of them; their evaluations and
errors are those of the first. Of equal evaluations `auto` is told that each takes as long as a
model call; a linearized coalition counts as the evaluations that it costs. Where few players are
enumerated, the time is a quarter of what that takes. Errors are means over rows of medians over
seeds, less the standard error of the reference, a long run of orders; a side that took more or less
than its time has the error that it would have by the root of the time. Needs `.[peers]`.
"""

import signal
from collections.abc import Callable, Sequence
from functools import partial
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks import draw
from benchmarks.report import Figures, Found, Table
from benchmarks.support.measures import FEW, SHAPIQ, by_shapiq, calibrated, reference, relative
from benchmarks.support.trained import brief_surrogate

TITLE = "Beside other packages"
CAPTION = "error of `auto` over that of the best other package"
QUICK = {"data": ["census"], "epochs": 1, "evaluations": [16], "rows": 1}
SEEDS = range(2, 7)  # Runs of which errors are medians.
# Seconds after which no seed is begun, and after which a side is left out.
ENOUGH, TOO_LONG = 60.0, 180.0
SLACK = 1.25  # What a side may take of the time, or of the evaluations, that it has.
OVER = {"data": ("digits", "mnist", "census")}
# These explain one class per run.
ONE_CLASS = {"captum", *SHAPIQ}
# phi of a row (or of its first class) by about so many evaluations.
Side = Callable[[int], Any]


class Counted:
    """The surrogate as a function of coalitions of one row; row and seed may change at any time."""

    def __init__(self, value: ms.SurrogateValue, x: Tensor) -> None:
        self.value, self.x, self.seed, self.asked = value, x, 0, 0
        self.empty, self.full = (f((1, len(value.players))) for f in (np.zeros, np.ones))

    @torch.no_grad()
    def __call__(self, coalitions: Any) -> np.ndarray:
        mask = torch.as_tensor(np.atleast_2d(np.asarray(coalitions))) > 0.5
        self.asked += len(mask)
        return self.value(self.x, mask[None])[0].numpy()


def sides(game: Counted, unit: str) -> dict[str, Side]:
    """All packages on one game, for equal seconds or equal evaluations."""
    import shap

    players = game.full.size
    start, end = (torch.from_numpy(side).float() for side in (game.empty, game.full))

    dear = partial(ms.as_value_function, lambda x, mask: game.value(x, mask), cost="model")

    def ours(estimator: Any, evaluations: int) -> Any:
        value = game.value if unit == "seconds" else dear(game.x)
        found = estimator(value, game.x, evaluations=evaluations, seed=game.seed)
        game.asked = found.made_by["evaluations"]
        return found.phi[0]

    def by_shap(evaluations: int) -> Any:
        masker = shap.maskers.Independent(game.empty)
        explainer = shap.PermutationExplainer(game, masker, seed=game.seed)
        # Of the batch sizes 16, 128 and 1,024 the fastest, as captum's below.
        return explainer(game.full, max_evals=evaluations, batch_size=128, silent=True).values[0]

    def by_shap_kernel(evaluations: int) -> Any:
        np.random.seed(game.seed)
        kernel = shap.KernelExplainer(game, game.empty)
        return kernel.shap_values(game.full, nsamples=evaluations, l1_reg=0, silent=True)[0]

    def by_lightshap(method: str, how: str, evaluations: int) -> Any:
        import lightshap

        # Coalitions of one and of all but one come before the first iteration.
        most = max(1, (evaluations - 2 * players - 2) // (2 * players - 6))
        settings: Any = {"method": method, "how": how, "tol": 0.0, "verbose": False}
        settings |= {"max_iter": most, "random_state": game.seed}
        return lightshap.explain_any(game, game.full, game.empty, **settings).shap_values

    def by_captum(evaluations: int) -> Any:
        import captum.attr

        torch.manual_seed(game.seed)
        sampling = captum.attr.ShapleyValueSampling(lambda z: torch.from_numpy(game(z)))
        settings: Any = {"n_samples": evaluations // players, "perturbations_per_eval": 1024}
        return sampling.attribute(end, start, target=0, **settings)[0]

    def of_shapiq(side: str, evaluations: int) -> Any:
        first = lambda mask: torch.from_numpy(game(mask[0])[:, 0])  # noqa: E731
        return by_shapiq(side, first, players, evaluations, game.seed)

    return {
        "ours, auto": partial(ours, ms.auto_shapley),
        "ours": partial(ours, ms.permutation_shapley),
        "shap": by_shap,
        "shap, kernel": by_shap_kernel,
        "lightshap": partial(by_lightshap, "permutation", "sampling"),
        "lightshap, kernel": partial(by_lightshap, "kernel", "h1"),
        "captum": by_captum,
        **{side: partial(of_shapiq, side) for side in SHAPIQ},
    }


def measure(
    name: str,
    epochs: int = 3,  # of the surrogate
    seconds: float = 2.0,  # for one row, all classes; less where players are few
    evaluations: Sequence[int] = (16, 64),  # per player
    rows: int = 3,  # test rows of the errors
    values: int = 2**24,  # behind the reference of a row
) -> dict[str, Any]:
    """Relative errors of all sides on one data set, and why others are left out."""
    value, loaded = brief_surrogate(name, epochs)
    x, players = loaded.x_test[:rows], len(value.players)
    game = Counted(value, x[:1])
    phi, error = reference(value, x, values)
    known = {"all": relative(error, phi), "one class": relative(error[..., :1], phi[..., :1])}
    if players <= FEW:
        seconds = min(cpu_seconds(lambda: ms.exact_shapley(value, game.x)) for _ in range(5)) / 4
    allowed = {f"{seconds:.2g} s": ("seconds", seconds)}
    allowed |= {f"{each} evaluations per player": ("evaluations", each) for each in evaluations}
    found: dict[str, Any] = {which: {} for which in allowed}
    left_out = []
    signal.signal(signal.SIGPROF, end)
    ways = [(*each, *way) for each in allowed.items() for way in sides(game, each[1][0]).items()]
    for which, (unit, most), side, way in ways:
        # Of two classes one tells the other.
        runs = len(value.outputs) if side in ONE_CLASS and len(value.outputs) > 2 else 1
        try:
            signal.setitimer(signal.ITIMER_PROF, TOO_LONG)
            budget = fitting(way, game, most / runs) if unit == "seconds" else int(most) * players
            one = explained(way, budget, runs, game, x, phi)
            if one[unit] > SLACK * most:
                raise TimeoutError(f"takes {one[unit]:.2g} {unit} at least")
            found[which][side] = one
        except Exception as error:  # Of other packages, whatever it is.
            left_out.append([side, which, str(error).partition("\n")[0]])
    signal.setitimer(signal.ITIMER_PROF, 0)
    reference_error = {which: each.mean().item() for which, each in known.items()}
    return {"players": players, "errors": found, "reference": reference_error, "left out": left_out}


def end(*_: object) -> None:
    raise TimeoutError(f"takes more than {TOO_LONG:g} s of the processor")


def cpu_seconds(work: Callable[[], object]) -> float:
    """Seconds of the processor: the mean over as many runs as a coarse clock needs."""
    start, runs = process_time(), 0
    while (took := process_time() - start) < 0.1 or not runs:
        work()
        runs += 1
    return took / runs


def fitting(way: Side, game: Counted, seconds: float) -> int:
    """The evaluations that take so long, two for each player at least."""
    least = 2 * game.full.size + 2
    way(least)  # Imports and compiles.
    return calibrated(lambda budget: cpu_seconds(partial(way, budget)), seconds, least)


def explained(way: Side, budget: int, runs: int, game: Counted, x: Tensor, phi: Tensor) -> Found:
    """The relative error, mean over rows of medians over seeds, and what a row takes."""
    errors, start = [], process_time()
    for game.seed in SEEDS:
        for game.x, wanted in zip(x.split(1), phi.double(), strict=True):
            game.asked = 0
            # Of one class, where a side explains that alone.
            estimate = torch.as_tensor(way(budget)).double().reshape(len(wanted), -1)
            own = wanted[:, : estimate.shape[1]]
            errors.append(relative((estimate - own)[None], own[None]).item())
        if (took := process_time() - start) > ENOUGH:
            break
    return {
        "relative_error": float(np.median(np.reshape(errors, (-1, len(x))), axis=0).mean()),
        "seconds": runs * took / len(errors),
        "evaluations": game.asked / len(phi[0]),
        "seeds": len(errors) // len(x),
    }


def by_side(one: Found, which: str) -> dict[str, float]:
    """Relative errors without that of the reference, in the same time; the least first."""
    time, unit = which.split(" ", 1)
    errors = {}
    for side, entry in one["errors"][which].items():
        known = one["reference"]["one class" if side in ONE_CLASS else "all"]
        error = max(0.0, entry["relative_error"] ** 2 - known**2) ** 0.5
        # A side that took less than its time would have less error with the rest.
        errors[side] = error * ((entry["seconds"] / float(time)) ** 0.5 if unit == "s" else 1)
    return dict(sorted(errors.items(), key=lambda each: each[1]))


def tables(found: Found) -> list[Table]:
    """All sides; and who is left out, where, and why."""
    keys = ("seconds", "evaluations")
    sides = [
        [name, which, side, error, *(one["errors"][which][side][key] for key in keys)]
        for name, one in found.items()
        for which in one["errors"]
        for side, error in by_side(one, which).items()
    ]
    columns = ["data", "equal", "package", "error", "seconds per row", "evaluations per player"]
    rows = [[name, *line] for name, one in found.items() for line in one["left out"]]
    gone = [Table(["data", "left out", "of", "why"], rows)] if rows else []
    return [Table(columns, sides), *gone]


def summary(found: Found) -> dict[str, Any]:
    told = {}
    for name, one in found.items():
        for which in one["errors"]:
            errors = by_side(one, which)
            best = next(side for side in errors if not side.startswith("ours"))
            key = f"{name}, {one['players']} players, {which}, {best}"
            told[key] = errors["ours, auto"] / errors[best]
    return told


def figures(found: Found) -> Figures:
    """A row of panels for each data set: equal time, and equal evaluations."""
    drawn: dict[str, dict[str, dict[str, float]]] = {}
    for name, one in found.items():
        for which in one["errors"]:
            errors = by_side(one, which)
            panel = drawn[f"{name}, {which}"] = {"ours": {}, "others": {}}
            for side, error in errors.items():
                panel["ours" if side.startswith("ours") else "others"][side] = error
    return {"": draw.dots(drawn, "relative error", log=True)}
