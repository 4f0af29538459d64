"""Gives estimators of Shapley values the interface of captum's attribution methods."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._checks import check_whole
from manifold_shap._messages import check_choice, shown
from manifold_shap.estimators import auto_shapley
from manifold_shap.estimators.audit import accepted
from manifold_shap.explanation import Explanation
from manifold_shap.segmentation import label_maps
from manifold_shap.values.base import ValueFunction
from manifold_shap.values.wrapped import as_value_function

Inputs = TypeVar("Inputs", Tensor, tuple[Tensor, ...])
# A class for all rows, or one for each.
Target = int | str | Tensor | Sequence[Any] | None


class CaptumAttribution:
    """An estimator of Shapley values with the `attribute` of captum's attribution methods.

    It takes the place of `captum.attr.ShapleyValueSampling(model)` and the like in code that is
    written for them: `attribute(inputs, target=..., feature_mask=...)` returns values of the shape
    of `inputs`. Arguments of captum that a value function or an estimator has already, such as
    `baselines` and `n_samples`, are not there. Captum is not needed.

        >>> import manifold_shap as ms
        >>> model, x = torch.nn.Linear(3, 2), torch.tensor([[1.0, 2.0, -1.0]])
        >>> value = ms.imputed_value(model, ms.imputers.BaselineImputer(torch.zeros(3)), "identity")
        >>> found = CaptumAttribution(value).attribute(x, target=1)
        >>> torch.allclose(found, x * model.weight[1])
        True

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        estimator: `auto_shapley` or another one, with its settings as in
            `partial(ms.permutation_shapley, permutations=64)`.

    Raises:
        TypeError: `value` is no value function, as a model or an explainer is none.
    """

    def __init__(self, value: Any, estimator: Callable[..., Explanation] = auto_shapley) -> None:
        self.value, self.estimator = value, estimator

    # captum's NoiseTunnel calls `attribute.__wrapped__`, which this decorator makes, too.
    @torch.no_grad()
    def attribute(
        self,
        inputs: Inputs,
        *,
        target: Target = None,
        feature_mask: Tensor | tuple[Tensor, ...] | None = None,
        show_progress: bool = False,
    ) -> Inputs:
        """For every element of the inputs the Shapley value of its player for the target class.

        Elements of one player, such as those of a superpixel, have all of its value each, as in
        captum; padding has zero.

        Args:
            inputs: rows `[batch, *event]`, or a tuple of one such tensor; of a frame
                `value.rows(frame)`.
            target: name or position of the output, as a number, a tensor of one or a tuple of one;
                for each row its own as a list of these or a tensor `[batch]`. It may be left out
                where there is one output.
            feature_mask: whole numbers; elements of equal numbers are one player. It has the shape
                of `inputs`, or one that is broadcast to it: with one row, the same players serve
                all rows.
            show_progress: whether a bar is shown.

        Returns:
            Values of the shape of `inputs` and where these are, in a tuple if they came in one.

        Raises:
            TypeError: numbers that are not whole.
            ValueError: several tensors of inputs, a target that is missing or that there
                is not, or a mask that does not fit the players.
            RuntimeError: a mask or a list of targets that does not fit the inputs.
        """
        (x,) = inputs if isinstance(inputs, tuple) else (inputs,)
        value = as_value_function(self.value, x)
        chosen = _targets(target, len(x), value.outputs)
        if feature_mask is not None:
            (mask,) = feature_mask if isinstance(feature_mask, tuple) else (feature_mask,)
            value = _grouped(value, x, mask)
        some, places = chosen.unique(return_inverse=True)
        # Log-ratios are explained together.
        if len(some) < len(value.outputs) and value.space.partition(value.classes) is None:
            value, chosen = value.select([value.outputs[k] for k in some.tolist()]), places
        shown = None if show_progress else False
        explanation = self.estimator(value, x, **accepted(self.estimator, {"progress": shown}))
        own = value.owners(x.to(value.device)).expand(x.shape).cpu()
        phi = explanation.phi[torch.arange(len(x)), :, chosen]
        found = phi.gather(1, own.flatten(1).clamp(min=0)).view_as(own).where(own >= 0, 0.0)
        found = found.to(x.device)
        return (found,) if isinstance(inputs, tuple) else found

    def forward_func(self, x: Tensor) -> Tensor:
        """The outputs that are explained: what methods of captum have their model by."""
        value = as_value_function(self.value, x)
        return value.prediction(x.to(value.device)).to(x.device)

    def has_convergence_delta(self) -> bool:
        """Whether `attribute` gives a gap as well; never, since values sum to the outputs."""
        return False

    @property
    def multiplies_by_inputs(self) -> bool:
        """Whether values are in the units of the outputs, as in captum; always."""
        return True


def _targets(target: Target, rows: int, names: Sequence[str]) -> Int64[Tensor, " rows"]:
    """The output of each row, by position."""
    outputs = len(names)
    if isinstance(target, str):
        target = [target]
    if isinstance(target, list):
        target = [
            names.index(check_choice("target", each, names)) if isinstance(each, str) else each
            for each in target
        ]
    if target is None and outputs == 1:
        target = 0
    if target is None or (isinstance(target, tuple) and len(target) > 1):
        raise ValueError(
            f"Expected `target`, one of {shown(names)} or its position, but got {target}."
        )
    numbers = torch.as_tensor(target).flatten()
    for number in numbers.tolist():
        check_whole("target", number, -outputs, outputs - 1)
    return (numbers % outputs).expand(rows)


def _grouped(value: ValueFunction, x: Float[Tensor, "rows *event"], mask: Tensor) -> ValueFunction:
    """The value function with the parts of a mask as players, of each row its own or of all."""
    if mask.is_floating_point() or mask.dtype == torch.bool:
        raise TypeError(f"Expected `feature_mask` to hold whole numbers but got {mask.dtype}.")
    labels = mask.expand(x.shape)
    # Numbers may have gaps, which label maps may not.
    if mask.ndim < x.ndim or len(mask) == 1:
        return value.grouped(labels[0].unique(return_inverse=True)[1])
    each = [row.unique(return_inverse=True)[1] for row in labels]
    return value.grouped(label_maps(x, torch.stack(each)))
