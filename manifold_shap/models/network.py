"""Asks torch modules and plain functions."""

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from manifold_shap._memory import lacks_memory
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
        # Whether the module takes whole numbers as such; None until it was asked for some.
        self._whole: bool | None = None
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
        if rows.is_floating_point() or self._whole:
            return self.model(rows)
        if self._whole is False:
            return self.model(rows.to(self._precision()))
        # Whole numbers may be meant as such, or be measurements: the module tells.
        try:
            answer = self.model(rows)
        except RuntimeError as error:
            if lacks_memory(error):
                raise
            answer = self._ask_for_measurements(rows, error)
            self._whole = False
        else:
            self._whole = True
        return answer

    def device(self, rows: Any) -> torch.device:
        """Where the module computes; without parameters, where the rows are."""
        found = next(self.model.parameters(), rows)
        return found.device if isinstance(found, Tensor) else torch.device("cpu")

    def to(self, device: torch.device | str) -> "NetworkPredictor":
        self.model.to(device)
        return self

    def _ask_for_measurements(self, rows: Tensor, refused: RuntimeError) -> Any:
        """Outputs for rows that the module has refused as whole numbers.

        Raises:
            RuntimeError: it refuses them in its own precision, too, or there is no memory for that.
        """
        rows = rows.to(self._precision())
        try:
            return self.model(rows)
        except Exception as error:  # A module may fail in any way.
            if lacks_memory(error):
                raise
            first = (str(refused).splitlines() or [""])[0]
            raise RuntimeError(f"{first}; of {rows.dtype}: {error}") from refused

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
