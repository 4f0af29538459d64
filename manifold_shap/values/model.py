"""Defines value functions of a model f, whose base is the mean of T(f(X)) over reference rows."""

from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._messages import shown, warn
from manifold_shap._stored import StoredRows, sample_of
from manifold_shap.models import Model, as_model, check_numbers
from manifold_shap.players import Players
from manifold_shap.spaces import LogRatios, OutputSpace
from manifold_shap.tables.rows import EncodedRows
from manifold_shap.values.base import ValueFunction
from manifold_shap.values.spec import GameSpec

if TYPE_CHECKING:
    from manifold_shap.tables.base import RowAdapter

# Reference rows that tell whether a model gives exact zeros.
_ASKED = 1024


class ModelValue(ValueFunction):
    """A value function of a model f, whose base is the mean of T(f(X)) over reference rows.

    Attributes:
        model: f.
        expectation: the mean of T(f(X)) over the reference rows, `[outputs]`.
        center: around which a network gives values, where the model has double precision: digits of
            numbers far from zero, of which a network has seven, are all of their differences.

    Args:
        model, players, space, expectation: see above.
        more: further entries of a `GameSpec`.
    """

    center: Tensor | None = None

    def __init__(
        self,
        model: Model,
        players: Players,
        space: OutputSpace,
        expectation: Tensor,
        **more: Any,
    ) -> None:
        classes = tuple(model.classes)
        super().__init__(GameSpec(players, space.outputs(classes), space, classes, **more))
        self.model, self.expectation = model, expectation

    def check_model(self, probe: Tensor, outputs: Tensor) -> None:
        """Raise ValueError unless the model gives the outputs that it gave for these rows."""
        if gap := disagreement(self.prediction(probe).cpu(), outputs):
            raise ValueError(
                f"Expected the model for which {self.name!r} was made, but this one predicts "
                f"otherwise (by up to {gap:.3g} on the rows kept for that check); pass the "
                "original model, or make a value function for this one."
            )

    @property
    def device(self) -> torch.device:
        return self.expectation.device

    def to(self, device: torch.device | str) -> "ModelValue":
        self.expectation = self.expectation.to(device)
        self.center = None if self.center is None else self.center.to(device)
        self.model.to(device)
        return self

    def center_at(self, center: Tensor | None) -> None:
        """Take the values of a network, and the expectation, for differences from this number."""
        self.center = None if center is None else center.to(self.device)
        self.expectation = self.placed(self.expectation)

    def placed(self, values: Tensor, chosen: Any = ...) -> Tensor:
        """What a network gives, as values of T: those of all outputs, or of the chosen ones."""
        return values.float() if self.center is None else values.double() + self.center[chosen]

    @torch.no_grad()
    def prediction(self, x: Tensor) -> Float[Tensor, "batch outputs"]:
        """v(grand coalition) = T(f(x)), from the model itself.

        Raises:
            ValueError: the model's output is not finite.
        """
        x = x.to(self.device)
        outputs = self.space(self.model(x, scale=self.space.takes))
        check_numbers(outputs)
        # There may be but one reference row, such as a baseline.
        self.model.warn_if_unsteady(x)
        return outputs

    def prediction_in(self, space: OutputSpace, x: Tensor) -> Tensor:
        # Not by the logarithm of probabilities, which a model of logits would round.
        return space(self.model(x.to(self.device), scale=space.takes))

    def base(self, x: Tensor) -> Float[Tensor, "batch outputs"]:
        """v(empty coalition): the mean of T(f(X)) over the reference rows, for every row."""
        return self.expectation.expand(len(x), -1)


