"""Finds the adapter for a model, by its kind."""

from functools import partial
from types import ModuleType
from typing import Any

from manifold_shap.models.boosting import BoosterPredictor, TreesPredictor
from manifold_shap.models.estimators import EstimatorPredictor
from manifold_shap.models.network import FunctionPredictor, NetworkPredictor
from manifold_shap.models.onnx import OnnxPredictor
from manifold_shap.models.predictor import Predictor

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
        model: see `as_model`; an adapter passes unchanged.
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
    owner, name = _owner(model)
    for kind in KINDS:
        if not isinstance(owner, type) and kind.takes(owner):
            return kind(owner, returns).by(model, name, returns)
    if callable(model) and not isinstance(model, type):
        return FunctionPredictor(model, returns)
    got = " ".join(f"{model!r:.100}".split())
    raise TypeError(
        "Expected `model` to be a torch module, an estimator of scikit-learn, xgboost, lightgbm or "
        "catboost, a session of onnxruntime, the path of a file with one of these, or a callable "
        f"from rows to probabilities, logits or values, but got {got}; of a class give an "
        "instance, and of a state_dict the module into which `load_state_dict` has read it."
    )


def _owner(model: Any) -> tuple[Any, str]:
    """The object that is asked by a bound method or a `functools.partial`, and the method's name.

    >>> _owner([1].index), _owner(len)
    (([1], 'index'), (<built-in function len>, ''))
    """
    if isinstance(model, partial):
        return _owner(model.func)
    owner = getattr(model, "__self__", None)
    if owner is None or isinstance(owner, type | ModuleType):
        return model, ""
    return owner, model.__name__
