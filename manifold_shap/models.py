"""The model to explain: anything that predicts, seen as a map from rows to log-probabilities."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

RETURNS = ("logits", "probabilities", "log_probabilities", "values")
_TOLERANCE = 1e-3

# Rows per call of a model on a CPU.
_CPU_ROWS = 4096


@runtime_checkable
class SklearnClassifier(Protocol):
    """What we use of a scikit-learn classifier."""

    classes_: Any

    def predict_proba(self, X: Any) -> Any: ...  # noqa: N803


class Model:
    """A model to explain, as a function of a batch of rows.

    Calling it gives log-probabilities `[batch, classes]`, or for `returns="values"` (regression)
    the model's own outputs. No gradients are recorded.

    Attributes:
        classes: names, one per class (or per output).
        returns: what the wrapped function gives: one of `RETURNS`.
    """

    def __init__(
        self, predict: Callable[[Tensor], Tensor], classes: Sequence[str], returns: str
    ) -> None:
        if returns not in RETURNS:
            raise ValueError(f"Expected `returns` to be one of {RETURNS} but got {returns!r}.")
        self._predict = predict
        self.classes = tuple(classes)
        self.returns = returns

    @torch.no_grad()
    def __call__(self, x: Float[Tensor, "batch *event"]) -> Float[Tensor, "batch classes"]:
        prediction = self._raw(x)
        if self.returns == "logits":
            prediction = _log_softmax(prediction)
        elif self.returns == "probabilities":
            prediction = prediction.log()
        return prediction.to(x.device, torch.get_default_dtype())

    def _raw(self, x: Tensor) -> Tensor:
        # On a CPU, a network's activations of more rows than its cache holds cost more than they
        # save; any function may hold a network. Those of scikit-learn have blocks of their own.
        whole = isinstance(self._predict, _SklearnPredict)
        device = self._predict.device(x) if isinstance(self._predict, _ModulePredict) else x.device
        if whole or device.type != "cpu" or len(x) <= _CPU_ROWS:
            return self._predict(x)
        return torch.cat([self._predict(rows) for rows in x.split(_CPU_ROWS)])

    def to(self, device: torch.device | str) -> "Model":
        """Move a wrapped torch module; other functions see the rows where the rows are."""
        if isinstance(self._predict, _ModulePredict):
            self._predict.module.to(device)
        return self

    @torch.no_grad()
    def check(self, x: Float[Tensor, "batch *event"]) -> None:
        """Raise unless the wrapped function gives what `returns` promises on these rows.

        Raises:
            ValueError: outputs of another shape, NaN, or no distribution over the classes.
        """
        raw = self._predict(x)
        _check_shape(raw, len(x), self.returns)
        if raw.shape[1] != len(self.classes):
            raise ValueError(
                f"Expected {len(self.classes)} columns, one per name in `classes`, but the model "
                f"returned {raw.shape[1]}."
            )
        # Log-probabilities may be -inf: that is an exact zero.
        check_numbers(raw.exp() if self.returns == "log_probabilities" else raw)
        mass = {"probabilities": raw, "log_probabilities": raw.exp()}.get(self.returns)
        if mass is not None and not _is_distribution(mass):
            raise ValueError(_no_distribution(mass))


def _log_softmax(logits: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
    # Over a short last axis torch is not vectorised on a CPU: along the rows it is six times as
    # fast for five classes.
    if logits.shape[1] < 16 and logits.device.type == "cpu":
        return logits.T.log_softmax(0).T
    return logits.log_softmax(-1)


def as_model(
    model: Any,
    x: Tensor,
    classes: Sequence[str] | None = None,
    returns: str | None = None,
) -> Model:
    """Wrap a torch module, a scikit-learn estimator or any callable on batches of rows.

    Args:
        model: gives `[batch, classes]` for rows `[batch, *event]`. A torch module is put into
            evaluation mode and sees rows on its own device. A `Model` passes unchanged. A
            scikit-learn regressor needs `returns="values"`.
        x: a few rows, on which the outputs are checked and, where `returns` is not given, read.
        classes: names; by default scikit-learn's `classes_`, else "0", "1", ...
        returns: `"logits"`, `"probabilities"`, `"log_probabilities"` or, for regression,
            `"values"`. By default told from the outputs: rows that are distributions are
            probabilities, rows outside of [0, 1] are logits.

    Raises:
        TypeError: `model` cannot be called, or is an estimator without probabilities.
        ValueError: it is not fitted, or the outputs are NaN, of another shape, or no distribution.
    """
    if isinstance(model, Model):
        model.check(x)
        return model
    if isinstance(model, SklearnClassifier):
        # Naive Bayes is sure beyond what probabilities can say.
        beyond = hasattr(model, "predict_joint_log_proba")
        known = beyond and returns in (None, "log_probabilities")
        predict: Callable[[Tensor], Tensor] = _SklearnPredict(
            model, "predict_log_proba" if known else "predict_proba"
        )
        returns = returns or ("log_probabilities" if known else "probabilities")
        classes = classes or tuple(str(name) for name in model.classes_)
    elif callable(model):
        predict = _ModulePredict(model) if isinstance(model, nn.Module) else model
    else:
        predict = _sklearn_regressor(model, returns)
    with torch.no_grad():
        raw = predict(x)
    _check_shape(raw, len(x), returns)
    classes = classes or tuple(str(k) for k in range(raw.shape[1]))
    wrapped = Model(predict, classes, returns or _told_from(raw))
    wrapped.check(x)
    return wrapped


class _ModulePredict:
    """A torch module in evaluation mode, on rows that may be on another device."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module.eval()

    def __call__(self, x: Tensor) -> Tensor:
        return self.module(x.to(self.device(x))).to(x.device)

    def device(self, x: Tensor) -> torch.device:
        """Where the module computes; without parameters, where the rows are."""
        return next(self.module.parameters(), x).device


