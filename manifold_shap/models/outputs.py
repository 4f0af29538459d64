"""Checks what a model returns, and makes it numbers: tensors, arrays, frames and columns."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_finite, check_returned
from manifold_shap._messages import warn

RETURNS = ("logits", "probabilities", "log_probabilities", "values")
_TOLERANCE = 1e-3
# By what part of the outputs' spread, and how many roundings besides, a row may differ when it is
# asked beside fewer: with other numbers of rows sums are taken in another order.
_NOTICED, _ROUNDED = 1e-3, 16
# Models of which a warning has said it.
_TAKEN_FOR_LOGITS = WeakSet[Any]()


def as_outputs(outputs: Any) -> tuple[Tensor, tuple[str, ...] | None]:
    """Outputs as a tensor and, of a frame, the names of its columns.

    Of a dictionary or an object with `logits`, as models of transformers return it, these.

    Raises:
        TypeError: no tensor, array, frame or column of numbers.

    >>> as_outputs(np.array([[0.5, 0.5]]))
    (tensor([[0.5000, 0.5000]], dtype=torch.float64), None)
    >>> as_outputs({"loss": None, "logits": torch.ones(1, 2)})
    (tensor([[1., 1.]]), None)
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
    logits = outputs.get("logits") if isinstance(outputs, Mapping) else None
    if (logits := getattr(outputs, "logits", logits)) is not None:
        return as_outputs(logits)
    raise TypeError(
        "Expected the model to return a tensor or an array of numbers but got "
        f"{type(outputs).__name__}; wrap what makes one of it: `lambda rows: "
        "numpy.array(model(rows))` of a list of numbers, `lambda rows: model(rows)[0]` of several "
        "outputs."
    )


