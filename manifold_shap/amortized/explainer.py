"""Explains rows by one pass of a network that was trained for a surrogate."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_whole
from manifold_shap._messages import shown
from manifold_shap._saved import saved
from manifold_shap.amortized.network import AmortizedNetwork
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.runner import Asking, Result, explain
from manifold_shap.explanation import Explanation
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.tables.rows import encoded
from manifold_shap.training.task import Task, trained
from manifold_shap.values import ValueFunction
from manifold_shap.values.base import OneNetwork
from manifold_shap.values.exportable import Exportable
from manifold_shap.values.selected import Outputs

# On two cores any from 256 to 768 is equally fast.
_BATCH_SIZE = 512


@saved
class AmortizedExplainer(Exportable):
    """Shapley values of rows by one pass of a network, with its measured error.

        >>> import manifold_shap as ms
        >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
        >>> few = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 5}}
        >>> value = ms.fit_surrogate(lambda x: x[:, :2].softmax(-1), x, hidden=[8, 8], **few)
        >>> explainer = ms.fit_amortized(value, x, hidden=[8], **few)
        >>> explanation = ms.amortized_shapley(value, x[:2], explainer=explainer)
        >>> bool(explanation.efficiency_gap < 1e-5)
        True
        >>> explainer.measure(ms.exact_shapley(value, x)) == explainer.relative_error
        True

    Attributes:
        value: the surrogate that it explains.
        network: see `AmortizedNetwork`.
        relative_error: on held-out rows, against accurate estimates; NaN until `measure` is called.
        task: what it was trained as; None where it was put together by hand.
    """

    def __init__(
        self,
        value: SurrogateValue,
        network: AmortizedNetwork,
        task: Task | None = None,
    ) -> None:
        self.value, self.network = value, network.eval()
        self.relative_error = math.nan
        self.task = task

    @property
    def training_record(self) -> dict[str, Any]:
        """Epochs, seconds and validation loss."""
        return {} if self.task is None else self.task.record

    kind = "amortized explainer"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it was trained as, the surrogate, and its error.

        Raises:
            ValueError: it was put together by hand.
        """
        task = trained(self.task)
        return {"task": task, "value": self.value, "relative_error": self.relative_error}, {}

    @classmethod
    def restored(
        cls, settings: dict[str, Any], _: dict[str, Tensor], passed: Any
    ) -> "AmortizedExplainer":
        explainer: AmortizedExplainer = settings["task"].of(settings["value"])
        explainer.relative_error = settings["relative_error"]
        return explainer

    @property
    def game(self) -> ValueFunction:
        """The surrogate, restricted to the outputs that the network gives."""
        chosen = self.network.chosen
        if chosen is None:
            return self.value
        return self.value.select([self.value.outputs[k] for k in chosen.tolist()])

    @torch.no_grad()
    def __call__(self, x: Any) -> Float[Tensor, "batch players outputs"]:
        """Shapley values of rows `[batch, *event]`; 0 of players that a row lacks."""
        rows = self.value.rows(x).to(self.value.device)
        return self.values(rows, self.game.prediction(rows))

    def values(
        self,
        rows: Float[Tensor, "batch *event"],
        prediction: Float[Tensor, "batch outputs"],
        batch_size: int = _BATCH_SIZE,
    ) -> Float[Tensor, "batch players outputs"]:
        """Shapley values of checked rows, given v(N)."""
        # The value function may have been moved.
        self.network.to(self.value.device)
        surrogate = self.value.surrogate
        change = (prediction - self.game.base(rows)).float()
        # Within one context weights are cast to half precision once.
        with self.value.products():
            parts = zip(rows.split(batch_size), change.split(batch_size), strict=True)
            found = [
                self.network(surrogate, encoded(some, self.value.spec.table).to(own.device), own)
                for some, own in parts
            ]
        return torch.cat(found)

    def measure(self, reference: Explanation) -> float:
        """Relative error against an explanation of the same value function, which is also stored.

        It is the mean over rows of the norm of the errors divided by the norm of the values.

        Raises:
            ValueError: the explanation is of other players, or lacks an output.
        """
        # Behind the players of the game there may be constant columns, of no contribution.
        players, game = self.value.players, self.game
        if reference.players.names[: len(players)] != players.names:
            raise ValueError(
                f"Expected an explanation of the players {shown(players.names)} but got one of "
                f"{shown(reference.players.names)}; explain the surrogate itself, without groups."
            )
        phi = reference.phi[:, : len(players)]
        if reference.outputs != game.outputs:
            phi = phi[..., [reference.outputs.index(name) for name in game.outputs]]
        # Of players that a row lacks.
        phi = phi.nan_to_num() if players.by_row else phi
        squared = (self(reference.x).cpu() - phi).square().sum((1, 2))
        relative = (squared / phi.square().sum((1, 2)).clamp(min=1e-12)).sqrt()
        self.relative_error = relative.mean().item()
        return self.relative_error


