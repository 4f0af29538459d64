"""Frames: explainers, and value functions of their cells; stores of rows."""

import tempfile
from functools import partial
from typing import Any

import manifold_shap as ms
from tests.reference.compare import AFTER
from tests.reference.examples import (
    GAUSSIAN,
    MIXED,
    MODEL,
    RIDGE,
    numbers,
    people,
    probabilities,
)
from tests.reference.learned import CODES, STEPS
from tests.reference.results import estimated

FEW = {"evaluations": 60, "seed": 1}


def explainers() -> dict[str, Any]:
    """Explainers of a classifier, and of a regression with groups and global values."""
    frame = people()
    explainer = ms.Explainer(
        probabilities,
        frame,
        returns="probabilities",
        classes=["a", "b", "c"],
        candidates=["empirical", "gaussian"],
        progress=False,
    )
    found = explainer(frame.head(4), **FEW)
    mask = ms.metrics.shapley_pairs(4, len(found.players), least=24, seed=3)
    classes = {
        "chosen": explainer.quality.chosen,
        "auto": found,
        "columns": ", ".join(found.players.names),
        "every candidate": estimated(explainer.candidates["empirical"], found.x, mask),
        "exact of one class": explainer(
            frame.tail(30).head(2), estimator=ms.exact_shapley, outputs=["b"]
        ),
    }
    explainer = ms.Explainer(
        lambda frame: numbers(frame)[:, 0] * 100,
        frame,
        players={"money": ["income", "member"], "when": ["since"]},
        returns="values",
        unit="EUR",
        candidates=["gaussian"],
    )
    found = explainer(frame.head(40), **FEW)
    regression = {
        "players": ", ".join(found.players.names),
        "auto": found,
        "global": ms.global_values(found, numbers(frame)[:40, 0]),
    }
    return {"numpy": classes, "regression": regression}


def fitted() -> dict[str, Any]:
    """Value functions by each fit function and imputer of a frame, of groups of columns too."""
    frame = people()
    few, kept = frame.head(3), frame.iloc[:150]
    kinds = ms.imputers
    imputers: dict[str, tuple[type[ms.imputers.Imputer], dict[str, Any]]] = {
        "marginal": (kinds.MarginalImputer, {}),
        "gaussian": (kinds.GaussianImputer, {"regularisation": RIDGE}),
        "copula": (kinds.CopulaImputer, {"regularisation": RIDGE}),
        "empirical": (kinds.EmpiricalImputer, {"bandwidth": 0.5, "regularisation": RIDGE}),
        "exact match": (kinds.ExactMatchImputer, {}),
    }
    found: dict[str, Any] = {}
    for name, (kind, options) in imputers.items():
        imputer = kinds.table_imputer(kind, ms.Table.fit(kept), kept, **options)
        value = ms.imputed_value(probabilities, imputer, draws=8, seed=2)
        found[f"people, {name}, exact"] = ms.exact_shapley(value, few)
    settings: dict[str, Any] = {"hidden": [8], **STEPS}
    imputer = ms.fit_imputer(
        kept, temper=0.3, bank_size=CODES, latent=2, continuous="quantile", bins=5, **settings
    )
    value = ms.imputed_value(probabilities, imputer, draws=8, seed=2)
    x, table = value.imputer.reference, value.spec.table
    guide = kinds.table_imputer(kinds.MixtureImputer, table, x)
    guided = ms.fit_surrogate(
        value.model, x, teacher_pairs=200, teacher=value, guide=guide, **settings
    )
    groups = {"money": ["income", "member"]}
    grouped = ms.fit_surrogate(numbers, kept, players=groups, space="identity", **settings)
    return found | {
        f"people, quantile vae {AFTER}, permutation": ms.permutation_shapley(
            value, few, permutations=4
        ),
        f"people, guided {AFTER}, exact": ms.exact_shapley(guided, few),
        f"people, surrogate of groups {AFTER}, exact": ms.exact_shapley(grouped, few),
    }


def stores() -> dict[str, Any]:
    """Rows that are explained block by block."""
    x, value = MIXED["reference"][:11], ms.imputed_value(MODEL, GAUSSIAN, "ilr", draws=6)
    estimate = partial(ms.permutation_shapley, permutations=4)
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/rows.zarr"
        ms.explain_rows(store, value, x, estimate, block=4, seed=3, progress=False)
        return {"streamed": ms.Explanation.load(store)}
