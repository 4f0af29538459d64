"""Defines the contract of adapters: how one kind of model is asked for its outputs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from manifold_shap.models.outputs import as_outputs

# Rows per call of a model on a CPU, and elements of these rows: the layers of a network of pictures
# hold some ten times as many numbers.
CPU_ROWS, CPU_ELEMENTS = 4096, 2**23


class Predictor(ABC):
    """How one kind of model is asked: a function of rows of the caller's own kind.

    A subclass says which models it takes, what these want for rows, and how they are asked; the
    base class words what goes wrong in the model.

    Args:
        model: the model.
        returns: what the caller says that it returns.
        method: a method of the model that is to be asked.

    Attributes:
        model: the model.
        name: of the model, for errors.
        returns: what it returns, one of `RETURNS`; None where only its outputs tell.
        classes: names of its classes, or of the outputs of a regression; None where it has none.
        columns: names of the columns that it was fitted to, in order; None where it knows none.
    """

    # Whether calls of more rows than a processor's cache holds cost more than they save.
    in_small_calls: ClassVar[bool] = False
    returns: str | None = None
    classes: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None

    def __init__(self, model: Any, returns: str | None = None, method: Any = None) -> None:
        self.model, self.returns = model, returns
        self.name = type(model).__name__

    # -- must be defined --------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def takes(cls, model: Any) -> bool:
        """Whether this is the kind of the model."""

    @abstractmethod
    def ask(self, rows: Any) -> Any:
        """The model's outputs for rows as `prepared` gives them, `[rows, outputs]`."""

    # -- may be overridden ------------------------------------------------------------------

    def prepared(self, rows: Any) -> Any:
        """What the model wants for these rows: a tensor, an array or a frame.

        Raises:
            TypeError, ValueError: rows that the model cannot take; columns it was not fitted to.
        """
        return rows

    def device(self, rows: Any) -> torch.device:
        """Where the model computes."""
        return rows.device if isinstance(rows, Tensor) else torch.device("cpu")

    def to(self, device: torch.device | str) -> "Predictor":
        """Move the model, where it can be moved."""
        return self

    # -- final ------------------------------------------------------------------------------

    def __call__(self, rows: Any) -> Tensor:
        """Outputs `[rows, outputs]` in the model's own precision; of a regression maybe `[rows]`.

        Raises:
            RuntimeError: the model raised an error, which is the cause of this one.
            TypeError, ValueError: rows that the model cannot take, or outputs that are no numbers,
                or not as many as rows.
        """
        tensors = tuple(rows.values()) if isinstance(rows, Mapping) else rows
        count = len(tensors[0] if isinstance(tensors, tuple) else tensors)
        prepared = self.prepared(rows)
        try:
            answer = self.ask(prepared)
        except Exception as error:  # A model may fail in any way.
            first = " ".join(str(error).split())[:500]
            if isinstance(error, torch.OutOfMemoryError | MemoryError):
                error.add_note("Give a smaller `batch_size`, as of `ms.as_model`.")
                raise
            whole = isinstance(prepared, Tensor) and not prepared.is_floating_point()
            fix = (
                "; of pictures and measurements pass `x.float()`, scaled as in training"
                if whole
                else ""
            )
            raise RuntimeError(
                f"Expected the model to take a {type(rows).__module__.partition('.')[0]}."
                f"{type(rows).__name__} of {count} rows but {self.name} failed with "
                f"{type(error).__name__}: {first}{fix}"
            ) from error
        outputs, names = as_outputs(answer)
        self.classes = self.classes or names
        if len(outputs) != count or outputs.ndim == 0:
            raise ValueError(
                f"Expected a row of outputs for each of {count} rows but {self.name} returned "
                f"shape {tuple(outputs.shape)}; it must not drop or join rows."
            )
        return outputs

    def rows_per_call(self, rows: Tensor) -> int:
        """Most rows that a call should have."""
        if not self.in_small_calls or self.device(rows).type != "cpu":
            return max(1, len(rows))
        return max(1, min(CPU_ROWS, CPU_ELEMENTS // max(1, rows[:1].numel())))


def called(model: Callable[..., Any], rows: Any) -> Any:
    """A model's answer for rows; of several tensors, these are its arguments.

    >>> called(lambda ids, mask: ids + mask, {"mask": torch.ones(1), "ids": torch.ones(1)})
    tensor([2.])
    """
    if isinstance(rows, Mapping):
        return model(**rows)
    return model(*rows) if isinstance(rows, tuple) else model(rows)


def is_of(model: Any, package: str, names: Sequence[str]) -> bool:
    """Whether a model is of one of these classes, without an import of their package.

    >>> is_of(torch.nn.ReLU(), "torch", ["Module"])
    True
    """
    return any(
        base.__name__ in names and base.__module__.partition(".")[0] == package
        for base in type(model).__mro__
    )
