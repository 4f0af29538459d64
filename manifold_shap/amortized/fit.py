"""Trains an amortised explainer: from a surrogate and rows to all Shapley values in one pass."""

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from manifold_shap._stored import stored, with_extremes
from manifold_shap.amortized.explainer import AmortizedExplainer, explainer_of, surrogate_of
from manifold_shap.amortized.task import AmortizedTask, fingerprint, network_settings
from manifold_shap.training.rows import training_rows
from manifold_shap.training.task import TrainingOptions, centred, seeded, train, training_options
from manifold_shap.values import ValueFunction
from manifold_shap.values.selected import Outputs

# Elements of rows in one call of the model.
_ELEMENTS = 2**26


@torch.inference_mode(False)
def fit_amortized(
    value: Any,
    x_train: Any,
    *,
    x_validation: Any = None,
    outputs: Outputs = None,
    network: str | None = None,
    hidden: Sequence[int] | None = None,
    activation: str | None = None,
    shares: int | None = None,
    patch: int | None = None,
    **options: Unpack[TrainingOptions],
) -> AmortizedExplainer:
    """Learn the Shapley values of a surrogate, to have those of any row in one pass.

    Of a fully connected surrogate the labels are unbiased estimates of Shapley values with a high
    variance (stochastic amortisation, Covert et al. 2024), for a transformer from 64 players on. Of
    other surrogates, or fewer players, the network solves the least squares problem of Shapley
    values for all rows together (FastSHAP, Jethani et al. 2022), which takes 16 values of the
    surrogate for each row and epoch.

    Args:
        value: from `fit_surrogate` or `load_surrogate`.
        x_train: rows of the data distribution, `[rows, *event]`, or a data set of them, see
            `fit_surrogate`; labels are not needed.
        x_validation: rows to validate on; by default a tenth of `x_train`, held out.
        outputs: those to learn, see `ValueFunction.select`: of a thousand classes, the few that
            matter; by default all. Not for an "mlp".
        network: what is trained; by default what suits the network of the surrogate:
            - "mlp": the moments of a fully connected surrogate, corrected by a small network;
            - "transformer": attention over tokens, patches, segments or columns, for any other
              surrogate. Of one that is a transformer it has the layers, and begins with their
              weights.
        hidden: layers: of the correcting network, by default 512 and 256; widths of the
            transformer's.
        activation: `relu`, `gelu`, `silu` or `elu`; by default `gelu`.
        shares: of an "mlp", the number of probabilities of presence at which the surrogate's
            moments are computed, by default 4.
        patch: of a transformer, the side of a patch or the length of a segment.
        options: of the training, see `TrainingOptions`; by default 10 epochs of batches of 128,
            and no early stopping.

    Returns:
        An explainer on the CPU, whose `measure` finds its error.

    Raises:
        TypeError: `value` is no surrogate.
        ValueError: rows that are not finite or of another shape, an argument that is unknown or
            out of range, a training that diverges, a `directory` with another training.
        KeyboardInterrupt: on Ctrl-C; the last checkpoint stays in `directory`.

    >>> import manifold_shap as ms
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> few = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 5}}
    >>> value = ms.fit_surrogate(lambda x: x[:, :2].softmax(-1), x, hidden=[8, 8], **few)
    >>> fit_amortized(value, x, hidden=[8], **few)(x[:2]).shape
    torch.Size([2, 3, 2])
    """
    chosen = training_options(fit_amortized, options, batch_size=128, max_epochs=10, patience=None)
    surrogate = surrogate_of(value)
    seed, players = chosen["seed"], value.players
    stored_rows = stored(x_train), stored(x_validation, "x_validation")
    chosen_rows = training_rows(*stored_rows, seed, players, value.schema)
    game = value.select(outputs, with_extremes(chosen_rows.train))
    seen, seen_validation = chosen_rows.encoded
    numbers = [value.outputs.index(name) for name in game.outputs]
    center = None if value.center is None else value.center[numbers]
    rows = (seen, *_ends(game, chosen_rows.train, center))
    held_out = (seen_validation, *_ends(game, chosen_rows.validation, center))
    of_network: dict[str, Any] = {
        "hidden": hidden,
        "activation": activation,
        "shares": shares,
        "patch": patch,
    }
    if game.outputs != value.outputs:
        of_network["chosen"] = numbers
    own = network_settings(surrogate, network, of_network, with_extremes(rows[0]))
    with seeded(seed):
        task = AmortizedTask({"network": own, "surrogate": fingerprint(surrogate), **chosen})
    task.describe(surrogate, rows[1])
    record = train(task, rows, held_out, chosen)
    explainer = explainer_of(task, value)
    explainer.training_record = {name: record[name] for name in ("epochs", "train_seconds")}
    return explainer


def _ends(value: ValueFunction, x: Any, center: Tensor | None) -> tuple[Tensor, Tensor]:
    """v(N) - v(∅), and v(∅) around the center, of rows `[rows, outputs]`, wherever they lie."""
    parts = x.split(max(1, _ELEMENTS // x.shape[1:].numel()))
    found = [[centred(v(rows), center) for v in (value.prediction, value.base)] for rows in parts]
    prediction, base = (torch.cat(ends).cpu() for ends in zip(*found, strict=True))
    return prediction - base, base
