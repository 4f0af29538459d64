"""Wraps models to explain as functions from rows to log-probabilities or to plain values."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from manifold_shap._checks import check_finite, check_returned, check_whole, to_tensor
from manifold_shap._words import check_choice

RETURNS = ("logits", "probabilities", "log_probabilities", "values")
_TOLERANCE = 1e-3

# Rows per call of a model on a CPU.
_CPU_ROWS = 4096
# Rows on which a model is asked twice.
_REPEATED_ROWS = 64


class Model:
    """A model to explain, as a function of a batch of rows.

    Calling it gives log-probabilities `[batch, classes]` or, for `returns="values"` (regression),
    the model's own outputs. No gradients are recorded, and the wrapped function gets a copy of
    the rows: what it changes in place stays its own.

    Args:
        predict: a function of rows `[batch, *event]` that returns a tensor or an array
            `[batch, classes]`. A torch module is put into evaluation mode and sees rows on its
            own device.
        classes: names, one per class (or per output).
        returns: `"logits"`, `"probabilities"`, `"log_probabilities"` or `"values"`.
        batch_size: most rows in a call of `predict`, where it has a limit.

    Example:
        >>> model = Model(lambda x: x / x.sum(-1, keepdim=True), ["no", "yes"], "probabilities")
        >>> model(torch.tensor([[1.0, 3.0]])).exp()
        tensor([[0.2500, 0.7500]])

    Raises:
        ValueError: `returns` is none of these, or `batch_size` is below 1.
    """

    def __init__(
        self,
        predict: Callable[[Tensor], Any],
        classes: Sequence[str],
        returns: str,
        batch_size: int | None = None,
    ) -> None:
        self._predict = _ModulePredict(predict) if isinstance(predict, nn.Module) else predict
        self.classes = tuple(str(name) for name in classes)
        self.returns = check_choice("returns", returns, RETURNS)
        self.batch_size = None if batch_size is None else check_whole("batch_size", batch_size)
        self._repeated = False

    @torch.no_grad()
    def __call__(self, x: Float[Tensor, "batch *event"]) -> Float[Tensor, "batch classes"]:
        prediction = self._raw(x)
        if self.returns == "logits":
            # Over a short last axis torch is not vectorised on a CPU: along the rows it is six
            # times as fast for five classes.
            short = prediction.shape[1] < 16 and prediction.device.type == "cpu"
            prediction = prediction.T.log_softmax(0).T if short else prediction.log_softmax(-1)
        elif self.returns == "probabilities":
            prediction = prediction.log()
        return prediction.to(x.device, torch.get_default_dtype())

    def to(self, device: torch.device | str) -> "Model":
        """Move a wrapped torch module; other functions get rows on the device of the rows."""
        if isinstance(self._predict, _ModulePredict):
            self._predict.module.to(device)
        return self

    @torch.no_grad()
    def check(self, x: Float[Tensor, "batch *event"]) -> None:
        """Raise unless the wrapped function gives what `returns` promises on these rows.

        Warns, once, where it gives other outputs when it is called again on the same rows.

        Raises:
            TypeError: no tensor or array.
            ValueError: outputs of another shape, NaN, or no distribution over the classes.
        """
        raw = self._raw(x)
        _check_shape(raw, len(x), self.returns)
        if raw.shape[1] != len(self.classes):
            raise ValueError(
                f"Expected {len(self.classes)} columns, one per name in `classes`, but the model "
                f"returned {raw.shape[1]}."
            )
        # Log-probabilities may be -inf: that is an exact zero.
        check_numbers(raw.exp() if self.returns == "log_probabilities" else raw)
        mass = {"probabilities": raw, "log_probabilities": raw.exp()}.get(self.returns)
        fault = "" if mass is None else _fault(mass)
        if fault:
            raise ValueError(fault)
        if not self._repeated:
            self._repeated = True
            _warn_if_random(self._raw, x[:_REPEATED_ROWS])

    def _raw(self, x: Tensor) -> Tensor:
        most = self.batch_size
        if most is None and not isinstance(self._predict, _SklearnPredict):
            # On a CPU, a network's activations of more rows than its cache holds cost more than
            # they save; any function may hold a network. scikit-learn has blocks of its own.
            device = x.device
            if isinstance(self._predict, _ModulePredict):
                device = self._predict.device(x)
            most = _CPU_ROWS if device.type == "cpu" else None
        parts = []
        for rows in x.split(most or max(1, len(x))):
            outputs = check_returned("the model", self._predict(rows.clone()))
            # A regression model of one output may give one number per row.
            single = outputs.ndim == 1 and self.returns == "values"
            parts.append(outputs[:, None] if single else outputs)
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def as_model(
    model: Any,
    x: Any,
    classes: Sequence[str] | None = None,
    returns: str | None = None,
    batch_size: int | None = None,
) -> Model:
    """Wrap a torch module, a scikit-learn estimator or any function of a batch of rows.

    Args:
        model: gives a tensor or an array `[batch, classes]` for a tensor of rows
            `[batch, *event]`. A torch module is put into evaluation mode and sees rows on its own
            device. A `Model` passes unchanged, with its own names and settings. A scikit-learn
            regressor needs `returns="values"`.
        x: a few rows, on which the outputs are checked and, where `returns` is not given, read.
        classes: names; by default scikit-learn's `classes_`, else "0", "1", ...
        returns: `"logits"`, `"probabilities"`, `"log_probabilities"` or, for regression,
            `"values"`. By default inferred from the outputs: rows that are distributions are
            probabilities, rows outside of [0, 1] are logits.
        batch_size: most rows in a call of `model`, where it has a limit.

    Example:
        >>> x = np.array([[0.0, 1.0], [2.0, 2.0]])
        >>> model = as_model(lambda x: x.softmax(-1), x, classes=["no", "yes"])
        >>> model.returns, model.classes
        ('probabilities', ('no', 'yes'))

    Raises:
        TypeError: `model` cannot be called, or is an estimator without probabilities.
        ValueError: it is not fitted, or the outputs are NaN, of another shape, or no distribution;
            `returns="values"` for a classifier, or other settings than those of a `Model`.
    """
    x = x if isinstance(x, Tensor) else to_tensor(x)
    if isinstance(model, Model):
        if returns not in (None, model.returns) or batch_size not in (None, model.batch_size):
            raise ValueError(
                f"Expected a `Model` to keep its returns={model.returns!r} and batch_size="
                f"{model.batch_size} but got {returns!r} and {batch_size}; wrap the function "
                "itself with these settings."
            )
        model.check(x)
        return model
    predict, returns, names = _read(model, returns)
    raw = Model(predict, (), returns or "logits", batch_size)._raw(x)
    _check_shape(raw, len(x), returns)
    classes = classes or names or tuple(str(k) for k in range(raw.shape[1]))
    wrapped = Model(predict, classes, returns or _inferred(raw), batch_size)
    wrapped.check(x)
    return wrapped


def _warn_if_random(predict: Callable[[Tensor], Tensor], x: Float[Tensor, "batch *event"]) -> None:
    # Not compared with a larger batch: the same rows may differ by rounding there.
    first, second = predict(x), predict(x)
    if not torch.allclose(first, second, rtol=1e-4, atol=1e-6):
        warnings.warn(
            "The model gives other outputs when it is called again on the same rows (by up to "
            f"{(first - second).nan_to_num(0).abs().max():.3g}), which no standard error of "
            "Shapley values counts. Switch its dropout or sampling off, or fix its seed in every "
            "call.",
            stacklevel=4,
        )


def check_numbers(outputs: Float[Tensor, "batch outputs"]) -> Float[Tensor, "batch outputs"]:
    """The outputs of a model, where they are finite.

    Raises:
        ValueError: an output is NaN or infinite; the first such row.
    """
    fix = "look for an overflow or a logarithm of zero in the model"
    return check_finite(outputs, "model(x)", fix)


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
    """A method of a scikit-learn estimator, on tensors.

    Args:
        predict: the bound method.
        columns: names of the columns that the estimator was fitted with, if any.
    """

    def __init__(self, predict: Callable[[Any], Any], columns: Any) -> None:
        self._predict = predict
        self._columns = columns

    def __call__(self, x: Tensor) -> Any:
        rows: Any = x.flatten(1).cpu().numpy()
        if self._columns is not None:
            import pandas as pd

            rows = pd.DataFrame(rows, columns=self._columns)
        return np.asarray(self._predict(rows))


def _read(
    model: Any, returns: str | None
) -> tuple[Callable[[Tensor], Any], str | None, Sequence[str] | None]:
    """The function to call, what it returns (None: not known) and the names of its classes."""
    # Not by a Protocol: which methods an estimator of scikit-learn has depends on its settings
    # (as of `SVC(probability=True)`), and a Protocol may look at the class alone.
    names = ("predict", "predict_proba", "predict_joint_log_proba", "classes_", "feature_names_in_")
    predict, probabilities, joint, classes, columns = (getattr(model, n, None) for n in names)
    kind = type(model).__name__
    if probabilities is not None and classes is not None:
        # Probabilities of naive Bayes, but not their logarithms, underflow.
        if joint is not None and returns in (None, "log_probabilities"):
            log_p = _SklearnPredict(model.predict_log_proba, columns)
            return log_p, "log_probabilities", tuple(map(str, classes))
        if returns not in (None, "probabilities"):
            raise ValueError(
                f"Expected returns='probabilities' for the classifier {kind} but got {returns!r}; "
                "explain its probabilities (output='probability', 'log_odds' or 'ilr') or, for "
                "another function of them, wrap that: `ms.as_model(function, x, "
                "returns='values')` with output='identity'."
            )
        return _SklearnPredict(probabilities, columns), "probabilities", tuple(map(str, classes))
    if callable(model):
        return model, returns, None
    if probabilities is not None:
        raise ValueError(f"Expected a fitted classifier but this {kind} is not; call `fit` first.")
    if predict is None:
        raise TypeError(
            "Expected `model` to be a torch module, a scikit-learn estimator or a callable from "
            f"rows to probabilities or logits, but got {kind}."
        )
    if returns != "values" or classes is not None:
        raise TypeError(
            f"Expected `model` to give probabilities but {kind} has `predict` only; explain a "
            "regressor with output='identity' (returns='values'), and a classifier by the "
            "probabilities of a `CalibratedClassifierCV`."
        )
    return _SklearnPredict(predict, columns), returns, None


def _inferred(raw: Tensor) -> str:
    check_numbers(raw)
    fault = _fault(raw)
    if fault and bool(((raw >= 0) & (raw <= 1)).all()):
        raise ValueError(fault)
    return "logits" if fault else "probabilities"


def _fault(p: Tensor) -> str:
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


def _check_shape(raw: Tensor, rows: int, returns: str | None) -> None:
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
