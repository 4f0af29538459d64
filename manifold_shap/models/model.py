"""Wraps models to explain as functions of tensors of rows, or of the codes of a table's rows."""

import os
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._arrays import is_inputs
from manifold_shap._checks import check_distinct, check_whole, to_tensor
from manifold_shap._messages import check_choice, shown, warn
from manifold_shap._saved import saved
from manifold_shap._stored import StoredRows
from manifold_shap.models.files import load_model
from manifold_shap.models.kinds import predictor_of
from manifold_shap.models.outputs import (
    RETURNS,
    check_outputs,
    check_shape,
    converted,
    differs_between_calls,
    settled,
)
from manifold_shap.models.rows import whole

# Rows on which a model is asked twice.
_REPEATED_ROWS = 64


@runtime_checkable
class FrameOfCodes(Protocol):
    """Makes the frame that a model takes from codes of its cells: a `Table`, for example."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns, one for each code of a row."""

    def frame(self, x: Tensor) -> Any:
        """The rows that the codes stand for."""


@saved
class Model:
    """A model to explain, as a function of a batch of rows.

    Calling it gives log-probabilities `[batch, classes]` or, for `returns="values"` (regression),
    the model's own outputs, in its own precision and at least in torch's. No gradients are
    recorded, and the wrapped model gets a copy of the rows: what it changes in place stays its own.

    Args:
        predict: a model of any kind that `as_model` takes, or the adapter of one.
        classes: names, one per class (or per output).
        returns: `"logits"`, `"probabilities"`, `"log_probabilities"` or `"values"`.
        batch_size: most rows in a call of the model, where it has a limit.
        table: makes a frame of the codes that rows then are, see `as_model`.
        dtype: of whole numbers, where the model gets rows of these; by default rows as they come.

    Example:
        >>> model = Model(lambda x: x / x.sum(-1, keepdim=True), ["no", "yes"], "probabilities")
        >>> model
        Model(the function '<lambda>', probabilities ['no', 'yes'])
        >>> model(torch.tensor([[1.0, 3.0]]), scale="probabilities")
        tensor([[0.2500, 0.7500]])

    Raises:
        TypeError: a model of no known kind.
        ValueError: `returns` is none of these, `batch_size` is below 1, or a name occurs twice.
    """

    def __init__(
        self,
        predict: Any,
        classes: Sequence[str],
        returns: str,
        batch_size: int | None = None,
        table: FrameOfCodes | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.returns = check_choice("returns", returns, RETURNS)
        self.predictor = predictor_of(predict, returns)
        self.classes = tuple(str(name) for name in classes)
        check_distinct(self.classes, "`classes`", "give each output a name of its own")
        self.batch_size = None if batch_size is None else check_whole("batch_size", batch_size)
        self.table, self.dtype = table, dtype
        # Rows on which it was asked twice.
        self._repeated = 0

    def __repr__(self) -> str:
        return f"Model({self.predictor.name}, {self.returns} {shown(self.classes)})"

    kind = "model"

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """How it is wrapped; not the model."""
        plain = {
            "classes": self.classes,
            "returns": self.returns,
            "batch_size": self.batch_size,
            "table": self.table,
            "dtype": self.dtype and str(self.dtype).removeprefix("torch."),
        }
        return plain, {}

    @classmethod
    def restored(cls, settings: dict[str, Any], _: dict[str, Tensor], passed: Any) -> "Model":
        model = passed.model
        if isinstance(model, str | os.PathLike):
            model = load_model(model)
        settings["dtype"] = settings["dtype"] and getattr(torch, settings["dtype"])
        if not isinstance(model, Model):
            return cls(model, **settings)
        # Its names, where these are no numbers; another number of outputs is refused when asked.
        numbered = model.classes == tuple(map(str, range(len(model.classes))))
        if not numbered and len(model.classes) == len(settings["classes"]):
            settings["classes"] = model.classes
        return cls(model.predictor, **settings)

    def __call__(
        self, x: Float[Tensor, "batch *event"], *, scale: str | None = None
    ) -> Float[Tensor, "batch classes"]:
        """Outputs of these rows.

        Args:
            x: rows or, with a table, their codes.
            scale: `"probabilities"` or `"log_probabilities"` for a classifier; by default the
                latter. What the model itself returns passes unchanged.
        """
        return self._converted(self._raw(x), scale).to(x.device)

    def to(self, device: torch.device | str) -> "Model":
        """Move a wrapped torch module; other models get rows on the device of the rows."""
        self.predictor.to(device)
        return self

    def checked(
        self, x: Float[Tensor, "batch *event"], *, scale: str | None = None
    ) -> Float[Tensor, "batch classes"]:
        """Outputs of these rows, once it is clear that the model gives what `returns` promises.

        Warns as `warn_if_unsteady` does.

        Raises:
            RuntimeError: the model failed.
            TypeError: outputs that are no numbers.
            ValueError: outputs of another shape, NaN, or no distribution over the classes.
        """
        raw = self._raw(x)
        check_shape(raw, len(x), self.returns)
        check_outputs(raw, self.returns)
        self.warn_if_unsteady(x)
        return self._converted(raw, scale).to(x.device)

    def warn_if_unsteady(self, x: Float[Tensor, "batch *event"]) -> None:
        """Warn, once, where the model gives other outputs of the same rows, or of some of them.

        It is asked again once, and once more where there was a single row to ask it on before.
        """
        x = x[:_REPEATED_ROWS]
        if self._repeated >= min(len(x), 2):
            return
        self._repeated = len(x)
        first, second = self._raw(x), self._raw(x)
        if not torch.allclose(first, second, rtol=1e-4, atol=1e-6):
            self._repeated = _REPEATED_ROWS
            warn(
                "The model gives other outputs when it is called again on the same rows (by up to "
                f"{(first - second).nan_to_num(0).abs().max():.3g}), which no standard error of "
                "Shapley values counts. Switch its dropout or sampling off, or fix its seed in "
                "every call.",
            )
            return
        # What reads rows as the steps of a series, from either end, has seen none at one of its
        # ends.
        parts = (slice(1), slice(-1, None), slice(len(x) // 2 or 1))
        differs_between_calls("the model", self._raw, x, first, parts)

    def _converted(self, raw: Tensor, scale: str | None) -> Tensor:
        # Some accelerators have no double precision; half of it is too little for logarithms.
        narrow = torch.float32 if raw.device.type == "mps" else raw.dtype
        raw = raw.to(torch.promote_types(narrow, torch.get_default_dtype()))
        return converted(raw, self.returns, scale or "log_probabilities")

    @torch.no_grad()
    def _raw(self, x: Tensor) -> Tensor:
        parts = []
        for rows in x.split(self.batch_size or self.predictor.rows_per_call(x)):
            outputs = self.predictor(self._rows(rows))
            # A regression model of one output may give one number per row.
            single = outputs.ndim == 1 and self.returns == "values"
            parts.append(outputs[:, None] if single else outputs)
            self._check_count(parts[-1])
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _check_count(self, raw: Tensor) -> None:
        if self.classes and raw.ndim == 2 and raw.shape[1] != len(self.classes):
            raise ValueError(
                f"Expected an output for each of `classes`, {shown(self.classes)}, but "
                f"{self.predictor.name} returned {raw.shape[1]} columns; pass the model that has "
                "these outputs, as many for any rows."
            )

    def _rows(self, x: Tensor) -> Any:
        """What the model is given for a tensor, in memory of its own."""
        if self.table is not None:
            return self.table.frame(x)
        # An imputer may draw fractions.
        return x.clone() if self.dtype is None else whole(x, self.dtype)


def as_model(
    model: Any,
    x: Any,
    classes: Sequence[str] | None = None,
    returns: str | None = None,
    batch_size: int | None = None,
    table: FrameOfCodes | None = None,
) -> Model:
    """Wrap a trained model of any kind.

    It may be a torch module (put into evaluation mode, and asked in it whatever its mode later is,
    on rows of its own precision on its own device); a classifier, regressor or pipeline of
    scikit-learn; an estimator or a `Booster` of xgboost, lightgbm or catboost; a session of
    onnxruntime; the path of a file that `load_model` reads; a method of one of these, such as
    `classifier.predict_proba`; or any function of rows to a tensor, an array or a frame. A `Model`
    passes unchanged, with its own names and settings.

    Of a classifier of several labels at once each label's P(yes) is a plain value. The unit of what
    a regression predicts goes to the value function, as `space=ms.spaces.Identity("EUR")`.

    Args:
        model: gives outputs `[batch, classes]` for a batch of rows.
        x: a few rows, a tensor or an array `[batch, *event]`, on which the outputs are checked and,
            where `returns` is not given, read; whole numbers stay whole. Or a table, or several
            tensors in a tuple or a dictionary.
        classes: names; by default the model's own, else "0", "1", ...
        returns: `"logits"`, `"probabilities"`, `"log_probabilities"` or, for regression,
            `"values"`. By default what the kind of model says; of a torch module or a function it
            is inferred from the outputs: rows that are distributions are probabilities, rows
            outside of [0, 1] are logits, which a warning says.
        batch_size: most rows in a call of `model`, where it has a limit.
        table: the `Table` of a frame: rows then are its codes, and the model gets the frame
            that these stand for.

    Example:
        >>> x = np.array([[0.0, 1.0], [2.0, 2.0]])
        >>> model = as_model(lambda x: x.softmax(-1), x, classes=["no", "yes"])
        >>> model.returns, model.classes
        ('probabilities', ('no', 'yes'))

    Raises:
        TypeError: `model` is of no known kind, or a classifier without probabilities.
        ValueError: it is not fitted, or the outputs are NaN, of another shape, or no distribution;
            `predict` of a classifier, `returns="values"` for one, or other settings than those of a
            `Model`.
        RuntimeError: the model raised an error, which is the cause of this one.
    """
    if is_inputs(x):
        from manifold_shap.tables.inputs import Inputs

        inputs = Inputs.fit(x)
        table, x = table or inputs, inputs.rows(x)
    if isinstance(x, FrameOfCodes):
        # The first two values of every column tell what a model returns.
        table, x = x, torch.eye(2)[:, 1:].expand(2, len(x.names))
    dtype = whole_dtype(x)
    x = to_tensor(x)
    if isinstance(model, Model):
        _check_unchanged(model, returns, batch_size)
        model.checked(x)
        return model
    if isinstance(model, str | os.PathLike):
        model = load_model(model)
    predictor = predictor_of(model, returns)
    some = predictor.returns or returns or "logits"
    raw = Model(predictor, (), some, batch_size, table, dtype)._raw(x)
    returns = settled(raw, len(x), predictor.name, predictor.returns, returns, model)
    if classes is None:
        names = predictor.classes or ()
        fits = len(names) == raw.shape[1]
        classes = names if fits else tuple(str(k) for k in range(raw.shape[1]))
    own, given = predictor.classes or (), tuple(map(str, classes))
    if own != given and sorted(own) == sorted(given):
        raise ValueError(
            f"Expected `classes` in the model's order, {shown(own)}, but got {shown(given)}; they "
            "rename its outputs, and do not move them."
        )
    wrapped = Model(predictor, classes, returns, batch_size, table, dtype)
    wrapped.checked(x)
    return wrapped


def whole_dtype(x: Any) -> torch.dtype | None:
    """The type of rows of whole numbers or of yes and no; None for others."""
    x = x.first if isinstance(x, StoredRows) else x
    if isinstance(x, np.ndarray) and x.dtype.kind in "biu":
        return torch.from_numpy(np.zeros(0, x.dtype)).dtype
    other = not isinstance(x, Tensor) or x.is_floating_point() or x.is_complex()
    return None if other else x.dtype


def _check_unchanged(model: Model, returns: str | None, batch_size: int | None) -> None:
    if returns not in (None, model.returns) or batch_size not in (None, model.batch_size):
        raise ValueError(
            f"Expected a `Model` to keep its returns={model.returns!r} and batch_size="
            f"{model.batch_size} but got {returns!r} and {batch_size}; wrap the function itself "
            "with these settings."
        )
