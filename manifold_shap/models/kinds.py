"""Finds the adapter for a model, by its kind: torch modules and functions have theirs here."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from manifold_shap._arrays import is_frame
from manifold_shap.models.estimators import BoosterPredictor, EstimatorPredictor
from manifold_shap.models.onnx import OnnxPredictor
from manifold_shap.models.predictor import Predictor, called
from manifold_shap.models.rows import as_array
from manifold_shap.nn import evaluated, first_number

_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)


class NetworkPredictor(Predictor):
    """A torch module, in evaluation mode from now on and in each call, on rows on its own device.

    Fractions get the precision of the module. Whole numbers, such as the numbers of tokens, stay
    whole, but for those of a frame of which the module has no embedding: they are measurements.

    >>> NetworkPredictor(nn.Linear(2, 1).requires_grad_(False))(torch.zeros(3, 2)).shape
    torch.Size([3, 1])

    Attributes:
        module: the module; `model` may be a method of it.
    """

    in_small_calls = True

    def __init__(self, model: nn.Module, returns: str | None = None, method: Any = None) -> None:
        super().__init__(method or model, returns)
        self.module, self.name = model, type(model).__name__
        # An exported program is in evaluation mode, and refuses to be put into it.
        with suppress(NotImplementedError):
            model.eval()

    @classmethod
    def takes(cls, model: Any) -> bool:
        return isinstance(model, nn.Module)

    def prepared(self, rows: Any) -> Any:
        if isinstance(rows, Mapping):
            return {name: self.prepared(each) for name, each in rows.items()}
        if isinstance(rows, tuple):
            return tuple(map(self.prepared, rows))
        whole, otherwise = True, rows.dtype if isinstance(rows, Tensor) else None
        if not isinstance(rows, Tensor):
            array = as_array(rows)
            if is_frame(rows):
                whole = any(isinstance(each, _EMBEDDINGS) for each in self.module.modules())
            rows = torch.from_numpy(array.copy())
        number = first_number(self.module)
        if number is None:
            number = torch.empty(0, dtype=otherwise, device=rows.device)
        whole = whole and not rows.is_floating_point()
        return rows.to(number.device, rows.dtype if whole else number.dtype)

    def ask(self, rows: Any) -> Any:
        with evaluated(self.module):
            return called(self.model, rows)

    def device(self, rows: Any) -> torch.device:
        """Where the module computes; without parameters, where the rows are."""
        found = next(self.module.parameters(), rows)
        return found.device if isinstance(found, Tensor) else torch.device("cpu")

    def to(self, device: torch.device | str) -> "NetworkPredictor":
        self.module.to(device)
        return self


class FunctionPredictor(Predictor):
    """Any function of rows of the caller's kind to a tensor, an array, a frame or a column.

    >>> FunctionPredictor(lambda rows: rows.sum(1))(torch.ones(2, 3))
    tensor([3., 3.])
    """

    # Any function may hold a network.
    in_small_calls = True

    def __init__(self, model: Any, returns: str | None = None, method: Any = None) -> None:
        super().__init__(model, returns)
        self.name = f"the function {getattr(model, '__name__', self.name)!r}"

    @classmethod
    def takes(cls, model: Any) -> bool:
        return callable(model)

    def ask(self, rows: Any) -> Any:
        return called(self.model, rows)


# The first that takes a model is its adapter: the particular ones come before the general.
KINDS: tuple[type[Predictor], ...] = (
    NetworkPredictor,
    OnnxPredictor,
    BoosterPredictor,
    EstimatorPredictor,
)


def predictor_of(model: Any, returns: str | None = None) -> Predictor:
    """The adapter that asks this model.

    Args:
        model: see `as_model`; an adapter passes unchanged. A method is asked as its model is, in
            the model's own way.
        returns: what the model returns, one of `RETURNS`; by default what its kind says.

    Raises:
        TypeError: a model of no known kind, or one without probabilities.
        ValueError: it is not fitted, or returns something else.

    >>> type(predictor_of(lambda rows: rows)).__name__
    'FunctionPredictor'
    """
    if isinstance(model, Predictor):
        return model
    while isinstance(model, partial) and not (model.args or model.keywords):
        model = model.func
    owner, method = getattr(model, "__self__", None), model
    if owner is None or isinstance(owner, type | ModuleType):
        owner, method = model, None
    for kind in KINDS:
        if not isinstance(owner, type) and kind.takes(owner):
            return kind(owner, returns, method)
    if callable(model) and not isinstance(model, type):
        return FunctionPredictor(model, returns)
    got = " ".join(f"{model!r:.100}".split())
    raise TypeError(
        "Expected `model` to be a torch module, an estimator of scikit-learn, xgboost, lightgbm or "
        "catboost, a session of onnxruntime, the path of a file with one of these, or a callable "
        f"from rows to probabilities, logits or values, but got {got}; of a class give an "
        "instance, and of a state_dict the module into which `load_state_dict` has read it."
    )
