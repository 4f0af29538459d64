"""Photographs of 3x224x224 with 49 patches: the model itself, fine-tuned, as surrogate.

The model is EfficientNet-Lite0 with ImageNet weights from a package, the pictures are crops of
scikit-image's photographs, and no photograph is in two of the parts (`support/photographs.py`). One
epoch of training, then the five most probable classes of test crops by sampling and by a
convolutional amortised explainer of all 1,000; errors are against a long run. Memory is the most
that the process had at once.
"""

from typing import Any

import manifold_shap as ms
from benchmarks.report import Found, Table, records
from benchmarks.support.photographs import SIDE, crops, efficientnet
from benchmarks.support.precision import precision
from benchmarks.timing import in_own_process, peak_memory, timed

TITLE = "Photographs"
QUICK = {
    "count": 16, "explainer_epochs": 1, "explained": 1, "budgets": [128], "reference": 256,
}  # fmt: skip
PATCH = 32
TOP = 5


def run(
    count: int = 500,  # training crops
    explainer_epochs: int = 1,  # of the amortised explainer
    explained: int = 2,  # test crops, of one photograph each
    budgets: tuple[int, ...] = (256, 512, 1024),  # values for each picture
    reference: int = 4096,  # values behind the reference
) -> dict[str, Any]:
    """All figures, from a process of its own."""
    settings = (count, explainer_epochs, explained, tuple(budgets), reference)
    return in_own_process(_measured, *settings)


def _measured(
    count: int, explainer_epochs: int, explained: int, budgets: tuple[int, ...], reference: int
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
            # At 1e-3 the copy forgot what the model says of whole pictures.
            # The two rates alone were tried, and on different numbers of crops.
            learning_rate=1e-4,
            trainer={"accelerator": "cpu"},
        )
    )
    figures: dict[str, Any] = {"seconds of an epoch": seconds}
    mask = ms.metrics.shapley_pairs(len(test), len(players), 10 * len(test))
    mean = ms.imputed_value(model, ms.imputers.BaselineImputer(train.mean(0), players))
    for name, one in (("fine-tuned", value), ("mean picture", mean)):
        figures[f"mse, {name}"] = ms.metrics.mean_squared_error(one, test, mask).mse
    explainer, figures["seconds of the explainer's training"] = timed(
        lambda: ms.fit_amortized(
            value,
            train,
            x_validation=validation[:8],
            max_epochs=explainer_epochs,
            batch_size=max(2, count // 100),
            trainer={"accelerator": "cpu"},
        )
    )
    found = precision(value, test[:explained], TOP, budgets, reference, explainer)
    return {"figures": {**figures, "peak megabytes": peak_memory()}, "explained": found}


def tables(found: Found) -> list[Table]:
    return [records("", {"": found["figures"]}), records("one picture", found["explained"])]
