"""Classifiers of frames with numbers, dates, categories and missing cells."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from torch import Tensor

MODELS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(max_iter=500),
    "network": lambda: MLPClassifier((64,), max_iter=60, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=60, random_state=0),
}


def fitted(name: str, frame: pd.DataFrame, labels: Tensor) -> Pipeline:
    """One of `MODELS` behind a pipeline that makes numbers of a frame."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include=np.number)),
        (categories, make_column_selector(dtype_include=object)),
    )
    pipeline = make_pipeline(FunctionTransformer(plain), columns, MODELS[name]())
    return pipeline.fit(frame, labels.numpy())


class Tabulated:
    """A pipeline of `fitted` for frames of categories alone: what it makes of each is looked up.

    Its outputs are those of the pipeline, which makes text of every cell.
    """

    def __init__(self, pipeline: Pipeline, frame: pd.DataFrame) -> None:
        self._model = pipeline[-1]
        start = frame.iloc[[0]]
        self._start = pipeline[:-1].transform(start)[0]
        self._changes, self._states = dict[Any, np.ndarray](), start.dtypes
        for name, column in start.items():
            codes = np.arange(len(column.cat.categories))
            states = start.iloc[[0] * len(codes)].copy()
            states[name] = pd.Categorical.from_codes(
                codes, column.cat.categories, column.cat.ordered
            )
            self._changes[name] = pipeline[:-1].transform(states) - self._start

    def __call__(self, frame: pd.DataFrame) -> np.ndarray:
        assert frame.dtypes.equals(self._states)
        made = self._start + sum(self._changes[name][frame[name].cat.codes] for name in frame)
        return self._model.predict_proba(made)


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as floats, dates as minutes, and all else as text."""
    found: dict[Any, Any] = {}
    for name, column in frame.items():
        if pd.api.types.is_datetime64_any_dtype(column):
            found[name] = (column - pd.Timestamp(0)) / pd.Timedelta(minutes=1)
        elif pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
            found[name] = column.astype(float)
        else:
            text = column.astype(object).where(column.notna(), "missing").astype(str)
            found[name] = text.astype(object)
    return pd.DataFrame(found, index=frame.index)
