"""Reads frames of any library column by column, and builds frames of the same kind from columns."""

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from torch import Tensor

from manifold_shap.tables.forms.arrays import ArrayForm
from manifold_shap.tables.forms.base import Form
from manifold_shap.tables.forms.narwhals import NarwhalsForm
from manifold_shap.tables.forms.pandas import PandasForm

__all__ = ["Form", "form_from_dict", "form_of"]


def form_of(frame: Any) -> Form:
    """The form of a frame, an array, a tensor or a list of rows.

    >>> form_of(pd.DataFrame({"age": [20, 30]})).columns
    ('age',)
    >>> form_of(np.zeros((2, 3))).columns
    ('x0', 'x1', 'x2')

    Raises:
        TypeError: it is none of them.
        ValueError: it has no rows or no columns, or a name twice.
    """
    form: Form
    if isinstance(frame, pd.DataFrame):
        form, rows = PandasForm.of(frame), len(frame)
    elif isinstance(frame, np.ndarray | Tensor | list | tuple):
        form, rows = ArrayForm.of(frame), len(frame)
    else:
        try:
            form, rows = NarwhalsForm.of(frame), len(nw.from_native(frame, eager_only=True))
        except TypeError as error:
            raise TypeError(
                "Expected a data frame (of pandas or polars), an array, a tensor or a list of "
                f"rows but got {type(frame).__name__}; `pandas.DataFrame(...)` makes a "
                "frame of many things, and `pandas.read_csv(path)` reads a file."
            ) from error
    if rows == 0 or not form.columns:
        raise ValueError(
            f"Expected a table with rows and columns but got {rows} rows and "
            f"{len(form.columns)} columns."
        )
    return form


def form_from_dict(plain: Mapping[str, Any]) -> Form:
    """The form that `Form.to_dict` wrote.

    >>> form_from_dict(form_of(np.zeros((2, 3))).to_dict()).columns
    ('x0', 'x1', 'x2')

    Raises:
        ImportError: it is of polars, which is not installed.
        KeyError, TypeError, ValueError: something else wrote it.
    """
    forms: dict[str, Any] = {"pandas": PandasForm, "polars": NarwhalsForm, "array": ArrayForm}
    form: Form = forms[plain["library"]].from_dict(plain)
    return form
