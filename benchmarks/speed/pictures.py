"""A convolutional surrogate of MNIST beside the default perceptron: errors and seconds.

Both with the default settings but for what is named: the classifier, the split and the rows are the
same, and sides are trained one after the other in one process. Errors are those of Frye et al.
(2021), Eq. 16, on the same pairs of test rows and coalitions; they are also given as a share of the
error off the manifold.
"""

from functools import partial
from typing import Any

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.trained import Trained
from benchmarks.timing import timed

TITLE = "Networks of MNIST surrogates"
QUICK = {"epochs": 1, "conv_epochs": 1, "outputs": ["probability"], "pairs": 2000}


def run(
    data: str = "mnist",
    epochs: int = 30,  # of the perceptron
    conv_epochs: int = 16,  # of the convolutional network: they take about as long
    outputs: tuple[str, ...] = ("probability", "ilr"),
    pairs: int = 50_000,  # of a row and a coalition, in each error
    draws: int = 64,  # of the error off the manifold
) -> dict[str, Any]:
    """Errors and seconds of both networks, by output space."""
    trained = Trained(data, seed=0)
    rows, players = trained.data, trained.data.players
    mask = ms.metrics.shapley_pairs(len(rows.x_test), len(players), pairs)
    sides: dict[str, dict[str, Any]] = {
        "mlp": {"max_epochs": epochs},
        # The game that is scored is of scattered pixels.
        "conv": {
            "network": "conv",
            "max_epochs": conv_epochs,
            "learning_rate": 3e-3,
            "blocks": 0.0,
        },
    }
    found: dict[str, Any] = {}
    for output in outputs:
        off = ms.imputed_value(
            trained.model, ms.imputers.MarginalImputer(rows.x_train, players), output, draws
        )
        beyond = ms.metrics.mean_squared_error(off, rows.x_test, mask).debiased
        for name, changes in sides.items():
            fit = partial(ms.fit_surrogate, trained.model, rows.x_train, space=output, **changes)
            value, seconds = timed(
                partial(
                    fit,
                    x_validation=rows.x_validation,
                    players=players,
                    trainer={"accelerator": "cpu"},
                )
            )
            score = ms.metrics.mean_squared_error(value, rows.x_test, mask)
            found[f"{output}, {name}"] = {
                "mse": score.mse,
                "standard error": score.standard_error,
                "share of the error off the manifold": score.mse / beyond,
                "seconds": seconds,
                "epochs": changes["max_epochs"],
            }
            print(f"{output}, {name}", found[f"{output}, {name}"], flush=True)
    return found


def tables(found: Found) -> list[Table]:
    return [records("output space and network", found)]
