"""Checks what a model returns, and makes it numbers: tensors, arrays, frames and columns."""

from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_finite, check_returned

RETURNS = ("logits", "probabilities", "log_probabilities", "values")
_TOLERANCE = 1e-3


def as_outputs(outputs: Any) -> tuple[Tensor, tuple[str, ...] | None]:
    """Outputs as a tensor and, of a frame, the names of its columns.

    Raises:
        TypeError: no tensor, array, frame or column of numbers.

    >>> as_outputs(np.array([[0.5, 0.5]]))
    (tensor([[0.5000, 0.5000]], dtype=torch.float64), None)
    """
    if isinstance(outputs, Tensor | np.ndarray):
        found = check_returned("the model", outputs)
        return found if found.is_floating_point() else found.double(), None
    import narwhals as nw

    table = nw.from_native(outputs, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(table, nw.DataFrame):
        return as_outputs(table.to_numpy())[0], tuple(map(str, table.columns))
    if isinstance(table, nw.Series):
        return as_outputs(table.to_numpy())
    return check_returned("the model", outputs), None


def converted(raw: Float[Tensor, "batch outputs"], returns: str, scale: str | None) -> Tensor:
    """Outputs of a model on another scale.

    Args:
        raw: what the model returned.
        returns: what these are, one of `RETURNS`.
        scale: `"probabilities"` or `"log_probabilities"`; None, or of plain values, as they are.

    >>> import torch
    >>> converted(torch.tensor([[0.5, 0.5]]), "probabilities", "log_probabilities")
    tensor([[-0.6931, -0.6931]])
    """
    if returns in ("values", scale):
        return raw
    if returns == "probabilities":
        return raw.log()
    if returns == "logits":
        # Over a short last axis torch is not vectorised on a CPU: along the rows it is six times
        # as fast for five classes.
        short = raw.shape[1] < 16 and raw.device.type == "cpu"
        raw = raw.T.log_softmax(0).T if short else raw.log_softmax(-1)
    return raw.exp() if scale == "probabilities" else raw


def check_numbers(outputs: Float[Tensor, "batch outputs"]) -> Float[Tensor, "batch outputs"]:
    """The outputs of a model, where they are finite.

    Raises:
        ValueError: an output is NaN or infinite; the first such row.
    """
    fix = "look for an overflow or a logarithm of zero in the model"
    return check_finite(outputs, "model(x)", fix)


def check_outputs(raw: Float[Tensor, "batch outputs"], returns: str) -> None:
    """Raise ValueError where outputs are NaN or, of a classifier, no distributions."""
    # Log-probabilities may be -inf: that is an exact zero.
    check_numbers(raw.exp() if returns == "log_probabilities" else raw)
    mass = {"probabilities": raw, "log_probabilities": raw.exp()}.get(returns)
    fault = "" if mass is None else _fault(mass)
    if fault:
        raise ValueError(fault)


def inferred(raw: Float[Tensor, "batch outputs"]) -> str:
    """Whether outputs are probabilities or logits.

    >>> import torch
    >>> inferred(torch.tensor([[0.5, 0.5]])), inferred(torch.tensor([[3.0, -1.0]]))
    ('probabilities', 'logits')

    Raises:
        ValueError: they are NaN, or from 0 to 1 and no distributions.
    """
    check_numbers(raw)
    fault = _fault(raw)
    if fault and bool(((raw >= 0) & (raw <= 1)).all()):
        raise ValueError(fault)
    return "logits" if fault else "probabilities"


def check_shape(raw: Tensor, rows: int, returns: str | None) -> None:
    """Raise ValueError unless there is a row of outputs for every row, one for every class."""
    if raw.ndim != 2 or raw.shape[0] != rows or raw.shape[1] == 0:
        raise ValueError(
            "Expected the model to return a column for every class, of shape "
            f"({rows}, classes) for {rows} rows but got {tuple(raw.shape)}; for a regression, pass "
            "returns='values', as in `ms.Explainer(model, frame, returns='values')`; of two "
            "classes return both columns, as by `numpy.column_stack((1 - p, p))`."
        )
    if raw.shape[1] == 1 and returns != "values":
        raise ValueError(
            "Expected the model to return a column for every class but got one column; a binary "
            "model needs both: `torch.cat((1 - p, p), -1)` of a probability, "
            "`torch.cat((torch.zeros_like(z), z), -1)` of a logit. For a regression, say "
            "returns='values'."
        )


def _fault(p: Float[Tensor, "batch classes"]) -> str:
    """What makes rows no distributions over the classes; empty where they are."""
    sums, negative = p.sum(-1), p < 0
    if bool(negative.any()):
        row, column = negative.nonzero()[0].tolist()
        where = f"row {row} has {p[row, column]:.4g} in column {column}"
    else:
        row = int((sums - 1).abs().argmax())
        if abs(sums[row] - 1) <= _TOLERANCE:
            return ""
        where = f"row {row} sums to {sums[row]:.4g}"
    return (
        "Expected the model to return a distribution over the classes (no negative entry, rows "
        f"that sum to one within {_TOLERANCE}) but got entries from {p.min():.4g} to "
        f"{p.max():.4g} and row sums from {sums.min():.4g} to {sums.max():.4g}: {where}; end the "
        "model with a softmax, return logits (returns='logits'), or use output='identity' for a "
        "regression model."
    )
