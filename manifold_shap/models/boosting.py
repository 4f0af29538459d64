"""Asks boosted trees: xgboost, lightgbm and catboost, by their estimators and their own classes."""

import json
import re
from typing import Any

import numpy as np

from manifold_shap._arrays import is_frame
from manifold_shap.models.estimators import EstimatorPredictor
from manifold_shap.models.predictor import Predictor, is_of
from manifold_shap.models.rows import as_array, as_pandas, in_fitted_order

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
_ESTIMATORS = {"xgboost": ["XGBModel"], "lightgbm": ["LGBMModel"], "catboost": ["CatBoost"]}
# Names that lightgbm and catboost make up for the columns of an array.
_MADE_UP = re.compile(r"(Column_)?\d+")


class TreesPredictor(EstimatorPredictor):
    """Estimators of xgboost, lightgbm and catboost, and its plain `CatBoost`, by frames.

    xgboost takes frames of pandas and polars as they are, the others those of pandas. Text is made
    categories before, as in the training: `frame.astype({name: trained[name].dtype})`. catboost
    takes no missing cell in a category: a model of such columns was trained with a word for it, and
    needs the same word in the frame.
    """

    def __init__(self, model: Any, returns: str | None = None, method: Any = None) -> None:
        self.library = next(own for own, names in _ESTIMATORS.items() if is_of(model, own, names))
        if self.library == "catboost":
            self.names_in = "feature_names_"
        super().__init__(model, returns, method)
        if self.library == "catboost" and _made_up(self.columns):
            self.columns = None

    @classmethod
    def takes(cls, model: Any) -> bool:
        return any(is_of(model, library, names) for library, names in _ESTIMATORS.items())

    def of_frame(self, frame: Any) -> Any:
        return frame if self.library == "xgboost" else as_pandas(frame)

    def _of_classifier(self, returns: str | None, probabilities: Any) -> tuple[Any, str]:
        def asked(rows: Any) -> Any:
            return self.model.predict(rows, prediction_type="Probability")

        return super()._of_classifier(returns, probabilities or asked)


class BoosterPredictor(Predictor):
    """A `Booster` of xgboost, asked with all of its trees, or of lightgbm, with its best iteration.

    The objective of the training tells what it returns.
    """

    def __init__(self, model: Any, returns: str | None = None, method: Any = None) -> None:
        self._is_xgboost = is_of(model, "xgboost", ["Booster"])
        if self._is_xgboost:
            objective = json.loads(model.save_config())["learner"]["objective"]["name"]
            columns = model.feature_names
        else:
            # Of an objective that is a function, the text of the model says nothing.
            text = model.model_to_string(num_iteration=1)
            found = re.search(r"^objective=(\S+)", text, re.MULTILINE)
            objective, columns = found[1] if found else "none", model.feature_name()
        super().__init__(model, _RETURNS.get(objective, "values"))
        self.columns = tuple(columns) if columns and not _made_up(columns) else None
        self._margins = objective == "multi:softmax"

    @classmethod
    def takes(cls, model: Any) -> bool:
        return any(is_of(model, library, ["Booster"]) for library in ("xgboost", "lightgbm"))

    def prepared(self, rows: Any) -> Any:
        if not is_frame(rows):
            return as_array(rows)
        frame = in_fitted_order(rows, self.columns, self.name)
        return frame if self._is_xgboost else as_pandas(frame)

    def ask(self, rows: Any) -> Any:
        raw = self._of_xgboost(rows) if self._is_xgboost else self.model.predict(rows)
        if self.returns == "values" or raw.ndim == 2:
            return raw
        # Of two classes the trees give that of the second.
        first = 1 - raw if self.returns == "probabilities" else np.zeros_like(raw)
        return np.stack((first, raw), -1)

    def _of_xgboost(self, rows: Any) -> np.ndarray:
        import xgboost

        own = {"feature_names": self.model.feature_names, "feature_types": self.model.feature_types}
        known = {} if is_frame(rows) else own
        matrix = xgboost.DMatrix(rows, enable_categorical=True, **known)
        return self.model.predict(matrix, output_margin=self._margins)


def _made_up(names: Any) -> bool:
    return names is not None and all(_MADE_UP.fullmatch(name) for name in names)
