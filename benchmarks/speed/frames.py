"""What completed frames cost: an imputed value function beside its model on the same frame, ready.

A lightgbm model of a messy table (nine columns, two of them text as categories, missing cells); all
coalitions of a few rows, with 64 draws each. The other side is the model alone, called once on the
completed rows as one frame. Sides alternate; figures are medians.
"""

from typing import Any

import torch
from lightgbm import LGBMClassifier

import manifold_shap as ms
from benchmarks.laws.table import mixture
from benchmarks.report import Found, Table, records
from benchmarks.speed.truth import native
from benchmarks.timing import seconds
from manifold_shap.coalitions import Listed, all_coalitions

TITLE = "Completed frames"
QUICK = {"rows": 500, "draws": 8, "repeats": 1}
IMPUTERS: dict[str, Any] = {
    "marginal": ms.imputers.MarginalImputer,
    "Gaussian": ms.imputers.GaussianImputer,
    "copula": ms.imputers.CopulaImputer,
    "empirical": ms.imputers.EmpiricalImputer,
}


def run(
    rows: int = 3000,  # of the table
    explained: int = 2,  # of these
    draws: int = 64,  # completions of a coalition
    repeats: int = 7,  # of which seconds are medians
    vae: bool = True,  # whether to train a VAE (briefly) and measure its bank, too
) -> dict[str, Any]:
    """Seconds of both sides, by imputer."""
    table, _ = mixture(rows=rows)
    features: Any = table.features
    frame = native(features)
    threads = torch.get_num_threads()
    model = LGBMClassifier(n_jobs=threads, verbose=-1).fit(frame, table.labels.numpy())
    codebook = ms.Codebook.fit(frame)
    x = codebook.rows(frame)
    wrapped = ms.as_model(model, codebook)
    imputers = {n: ms.imputers.table_imputer(kind, codebook, x) for n, kind in IMPUTERS.items()}
    if vae:
        imputers["VAE (bank)"] = ms.fit_imputer(x, schema=codebook, temper=0.5, max_epochs=1)
    found = {}
    for name, imputer in imputers.items():
        value = ms.imputed_value(wrapped, imputer, draws=draws)
        found[name] = measure(value, x[:explained], model, repeats)
        print(name, found[name], flush=True)
    return found


def measure(value: ms.ImputedValue, x: Any, model: Any, repeats: int) -> dict[str, float]:
    """Model rows per second of a value function, and of its model on the same rows, ready."""
    mask = all_coalitions(len(value.players))[1:-1].expand(len(x), -1, -1)
    keys = torch.zeros(mask.shape[:2], dtype=torch.int64)
    completed = value.imputer.impute(x, Listed(mask, keys), range(value.draws)).rows.flatten(0, 2)
    codebook: Any = value.model.codebook
    ready = codebook.frame(completed)
    took = seconds(
        {"imputed": lambda: value(x, mask), "ready": lambda: model.predict_proba(ready)}, repeats
    )
    rates = {f"{side}, rows per second": len(completed) / one for side, one in took.items()}
    return {**rates, "ratio": took["ready"] / took["imputed"]}


def tables(found: Found) -> list[Table]:
    return [records("imputer", found)]
