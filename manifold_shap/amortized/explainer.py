"""Explains rows by one pass of a network that was trained for a surrogate."""

import math
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_rows, check_whole
from manifold_shap.amortized.network import AmortizedNetwork
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.explanation import Explanation
from manifold_shap.io.files import save_checkpoint
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.values import ValueFunction

# On two cores any from 256 to 768 is equally fast.
_BATCH_SIZE = 512


class AmortizedExplainer:
    """Shapley values of rows by one pass of a network, with its measured error.

    Attributes:
        value: the surrogate that it explains.
        network: see `AmortizedNetwork`.
        relative_error: on held-out rows, against accurate estimates; NaN until `measure` is called.
        training: epochs and seconds, where it was trained in this process.
        checkpoint: what `save` writes beside the error: tensors and plain data.
    """

    def __init__(
        self,
        value: SurrogateValue,
        network: AmortizedNetwork,
        checkpoint: dict[str, Any] | None = None,
    ) -> None:
        self.value, self.network = value, network.eval()
        self.relative_error = math.nan
        self.training: dict[str, float] = {}
        self.checkpoint = checkpoint or {}

    @torch.no_grad()
    def __call__(self, x: Any) -> Float[Tensor, "batch players outputs"]:
        """Shapley values of rows `[batch, *event]`."""
        rows = check_rows(x, self.value.players).to(self.value.device)
        return self._values(rows, self.value.prediction(rows), _BATCH_SIZE)

    def explain(self, x: Any, batch_size: int = _BATCH_SIZE) -> Explanation:
        """Shapley values of rows as an explanation; standard errors are unknown (NaN).

        Raises:
            TypeError, ValueError: `x` is no batch of finite rows, `batch_size` below 1.
        """
        check_whole("batch_size", batch_size)
        game = Evaluator(self.value, x)
        with torch.no_grad():
            phi = self._values(game.x, game.prediction, batch_size)
        made_by: dict[str, Any] = {"estimator": "amortized"}
        if math.isfinite(self.relative_error):
            made_by["relative_error"] = self.relative_error
        return game.explanation(phi, torch.full_like(phi, torch.nan), made_by)

    def _values(self, rows: Tensor, prediction: Tensor, batch_size: int) -> Tensor:
        # The value function may have been moved.
        self.network.to(self.value.device)
        surrogate, change = self.value.surrogate, prediction - self.value.expectation
        # Players are last in memory, as the network computes them.
        phi = change.new_empty(*change.shape, len(self.value.players)).mT
        # Within one context weights are cast to half precision once.
        with self.value.products():
            parts = (each.split(batch_size) for each in (rows, change, phi))
            for some, own, out in zip(*parts, strict=True):
                self.network(surrogate, surrogate.standardised(some.to(own.device)), own, out)
        return phi

    def measure(self, reference: Explanation) -> float:
        """Relative error against an explanation of the same value function, which is also stored.

        It is the mean over rows of the norm of the errors divided by the norm of the values.
        """
        squared = (self(reference.x).cpu() - reference.phi).square().sum((1, 2))
        relative = (squared / reference.phi.square().sum((1, 2)).clamp(min=1e-12)).sqrt()
        self.relative_error = relative.mean().item()
        return self.relative_error

    def save(self, path: str | Path) -> None:
        """Write the explainer, not the surrogate, to one file; `load_amortized` reads it.

        Raises:
            OSError: no space or no permission; what stood at `path` is left as it was.
        """
        save_checkpoint(path, {**self.checkpoint, "relative_error": self.relative_error})


def amortized_shapley(
    value: Any,
    x: Any,
    *,
    explainer: AmortizedExplainer | str | Path,
    batch_size: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Explanation:
    """Shapley values by one pass of a network, with unknown (NaN) standard errors.

    The relative error of the network on other rows is in `made_by`. An estimator gives unbiased
    values with standard errors of these rows.

    Args:
        value: the surrogate that the explainer was trained for.
        x: rows to explain, `[instances, *event]`.
        explainer: from `fit_amortized`, or a file that its `save` wrote.
        batch_size: rows per pass; 512 by default.
        seed, progress: unused, as nothing is drawn and nothing takes long; other estimators have
            them.

    Raises:
        FileNotFoundError: no explainer was trained.
        TypeError: `value` is no surrogate.
        ValueError: the explainer is damaged, or was trained for another surrogate.
    """
    if not isinstance(value, SurrogateValue):
        raise TypeError(
            "Expected the surrogate that an explainer was trained for but got "
            f"{value.name if isinstance(value, ValueFunction) else type(value).__name__!r}; take "
            "another estimator for it (compare=[] leaves others out on the command line)."
        )
    if not isinstance(explainer, AmortizedExplainer):
        # Lightning takes seconds to import.
        from manifold_shap.amortized.fit import load_amortized

        explainer = load_amortized(explainer, value)
    elif explainer.value.surrogate is not value.surrogate:
        raise ValueError(
            "Expected the surrogate that the explainer was trained for but `value` is another one; "
            "train an explainer for it by `ms.fit_amortized`."
        )
    # `value` may have another precision than the explainer's.
    found = AmortizedExplainer(value, explainer.network)
    found.relative_error = explainer.relative_error
    return found.explain(x, _BATCH_SIZE if batch_size is None else batch_size)
