"""Trains an amortised explainer: from a surrogate and unlabelled rows to phi(x) in one pass."""

import copy
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manifold_shap.amortized.explainer import AmortizedExplainer
from manifold_shap.amortized.network import AmortizedNetwork
from manifold_shap.coalitions import sample_stratified_pairs, stratum_weights
from manifold_shap.nn import check_hidden
from manifold_shap.surrogate.network import Surrogate
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.training.loop import seeded, train_on, training_rows
from manifold_shap.training.task import Task, TrainingOptions, load_task, training_options

_STRATA = 8
# One row in 16 also has exact contributions, which correct the linearized ones.
_EXACT_EVERY = 16
# Hidden activations that fit a cache.
_CACHED = 2**21


class AmortizedTask(Task):
    """An amortised explainer, by squared error against single noisy estimates of Shapley values.

    Batches are `(x, v(N) - v(∅))`. Every row meets one coalition and its complement per step: the
    linearized contributions of all players there, see `Surrogate.around`, and for a few rows the
    error of the linearization. Eight rows share the strata of `sample_stratified_pairs`. The
    surrogate itself is given by `describe`.

    Settings: `index`, the player that owns each of the flattened input elements; the number of
    `outputs`; `surrogate_hidden`, the hidden layers of the surrogate; `hidden`, `activation` and
    `shares`, see `AmortizedNetwork`; and the options of the training.
    """

    kind = "explainer"
    described = ("probe",)
    probe: Tensor

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        own = self.hparams
        network = ("index", "outputs", "hidden", "activation", "shares")
        widths = own["surrogate_hidden"]
        self.explainer = AmortizedNetwork(widths=widths, **{name: own[name] for name in network})
        # Recognises the surrogate that it was trained for.
        self.register_buffer("probe", torch.zeros(widths[0]))
        self._surrogate: tuple[Surrogate, ...] = ()

    @torch.no_grad()
    def describe(self, surrogate: Surrogate, change: Tensor) -> None:
        """Take the surrogate, and the scale of v(N) - v(∅) over training rows."""
        # In a tuple it is not a submodule, which would be trained and saved.
        self._surrogate = (surrogate,)
        self.probe.copy_(_fingerprint(surrogate))
        self.explainer.start(surrogate, change)

    def on_fit_start(self) -> None:
        (surrogate,) = self._surrogate
        # A copy: the caller may go on using the surrogate on its device.
        self._surrogate = (copy.deepcopy(surrogate).requires_grad_(False).to(self.device),)

    def loss(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        x, change = batch
        noisy = self._contributions(x, generator)
        (surrogate,) = self._surrogate
        with torch.no_grad():
            rows = surrogate.standardised(x)
        phi = self.explainer(surrogate, rows, change)
        return ((phi - noisy) / self.explainer.scale).square().sum(1).mean(1)

    @torch.no_grad()
    def _contributions(
        self, x: Tensor, generator: torch.Generator
    ) -> Float[Tensor, "batch players outputs"]:
        """An unbiased estimate of all Shapley values of each row, from one pair of coalitions.

        A two-level estimator: linearized contributions of all rows, plus a correction by the exact
        contributions of a few random rows.
        """
        mask, weight = self._pairs(len(x), generator)
        found = self._by_parts(x, mask, linearized=True)
        count = -(-len(x) // _EXACT_EVERY)
        few = torch.randperm(len(x), generator=generator, device=generator.device)[:count]
        missed = self._by_parts(x[few], mask[few], linearized=False) - found[few]
        found[few] += missed * (len(x) / count)
        return found * weight[:, None, None]

    def _pairs(
        self, count: int, generator: torch.Generator
    ) -> tuple[Bool[Tensor, "batch 2 players"], Float[Tensor, " batch"]]:
        """A pair of coalitions for each row, and its weight: strata in turn from a random one."""
        first = int(torch.randint(_STRATA, (), generator=generator, device=generator.device))
        rows = slice(first, first + count)
        groups = -(-(first + count) // _STRATA)
        pairs = sample_stratified_pairs((groups,), self.explainer.players, _STRATA, generator)
        weights = _STRATA * stratum_weights(_STRATA).to(pairs.device).repeat(groups)
        return pairs.flatten(0, 1)[rows], weights[rows]

    def _by_parts(
        self, x: Tensor, mask: Bool[Tensor, "batch 2 players"], linearized: bool
    ) -> Float[Tensor, "batch players outputs"]:
        (surrogate,) = self._surrogate
        found = []
        # Rows whose coalitions' hidden activations fit a cache.
        step = max(_STRATA, _CACHED // (2 * mask.shape[-1] * len(self.probe)))
        for rows, pairs in zip(x.split(step), mask.split(step), strict=True):
            values = surrogate.around(rows, pairs, linearized)
            change = values[:, :, 1:] - values[:, :, :1]
            found.append(torch.where(pairs[..., None], -change, change).mean(1))
        return torch.cat(found).float()


def fit_amortized(
    value: Any,
    x_train: Any,
    *,
    x_validation: Any = None,
    hidden: Sequence[int] = (512, 256),
    activation: str = "gelu",
    shares: int = 4,
    **options: Unpack[TrainingOptions],
) -> AmortizedExplainer:
    """Learn the Shapley values of a surrogate, to have those of any row in one pass.

    The labels are unbiased estimates of Shapley values with a high variance (stochastic
    amortisation, Covert et al. 2024).

    Args:
        value: from `fit_surrogate` or `load_surrogate`.
        x_train: rows of the data distribution, `[rows, *event]`; labels are not needed.
        x_validation: rows to validate on; by default a tenth of `x_train`, held out.
        hidden, activation: layers of the network that corrects the moments of the surrogate.
        shares: number of probabilities of presence at which the surrogate's moments are computed.
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
    >>> explainer = fit_amortized(value, x, hidden=[8], **few)
    >>> ms.amortized_shapley(value, x[:2], explainer=explainer).phi.shape
    torch.Size([2, 3, 2])
    """
    chosen = training_options(fit_amortized, options, batch_size=128, max_epochs=10, patience=None)
    _check_surrogate(value)
    check_hidden(hidden)
    x_train, x_validation = training_rows(x_train, x_validation, value.players, chosen["seed"])
    settings = {
        "index": value.players.index.flatten().tolist(),
        "outputs": len(value.outputs),
        "surrogate_hidden": [layer.in_features for layer in value.surrogate.behind],
        "hidden": hidden,
        "activation": activation,
        "shares": shares,
    }
    with seeded(chosen["seed"]):
        task = AmortizedTask({**settings, **chosen})
    train, validation = (
        (x, value.prediction(x) - value.expectation) for x in (x_train, x_validation)
    )
    task.describe(value.surrogate, train[1])
    training = train_on(task, train, validation, chosen)
    explainer = _explainer(task, value)
    explainer.training = {"epochs": training.epochs, "train_seconds": training.seconds}
    return explainer


def load_amortized(path: str | Path, value: Any) -> AmortizedExplainer:
    """The explainer that `AmortizedExplainer.save` wrote.

    Args:
        path: the checkpoint; no code in it is run.
        value: the surrogate that it was trained for.

    Raises:
        FileNotFoundError: no file is there.
        TypeError: `value` is no surrogate.
        ValueError: it is damaged or of something else, or was trained for another surrogate.
    """
    _check_surrogate(value)
    task, checkpoint = load_task(path, AmortizedTask)
    known = _fingerprint(value.surrogate).cpu()
    if task.probe.shape != known.shape or not torch.allclose(task.probe, known, atol=1e-4):
        raise ValueError(
            f"Expected the surrogate for which the explainer in {path} was trained but this is "
            "another one; train the explainer again."
        )
    explainer = _explainer(task, value)
    explainer.relative_error = checkpoint.get("relative_error", math.nan)
    return explainer


def _check_surrogate(value: Any) -> None:
    if not isinstance(value, SurrogateValue):
        raise TypeError(
            f"Expected `value` to be a surrogate but got {type(value).__name__}; train one by "
            "`ms.fit_surrogate`, and explain other value functions by an estimator."
        )


@torch.no_grad()
def _fingerprint(surrogate: Surrogate) -> Float[Tensor, " width"]:
    """Sums of weights, biases and scales, by which to recognise a surrogate."""
    after = sum(layer.weight.mean() + layer.bias.mean() for layer in surrogate.behind)
    scales = (surrogate.x_mean, surrogate.x_scale, surrogate.target_mean, surrogate.target_scale)
    about = after + sum(scale.mean() for scale in scales)
    return surrogate.first.weight.sum(1) + surrogate.first.bias + about


def _explainer(task: AmortizedTask, value: SurrogateValue) -> AmortizedExplainer:
    checkpoint = task.checkpoint()
    return AmortizedExplainer(value, task.explainer.to(value.device), checkpoint)