def converted(raw: Float[Tensor, "batch outputs"], returns: str, scale: str | None) -> Tensor:
    """Outputs of a model on another scale.

    Args:
        raw: what the model returned.
        returns: what these are, one of `RETURNS`.
        scale: `"probabilities"` or `"log_probabilities"`; None, or of plain values, as they are.

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
        take = torch.softmax if scale == "probabilities" else torch.log_softmax
        return take(raw.T, 0).T if short else take(raw, -1)
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


def settled(
    raw: Tensor, rows: int, name: str, known: str | None, returns: str | None, model: Any = None
) -> str:
    """What a model returns, one of `RETURNS`, by what it is and by its outputs.

    Args:
        raw: its outputs for so many rows.
        rows: how many.
        name: of the model, for errors.
        known: what a model of its kind returns; None where only its outputs tell.
        returns: what the caller says; None where nothing is said.
        model: of which that it is taken for one of logits is said once.

    >>> settled(torch.tensor([[0.5, 0.5]]), 1, "tree", "probabilities", None)
    'probabilities'

    Raises:
        ValueError: outputs of another shape; what the caller says is not so; nothing is said of
            outputs that are NaN, or from 0 to 1 and no distributions.

    Warns:
        UserWarning: probabilities that do not sum to one; logits, where their numbers alone tell,
            or that are probabilities.
    """
    fault = _fault(raw) if raw.ndim == 2 and raw.numel() else ""
    single = bool(((raw >= 0) & (raw <= 1)).all())
    if fault and single and known == "probabilities" and returns in (None, "values"):
        warn(
            f"The probabilities of {name} do not sum to one, as of several labels at once: each "
            "is explained by itself, as a plain value (returns='values')."
        )
        return "values"
    if known is not None and returns not in (None, known):
        raise ValueError(
            f"Expected returns={known!r} for {name} but got {returns!r}; a regressor is explained "
            "with space='identity', a classifier with 'probability', 'log_odds' or 'ilr', and "
            "another function of its outputs once it is wrapped: `ms.as_model(function, x, "
            "returns=...)`."
        )
    check_shape(raw, rows, returns or known)
    if returns or known:
        if not fault and "logits" in (returns, known):
            warn(
                f"Expected logits of {name} but its outputs are probabilities, of which a softmax "
                "is taken once more: leave out its last softmax, or returns='logits'."
            )
        return returns or known or ""
    check_numbers(raw)
    if not fault:
        return "probabilities"
    if single:
        raise ValueError(fault)
    with suppress(TypeError):  # Of what has no hash, or no weak reference, it is said again.
        if model in _TAKEN_FOR_LOGITS:
            return "logits"
        _TAKEN_FOR_LOGITS.add(model)
    warn(
        f"The outputs of {name} are no probabilities, and are taken for logits: their softmax is "
        "explained. Pass `ms.as_model(model, x, returns='logits')` if they are, and "
        "returns='values' for the plain values of a regression."
    )
    return "logits"


def check_shape(raw: Tensor, rows: int, returns: str | None) -> None:
    """Raise ValueError unless there is a row of outputs for every row, one for every class."""
    least = 1 if returns == "values" else 2
    if raw.ndim != 2 or raw.shape[0] != rows or raw.shape[1] < least:
        both = "torch.stack((0 * z, z), 1)" if raw.ndim == 1 else "nn.ZeroPad1d((1, 0))(z)"
        raise ValueError(
            "Expected the model to return a column for every class, of shape "
            f"({rows}, classes) for {rows} rows but got {tuple(raw.shape)}; for two "
            f"classes return both columns, `{both}` of a logit z or `numpy.column_stack((1 - p, "
            "p))` of a probability; of a regression, returns='values' for `ms.Explainer` "
            "and space='identity' for others say so; in place of numbers of classes pass "
            "the classifier itself, or its `predict_proba`; several axes are one row by `lambda x: "
            "model(x).flatten(1)`."
        )


def _fault(p: Float[Tensor, "batch classes"]) -> str:
    """What makes rows no distributions over the classes; empty where they are."""
    # In half precision a sum is no closer to one.
    tolerance = max(_TOLERANCE, 4 * torch.finfo(p.dtype).eps)
    sums = p.to(torch.promote_types(p.dtype, torch.float32)).sum(-1)
    if bool((p >= 0).all() and ((sums - 1).abs() <= tolerance).all()):
        return ""
    return (
        "Expected the model to return a distribution over the classes (no negative entry, rows "
        f"that sum to one within {tolerance:.2g}) but got entries from {p.min():.4g} to "
        f"{p.max():.4g} and row sums from {sums.min():.4g} to {sums.max():.4g}; end the "
        "model with a softmax, or return logits (returns='logits'). Of several labels at once, and "
        "of a regression, plain values are explained: returns='values' of `ms.as_model` or "
        "`ms.Explainer`, with space='identity'."
    )


def differs_between_calls(
    what: str,
    ask: Callable[[Tensor], Tensor],
    x: Tensor,
    outputs: Float[Tensor, "rows *more"],
    parts: Sequence[slice],
) -> bool:
    """Whether outputs of the same rows differ from call to call.

    Warns where they do not, but differ beside other rows.

    Args:
        what: has these outputs, for the warning.
        ask: gives outputs for rows.
        x: rows.
        outputs: those of all rows in one call.
        parts: rows that are asked again without the others.
    """
    if len(x) < 2:
        return False
    spread = (outputs.amax(0) - outputs.amin(0)).nan_to_num(0)

    def differ(one: Tensor, other: Tensor) -> bool:
        apart = (one - other).abs().nan_to_num(0)
        rounding = _ROUNDED * torch.finfo(apart.dtype).eps * other.abs().nan_to_num(0)
        return bool((apart > _NOTICED * spread + rounding + 1e-6).any())

    for part in parts:
        found = ask(x[part])
        if differ(found, outputs[part]):
            if differ(ask(x[part]), found):
                return True
            warn(
                f"The outputs of {what} for a row depend on the other rows of the call: Shapley "
                "values of a row would change with the rows beside it. Put its networks into "
                "evaluation mode, `network.eval()`, and look for an `nn.LSTM` without "
                "`batch_first=True` or a softmax over the first axis."
            )
            break
    return False
