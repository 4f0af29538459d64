"""Classifiers of frames with numbers, dates, categories and missing cells."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

MODELS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(max_iter=500),
    "network": lambda: MLPClassifier((64,), max_iter=60, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=60, random_state=0),
    "boosted regression": lambda: HistGradientBoostingRegressor(max_iter=60, random_state=0),
}


def fitted(name: str, frame: pd.DataFrame, labels: Any) -> Pipeline:
    """One of `MODELS` behind a pipeline that makes numbers of a frame."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    dates = make_pipeline(FunctionTransformer(seconds), StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include=np.number)),
        (dates, make_column_selector(dtype_include=["datetime"])),
        (categories, make_column_selector(dtype_exclude=[np.number, "datetime"])),
    )
    return make_pipeline(columns, MODELS[name]()).fit(frame, labels)


def seconds(dates: pd.DataFrame) -> pd.DataFrame:
    return dates.astype("datetime64[s]").astype("int64")
