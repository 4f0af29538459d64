"""Finds the adapter for a model, by its kind; any function has one."""

from types import ModuleType
from typing import Any

from manifold_shap.models.boosting import BoosterPredictor, TreesPredictor
from manifold_shap.models.estimators import EstimatorPredictor
from manifold_shap.models.network import NetworkPredictor
from manifold_shap.models.onnx import OnnxPredictor
from manifold_shap.models.predictor import Predictor, called


class FunctionPredictor(Predictor):
    """Any function of rows of the caller's kind to a tensor, an array, a frame or a column.

    >>> import torch
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
    TreesPredictor,
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
