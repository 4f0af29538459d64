"""How close value functions of one call come to imputers, on tables of 3,000 rows.

Four tables with boosted trees: abalone, census, measurements that follow from three hidden factors
("factors", 16 columns, four classes) and hidden classes behind numbers and categories ("classes",
ten columns). Imputers draw 64 completions of a coalition, a surrogate answers by one call of its
network. The imputer that is best on validation rows teaches the taught surrogate: 120,000 values of
8 draws each at rows that it draws itself, beside single predictions of 240,000 such rows; an eighth
of every batch are the training rows. The guided surrogate has the same teacher, and asks the model
at one completed row. Errors are Eq. (16) of Frye et al. (2021) on test rows without
the variance of draws, the same five coalitions a row for all. Of the few rows of abalone two
disjoint sets are tested, each with models of the others.
"""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from lightgbm import LGBMClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import Tensor

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.small_tables import rows_of

TITLE = "One call against a sampler, on small tables"
ERRORS = "paired standard errors over test rows"
QUICK = {"tables": ["classes"], "train": 200, "test": 60, "epochs": 1, "pairs": 1000, "draws": 8}
IMPUTERS: dict[str, Any] = {
    "Gaussian": lambda x, players: ms.imputers.GaussianImputer(x, players, 0.01),
    "copula": lambda x, players: ms.imputers.CopulaImputer(x, players, 0.01),
    "empirical": lambda x, players: ms.imputers.EmpiricalImputer(x, players, regularisation=0.01),
}


def run(
    tables: Sequence[str] = ("abalone", "census", "factors", "classes"),
    train: int = 3000,  # rows of the model and the value functions, a tenth of them to validate
    test: int = 2000,  # rows, at most; of abalone in two parts
    draws: int = 64,  # of imputers
    pairs: int = 120_000,  # values that teach
    epochs: int = 50,  # of the taught surrogate, of 100 steps each; the most of the others
    seed: int = 0,
) -> dict[str, Any]:
    """Errors of all value functions, and ratios to the best imputer's, by table."""
    found = {}
    for name in tables:
        parts = [
            measure(name, part, train, test, draws, pairs, epochs, seed)
            for part in range(2 if name == "abalone" else 1)
        ]
        errors = {side: torch.cat([part[0][side] for part in parts]) for side in parts[0][0]}
        found[name] = compared(errors) | {"seconds": [part[1] for part in parts]}
        print(name, found[name], flush=True)
    return found


def measure(
    name: str, part: int, train: int, test: int, draws: int, pairs: int, epochs: int, seed: int
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The error of each test row by every value function, and the seconds that each took to fit."""
    x, y, schema = rows_of(name, part, train, test, seed)
    model, (x, test_rows) = fitted(name, x[:train], y[:train]), x.split([train, len(x) - train])
    x, held_out = x[: round(0.9 * train)], x[round(0.9 * train) :]
    brief: dict[str, Any] = {"x_validation": held_out, "schema": schema, "seed": seed}
    brief |= {"trainer": {"accelerator": "cpu", "precision": "bf16-mixed"}}
    seconds, values = {}, {}

    def fit(side: str, make: Any) -> Any:
        start = time.perf_counter()
        values[side] = make()
        seconds[side] = round(time.perf_counter() - start, 1)
        return values[side]

    for side, make in IMPUTERS.items():
        with warnings.catch_warnings():
            # One-hot columns are always collinear.
            warnings.filterwarnings("ignore", message="The covariance of `reference`")
            imputer = fit(side, lambda make=make: make(x, schema.players))
        values[side] = ms.imputed_value(model, imputer, draws=draws)
    longest = {"trainer": None, "max_epochs": min(20, epochs)}
    vae = fit("VAE", lambda: ms.fit_imputer(x, model=model, **{**brief, **longest}))
    values["VAE"] = ms.imputed_value(model, vae, draws=draws)
    mask = ms.metrics.shapley_pairs(len(held_out), len(schema.players), 4000, seed + 1)
    scores = {
        n: ms.metrics.mean_squared_error(v, held_out, mask).debiased for n, v in values.items()
    }
    best = values[min(scores, key=lambda side: scores[side])]
    teacher = ms.imputed_value(model, best.imputer, draws=8, seed=seed)
    steps: dict[str, Any] = {"batch_size": 512, "max_epochs": epochs, "patience": None}
    taught = {"teacher": teacher, "teacher_pairs": pairs, "teacher_share": 0.875, **steps}
    alone = {**brief, "max_epochs": min(30, epochs)}
    fit("surrogate", lambda: ms.fit_surrogate(model, x, **alone))
    fit("taught surrogate", lambda: ms.fit_surrogate(model, x, **brief, **taught))
    guided: dict[str, Any] = {"teacher_pairs": pairs, "max_epochs": min(6, epochs), "seed": seed}
    guided |= {"trainer": brief["trainer"], "schema": schema, "teacher": teacher}
    guided["guide"] = ms.imputers.MixtureImputer(x, schema.players)
    fit("guided surrogate", lambda: ms.fit_surrogate(model, x, **guided))
    mask = ms.metrics.shapley_pairs(
        len(test_rows), len(schema.players), 5 * len(test_rows), seed + 2
    )
    return {
        n: ms.metrics.mean_squared_error(v, test_rows, mask).by_row for n, v in values.items()
    }, seconds


def compared(errors: dict[str, Tensor]) -> dict[str, Any]:
    """Mean errors, and their ratios to that of the best imputer with paired standard errors."""
    means = {side: error.mean().item() for side, error in errors.items()}
    best = min((*IMPUTERS, "VAE"), key=lambda side: means[side])
    ratios = {}
    for side, error in errors.items():
        ratio = means[side] / means[best]
        gap = (error - ratio * errors[best]).std().item() / len(error) ** 0.5
        ratios[side] = [ratio, gap / means[best]]
    return {"rows": len(errors[best]), "best imputer": best, "mse": means, "ratio": ratios}


def fitted(name: str, x: Tensor, y: Any) -> ms.Model:
    """Boosted trees: of scikit-learn for measurements, of lightgbm for mixed columns."""
    mixed = name in ("census", "classes")
    kind: Any = LGBMClassifier if mixed else HistGradientBoostingClassifier
    options = {"verbose": -1, "n_jobs": torch.get_num_threads()} if mixed else {"max_iter": 60}
    trees = kind(**options, random_state=0).fit(x.numpy(), y)
    # Arrays without names of columns, as in the training.
    return ms.as_model(lambda x: torch.from_numpy(trees.predict_proba(x.numpy())).float(), x)


def tables(found: Found) -> list[Table]:
    return [
        records("table", {n: one["ratio"] for n, one in found.items()}),
        records("table", {n: one["mse"] for n, one in found.items()}),
    ]