def disagreement(found: Tensor, known: Tensor) -> float:
    """The largest difference between outputs, or 0 where two machines may differ as much.

    That is a thousandth of how far the outputs spread, or a hundred roundings of the largest.

    >>> disagreement(torch.tensor([0.2, 0.8]), torch.tensor([0.2001, 0.7999]))
    0.0
    """
    gap = (found - known).abs().max().item() if found.shape == known.shape else torch.inf
    spread, size = (known.max() - known.min()).item(), known.abs().max().item()
    rounding = max(torch.finfo(each.dtype).eps for each in (found, known))
    return 0.0 if gap <= max(1e-3 * spread, 100 * rounding * size) else gap


def reference_outputs(
    model: Model, space: OutputSpace, x: Tensor | StoredRows, batch_size: int = 8192
) -> Float[Tensor, "rows outputs"]:
    """T(f(x)) of reference rows, after a check that f returns what T takes.

    Warns once, with their number, where a log-ratio space has to replace exact zeros.

    Raises:
        ValueError: no row, a model of probabilities where T takes plain values or the other way
            round, no distribution, or an output that is NaN or infinite.
    """
    _check_task(model, space)
    if len(x) == 0:
        raise ValueError("Expected at least one reference row but got none.")
    parts = [model.checked(rows, scale=space.takes) for rows in x.split(batch_size)]
    predictions = torch.cat(parts)
    zeros = int(torch.isneginf(predictions).sum()) if space.takes_logarithms else 0
    if zeros:
        share = space.zero_replacement
        amount = "the least" if share is None else f"{share / predictions.shape[-1]:.1e}"
        warn(
            f"{zeros} of {predictions.numel()} probabilities of the model are exactly zero; for "
            f"log-ratios each becomes {amount} (`zero_replacement` / classes) and the others "
            "shrink to make room.",
        )
    outputs = space(predictions)
    check_numbers(outputs)
    return outputs


@torch.no_grad()
def reference_space(model: Model, space: OutputSpace, x: Tensor | StoredRows) -> OutputSpace:
    """The output space for a model, which is asked some of its reference rows.

    Of log-ratios it says what exact zeros are replaced by, where nobody has; see `OutputSpace`.
    """
    if not isinstance(space, LogRatios) or space.zero_replacement is not None:
        return space
    _check_task(model, space)
    rows = sample_of(x)
    some = rows[torch.arange(min(len(rows), _ASKED)) * len(rows) // min(len(rows), _ASKED)]
    return space.fitted(model(some, scale=space.takes), model.returns == "probabilities")


def model_for(
    model: Any, x: Tensor, space: OutputSpace, table: "RowAdapter | None" = None
) -> Model:
    """`as_model` for an output space: where T takes plain values, a model of these.

    Args:
        model: see `as_model`.
        x: rows.
        space: the output space.
        table: see `as_model`; a `Model` has its own.

    Raises:
        ValueError: a classifier where T takes plain values, or the other way round; a `Model` that
            takes codes of another table.
    """
    theirs = table_behind(model)
    if table is not None and theirs is not None and theirs is not table:
        raise ValueError(
            "Expected a model that takes codes of the same table as the rows but it was wrapped "
            "with another one, whose codes of new cells differ; pass the model itself, or share "
            "one table: `ms.as_model(model, table)`."
        )
    returns = "values" if space.regression and not isinstance(model, Model) else None
    found = as_model(model, x[:64], returns=returns, table=table)
    _check_task(found, space)
    return found


def table_behind(model: Any) -> "RowAdapter | None":
    """The table whose codes a `Model` takes; None where it takes rows, or is no `Model`."""
    own = model.table if isinstance(model, Model) else None
    return own.table if isinstance(own, EncodedRows) else cast("RowAdapter | None", own)


def _check_task(model: Model, space: OutputSpace) -> None:
    if (model.returns == "values") == space.regression:
        return
    raise ValueError(
        f"Expected a {'regression model' if space.regression else 'classifier'} for "
        f"space={space.name!r} but this one returns {model.returns} of {shown(model.classes)}; "
        "space='identity' is for plain values, others are for classifiers, and "
        "`ms.as_model(model, x, returns='probabilities')`, or 'values', says what a model returns."
    )
