"""Shapley values of one game by other packages, and by this one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import manifold_shap as ms

# phi of a row (or of its first class) by so many permutations, in batches of this size.
Side = Callable[[int, int], np.ndarray]
# These explain one class per run.
ONE_CLASS = ("captum", "shapiq", "captum, kernel", "shapiq, kernel")


class Counted:
    """The surrogate as a function of coalitions of one row, which counts them; and a seed.

    The row and the seed may be changed at any time.
    """

    def __init__(self, value: ms.SurrogateValue, x: Tensor) -> None:
        self.value, self.x = value, x[None].to(value.device)
        self.count, self.seed = 0, 0

    @torch.no_grad()
    def __call__(self, coalitions: Any) -> np.ndarray:
        mask = torch.as_tensor(np.atleast_2d(np.asarray(coalitions))) > 0.5
        self.count += len(mask)
        return self.value(self.x, mask[None].to(self.x.device))[0].cpu().numpy()


def sides(value: ms.SurrogateValue, x: Tensor) -> tuple[dict[str, Side], Counted]:
    """All packages on one game, which counts what they ask it."""
    game = Counted(value, x)
    return {
        "shap": _shap(game),
        "lightshap": _lightshap(game),
        "captum": _captum(game),
        "shapiq": _shapiq(game),
        "ours": _ours(game, value),
        "ours, bf16": _ours(game, value.in_precision("bf16-mixed")),
        "shap, kernel": _shap_kernel(game),
        "captum, kernel": _captum_kernel(game),
        "shapiq, kernel": _shapiq_kernel(game),
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

    nobody, everybody = _ends(game)
    masker = shap.maskers.Independent(nobody)

    def explain(permutations: int, size: int) -> np.ndarray:
        explainer = shap.PermutationExplainer(game, masker, seed=game.seed)
        most = permutations // 2 * (2 * everybody.size + 1)
        return explainer(everybody, max_evals=most, batch_size=size, silent=True).values[0]

    return explain


def _shap_kernel(game: Counted) -> Side:
    import shap

    nobody, everybody = _ends(game)

    def explain(permutations: int, size: int) -> np.ndarray:
        np.random.seed(game.seed)
        kernel = shap.KernelExplainer(game, nobody)
        count = permutations * everybody.size
        return kernel.shap_values(everybody, nsamples=count, l1_reg=0, silent=True)[0]

    return explain


def _lightshap(game: Counted) -> Side:
    import lightshap

    nobody, everybody = _ends(game)

    def explain(permutations: int, size: int) -> np.ndarray:
        settings = {"method": "permutation", "how": "sampling", "tol": 0.0, "verbose": False}
        settings["random_state"] = game.seed
        most = max(1, permutations // (2 * everybody.size))
        return lightshap.explain_any(game, everybody, nobody, max_iter=most, **settings).shap_values

    return explain


def _captum(game: Counted) -> Side:
    from captum.attr import ShapleyValueSampling

    start, end = (torch.from_numpy(each).float() for each in _ends(game))
    sampling = ShapleyValueSampling(lambda z: torch.from_numpy(game(z)))

    def explain(permutations: int, size: int) -> np.ndarray:
        torch.manual_seed(game.seed)
        settings: dict[str, Any] = {"n_samples": permutations, "perturbations_per_eval": size}
        return sampling.attribute(end, start, target=0, **settings)[0].numpy()

    return explain


def _captum_kernel(game: Counted) -> Side:
    from captum.attr import KernelShap

    start, end = (torch.from_numpy(each).float() for each in _ends(game))
    kernels = KernelShap(lambda z: torch.from_numpy(game(z)))

    def explain(permutations: int, size: int) -> np.ndarray:
        torch.manual_seed(game.seed)
        count = permutations * end.shape[1]
        settings: dict[str, Any] = {"n_samples": count, "perturbations_per_eval": size}
        return kernels.attribute(end, start, target=0, **settings)[0].numpy()

    return explain


def _shapiq(game: Counted) -> Side:
    import shapiq

    players = len(game.value.players)

    def explain(permutations: int, size: int) -> np.ndarray:
        approximator = shapiq.PermutationSamplingSV(players, random_state=game.seed)
        budget = permutations * (players - 1) + 2
        found = approximator.approximate(budget, lambda z: game(z)[:, 0], batch_size=size)
        return found.get_n_order_values(1)

    return explain


def _shapiq_kernel(game: Counted) -> Side:
    import shapiq

    players = len(game.value.players)

    def explain(permutations: int, size: int) -> np.ndarray:
        approximator = shapiq.KernelSHAP(players, random_state=game.seed)
        found = approximator.approximate(permutations * players, lambda z: game(z)[:, 0])
        return found.get_n_order_values(1)

    return explain


def _ends(game: Counted) -> tuple[np.ndarray, np.ndarray]:
    """The coalitions of nobody and of everybody, as one row each."""
    players = len(game.value.players)
    nobody, everybody = np.zeros((1, players)), np.ones((1, players))
    return nobody, everybody
