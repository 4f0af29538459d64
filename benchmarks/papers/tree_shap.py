"""The thesis says that TreeSHAP explains by the conditional expectation. Here both forms of it in
the package shap stand beside marginal and conditional values of the same trees, for bicycles rented
per day. One model has never seen the season. Features are rounded to 1/512, since shap keeps
thresholds in single precision. Times are processor seconds, fits of imputers included.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from torch import Tensor

import manifold_shap as ms
from benchmarks import draw
from benchmarks.papers.seven_ways import NAMES, PLAYERS, UNIT, Rentals, split
from benchmarks.report import Claim, Figures, Found, number
from benchmarks.support.explained import MARGINAL
from benchmarks.support.measures import apart, gap, sure

TITLE = "TreeSHAP beside marginal and conditional values"
SOURCE = "Carballo, Section 3.6.2; Lundberg et al. (2020)"
ERRORS = "standard errors of means over days"
QUICK = {"trees": 10, "draws": 16, "days": 20}
PATH, INTERVENTIONAL = "TreeSHAP, path-dependent", "TreeSHAP, interventional"
CONDITIONAL = ("conditional, Gaussian", "conditional, copula", "conditional, empirical")
ENSEMBLES = FOREST, BOOSTED, BLIND = (
    "random forest", "boosted trees", "boosted trees without season",
)  # fmt: skip
SEASON = [NAMES.index(name) for name in ("cosyear", "sinyear")]
ROUNDING = 1e-6


def run(
    trees: int = 50,  # of each ensemble
    draws: int = 64,  # completions of a coalition, where they are random
    days: int | None = None,  # to explain, two or more; None: all that the model has not seen
) -> dict[str, Any]:
    """Values of the same days by all methods for each ensemble, and processor seconds."""
    data = split(days)
    x_train, x_test = ((512 * x).round() / 512 for x in (data.x_train, data.x_test))
    data = replace(data, x_train=x_train, x_test=x_test)
    return {"ensembles": {n: explained(fitted(n, data, trees), data, draws) for n in ENSEMBLES}}


def fitted(name: str, data: Rentals, trees: int) -> Any:
    """An ensemble; no tree makes any use of a column that is zero on all days."""
    x = data.x_train.numpy().copy()
    if name == BLIND:
        x[:, SEASON] = 0
    if name == FOREST:
        model = RandomForestRegressor(trees, min_samples_leaf=5, random_state=0)
    else:
        model = HistGradientBoostingRegressor(max_iter=trees, random_state=0)
    return model.fit(x, data.y_train.numpy())


def explained(ensemble: Any, data: Rentals, draws: int) -> dict[str, Any]:
    """Values of one ensemble by each method, and the processor seconds that each took."""
    x, model = data.x_train, ms.as_model(ensemble, data.x_train[:8], [UNIT], returns="values")

    def enumerated(make: Callable[..., ms.imputers.Imputer]) -> Tensor:
        imputer = make(x, PLAYERS)
        value = ms.imputed_value(model, imputer, "identity", imputer.distinct_draws or draws)
        return ms.exact_shapley(value, data.x_test).phi[..., 0]

    laws: Any = (ms.imputers.GaussianImputer, ms.imputers.CopulaImputer,
            partial(ms.imputers.EmpiricalImputer, bandwidth="aicc", targets=model(x)))  # fmt: skip
    works: dict[str, Callable[[], Tensor]] = {
        PATH: lambda: by_trees(ensemble, data.x_test)[1],
        INTERVENTIONAL: lambda: by_trees(ensemble, data.x_test, x)[1],
        MARGINAL: partial(enumerated, ms.imputers.MarginalImputer),
        **{way: partial(enumerated, law) for way, law in zip(CONDITIONAL, laws, strict=True)},
    }
    # The first call loads the package.
    base, _ = by_trees(ensemble, data.x_test[:1])
    prediction = model(data.x_test)[:, 0]
    found: Any = {"base": {PATH: base}, "prediction": prediction, "phi": {}, "seconds": {}}
    for name, work in works.items():
        start = time.process_time()
        found["phi"][name] = work()
        found["seconds"][name] = time.process_time() - start
    return found


def by_trees(
    ensemble: Any, x: Tensor, background: Tensor | None = None
) -> tuple[float, Float[Tensor, "days players"]]:
    """Base and values by TreeSHAP: interventional over a background, path-dependent without."""
    import shap

    if background is not None:
        # By default, a hundred rows of it.
        background = shap.maskers.Independent(background.numpy(), max_samples=len(background))
    explainer = shap.TreeExplainer(ensemble, background)
    phi = explainer.shap_values(x.numpy(), check_additivity=False)
    return float(np.ravel(explainer.expected_value)[0]), torch.as_tensor(phi)


def values(one: Mapping[str, Any]) -> dict[str, Float[Tensor, "days players"]]:
    """Of what `explained` found and a file has kept."""
    return {name: torch.tensor(phi, dtype=torch.float64) for name, phi in one["phi"].items()}


def claims(found: Found) -> list[Claim]:
    made, sums, gaps, times = [], [], [], []
    phi = {name: values(one) for name, one in found["ensembles"].items()}

    def of_season(name: str) -> list[float]:
        return [float(p[:, SEASON].abs().sum() / p.abs().sum()) for p in phi[name].values()]

    for name in (FOREST, BOOSTED):
        off, *on = (apart(phi[name][PATH], phi[name][way]) for way in (MARGINAL, *CONDITIONAL))
        told = ", ".join(number(each.mean().item()) for each in on)
        path, _, marginal, *shares = of_season(name)
        made.append(Claim(
            f"{name}: path-dependent values are nearer to conditional than to marginal ones",
            "by the conditional expectation",
            f"{told} bicycles from conditional, {number(off.mean().item())} from marginal ones",
            all(sure(gap(off, one)) for one in on), f"they give {path:.0%} of Σ|φ| to the season, "
            f"marginal ones {marginal:.0%}, conditional ones {min(shares):.0%} or more",
        ))  # fmt: skip
    path, _, marginal, *shares = of_season(BLIND)
    for name, one in found["ensembles"].items():
        own, prediction = phi[name], torch.tensor(one["prediction"])
        left = prediction - one["base"][PATH] - own[PATH].sum(1)
        sums.append(float(left.abs().max() / prediction.abs().max()))
        most = own[MARGINAL].abs().max()
        gaps.append(float((own[INTERVENTIONAL] - own[MARGINAL]).abs().max() / most))
        fastest = min(one["seconds"][way] for way in (MARGINAL, *CONDITIONAL))
        times.append(fastest / one["seconds"][PATH])
    return [
        *made,
        Claim("a season that the model does not use has a value, as the weather tells it: at least "
              "half of the share that conditional values give to it",
              "by the conditional expectation",
              f"{path:.0%} of Σ|φ| against {min(shares):.0%} or more", path > min(shares) / 2,
              f"no tree splits on the season: marginal values give {marginal:.0%} to it, too"),
        Claim("given all features, the expectation is the prediction", "Section 3.6.2",
              f"up to {number(max(sums))} of the largest apart", max(sums) < ROUNDING),
        Claim("interventional values are those of our marginal game of the whole ensemble",
              "additivity; Lundberg et al. (2020)",
              f"up to {number(max(gaps))} of the largest apart", max(gaps) < ROUNDING),
        Claim("path-dependent values take less time than the enumeration of all coalitions",
              "more efficient", f"{number(min(times))} times less, or better", min(times) > 1),
    ]  # fmt: skip


def figures(found: Found) -> Figures:
    """How far the others are from path-dependent TreeSHAP."""
    distances = {}
    for name in (FOREST, BOOSTED):
        phi = values(found["ensembles"][name])
        path = phi.pop(PATH)
        distances[name] = {way: apart(own, path).mean().item() for way, own in phi.items()}
    far_off = {"How far from path-dependent TreeSHAP": distances}
    return {"": draw.dots(far_off, "bicycles at other features, mean over days")}
