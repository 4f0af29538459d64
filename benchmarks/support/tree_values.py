"""Explains ensembles of trees by TreeSHAP of the package shap, and by games of this one."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from torch import Tensor

import manifold_shap as ms
from benchmarks.support import bike

PATH, INTERVENTIONAL, MARGINAL = (
    "TreeSHAP, path-dependent",
    "TreeSHAP, interventional",
    "marginal",
)
CONDITIONAL = ("conditional, Gaussian", "conditional, copula", "conditional, empirical")
FOREST, BOOSTED, BLIND = "random forest", "boosted trees", "boosted trees without season"
SEASON = [bike.PLAYERS.names.index(name) for name in ("cosyear", "sinyear")]


def days_of(seed: int, days: int | None) -> bike.Rentals:
    """Those of `bike.split`, rounded to 1/512.

    shap keeps thresholds in single precision, in which one may become equal to a value next to it,
    and send that row the other way. Halfway between such numbers, thresholds are exact.
    """
    data = bike.split(seed, days)
    x_train, x_test = ((512 * x).round() / 512 for x in (data.x_train, data.x_test))
    return replace(data, x_train=x_train, x_test=x_test)


def fitted(name: str, data: bike.Rentals, trees: int, seed: int) -> Any:
    """An ensemble; no tree makes any use of a column that is zero on all days."""
    x = data.x_train.numpy().copy()
    if name == BLIND:
        x[:, SEASON] = 0
    if name == FOREST:
        model = RandomForestRegressor(trees, min_samples_leaf=5, random_state=seed)
    else:
        model = HistGradientBoostingRegressor(max_iter=trees, random_state=seed)
    return model.fit(x, data.y_train.numpy())


def explained(ensemble: Any, data: bike.Rentals, draws: int, seed: int) -> dict[str, Any]:
    """Values of one ensemble by each method, and the processor seconds that each took."""
    x, model = data.x_train, ms.as_model(ensemble, data.x_train[:8], [bike.UNIT], returns="values")

    def enumerated(
        make: Callable[..., ms.imputers.Imputer], **settings: Any
    ) -> Callable[[], Tensor]:
        def explain() -> Tensor:
            imputer = make(x, bike.PLAYERS, **settings)
            value = ms.imputed_value(
                model, imputer, "identity", imputer.distinct_draws or draws, seed
            )
            return ms.exact_shapley(value, data.x_test).phi[..., 0]

        return explain

    kernel = {"bandwidth": "aicc", "targets": model(x)}
    laws = (
        enumerated(ms.imputers.GaussianImputer),
        enumerated(ms.imputers.CopulaImputer),
        enumerated(ms.imputers.EmpiricalImputer, **kernel),
    )
    works: dict[str, Callable[[], Tensor]] = {
        PATH: lambda: by_trees(ensemble, data.x_test)[1],
        INTERVENTIONAL: lambda: by_trees(ensemble, data.x_test, x)[1],
        MARGINAL: enumerated(ms.imputers.MarginalImputer),
        **dict(zip(CONDITIONAL, laws, strict=True)),
    }
    # The first call loads the package.
    base, _ = by_trees(ensemble, data.x_test[:1])
    phi, seconds = {}, {}
    for name, work in works.items():
        start = time.process_time()
        phi[name] = work()
        seconds[name] = time.process_time() - start
    return {
        "r2": ensemble.score(data.x_test.numpy(), data.y_test.numpy()),
        "base": {PATH: base, MARGINAL: model(x).mean()},
        "prediction": model(data.x_test)[:, 0],
        "phi": phi,
        "seconds": seconds,
    }


def by_trees(
    ensemble: Any, x: Tensor, background: Tensor | None = None
) -> tuple[float, Float[Tensor, "days players"]]:
    """Base and values by TreeSHAP: interventional over a background, path-dependent without."""
    import shap

    if background is None:
        explainer = shap.TreeExplainer(ensemble, feature_perturbation="tree_path_dependent")
    else:
        # By default, a hundred rows of it.
        every = shap.maskers.Independent(background.numpy(), max_samples=len(background))
        explainer = shap.TreeExplainer(ensemble, every, feature_perturbation="interventional")
    phi = explainer.shap_values(x.numpy(), check_additivity=False)
    return float(np.ravel(explainer.expected_value)[0]), torch.as_tensor(phi)


def values(one: Mapping[str, Any]) -> dict[str, Float[Tensor, "days players"]]:
    """Of what `explained` found and a file has kept."""
    return {name: torch.tensor(phi, dtype=torch.float64) for name, phi in one["phi"].items()}


def position(phi: Mapping[str, Tensor], law: str) -> float:
    """Where path-dependent values stand on the way from marginal (0) to conditional ones (1)."""
    way, gone = (phi[name] - phi[MARGINAL] for name in (law, PATH))
    return float((way * gone).sum() / way.square().sum())


def of_season(phi: Tensor) -> float:
    return float(phi[:, SEASON].abs().sum() / phi.abs().sum())
