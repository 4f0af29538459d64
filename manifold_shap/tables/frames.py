"""Fits a schema to a frame, encodes frames by it, and makes frames of encoded rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_known
from manifold_shap._messages import shown
from manifold_shap.tables.encoding import decode_column, encode_values, fit_column
from manifold_shap.tables.forms import form_of
from manifold_shap.tables.forms.base import check_columns
from manifold_shap.tables.schema import OTHER, Column
from manifold_shap.tables.vocabulary import distinct


def fit(frame: Any, categorical: frozenset[str], categories_from: Any = None) -> tuple[Column, ...]:
    """See `Schema.fit`."""
    rows = form_of(frame)
    form = rows if categories_from is None else form_of(categories_from)
    check_columns(rows.columns, form.columns)
    check_known(
        categorical, list(map(str, form.columns)), "`categorical` to name columns of the table"
    )
    whole = form.read(frame if categories_from is None else categories_from)
    own = whole if categories_from is None else form.read(frame)

    def column(name: Any, every: Any, some: Any) -> Column:
        values, codes = distinct(form, name, every)
        if some is not every:
            known, found = distinct(form, name, form.join(values.native, some))
            values, codes = known, found[len(values) :]
        return fit_column(values, codes, str(name) in categorical)

    return tuple(map(column, form.columns, whole, own))


def encode(frame: Any, columns: Sequence[Column]) -> Float[Tensor, "rows width"]:
    """See `Schema.encode`."""
    form = form_of(frame)
    cells = dict(zip(map(str, form.columns), form.read(frame), strict=True))
    check_columns(list(cells), [column.name for column in columns])

    def block(column: Column) -> Any:
        values, codes = distinct(form, column.name, cells[column.name])
        elements, unknown = encode_values(column, values)
        # Rare categories of training are not listed, so that others cannot be told from them.
        odd = unknown & values.missing if OTHER in column.categories else unknown
        if odd.any():
            absent = values.missing[odd][0]
            raise ValueError(
                f"Column {column.name!r} holds "
                f"{'a missing cell' if absent else repr(values.labels[odd][0])}, but "
                f"training had {shown(column.categories) if column.categories else 'none'}; fit "
                "the schema with `categories_from` the whole table, or drop or recode these rows."
            )
        return elements[codes]

    return torch.from_numpy(np.concatenate(list(map(block, columns)), axis=1))


def decode(x: Tensor, columns: Sequence[Column]) -> pd.DataFrame:
    """See `Schema.decode`."""
    stops = np.cumsum([column.width for column in columns])
    if x.ndim != 2 or x.shape[1] != stops[-1]:
        raise ValueError(
            f"Expected `x` of shape (rows, {stops[-1]}) but got {tuple(x.shape)}; "
            "rows are encoded by `Schema.encode`."
        )
    if torch.isnan(x).any():
        raise ValueError("Expected `x` without NaN; fill absent elements before decoding.")
    blocks = np.split(x.detach().cpu().to(torch.float64).numpy(), stops[:-1], axis=1)
    pairs = zip(columns, blocks, strict=True)
    return pd.DataFrame({column.name: decode_column(block, column) for column, block in pairs})