def _amortized(game: Evaluator, explainer: AmortizedExplainer, rows: int) -> Asking[Result]:
    """Shapley values by passes of so many rows; the game may be of some outputs alone."""
    own, outputs = explainer.game, game.value.outputs
    every = outputs == own.outputs
    with torch.no_grad():
        prediction = game.prediction if every else own.prediction(game.x.to(own.device))
        phi = explainer.values(game.x, prediction, rows)[:, : len(game.players)]
    if not every:
        phi = phi[..., [own.outputs.index(name) for name in outputs]]
    made_by: dict[str, Any] = {"estimator": "amortized"}
    if math.isfinite(explainer.relative_error):
        made_by["relative_error"] = explainer.relative_error
    yield from ()  # It asks for no values.
    return Result(phi, made_by, torch.full_like(phi, torch.nan))


def network_of(value: Any) -> OneNetwork:
    """The surrogate that a value function is; TypeError for other value functions."""
    network: OneNetwork | None = value.one_network() if hasattr(value, "one_network") else None
    if network is not None:
        return network
    raise TypeError(
        f"Expected `value` to be a surrogate but got {type(value).__name__}; train one by "
        "`ms.fit_surrogate`, of the very players that are to be explained, and explain groups of "
        "them and other value functions by another estimator."
    )


def amortized_shapley(
    value: Any,
    x: Any,
    *,
    explainer: AmortizedExplainer,
    evaluations: int | None = None,
    outputs: Outputs = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Shapley values by one pass of a network, with unknown (NaN) standard errors.

    The relative error of the network on other rows is in `made_by`. An estimator gives unbiased
    values with standard errors of these rows.

    Args:
        value: the surrogate that the explainer was trained for.
        x: rows to explain, `[instances, *event]`.
        explainer: from `fit_amortized`, or loaded.
        evaluations, seed, progress: unused: no values are computed, nothing is drawn, and nothing
            takes long; all estimators take them.
        outputs: those to keep: names or positions, one or a list; by default all. See
            `ValueFunction.select`.
        batch_size: rows per pass; 512 by default.

    Raises:
        TypeError, ValueError: `value` is no surrogate; the explainer was trained for another one;
            rows that are not finite, or a setting that is out of range.

    >>> import manifold_shap as ms
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> few = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 5}}
    >>> value = ms.fit_surrogate(lambda x: x[:, :2].softmax(-1), x, hidden=[8, 8], **few)
    >>> explainer = ms.fit_amortized(value, x, hidden=[8], **few)
    >>> amortized_shapley(value, x[:2], explainer=explainer).phi.shape
    torch.Size([2, 3, 2])
    """
    if not isinstance(explainer, AmortizedExplainer):
        raise TypeError(
            "Expected `explainer` to be amortised, as of `ms.fit_amortized(value, x)`, but got "
            f"{type(explainer).__name__}."
        )
    network = network_of(value)
    if network.chosen is not None:  # The pass gives all outputs.
        outputs = list(value.select(outputs).outputs)
    weights = (one.surrogate.state_dict().values() for one in (explainer.value, network.value))
    if not all(one.equal(other.to(one.device)) for one, other in zip(*weights, strict=False)):
        raise ValueError(
            "Expected the surrogate that the explainer was trained for but `value` is another one; "
            "train an explainer for it by `ms.fit_amortized`."
        )
    # `value` may have another precision than the explainer's.
    own = AmortizedExplainer(network.value, explainer.network)
    own.relative_error = explainer.relative_error
    rows = check_whole("batch_size", _BATCH_SIZE if batch_size is None else batch_size)
    return explain(own.game, x, _amortized, outputs=outputs, explainer=own, rows=rows)
