"""Photographs of 3x224x224 with 49 patches: the model itself, fine-tuned, as surrogate.

The model is EfficientNet-Lite0 with ImageNet weights from a package, the pictures are crops of
scikit-image's photographs, and no photograph is in two of the parts (`support/photographs.py`). One
epoch of training, then the five most probable classes of test crops by sampling; errors are
against a long run. Memory is the most that the process had at once.
"""

from typing import Any

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.photographs import SIDE, crops, efficientnet
from benchmarks.support.precision import precision
from benchmarks.timing import in_own_process, peak_memory, timed

TITLE = "Photographs"
QUICK = {"count": 16, "explained": 1, "budgets": [128], "reference": 256}
PATCH = 32
TOP = 5


def run(
    count: int = 500,  # training crops
    explained: int = 4,  # test crops
    budgets: tuple[int, ...] = (256, 512, 1024),  # values for each picture
    reference: int = 20_000,  # values behind the reference
) -> dict[str, Any]:
    """All figures, from a process of its own."""
    return in_own_process(_measured, count, explained, tuple(budgets), reference)


def _measured(
    count: int, explained: int, budgets: tuple[int, ...], reference: int
) -> dict[str, Any]:
    train, validation, test = (
        crops("train", count), crops("validation", max(2, count // 10)), crops("test", 24)
    )  # fmt: skip
    players = ms.Players.patches((3, SIDE, SIDE), PATCH)
    model = ms.as_model(efficientnet(), test[:2])
    value, seconds = timed(
        lambda: ms.fit_surrogate(
            model,
            train,
            x_validation=validation,
            network="model",
            players=players,
            max_epochs=1,
            batch_size=max(1, count // 100),
            trainer={"accelerator": "cpu"},
        )
    )
    figures: dict[str, Any] = {"seconds of an epoch": seconds}
    mask = ms.shapley_pairs(len(test), len(players), 10 * len(test))
    mean = ms.imputed_value(model, ms.BaselineImputer(train.mean(0), players))
    for name, one in (("fine-tuned", value), ("mean picture", mean)):
        figures[f"mse, {name}"] = ms.mean_squared_error(one, test, mask, batch_size=64).mse
    found = precision(value, test[:explained], TOP, budgets, reference)
    return {"figures": {**figures, "peak megabytes": peak_memory()}, "explained": found}


def tables(found: Found) -> list[Table]:
    return [records("", {"": found["figures"]}), records("one picture", found["explained"])]