class _SklearnPredict:
    """A method of a scikit-learn estimator, on tensors."""

    def __init__(self, estimator: Any, method: str) -> None:
        self._predict = getattr(estimator, method)
        self._names = getattr(estimator, "feature_names_in_", None)

    def __call__(self, x: Tensor) -> Tensor:
        rows: Any = x.detach().flatten(1).cpu().numpy()
        if self._names is not None:
            import pandas as pd

            rows = pd.DataFrame(rows, columns=self._names)
        outputs = torch.from_numpy(np.asarray(self._predict(rows)))
        # A regressor of one output gives one number per row.
        return outputs[:, None] if outputs.ndim == 1 else outputs


def _sklearn_regressor(model: Any, returns: str | None) -> _SklearnPredict:
    """`predict` of a regressor, or an error that says what `model` is instead."""
    kind = type(model).__name__
    if hasattr(model, "predict_proba"):
        raise ValueError(f"Expected a fitted classifier but this {kind} is not; call `fit` first.")
    if not hasattr(model, "predict"):
        raise TypeError(
            "Expected `model` to be a torch module, a scikit-learn estimator or a callable from "
            f"rows to probabilities or logits, but got {kind}."
        )
    if returns != "values" or hasattr(model, "classes_"):
        raise TypeError(
            f"Expected `model` to give probabilities but {kind} has `predict` only; explain a "
            "regressor with output='identity' (returns='values'), and a classifier by the "
            "probabilities of a `CalibratedClassifierCV`."
        )
    return _SklearnPredict(model, "predict")


def warn_of_zeros(log_p: Float[Tensor, "batch classes"], amount: float) -> None:
    """Warn, with their number, of exact zeros that a log-ratio space replaces."""
    zeros = int(torch.isneginf(log_p).sum())
    if zeros:
        warnings.warn(
            f"{zeros} of {log_p.numel()} probabilities of the model are exactly zero; for "
            f"log-ratios each becomes {amount:.1e} (`zero_replacement` / classes) and the others "
            "shrink to make room.",
            stacklevel=3,
        )


def _told_from(raw: Tensor) -> str:
    check_numbers(raw)
    if _is_distribution(raw):
        return "probabilities"
    if bool(((raw >= 0) & (raw <= 1)).all()):
        raise ValueError(_no_distribution(raw))
    return "logits"


def _is_distribution(p: Tensor) -> bool:
    return bool((p >= 0).all()) and bool(((p.sum(-1) - 1).abs() <= _TOLERANCE).all())


def _no_distribution(p: Tensor) -> str:
    sums, negative = p.sum(-1), p < 0
    if bool(negative.any()):
        row, column = negative.nonzero()[0].tolist()
        where = f"row {row} has {p[row, column]:.4g} in column {column}"
    else:
        row = int((sums - 1).abs().argmax())
        where = f"row {row} sums to {sums[row]:.4g}"
    return (
        "Expected the model to return a distribution over the classes (no negative entry, rows "
        f"that sum to one within {_TOLERANCE}) but got entries from {p.min():.4g} to "
        f"{p.max():.4g} and row sums from {sums.min():.4g} to {sums.max():.4g}: {where}; end the "
        "model with a softmax, return logits (returns='logits'), or use output='identity' for a "
        "regression model."
    )


def _check_shape(raw: Any, rows: int, returns: str | None) -> None:
    if not isinstance(raw, Tensor):
        raise TypeError(f"Expected the model to return a tensor but got {type(raw).__name__}.")
    if raw.ndim != 2 or raw.shape[0] != rows:
        raise ValueError(
            f"Expected the model to return shape ({rows}, classes) for {rows} rows but got "
            f"{tuple(raw.shape)}; a binary model with one output needs both columns, as in "
            "`torch.stack((1 - p, p), -1)`."
        )
    if raw.shape[1] == 1 and returns != "values":
        raise ValueError(
            "Expected the model to return a column for every class but got one column; a binary "
            "model needs both: `torch.cat((1 - p, p), -1)` of a probability, "
            "`torch.cat((torch.zeros_like(z), z), -1)` of a logit. Use output='identity' for a "
            "regression model."
        )


def check_numbers(outputs: Float[Tensor, "batch outputs"]) -> None:
    """Raise ValueError, naming the row, where what a model gives is NaN or infinite."""
    bad = ~outputs.isfinite()
    if bool(bad.any()):
        row, column = bad.nonzero()[0].tolist()
        raise ValueError(
            f"Expected finite numbers from the model but row {row} of {len(outputs)} gave "
            f"{outputs[row].tolist()[:10]}, not finite in column {column}; look for an overflow or "
            "a logarithm of zero in it."
        )
