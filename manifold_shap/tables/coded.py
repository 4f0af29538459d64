"""Numbers the values of one column, and keeps their encodings."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch

from manifold_shap.tables.drawing import NearestCategory, NearestNumber, value_of
from manifold_shap.tables.encoding import encode_values, fit_column
from manifold_shap.tables.forms.base import Codes, Form
from manifold_shap.tables.plain import from_plain, to_plain
from manifold_shap.tables.schema import Column
from manifold_shap.tables.vocabulary import (
    Values,
    check_values,
    distinct,
    numbered,
    values_of,
)

# Whole numbers up to this are exact in float32.
_MOST_CODES = 2**24


class CodedColumn:
    """The values of a column, their codes and their encodings; later frames may add values.

    Attributes:
        values: by code: those of training, then those that were met later.
        column: how they are encoded.
        counts: how often each value of training occurs there.
        elements: of each value `[codes, width]`.
        unknown: which values training had none of, and the value function cannot tell from others.
    """

    def __init__(self, form: Form, values: Values, column: Column, counts: Codes) -> None:
        self._form, self.values, self.column, self.counts = form, values, column, counts
        elements, unknown = encode_values(column, values)
        unknown[: len(counts)] = False
        self.elements, self.unknown = torch.from_numpy(elements), unknown

    @classmethod
    def fit(cls, form: Form, name: Any, column: Any, forced: bool = False) -> "CodedColumn":
        """Number the values of a column of the training frame.

        Args:
            form, name, column: see `distinct`.
            forced: whether numbers, too, are categories.

        Raises:
            TypeError, ValueError: as `distinct`.
        """
        values, codes = distinct(form, name, column)
        counts = np.bincount(codes, minlength=len(values))
        _check_count(values.name, len(values))
        return cls(form, values, fit_column(values, codes, forced), counts)

    @property
    def name(self) -> Any:
        return self.values.name

    @cached_property
    def nearest(self) -> NearestNumber | NearestCategory:
        """From elements to codes of values of training."""
        trained = len(self.counts)
        missing = np.flatnonzero(self.values.missing[:trained])
        return value_of(self.column, self.elements[:trained].numpy(), missing, self.counts)

    def codes(self, column: Any) -> Codes:
        """The code of each cell; values that are new get codes of their own.

        Raises:
            TypeError, ValueError: values that cannot be encoded; nothing is added then.
        """
        keys, missing = self._form.keys(column)
        index, known, absent = self._lookup
        codes, present = absent[missing], missing == 0
        found = index.get_indexer(pd.Index(keys[present], dtype=keys.dtype))
        codes[present] = np.append(known, -1)[found]
        rows = np.flatnonzero(codes < 0)
        if len(rows):
            number, first = numbered(keys[rows], missing[rows])
            more = values_of(self._form, self.name, self._form.take(column, rows[first]))
            start = len(self.values)
            self._add(more)
            codes[rows] = start + number
            del self._lookup
        return codes

    def only(self, codes: Codes) -> tuple[Codes, "CodedColumn"]:
        """The same cells in a column that has no other values."""
        kept, own = np.unique(codes, return_inverse=True)
        values = values_of(self._form, self.name, self._form.take(self.values.native, kept))
        counts = self.counts[kept[kept < len(self.counts)]]
        return own, CodedColumn(self._form, values, self.column, counts)

    def to_dict(self) -> dict[str, Any]:
        """Name, values and counts as numbers, text and lists."""
        values = self._form.store(self.values.native)
        return {"name": to_plain(self.name), "values": values, "counts": self.counts.tolist()}

    @classmethod
    def from_dict(cls, form: Form, plain: Mapping[str, Any], column: Column) -> "CodedColumn":
        """The column that `to_dict` wrote."""
        name, counts = from_plain(plain["name"]), np.array(plain["counts"], dtype=np.int64)
        values = values_of(form, name, form.restore(name, plain["values"]))
        return cls(form, values, column, counts)

    @cached_property
    def _lookup(self) -> tuple[pd.Index, Codes, Codes]:
        """Keys of values and their codes, and a code for each kind of missing cell, -1 for none."""
        keys, missing = self._form.keys(self.values.native)
        codes, present, absent = np.arange(len(keys)), missing == 0, np.full(6, -1)
        absent[missing[~present]] = codes[~present]
        return pd.Index(keys[present], dtype=keys.dtype), codes[present], absent

    def _add(self, more: Values) -> None:
        _check_count(self.name, len(self.values) + len(more))
        check_values(more)
        elements, unknown = encode_values(self.column, more)
        native = self._form.join(self.values.native, more.native)
        self.values = values_of(self._form, self.name, native)
        self.elements = torch.cat([self.elements, torch.from_numpy(elements)])
        self.unknown = np.append(self.unknown, unknown)


def _check_count(name: Any, count: int) -> None:
    if count > _MOST_CODES:
        raise ValueError(
            f"Expected at most {_MOST_CODES} distinct values in column {name!r} but got {count}; "
            "round its numbers, or explain the rows in parts with explainers of their own."
        )
