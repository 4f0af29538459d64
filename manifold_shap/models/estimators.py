"""Asks models with scikit-learn's methods, and boosted trees of xgboost, lightgbm and catboost."""

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from manifold_shap._arrays import is_frame
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
# Names that lightgbm and catboost make up for the columns of an array.
_MADE_UP = re.compile(r"(Column_)?\d+")


class EstimatorPredictor(Predictor):
    """A classifier by `predict_proba`, a regressor by `predict`, or another method that is named.

    Of several labels at once the outputs are P(yes) of each or, of a label of more than two
    classes, the probability of each class.

    It is given the caller's own frame; the columns in the order of the fit, where it knows their
    names. An array becomes a frame of pandas for what was fitted to names, and a frame an array for
    what scikit-learn fitted to an array, so that nobody is warned. lightgbm and catboost are given
    frames of pandas. Text is made categories before, as in the training:
    `frame.astype({name: trained[name].dtype})`; catboost takes no missing cell in a category.

    Raises:
        TypeError: a classifier without probabilities.
        ValueError: a method that gives names or margins of classes.
    """

    def __init__(self, model: Any, returns: str | None = None, method: Any = None) -> None:
        super().__init__(model, returns)
        predict, probabilities, classes, columns, width = _parts(
            model, "predict", "predict_proba", "classes_", "feature_names_in_", "n_features_in_"
        )
        of_catboost = is_of(model, "catboost", ["CatBoost"])
        self._of_pandas = of_catboost or is_of(model, "lightgbm", ["LGBMModel"])
        if of_catboost:
            columns = None if _made_up(model.feature_names_) else model.feature_names_
        self.columns = None if columns is None else tuple(map(str, columns))
        # A pipeline, too, knows how many columns its first step was fitted to.
        own = type(model).__module__.partition(".")[0] == "sklearn"
        self._of_arrays = own and columns is None and width is not None
        named = classes is not None and len(classes) > 0
        if named and of_catboost:
            probabilities = probabilities or partial(predict, prediction_type="Probability")
        # Names of the classes of several labels are lists.
        self._several = named and not isinstance(classes[0], str) and hasattr(classes[0], "__len__")
        self._is_classifier = named or probabilities is not None
        if named and not self._several:
            self.classes = tuple(map(str, classes))
        self._ask, self.returns = predict, "values"
        if self._is_classifier:
            self._ask, self.returns = self._of_classifier(returns, probabilities)
        if method is not None:
            self._ask_by(method, returns)
        if self._ask is None:
            raise TypeError(
                f"Expected a classifier with probabilities but {self.name} has `predict` only; "
                "explain those of a `CalibratedClassifierCV`."
            )

    @classmethod
    def takes(cls, model: Any) -> bool:
        predict, probabilities, classes = _parts(model, "predict", "predict_proba", "classes_")
        # What can be called as well, such as a model of Keras, is asked as a function.
        fitted = probabilities is not None and classes is not None
        return fitted or (bool(predict or probabilities) and not callable(model))

    def _ask_by(self, method: Any, returns: str | None) -> None:
        name, own = method.__name__, ("predict", "predict_proba")
        if self._is_classifier and (
            (name == "predict" and (self.classes or self._several or returns is None))
            or (name == "decision_function" and returns is None)
        ):
            raise ValueError(
                f"Expected probabilities to explain but `{name}` of the classifier {self.name} "
                "gives names or margins of classes; pass the classifier itself, as in "
                "`ms.Explainer(model, frame)` or, to explain these numbers, "
                f"`lambda rows: model.{name}(rows)` with returns='values'."
            )
        if name not in own or returns not in (None, self.returns):
            self._ask, self.returns = method, returns

    def prepared(self, rows: Any) -> Any:
        if is_frame(rows):
            ordered = in_fitted_order(rows, self.columns, self.name)
            named = any(isinstance(name, str) for name in rows.columns)
            if self._of_arrays and named:
                return as_array(ordered)
            return as_pandas(ordered) if self._of_pandas else ordered
        rows = as_array(rows)
        if self.columns is None:
            return rows
        import pandas as pd

        return pd.DataFrame(rows, columns=list(self.columns))

    def ask(self, rows: Any) -> Any:
        answer = self._ask(rows)
        several = isinstance(answer, list) and all(getattr(p, "ndim", 0) == 2 for p in answer)
        return self._of_labels(answer) if self._is_classifier and several else answer

    def _of_labels(self, answer: list[np.ndarray]) -> np.ndarray:
        """P(yes) of each label, or the probabilities of its classes where these are not two."""
        every = self.model.classes_ if self._several else [range(p.shape[1]) for p in answer]
        names, columns = list[str](), []
        for k, (p, own) in enumerate(zip(answer, every, strict=True)):
            names += [str(k)] if len(own) == 2 else [f"{k}: {each}" for each in own]
            columns.append(p[:, 1:] if len(own) == 2 else p)
        self.classes, self.returns = tuple(names), "values"
        return np.concatenate(columns, 1)

    def _of_classifier(self, returns: str | None, probabilities: Any) -> tuple[Any, str]:
        (joint,) = _parts(self.model, "predict_joint_log_proba")
        # Probabilities of naive Bayes, but not their logarithms, underflow.
        if joint is not None and returns in (None, "log_probabilities"):
            return self.model.predict_log_proba, "log_probabilities"
        return probabilities, "probabilities"


def _parts(model: Any, *names: str) -> Iterator[Any]:
    """Attributes of an estimator, None for those that it does not have.

    Not by a Protocol: which methods an estimator of scikit-learn has depends on its settings (as of
    `SVC(probability=True)`), and a Protocol may look at the class alone.
    """
    return (getattr(model, name, None) for name in names)


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
