"""Loads a table of your own from a file of separated values."""

import csv
import json
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch
from pandas.api import types
from torch import Tensor

from manifold_shap._checks import all_at_once, check_distinct, check_known, to_tensor
from manifold_shap._words import check_choice, check_flag, check_text, shown
from manifold_shap.data import sources
from manifold_shap.data.base import Settings, Table, TensorDataModule
from manifold_shap.data.numerals import (
    check_column,
    check_numerals,
    check_present,
    finite_numbers,
)
from manifold_shap.tables.vocabulary import label_of

TASKS = ("classification", "regression")
MISSING = ("refuse", "drop_rows", "fill")
_FILLED = "(missing)"
_MOST_CLASSES = 100
_LEAST_ROW_NUMBERS = 20
_SEPARATORS = {";": ";", "\t": "\\t", "|": "|", ",": ","}


class CSV(TensorDataModule):
    """A table of your own: a file of separated values, of which one column is to be predicted."""

    name = "csv"

    def __init__(
        self,
        *,
        path: str,
        target: str,
        task: str = "classification",
        categorical: Sequence[str] = (),
        drop: Sequence[str] = (),
        keep: Sequence[str] = (),
        separator: str = ",",
        decimal: str = ".",
        header: bool | None = None,
        na_values: Sequence[str] = (),
        missing: str = "refuse",
        **settings: Unpack[Settings],
    ) -> None:
        """As the base, and:

        Args:
            path: the file, from the working directory or from the places `root` stands for. Its
                name without the ending is the default of `name`.
            target: the column to predict.
            task: "classification", or "regression" of a target of numbers.
            categorical: columns of numbers that are categories.
            drop: columns to leave out, such as identifiers.
            keep: columns that describe the rows although they look like numbers of the rows.
            separator: the character between two cells; `\\t` is a tab.
            decimal: the point in numbers.
            header: whether the first line names the columns; without names they are "column 1",
                "column 2", ... By default it does, and must not look like a row of data.
            na_values: texts that stand for a missing value, as an empty cell does.
            missing: rows with missing values are an error ("refuse") or left out ("drop_rows"), or
                the values are replaced ("fill"): numbers by the median of their column, others by
                a category "(missing)". A row without the target is never filled.

        Raises:
            TypeError: `path` is no text, or `header` neither true nor false.
            ValueError: `task` or `missing` is another word, or `separator` or `decimal` not one
                character.
        """
        self.path = check_text("path", path)
        self.name = Path(path).stem
        super().__init__(**settings)
        self.target = str(target)
        self.task = check_choice("task", task, TASKS)
        self.categorical, self.drop = _listed(categorical), _listed(drop)
        self.keep, self.na_values = _listed(keep), _listed(na_values)
        self.separator = _character("separator", "\t" if separator == "\\t" else separator)
        self.decimal = _character("decimal", decimal)
        self.header = None if header is None else check_flag("header", header)
        self.missing = check_choice("missing", missing, MISSING)

    def read(self) -> Table:
        direct = Path(self.path).expanduser()
        path = direct if sources.is_file(direct) else sources.find(self.root, self.path)
        if path is None:
            fix = f"nor is there one at {direct.absolute()}: correct `path`"
            raise sources.missing(self.root, self.path, fix)
        try:
            frame = self._frame(path)
        except (csv.Error, pd.errors.ParserError, UnicodeError, pd.errors.EmptyDataError) as error:
            raise ValueError(
                f"Expected a table of values separated by {self.separator!r} in {path} but could "
                f"not read it as one: {error}"
            ) from error
        frame = frame.drop(columns=[name for name in self.drop if name != self.target])
        if self.missing == "drop_rows":
            frame = frame.dropna()
        features, target = frame.drop(columns=self.target), frame[self.target]
        if features.empty:
            raise ValueError(
                f"Expected rows and at least one feature in {path} but got {len(features)} "
                f"complete rows and {features.shape[1]} features; see `drop` and `missing`."
            )
        categorical = tuple(name for name in self.categorical if name in features)
        if self.missing == "fill":
            features = features.apply(lambda series: _filled(series, series.name in categorical))
        read_target = _classes if self.task == "classification" else _numbers
        checks: list[Callable[[], Any]] = [
            partial(read_target, target),
            partial(self._check_numbering, features),
            *(partial(check_column, s) for n, s in features.items() if n not in categorical),
        ]
        labels, classes = all_at_once(lambda check: check(), checks)[0]
        return Table(features, labels, classes, categorical, target=self.target)

    def _frame(self, path: Path) -> pd.DataFrame:
        """The table in the file, its columns named.

        Raises:
            ValueError: the file is empty, not text, not a table, without the header that is
                expected or the columns that are named, or a column name occurs twice.
        """
        # Only an empty cell is missing: "None" and "NA" may well be categories.
        options: dict[str, Any] = {"skipinitialspace": True, "keep_default_na": False}
        # Lines as single cells: a table of very many columns takes a while to read.
        whole: dict[str, Any] = {"sep": "\1", "header": None, "nrows": 10, "dtype": str}
        whole["quoting"] = csv.QUOTE_NONE
        lines = pd.read_csv(path, **options, **whole)[0]
        first, *few = csv.reader(lines, delimiter=self.separator, skipinitialspace=True)
        _check_separator(first, self.separator, path)
        if self.header is None:
            _check_header(first, few, self.decimal, path)
        if self.header is False:
            names = [f"column {k + 1}" for k in range(len(first))]
        else:
            # pandas renames a second "a" to "a.1"; an empty name it calls "Unnamed".
            check_distinct(filter(None, first), "column names", "rename or drop the copies")
            names = [name or f"Unnamed: {k}" for k, name in enumerate(first)]
        named = {"target": (self.target,), "drop": self.drop, "keep": self.keep}
        named["categorical"] = self.categorical
        all_at_once(
            lambda name: check_known(named[name], names, f"`{name}` to name columns"), named
        )
        options |= {"na_values": ["", *self.na_values], "decimal": self.decimal}
        header = None if self.header is False else 0
        frame = pd.read_csv(path, sep=self.separator, header=header, **options)
        return frame.set_axis(names, axis=1)

    def _check_numbering(self, features: pd.DataFrame) -> None:
        """Refuse columns that number the rows rather than describe them."""
        kept = {*self.keep, *self.categorical}
        why = {str(n): _numbering(s) for n, s in features.items() if n not in kept}
        odd = {name: reason for name, reason in why.items() if reason}
        if odd:
            found = " and ".join(f"{name!r}, which {reason}" for name, reason in odd.items())
            drop, keep = (
                json.dumps([*known, *odd], ensure_ascii=False) for known in (self.drop, self.keep)
            )
            raise ValueError(
                f"Expected columns that describe the rows but got {found}; leave out by "
                f"'data.drop={drop}' what does not, keep by 'data.keep={keep}' what does."
            )


