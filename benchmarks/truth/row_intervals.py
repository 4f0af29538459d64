"""How often intervals of a row's Shapley values hold the true ones, learning error included.

Of each law 3,000 rows are divided into halves, on which value functions of two kinds are learned, a
surrogate and a VAE, and `averaged` takes the mean of their Shapley values. The models are a
logistic regression, a small network and boosted trees, fitted to 2,000 other rows and their labels.
The scale from scatter to error is that which gives 95 % coverage on the other laws, with the
quantiles of Student's t. True values have an error of at most a tenth of what is compared with
them, root mean squares both. Widths are compared with those of one constant either way, chosen on
the very rows to reach the same coverage: no interval of one width is narrower.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

import manifold_shap as ms
from benchmarks.laws.frames import model_of
from benchmarks.laws.latent import LatentClasses
from benchmarks.laws.network import BayesianNetwork
from benchmarks.report import Found, Table, kept, records
from benchmarks.support.table_models import MODELS, Tabulated, fitted
from benchmarks.timing import timed
from manifold_shap.learning_error import FREEDOM, SCALE
from manifold_shap.oracles import ConditionalLaw, GaussianMixture
from manifold_shap.oracles.shapley import SHARE_OF_DISTANCE
from manifold_shap.tables.features import in_order

TITLE = "Coverage of intervals of a row's values"
QUICK = {"laws": ["asia", "gaussian"], "models": ["logistic"], "rows": 4, "train": 400, "draws": 16}
LEVEL = 0.95
TARGETS = {"asia": "dysp", "sachs": "Akt", "child": "Disease", "insurance": "PropCost"}
LAWS = ("gaussian", "mixture", "latent", *TARGETS)
FITTED = 2000
# Of the first estimate of true values.
FIRST_ERROR = 4e-3
# Values of v per player and row, where there are more players than can be enumerated twice.
EVALUATIONS, FEW = 256, 6


def run(
    laws: Sequence[str] = LAWS,
    models: Sequence[str] = tuple(MODELS),
    train: int = 3000,  # rows of both halves
    rows: int = 12,  # explained, of each law and model
    kinds: Sequence[str] = ("surrogate", "vae"),  # of value functions, one for each half
    draws: int = 8,  # of a coalition, for the truth, each time that it is evaluated
    parts: str = "runs/row_intervals",  # folder of finished parts
) -> dict[str, Any]:
    """By law: coverage and width with the scale of the other laws."""
    settings = {"train": train, "rows": rows, "kinds": list(kinds), "draws": draws}
    found: dict[str, dict[str, Any]] = {}
    for law in laws:
        for model in models:
            path = Path(parts, f"{law}_{model}.json")
            own: Any = {"law": law, "model": model, **settings}
            found.setdefault(law, {})[model] = kept(path, own, partial(measure, **own))
            print(law, model, found[law][model]["about"], flush=True)
    about = {f"{law}, {name}": found[law][name]["about"] for law in laws for name in models}
    return {"laws": calibrated(found), "about": about, "scale of all": scale_of(pooled(found))}


def law_of(name: str) -> ConditionalLaw:
    """A law by its name; random ones are of seed 3."""
    if name in TARGETS:
        folder = os.environ.get("MANIFOLD_SHAP_DATA", ".")
        return BayesianNetwork.read(
            Path(folder, "bayesian_networks", f"{name}.bif.gz"), TARGETS[name]
        )
    if name == "latent":
        return LatentClasses(3)
    return GaussianMixture.random(*((6, 1) if name == "gaussian" else (8, 3)), seed=3)


def labelled(law: ConditionalLaw, count: int) -> tuple[Tensor, Tensor]:
    """Rows and labels; a law of one class has those of a noisy function of the row."""
    x, y = law.sample(count, seed=5)
    if len(law.classes) > 1:
        return x, y
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(x.shape[1], generator=generator)
    noise = 0.5 * torch.randn(len(x), generator=generator)
    return x, ((x @ weights).tanh() + 0.5 * x[:, 0] * x[:, 1] + noise > 0).long()


def measure(
    law: str, model: str, train: int, rows: int, kinds: Sequence[str], draws: int
) -> dict[str, Any]:
    """Errors and scatters of Shapley values, `[rows, players, outputs]`, as lists."""
    known = law_of(law)
    x, y = labelled(known, FITTED + train + rows)
    frame = known.frame(x)
    predictor = fitted(model, frame[:FITTED], y[:FITTED])
    learned, test = frame[FITTED:-rows], frame[-rows:].reset_index(drop=True)
    order = torch.randperm(train, generator=torch.Generator().manual_seed(0)).numpy()
    explained = []
    for k, (kind, part) in enumerate(zip(kinds, np.array_split(order, len(kinds)), strict=True)):
        value = FITTED_BY[kind](predictor, learned.iloc[part].reset_index(drop=True), k)
        # Of drawn values more than usual: this is about the error of learning.
        many = value.sampled and len(known.names) > FEW
        budget = EVALUATIONS * (len(known.names) + 1) if many else None
        explained.append(ms.auto_shapley(value, test, evaluations=budget, seed=k))
    whole = ms.averaged(explained)
    asked = model_of(known, predictor)
    if isinstance(known, BayesianNetwork):  # Quicker, with the same outputs.
        asked = model_of(known, Tabulated(predictor, frame), asked.classes, "probabilities")
    truth = ms.oracles.true_value(asked, known, draws=draws, rows=2**16)
    (true, sampling), seconds = timed(lambda: true_values(truth, test, whole))
    whole = in_order(whole, truth.players.names)
    error = (whole.phi.double() - true.double()).flatten()
    assert whole.model_error is not None
    return {
        "error": error.tolist(),
        "model_error": (whole.model_error / SCALE).flatten().tolist(),
        "standard_error": whole.standard_error.nan_to_num(0).flatten().tolist(),
        "about": {
            "players": len(known.names),
            "root mean square of phi": true.double().square().mean().sqrt().item(),
            "error": error.square().mean().sqrt().item(),
            "error of the truth": sampling,
            "scatter": (whole.model_error / SCALE).double().square().mean().sqrt().item(),
            "standard error": whole.standard_error.double().square().nanmean().sqrt().item(),
            "seconds of the truth": seconds,
        },
    }


def by_surrogate(model: Any, frame: Any, seed: int) -> ms.ValueFunction:
    return ms.fit_surrogate(model, frame, seed=seed, trainer={"accelerator": "cpu"})


def by_vae(model: Any, frame: Any, seed: int) -> ms.ValueFunction:
    imputer = ms.fit_imputer(frame, seed=seed, trainer={"accelerator": "cpu"})
    return ms.imputed_value(model, imputer, draws=32, seed=seed)


FITTED_BY = {"surrogate": by_surrogate, "vae": by_vae}


def true_values(truth: ms.oracles.TrueValue, x: Any, whole: ms.Explanation) -> tuple[Tensor, float]:
    """Shapley values, and their error: at most a tenth of their distance from the explanation."""
    error = FIRST_ERROR
    while True:
        found = ms.oracles.true_shapley(truth, x, error, seed=7)
        distance = ms.oracles.distance_to_true_shapley(whole, found)
        if distance.resolved:
            return found.phi, distance.truth_error
        error = min(0.9 * SHARE_OF_DISTANCE * distance.error, error / 2)


def pooled(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Tensor]]:
    """By law, the figures of all models."""
    names = ("error", "model_error", "standard_error")
    return {
        law: {
            name: torch.cat([torch.tensor(one[name]).double() for one in many.values()])
            for name in names
        }
        for law, many in found.items()
    }


def calibrated(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """By law, with the scale that the others want; each law weighs the same."""
    every = pooled(found)
    result = {}
    for law, own in every.items():
        others = {name: one for name, one in every.items() if name != law} or {law: own}
        scale = scale_of(others)
        half = width(own, scale)
        constant = own["error"].abs().quantile(LEVEL)
        result[law] = {
            "scale": scale,
            "coverage": covered(own, scale),
            "sampling alone": covered(own, 0.0),
            "width over that of a constant": (half.mean() / constant).item(),
        }
    return result


def scale_of(pooled: Mapping[str, Mapping[str, Tensor]]) -> float:
    """The scale with which intervals hold as many of the errors as they should."""
    low, high = 1e-3, 1e3
    for _ in range(60):
        middle = (low * high) ** 0.5
        share = sum(covered(one, middle) for one in pooled.values()) / len(pooled)
        low, high = (middle, high) if share < LEVEL else (low, middle)
    return high


def covered(one: Mapping[str, Tensor], scale: float) -> float:
    """The share of errors within their intervals."""
    return (one["error"].abs() <= width(one, scale)).double().mean().item()


def width(one: Mapping[str, Tensor], scale: float) -> Tensor:
    """Half of that of the intervals."""
    sampling = stats.norm.ppf(0.5 + LEVEL / 2) * one["standard_error"]
    return torch.hypot(sampling, scale * stats.t.ppf(0.5 + LEVEL / 2, FREEDOM) * one["model_error"])


def tables(found: Found) -> list[Table]:
    return [records(f"{LEVEL:.0%} intervals", found["laws"]), records("", found["about"])]
