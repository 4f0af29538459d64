"""Every side explains the same test rows by the same surrogate, in its default settings and its
best batch size of those tried: a callable that gives the values of coalitions, all classes at once.
captum and shapiq explain one class per run. Figures are medians over seeds. Needs `.[peers]`.
"""

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import manifold_shap as ms
from benchmarks import draw
from benchmarks.report import Figures, Found
from benchmarks.support.measures import FEW, by_shapiq, calibrated, reference, relative, timed
from benchmarks.support.trained import brief_surrogate

TITLE = "Beside other packages"
CAPTION = "error of `auto` over that of the best other package in equal time"
QUICK = {"data": ["digits"], "epochs": 1, "seconds": 0.2, "rows": 1}
SEEDS = range(2, 7)  # Runs of which errors are medians.
SIZES = {"ours": (2048, 4096, 8192, 16384), "others": (16, 128, 1024)}
# These explain one class per run.
ONE_CLASS = ("captum", "shapiq")
# phi of a row (or of its first class) by so many permutations, in batches of this size.
Side = Callable[..., Any]
OVER = {"data": ("digits", "mnist", "census")}


class Counted:
    """The surrogate as a function of coalitions of one row; row and seed may change at any time."""

    def __init__(self, value: ms.SurrogateValue, x: Tensor) -> None:
        self.value, self.x, self.seed = value, x, 0
        self.empty, self.full = (f((1, len(value.players))) for f in (np.zeros, np.ones))

    @torch.no_grad()
    def __call__(self, coalitions: Any) -> np.ndarray:
        mask = torch.as_tensor(np.atleast_2d(np.asarray(coalitions))) > 0.5
        return self.value(self.x, mask[None])[0].numpy()


def sides(game: Counted) -> dict[str, Side]:
    """All packages on one game."""
    import captum.attr
    import lightshap
    import shap

    players = game.full.size
    start, end = (torch.from_numpy(side).float() for side in (game.empty, game.full))

    def ours(permutations: int, size: int) -> Any:
        even = max(2, permutations // 2 * 2)
        how: dict[str, Any] = {"permutations": even, "batch_size": size, "seed": game.seed}
        return ms.permutation_shapley(game.value, game.x, **how).phi[0]

    def by_shap(permutations: int, size: int) -> Any:
        masker = shap.maskers.Independent(game.empty)
        explainer = shap.PermutationExplainer(game, masker, seed=game.seed)
        most = permutations // 2 * (2 * players + 1)
        return explainer(game.full, max_evals=most, batch_size=size, silent=True).values[0]

    def by_shap_kernel(permutations: int, size: int) -> Any:
        np.random.seed(game.seed)
        kernel = shap.KernelExplainer(game, game.empty)
        count = permutations * players
        return kernel.shap_values(game.full, nsamples=count, l1_reg=0, silent=True)[0]

    def by_lightshap(permutations: int, size: int) -> Any:
        how = {"method": "permutation", "how": "sampling", "tol": 0.0, "verbose": False}
        most = {"max_iter": max(1, permutations // (2 * players)), "random_state": game.seed}
        return lightshap.explain_any(game, game.full, game.empty, **how, **most).shap_values

    def by_captum(permutations: int, size: int) -> Any:
        torch.manual_seed(game.seed)
        sampling = captum.attr.ShapleyValueSampling(lambda z: torch.from_numpy(game(z)))
        settings: dict[str, Any] = {"n_samples": permutations, "target": 0}
        return sampling.attribute(end, start, perturbations_per_eval=size, **settings)[0]

    def of_shapiq(permutations: int, size: int) -> Any:
        first = lambda mask: torch.from_numpy(game(mask[0])[:, 0])  # noqa: E731
        budget = permutations * (players - 1) + 2
        return by_shapiq("PermutationSamplingSV", first, players, budget, game.seed)

    return {
        "shap": by_shap,
        "lightshap": by_lightshap,
        "captum": by_captum,
        "shapiq": of_shapiq,
        "ours": ours,
        "shap, kernel": by_shap_kernel,
    }


def measure(
    name: str,
    epochs: int = 3,  # of the surrogate
    seconds: float = 2.0,  # for one row, all classes; those of exact values where players are few
    rows: int = 3,  # test rows of the errors
) -> dict[str, Any]:
    """Relative errors at equal time on one data set."""
    value, loaded = brief_surrogate(name, epochs)
    x, players = loaded.x_test[:rows], len(value.players)
    game = Counted(value, x[:1])

    def auto(evaluations: int) -> Any:
        return ms.auto_shapley(value, game.x, evaluations=evaluations, seed=game.seed).phi[0]

    phi, _ = reference(value, x)
    few = players <= FEW
    if few:  # As long as exact values take; the last run, since the first one warms up.
        seconds = [timed(lambda: auto(2**players))[1] for _ in range(5)][-1]
    found: dict[str, Any] = {"seconds": seconds}
    works: dict[str, tuple[Callable[[int], Any], int]] = {"ours, auto": (auto, 64 * players)}
    some = max(4, 20_000 // players // 2 * 2)
    for side, work in sides(game).items():
        sizes = SIZES["ours" if side == "ours" else "others"]
        times = {size: timed(partial(work, some, size))[1] for size in sizes}
        best = min(times, key=times.__getitem__)
        works[side] = partial(work, size=best), 2
    for side, (once, start) in works.items():
        classes = len(value.outputs) if side in ONE_CLASS else 1

        def took(budget: int, once: Any = once, classes: int = classes) -> float:
            return classes * timed(partial(once, budget))[1]

        exact = few and start > 2
        budget = 2**players if exact else calibrated(took, seconds, start)
        found[side] = medians(once, budget, game, x, phi)
    return {"players": players, "errors": found}


def medians(
    once: Callable[[int], Any], budget: int, game: Counted, x: Tensor, phi: Tensor
) -> dict[str, float]:
    """The relative error, the mean over rows of medians over seeds."""
    errors = []
    for game.x, wanted in zip(x.split(1), phi, strict=True):
        runs = []
        for game.seed in SEEDS:
            # Of one class, where a side explains that alone.
            given = torch.as_tensor(once(budget)).double().reshape(len(wanted), -1)
            own = wanted[:, : given.shape[1]].double()
            runs.append(relative((given - own)[None], own[None]).item())
        errors.append(statistics.median(runs))
    return {"relative_error": statistics.mean(errors)}


def by_side(one: Found) -> dict[str, float]:
    """Relative errors."""
    errors = one["errors"].items()
    return {k: entry["relative_error"] for k, entry in errors if isinstance(entry, dict)}


def summary(found: Found) -> dict[str, Any]:
    told = {}
    for name, one in found.items():
        errors = by_side(one)
        best = min((k for k in errors if not k.startswith("ours")), key=errors.__getitem__)
        ratio = errors["ours, auto"] / errors[best]
        told[f"{name}, {one['players']} players, {best}"] = ratio
    return told


def figures(found: Found) -> Figures:
    """Errors at equal time; exact values have none to draw."""
    drawn = {}
    for name, one in found.items():
        errors = {k: error for k, error in by_side(one).items() if error > 1e-6}
        order = sorted(errors, key=errors.__getitem__)
        panel = {"ours": {k: errors[k] for k in order if k.startswith("ours")},
                 "others": {k: errors[k] for k in order if not k.startswith("ours")}}  # fmt: skip
        drawn[f"{name}, {one['errors']['seconds']:.2g} s, all classes"] = panel
    return {"": draw.dots(drawn, "relative error", log=True)}
