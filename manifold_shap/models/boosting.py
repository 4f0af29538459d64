"""Asks boosted trees: xgboost, lightgbm and catboost, by their estimators and their own classes."""

import json
import re
from functools import partial
from typing import Any

import numpy as np

from manifold_shap._arrays import is_frame
from manifold_shap._messages import shown
from manifold_shap.models.estimators import EstimatorPredictor
from manifold_shap.models.network import FunctionPredictor
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

    def __init__(self, model: Any, objective: str, columns: Any) -> None:
        super().__init__(model, _RETURNS.get(objective, "values"))
        self.columns = tuple(columns) if columns and not _made_up(columns) else None

    def by(self, function: Any, name: str, returns: str | None) -> Predictor:
        return FunctionPredictor(function, returns) if isinstance(function, partial) else self

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
        super().__init__(model, objective, model.feature_names)
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
        super().__init__(model, found[1] if found else "none", model.feature_name())

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
    """The frame with text, and categories of polars, as categories that hold all of the training.

    xgboost refuses a column of polars without any, such as one of missing cells alone.
    """
    import narwhals as nw

    types, names = booster.feature_types or [], booster.feature_names or []
    wanted = [name for name, kind in zip(names, types, strict=False) if kind == "c"]
    given = nw.from_native(frame, eager_only=True)
    in_pandas = given.implementation.is_pandas()
    loose = (nw.String,) if in_pandas else (nw.String, nw.Categorical)
    found = [given[name] for name in given.columns if name in wanted]
    open_ = [column for column in found if column.dtype in loose]
    if not open_:
        return frame
    trained, made = _categories(booster), []
    for column in open_:
        met = column.drop_nulls().cast(nw.String).unique(maintain_order=True).to_list()
        names = [each.decode(errors="replace") for each in trained.get(column.name, [])]
        known = not in_pandas and set(met) <= set(names)
        if not known and not all(map(str.isascii, (*names, *met))):
            raise TypeError(
                f"Expected ASCII text in column {column.name!r} but got {shown(met)}: xgboost cuts "
                "the names of other categories in frames of pandas. Give a frame of the library of "
                "training with its dtype, `frame.astype({name: trained_frame[name].dtype})`."
            )
        made.append(column.cast(nw.Enum(list(dict.fromkeys([*names, *met])))))
    return given.with_columns(*made).to_native()


def _categories(booster: Any) -> dict[str, list[bytes]]:
    """Names of the categories of each column of the training, as xgboost has them."""
    try:
        columns = booster.get_categories(export_to_arrow=True).to_arrow()
    except ImportError:  # Without pyarrow, the names in a batch have to do.
        return {}
    known = {name: categories for name, categories in columns if categories is not None}
    return {name: [bytes(each.as_buffer()) for each in own] for name, own in known.items()}


def _made_up(names: Any) -> bool:
    return names is not None and all(_MADE_UP.fullmatch(name) for name in names)
