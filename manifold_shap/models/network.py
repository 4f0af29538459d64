"""Asks torch modules and plain functions."""

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from manifold_shap.models.predictor import Predictor
from manifold_shap.models.rows import as_array, described


class NetworkPredictor(Predictor):
    """A torch module in evaluation mode, on rows that may be on another device.

    A tensor keeps its type: whole numbers, such as the numbers of tokens, stay whole. Numbers of a
    frame or an array get the precision of the module's parameters; where all columns hold whole
    numbers, they stay whole if the module takes them.

    >>> NetworkPredictor(nn.Linear(2, 1).requires_grad_(False))(torch.zeros(3, 2)).shape
    torch.Size([3, 1])
    """

    in_small_calls = True

    def __init__(self, model: nn.Module, returns: str | None = None) -> None:
        super().__init__(model, returns)
        self._whole = True
        # An exported program is in evaluation mode, and refuses to be put into it.
        with suppress(NotImplementedError):
            model.eval()

    @classmethod
    def takes(cls, model: Any) -> bool:
        return isinstance(model, nn.Module)

    def prepared(self, rows: Any) -> Tensor:
        if isinstance(rows, Tensor):
            return rows.to(self.device(rows))
        array = as_array(rows)
        if array.dtype.kind not in "biuf":
            raise TypeError(
                f"Expected numbers for the torch module {self.name} but got {described(rows)} with "
                "columns of text or dates; give it numbers, or wrap what encodes them: "
                "`lambda frame: module(encoded(frame))`."
            )
        tensor = torch.from_numpy(array.copy()).to(self.device(rows))
        return tensor.to(self._precision()) if tensor.is_floating_point() else tensor

    def ask(self, rows: Tensor) -> Any:
        if self._whole and not rows.is_floating_point():
            # Whole numbers may be meant as such, or be measurements: the module tells.
            try:
                return self.model(rows)
            except RuntimeError:
                self._whole = False
        return self.model(rows if self._whole else rows.to(self._precision()))

    def device(self, rows: Any) -> torch.device:
        """Where the module computes; without parameters, where the rows are."""
        found = next(self.model.parameters(), rows)
        return found.device if isinstance(found, Tensor) else torch.device("cpu")

    def to(self, device: torch.device | str) -> "NetworkPredictor":
        self.model.to(device)
        return self

    def _precision(self) -> torch.dtype:
        numbers = (p.dtype for p in self.model.parameters() if p.is_floating_point())
        return next(numbers, torch.get_default_dtype())


class FunctionPredictor(Predictor):
    """Any function of rows of the caller's kind to a tensor, an array, a frame or a column.

    >>> FunctionPredictor(lambda rows: rows.sum(1))(torch.ones(2, 3))
    tensor([3., 3.])
    """

    # Any function may hold a network.
    in_small_calls = True

    def __init__(self, model: Any, returns: str | None = None) -> None:
        super().__init__(model, returns)
        self.name = f"the function {getattr(model, '__name__', self.name)!r}"

    @classmethod
    def takes(cls, model: Any) -> bool:
        return callable(model)

    def ask(self, rows: Any) -> Any:
        return self.model(rows)
