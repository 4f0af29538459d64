"""Computes Shapley values of one game by other packages, and by this one."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

import manifold_shap as ms

# phi of a row (or of its first class) by so many permutations, in batches of this size.
Side = Callable[[int, int], np.ndarray]
# These explain one class per run.
ONE_CLASS = ("captum", "shapiq", "captum, kernel", "shapiq, kernel")


def require(extra: str, *names: str) -> None:
    """Check that packages are there, before anything is measured.

    Raises:
        ValueError: one is not installed.
    """
    if missing := [name for name in names if find_spec(name) is None]:
        raise ValueError(
            f"Expected the packages {', '.join(names)} but found no {', '.join(missing)}: pip "
            f"install 'manifold_shap[{extra}]', or choose settings that do without."
        )


class Counted:
    """The surrogate as a function of coalitions of one row, which counts them; and a seed.

    The row and the seed may be changed at any time.
    """

    def __init__(self, value: ms.SurrogateValue, x: Tensor) -> None:
        self.value, self.x = value, x[None].to(value.device)
        self.count, self.seed = 0, 0
        self.empty, self.full = (f((1, len(value.players))) for f in (np.zeros, np.ones))

    @torch.no_grad()
    def __call__(self, coalitions: Any) -> np.ndarray:
        mask = torch.as_tensor(np.atleast_2d(np.asarray(coalitions))) > 0.5
        self.count += len(mask)
        return self.value(self.x, mask[None].to(self.x.device))[0].cpu().numpy()

    def first(self, coalitions: Any) -> np.ndarray:
        """Of the first class alone."""
        return self(coalitions)[:, 0]


def sides(value: ms.SurrogateValue, x: Tensor) -> tuple[dict[str, Side], Counted]:
    """All packages on one game, which counts what they ask it."""
    game = Counted(value, x)
    return {
        "shap": _shap(game),
        "lightshap": _lightshap(game),
        "captum": _captum(game, "ShapleyValueSampling", 1),
        "shapiq": _shapiq(game, "PermutationSamplingSV", -1, 2),
        "ours": _ours(game, value),
        "ours, bf16": _ours(game, value.in_precision("bf16-mixed")),
        "shap, kernel": _shap_kernel(game),
        "captum, kernel": _captum(game, "KernelShap", len(value.players)),
        "shapiq, kernel": _shapiq(game, "KernelSHAP", 0, 0),
    }, game


def _ours(game: Counted, value: ms.SurrogateValue) -> Side:
    def explain(permutations: int, size: int) -> np.ndarray:
        even = max(2, permutations // 2 * 2)
        found = ms.permutation_shapley(
            value, game.x, permutations=even, batch_size=size, seed=game.seed
        )
        game.count += found.made_by["evaluations"]
        return found.phi[0].numpy()

    return explain


def _shap(game: Counted) -> Side:
    import shap

    masker = shap.maskers.Independent(game.empty)

    def explain(permutations: int, size: int) -> np.ndarray:
        explainer = shap.PermutationExplainer(game, masker, seed=game.seed)
        most = permutations // 2 * (2 * game.full.size + 1)
        return explainer(game.full, max_evals=most, batch_size=size, silent=True).values[0]

    return explain


def _shap_kernel(game: Counted) -> Side:
    import shap

    def explain(permutations: int, size: int) -> np.ndarray:
        np.random.seed(game.seed)
        kernel = shap.KernelExplainer(game, game.empty)
        count = permutations * game.full.size
        return kernel.shap_values(game.full, nsamples=count, l1_reg=0, silent=True)[0]

    return explain


def _lightshap(game: Counted) -> Side:
    import lightshap

    settings = {"method": "permutation", "how": "sampling", "tol": 0.0, "verbose": False}

    def explain(permutations: int, size: int) -> np.ndarray:
        most = {"max_iter": max(1, permutations // (2 * game.full.size)), **settings}
        found = lightshap.explain_any(game, game.full, game.empty, random_state=game.seed, **most)
        return found.shap_values

    return explain


def _captum(game: Counted, method: str, each: int) -> Side:
    """By a method whose samples are as many as a permutation has, times `each`."""
    import captum.attr

    start, end = (torch.from_numpy(side).float() for side in (game.empty, game.full))
    attribution = getattr(captum.attr, method)(lambda z: torch.from_numpy(game(z)))

    def explain(permutations: int, size: int) -> np.ndarray:
        torch.manual_seed(game.seed)
        settings: dict[str, Any] = {"n_samples": each * permutations, "target": 0}
        return attribution.attribute(end, start, perturbations_per_eval=size, **settings)[0].numpy()

    return explain


def _shapiq(game: Counted, method: str, less: int, ends: int) -> Side:
    """By a method that evaluates a permutation at n + `less` coalitions, and `ends` in all."""
    import shapiq

    def explain(permutations: int, size: int) -> np.ndarray:
        approximator = getattr(shapiq, method)(game.full.size, random_state=game.seed)
        batch = {"batch_size": size} if ends else {}
        budget = permutations * (game.full.size + less) + ends
        return approximator.approximate(budget, game.first, **batch).get_n_order_values(1)

    return explain
