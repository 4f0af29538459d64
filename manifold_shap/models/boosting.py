"""Asks boosted trees: xgboost, lightgbm and catboost, by their estimators and their own classes."""

import json
import re
from typing import Any

import numpy as np

from manifold_shap._arrays import is_frame
from manifold_shap.models.estimators import EstimatorPredictor
from manifold_shap.models.predictor import Predictor, is_of
from manifold_shap.models.rows import (
    as_array,
    as_pandas,
    in_fitted_order,
    with_categories,
)

# What trees return by the objective of their training; those of others give plain values.
_RETURNS = {
    "binary:logistic": "probabilities",
    "binary:logitraw": "logits",
    "multi:softprob": "probabilities",
    # Labels: the margins of the classes are asked for instead.
    "multi:softmax": "logits",
    "binary": "probabilities",
    "cross_entropy": "probabilities",
    "multiclass": "probabilities",
    "multiclassova": "probabilities",
}
# Names that lightgbm and catboost make up for the columns of an array.
_MADE_UP = re.compile(r"(Column_)?\d+")


class XGBoostEstimator(EstimatorPredictor):
    """xgboost's estimators: frames of pandas and polars as they are, text as categories."""

    @classmethod
    def takes(cls, model: Any) -> bool:
        return is_of(model, "xgboost", ["XGBModel"])

    def of_frame(self, frame: Any) -> Any:
        return _for_xgboost(frame, self.model.get_booster())


class LightGBMEstimator(EstimatorPredictor):
    """lightgbm's estimators: frames of pandas, text as the categories of the training."""

    @classmethod
    def takes(cls, model: Any) -> bool:
        return is_of(model, "lightgbm", ["LGBMModel"])

    def of_frame(self, frame: Any) -> Any:
        return with_categories(as_pandas(frame))


class CatBoostEstimator(EstimatorPredictor):
    """catboost's estimators, and its plain `CatBoost`: frames of pandas.

    catboost takes no missing cell in a category: a model of such columns was trained with a word
    for it, and needs the same word in the frame.
    """

    names_in = "feature_names_"

    def __init__(self, model: Any, returns: str | None = None) -> None:
        super().__init__(model, returns)
        if _made_up(self.columns):
            self.columns = None

    @classmethod
    def takes(cls, model: Any) -> bool:
        return is_of(model, "catboost", ["CatBoost"])

    def of_frame(self, frame: Any) -> Any:
        return as_pandas(frame)

    def _of_classifier(self, returns: str | None, probabilities: Any) -> tuple[Any, str]:
        def asked(rows: Any) -> Any:
            return self.model.predict(rows, prediction_type="Probability")

        return super()._of_classifier(returns, probabilities or asked)


class _BoosterPredictor(Predictor):
    """Trees without the methods of an estimator, whose objective tells what they return."""

    def __init__(self, model: Any, returns: str | None, objective: str, columns: Any) -> None:
        super().__init__(model, returns)
        self.columns = tuple(columns) if columns and not _made_up(columns) else None
        found = _RETURNS.get(objective, "values")
        if returns not in (None, found):
            raise ValueError(
                f"Expected returns={found!r} for a {self.name} with objective {objective!r} but "
                f"got {returns!r}; wrap another function of its outputs: `ms.as_model(function, "
                "x, returns=...)`."
            )
        self.returns = found

    def of_classes(self, raw: np.ndarray) -> np.ndarray:
        """Outputs for both classes, where the trees give that of the second."""
        if self.returns == "values" or raw.ndim == 2:
            return raw
        first = 1 - raw if self.returns == "probabilities" else np.zeros_like(raw)
        return np.stack((first, raw), -1)


class XGBoostBooster(_BoosterPredictor):
    """A `Booster` of xgboost, which is asked with all of its trees."""

    def __init__(self, model: Any, returns: str | None = None) -> None:
        objective = json.loads(model.save_config())["learner"]["objective"]["name"]
        super().__init__(model, returns, objective, model.feature_names)
        self._margins = objective == "multi:softmax"

    @classmethod
    def takes(cls, model: Any) -> bool:
        return is_of(model, "xgboost", ["Booster"])

    def prepared(self, rows: Any) -> Any:
        if is_frame(rows):
            return _for_xgboost(in_fitted_order(rows, self.columns, self.name), self.model)
        return as_array(rows)

    def ask(self, rows: Any) -> Any:
        import xgboost

        own = {"feature_names": self.model.feature_names, "feature_types": self.model.feature_types}
        known = {} if is_frame(rows) else own
        matrix = xgboost.DMatrix(rows, enable_categorical=True, **known)
        return self.of_classes(self.model.predict(matrix, output_margin=self._margins))


class LightGBMBooster(_BoosterPredictor):
    """A `Booster` of lightgbm, which is asked with the trees of its best iteration."""

    def __init__(self, model: Any, returns: str | None = None) -> None:
        # Of an objective that is a function, the text of the model says nothing.
        found = re.search(r"^objective=(\S+)", model.model_to_string(num_iteration=1), re.MULTILINE)
        super().__init__(model, returns, found[1] if found else "none", model.feature_name())

    @classmethod
    def takes(cls, model: Any) -> bool:
        return is_of(model, "lightgbm", ["Booster"])

    def prepared(self, rows: Any) -> Any:
        if is_frame(rows):
            return with_categories(as_pandas(in_fitted_order(rows, self.columns, self.name)))
        return as_array(rows)

    def ask(self, rows: Any) -> Any:
        return self.of_classes(self.model.predict(rows))


def _for_xgboost(frame: Any, booster: Any) -> Any:
    types, names = booster.feature_types or [], booster.feature_names or []
    return with_categories(frame, [n for n, t in zip(names, types, strict=False) if t == "c"])


def _made_up(names: Any) -> bool:
    return names is not None and all(_MADE_UP.fullmatch(name) for name in names)
