"""Values by imputers on the sizes of shapr's vignettes, and beside shap's permutation explainer.

`Gaussian`: exact values of 144 rows, 7 features, 1,000 draws, a small network; 18 million model
rows (shapr: 12 s for at most 128 coalitions). `causal`: the same sizes, three components in causal
order of which the second is confounded, a VAE and its training included (shapr: 383 s for 20
coalitions a row with 1,000 draws). `marginal`: 20 rows, 20 features, 100 donors, a network of 5
classes, against shap, which walks 20 orders and their reverses, 41 coalitions each, the empty and
the grand one included; ours has as many orders as make at least as many evaluated coalitions. Each
at its best batch size.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.packages import require
from benchmarks.timing import seconds, timed
from manifold_shap.nn import MLP

TITLE = "Sizes of shapr's vignettes, and marginal values beside shap"
QUICK = {"rows": 10, "draws": 50, "reference": 200, "repeats": 1}
FEATURES = 7
COMPONENTS, CONFOUNDING = [["x0", "x1"], ["x2", "x3", "x4"], ["x5", "x6"]], [False, True, False]
VAE: dict[str, Any] = {"latent": 4, "hidden": [64, 64], "components": 2, "max_epochs": 5}
VAE |= {"bank_size": 1000, "temper": 1.0, "seed": 0, "posterior": "bank"}
OTHER, DONORS, PAIRS, EXACT = 20, 100, 20, 2000
COALITIONS = PAIRS * (2 * OTHER + 1)


def run(
    rows: int = 144,  # to explain
    draws: int = 1000,  # completions of a coalition
    reference: int = 1000,  # rows of the imputers
    repeats: int = 3,  # of which seconds are medians
) -> dict[str, Any]:
    """Seconds of all three."""
    require("shap", "shap")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 3))
    known, x = mixture(reference, 1), mixture(rows, 2)
    sizes = [2**k for k in range(12, 19, 2)]

    def explain(size: int) -> None:
        value = ms.imputed_value(model, ms.imputers.GaussianImputer(known), "probability", draws)
        ms.exact_shapley(value, x, batch_size=size)

    gaussian = min(seconds({size: partial(explain, size) for size in sizes}, repeats).values())
    vae, fitting = timed(lambda: ms.fit_imputer(known, **VAE))
    causal = ms.imputers.CausalImputer(vae, COMPONENTS, CONFOUNDING)
    few = ms.imputed_value(model, causal, "probability", max(1, draws // 10))
    many = ms.imputed_value(model, causal, "probability", draws)
    mask = ms.laws.SizeUniform(FEATURES).sample((rows, 20), torch.Generator().manual_seed(0))
    exact, some = timed(lambda: ms.exact_shapley(few, x))[1], timed(lambda: many(x, mask))[1]
    times = {
        f"Gaussian, all coalitions, {draws} draws": [gaussian, 12.0],
        f"causal by a VAE, all coalitions, {few.draws} draws": [fitting + exact, None],
        f"causal by a VAE, 20 coalitions a row, {draws} draws": [fitting + some, 383.0],
    }
    return {"shapr": times, "shap": beside_shap(min(rows, 20), repeats)}


def mixture(rows: int, seed: int) -> Tensor:
    """Of two correlated normal distributions."""
    law, generator = torch.Generator().manual_seed(0), torch.Generator().manual_seed(seed)
    mixing = torch.randn(2, FEATURES, FEATURES, generator=law) / FEATURES**0.5
    centre = torch.randn(2, FEATURES, generator=law)
    of = torch.randint(2, (rows,), generator=generator)
    standard = torch.randn(rows, 1, FEATURES, generator=generator)
    return centre[of] + (standard @ mixing[of])[:, 0]


def beside_shap(rows: int, repeats: int) -> dict[str, dict[str, float]]:
    """Seconds, evaluated coalitions and errors of both sides."""
    import shap

    network = MLP(OTHER, [64, 64], 5).eval()
    x, donors = torch.randn(rows, OTHER), torch.randn(DONORS, OTHER)

    @torch.no_grad()
    def probabilities(rows: np.ndarray) -> np.ndarray:
        return network(torch.from_numpy(rows).float()).softmax(-1).numpy()

    masker = shap.maskers.Independent(donors.numpy(), max_samples=DONORS)
    explainer = shap.PermutationExplainer(probabilities, masker, seed=0)
    value = ms.imputed_value(
        network, ms.imputers.MarginalImputer(donors), "probability", draws=DONORS
    )

    def theirs(size: int) -> np.ndarray:
        return explainer(x.numpy(), max_evals=COALITIONS, batch_size=size, silent=True).values

    def ours(permutations: int, size: int) -> np.ndarray:
        found = ms.permutation_shapley(value, x, permutations=permutations, batch_size=size)
        return found.phi.numpy()

    orders = 2 * -(-COALITIONS // (2 * (OTHER - 1)))
    powers = [2**k for k in range(11, 18)]
    sides: dict[str, Any] = {
        "shap": (theirs, [5, 10, 21, 41], COALITIONS),
        "ours": (partial(ours, orders), powers, orders * (OTHER - 1)),
        "ours, the same orders": (partial(ours, 2 * PAIRS), powers, 2 * PAIRS * (OTHER - 1)),
    }
    best, exact = {}, ours(EXACT, 8192)
    for name, (work, sizes, _) in sides.items():
        times = seconds({size: partial(work, size) for size in sizes}, repeats)
        best[name] = partial(work, min(times, key=times.__getitem__))
    took = seconds(best, repeats)
    return {
        name: {
            "seconds": took[name],
            "coalitions": sides[name][2],
            "error": float(np.abs(best[name]() - exact).mean()),
            "shap / this": took["shap"] / took[name],
        }
        for name in sides
    }


def tables(found: Found) -> list[Table]:
    shapr = [[name, *times] for name, times in found["shapr"].items()]
    table = Table(["", "seconds", "shapr's vignette"], shapr)
    return [table, records("marginal values", found["shap"])]
