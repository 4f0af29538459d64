"""Trains a surrogate of labels: from labelled rows to P(Y | x_S)."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap.models import as_model
from manifold_shap.nn import evaluated
from manifold_shap.spaces import Probability
from manifold_shap.surrogate.fit import OF_NETWORK, surrogate_value
from manifold_shap.surrogate.kinds import network_settings
from manifold_shap.surrogate.task import SurrogateTask
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.tables.rows import encoded
from manifold_shap.training.loop import seeded, train
from manifold_shap.training.rows import TrainingRows
from manifold_shap.training.task import training_options

_HELD_OUT = 0.1


@torch.inference_mode(False)
def fit_label_surrogate(
    rows: TrainingRows,
    labels: Int64[Tensor, " rows"],
    classes: Sequence[str],
    network: str = "mlp",
    **options: Any,
) -> SurrogateValue:
    """Learn the distribution of labels given some of a row, h(x_S) = P(Y | X_S = x_S).

    As `fit_surrogate`, with labels in place of a model's outputs: their conditional probabilities
    are what minimises the squared error. The value function explains data, and no model: its v(N)
    is the network's own.

    Args:
        rows: those in `train` are learned from, a tenth of them held out for early stopping.
        labels: positions among the classes.
        classes: their names.
        network: "mlp", "conv" or "transformer".
        options: see `SurrogateOptions`.
    """
    chosen = training_options(fit_label_surrogate, options, **OF_NETWORK, blocks=None)
    of_network = {name: chosen.pop(name) for name in OF_NETWORK}
    seen, _ = rows.encoded
    target, space = F.one_hot(labels, len(classes)).float(), Probability()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(chosen["seed"]))
    count = max(1, round(_HELD_OUT * len(order)))
    held_out, own = order[:count], order[count:]
    few, share = rows.train[:2], target.mean(0)
    start = as_model(lambda x: share.expand(len(x), -1), few, classes, "probabilities")
    settings = {
        **rows.settings,
        "outputs": list(classes),
        "space": space.settings,
        "dtype": None,
        "network": network_settings(network, of_network, [seen, seen], start, space),
        "teacher": None,
    }
    with seeded(chosen["seed"]):
        task = SurrogateTask({**settings, **chosen})
    task.describe(rows.train[own], seen[own], target[own])
    train(task, (seen[own], target[own]), (seen[held_out], target[held_out]), chosen)

    def whole(x: Tensor) -> Float[Tensor, "batch classes"]:
        every = torch.ones(len(x), 1, len(rows.players), dtype=torch.bool, device=x.device)
        with evaluated(task.surrogate):
            return task.surrogate(encoded(x, rows.schema), every)[:, 0]

    model = as_model(whole, few, classes, "probabilities")
    return surrogate_value(task, model, rows.schema)
