"""Trains an amortised explainer: from a surrogate and rows to all Shapley values in one pass."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._saved import Passed, saved
from manifold_shap._stored import with_extremes
from manifold_shap.amortized.explainer import AmortizedExplainer, network_of
from manifold_shap.amortized.network import AmortizedNetwork, OwnExplainer
from manifold_shap.amortized.perceptron import AmortizedPerceptron
from manifold_shap.amortized.transformer import AmortizedTransformer
from manifold_shap.io.files import digest
from manifold_shap.nn import Network, kind_of, options_given, passed_again
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.training.rows import training_rows
from manifold_shap.training.task import (
    Task,
    TrainingOptions,
    centred,
    learn,
)
from manifold_shap.values import ValueFunction
from manifold_shap.values.selected import Outputs

# Elements of rows in one call of the model.
_ELEMENTS = 2**26
# The kinds of networks by name.
KINDS: dict[str, type[AmortizedNetwork]] = {
    "mlp": AmortizedPerceptron,
    "transformer": AmortizedTransformer,
    "own": OwnExplainer,
}


def network_settings(
    surrogate: SurrogateNetwork, network: Network | None, options: Mapping[str, Any], x: Tensor
) -> dict[str, Any]:
    """Settings of the network of an explainer, as plain data: its kind, the game, its arguments.

    Args:
        surrogate: the network to explain.
        network: see `fit_amortized`; None for what suits the surrogate.
        options: of the network, None for the usual ones; and `chosen`, numbers of the outputs that
            are learned, where these are not all.
        x: training rows, as the surrogate sees them.

    Raises:
        ValueError: an option that this kind does not have, or a kind that does not suit.
    """
    if network is None:
        network = "mlp" if isinstance(surrogate, Perceptron) else "transformer"
    name = kind_of(network, [name for name in KINDS if name != "own"])
    kind = KINDS[name]
    own = kind.settings_for(surrogate, x)
    if options.get("chosen") is not None and not kind.takes_some_outputs:
        raise ValueError(
            f"Expected all outputs for the network {name!r}, whose passes share the layers of "
            "the surrogate, but got some of them; leave `outputs` out, and choose among those of "
            "`explain`."
        )
    given = options_given(kind, name, options)
    return {"kind": name, "game": asdict(surrogate.game), **own, **given}


@saved
class AmortizedTask(Task):
    """An amortised explainer, by the loss of its network; see `AmortizedNetwork.loss`.

    Batches are `(x, v(N) - v(∅), v(∅))`. The surrogate itself is given by `fit_statistics`.

    Settings: `network`, see `network_settings`; `surrogate`, the `fingerprint` of the one that it
    is trained for; and the options of the training.

    Args:
        settings: those.
        network: of the user's, where it is one.
    """

    kind = "explainer"

    def __init__(self, settings: Mapping[str, Any], network: Any = None) -> None:
        super().__init__(settings)
        own = dict(self.settings["network"])
        kind, game = KINDS[own.pop("kind")], GameShape(**own.pop("game"))
        more = {"network": passed_again("own", network)} if kind is OwnExplainer else {}
        self.explainer = kind(game, **own, **more)
        # In a tuple the surrogate is not a submodule, which would be trained and saved.
        self.surrogates: tuple[SurrogateNetwork, ...] = ()

    @classmethod
    def made_of(cls, settings: Mapping[str, Any], passed: Passed) -> tuple[Any, ...]:
        return (passed.network,)

    def of(self, value: Any) -> AmortizedExplainer:
        """The explainer of the surrogate for which it was trained."""
        return AmortizedExplainer(value, self.explainer.to(value.device), self)

    @torch.no_grad()
    def fit_statistics(self, surrogate: SurrogateNetwork, change: Tensor) -> None:
        """Take the surrogate, and v(N) - v(∅) of training rows."""
        # A copy: the caller may continue to use the surrogate on its device, or to train it.
        self.surrogates = (copy.deepcopy(surrogate).eval().requires_grad_(False),)
        self.explainer.start(surrogate, change)

    @property
    def _surrogate(self) -> SurrogateNetwork:
        (surrogate,) = self.surrogates
        return surrogate.to(self.explainer.scale.device)

    def loss(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        x, change, base = batch
        return self.explainer.loss(self._surrogate, x, change, base, generator)


@torch.inference_mode(False)
def fit_amortized(
    value: Any,
    x_train: Any,
    *,
    x_validation: Any = None,
    outputs: Outputs = None,
    network: Network | None = None,
    hidden: Sequence[int] | None = None,
    activation: str | None = None,
    shares: int | None = None,
    patch: int | None = None,
    learning_rate: float = 2e-3,
    weight_decay: float = 0.01,
    schedule: str = "one_cycle",
    batch_size: int = 128,
    max_epochs: int = 10,
    least_batches: int = 100,
    patience: int | None = None,
    weight_averaging: float | None = 0.99,
    seed: int = 0,
    directory: str | Path | None = None,
    trainer: Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> AmortizedExplainer:
    """Learn the Shapley values of a surrogate, to have those of any row in one pass.

    Of a fully connected surrogate the labels are unbiased estimates of Shapley values with a high
    variance (stochastic amortisation, Covert et al. 2024), for a transformer from 64 players on. Of
    other surrogates, or fewer players, the network solves the least squares problem of Shapley
    values for all rows together (FastSHAP, Jethani et al. 2022), which takes 16 values of the
    surrogate for each row and epoch.

    Args:
        value: from `fit_surrogate`, or loaded.
        x_train: rows of the data distribution, `[rows, *event]`, or a data set of them, see
            `fit_surrogate`; labels are not needed.
        x_validation: rows to validate on; by default a tenth of `x_train`, held out.
        outputs: those to learn, see `ValueFunction.select`: of a thousand classes, the few that
            matter; by default all. Not for an "mlp".
        network: what is trained; by default what suits the network of the surrogate:
            - "mlp": the moments of a fully connected surrogate, corrected by a small network;
            - "transformer": attention over tokens, patches, segments or columns, for any other
              surrogate. Of one that is a transformer it has the layers, and begins with their
              weights;
            - a torch module of your own that gives values `[rows, players, outputs]` for rows, as
              the surrogate sees them, and v(N) - v(∅), `(x, change)`; or a function that makes one
              of the shapes of a row and of its values, `network((3, 32, 32), (50, 10))`.
        hidden: layers: of the correcting network, by default 512 and 256; widths of the
            transformer's.
        activation: `relu`, `gelu`, `silu` or `elu`; by default `gelu`.
        shares: of an "mlp", the number of probabilities of presence at which the surrogate's
            moments are computed, by default 4.
        patch: of a transformer, the side of a patch or the length of a segment.
        learning_rate, weight_decay, schedule, batch_size, max_epochs: see `TrainingOptions`.
        least_batches, patience, weight_averaging: see `TrainingOptions`.
        seed, directory, trainer, progress: see `TrainingOptions`.

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
    options = TrainingOptions.among(locals())
    surrogate, players = network_of(value).value.surrogate, value.players
    chosen_rows = training_rows(x_train, x_validation, seed, players, value.spec.table)
    game = value.select(outputs)
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
    settings = {"network": own, "surrogate": fingerprint(surrogate), **options.settings}
    task = AmortizedTask.initial(settings, network)
    task.fit_statistics(surrogate, rows[1])
    learn(task, (rows, held_out), options)
    task.surrogates = ()
    return task.of(value)


def _ends(value: ValueFunction, x: Any, center: Tensor | None) -> tuple[Tensor, Tensor]:
    """v(N) - v(∅), and v(∅) around the center, of rows `[rows, outputs]`, wherever they lie."""
    parts = x.split(max(1, _ELEMENTS // x.shape[1:].numel()))
    found = [[centred(v(rows), center) for v in (value.prediction, value.base)] for rows in parts]
    prediction, base = (torch.cat(ends).cpu() for ends in zip(*found, strict=True))
    return prediction - base, base


def fingerprint(surrogate: SurrogateNetwork) -> str:
    """A checksum of the weights and scales of a surrogate, by which to recognise it."""
    return digest(*(each for _, each in sorted(surrogate.state_dict().items())))