def _character(name: str, sign: Any) -> str:
    if not isinstance(sign, str) or len(sign) != 1:
        raise ValueError(f"Expected `{name}` to be one character but got {sign!r}.")
    return sign


def _listed(names: Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(str(name) for name in names)


def _check_separator(first: list[str], separator: str, path: Path) -> None:
    others = [word for sign, word in _SEPARATORS.items() if sign in first[0] and sign != separator]
    if len(first) == 1 and others:
        raise ValueError(
            f"Expected columns separated by {separator!r} in {path} but its first line, "
            f"{first[0][:100]!r}, holds '{others[0]}'; set data.separator='{others[0]}'."
        )


def _check_header(first: list[str], few: list[list[str]], decimal: str, path: Path) -> None:
    """Refuse a first line that is a row of data: all columns of numbers are named by numbers."""
    columns = zip(first, *(row for row in few if len(row) == len(first)), strict=True)
    rest = [(name, [cell for cell in cells if cell]) for name, *cells in columns]
    names = [n for n, cells in rest if cells and all(_is_number(c, decimal) for c in cells)]
    if names and all(_is_number(name, decimal) for name in names):
        raise ValueError(
            f"Expected names of the columns in the first line of {path} but it looks like a row "
            f"of data: {shown(first, 8)}; set data.header=false if it is one, data.header=true if "
            "these are names."
        )


def _is_number(text: str, decimal: str) -> bool:
    try:
        return math.isfinite(float(text.replace(decimal, ".")))
    except ValueError:
        return False


def _numbering(series: pd.Series) -> str | None:
    """What makes a column look like the number of its row, if anything does."""
    if re.fullmatch(r"Unnamed: \d+", str(series.name)):
        return "has no name, as a saved index"
    if types.is_integer_dtype(series.dtype) and len(series) >= _LEAST_ROW_NUMBERS:
        low, high = int(series.min()), int(series.max())
        if series.is_unique and high - low == len(series) - 1:
            return f"looks like a row number, from {low} to {high}"
    return None


def _filled(series: pd.Series, is_category: bool) -> pd.Series:
    if not series.isna().any():
        return series
    if types.is_numeric_dtype(series.dtype) and not is_category and series.notna().any():
        return series.fillna(series.median())
    return series.astype(object).fillna(_FILLED)


def _numbers(target: pd.Series) -> tuple[Tensor, tuple[str, ...]]:
    return to_tensor(finite_numbers(target), str(target.name)), ()


def _classes(target: pd.Series) -> tuple[Tensor, tuple[str, ...]]:
    """The position of each row's class, and the names of the classes in order."""
    distinct = target.nunique()
    if distinct == 1:
        raise ValueError(
            f"Expected at least two classes in the target {target.name!r} but every row holds "
            f"{str(target.dropna().iloc[0])!r}; name another `target`."
        )
    if types.is_string_dtype(target.dtype):
        check_numerals(target.dropna())
    fix = "set task='regression' (data.task=regression), cut it into classes (`pandas.qcut`), or"
    if distinct > _MOST_CLASSES:
        raise ValueError(
            f"Expected classes in the target {target.name!r} but it holds {distinct} distinct "
            f"values, more than {_MOST_CLASSES}: it looks continuous or like an identifier; {fix} "
            "name another `target`."
        )
    values = target.to_numpy()
    if types.is_float_dtype(target.dtype):
        fractions = values[np.isfinite(values) & (values != np.trunc(values))]
        if len(fractions):
            raise ValueError(
                f"Expected classes in the target {target.name!r} but {len(fractions)} of "
                f"{len(target)} rows hold a fraction, first {fractions[0]}: it looks continuous; "
                f"{fix} name another `target`."
            )
    check_present(target)
    labels = [label_of(value) for value in target]
    plain = types.is_numeric_dtype(target.dtype) and not types.is_bool_dtype(target.dtype)
    classes = tuple(sorted(set(labels), key=float if plain else None))
    return torch.from_numpy(pd.Index(classes).get_indexer(pd.Index(labels))).long(), classes
