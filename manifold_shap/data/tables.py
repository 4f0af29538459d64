"""Tabular data sets. Inputs are `[rows, width]`, and each original column is a player."""

import difflib
import json
import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int64
from pandas.api import types
from torch import Tensor

from manifold_shap.data import sources
from manifold_shap.data.base import Loaded, Settings, TensorDataModule, split_rows
from manifold_shap.tables.columns import check_numerals
from manifold_shap.tables.schema import Schema, check_distinct

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_MOST_CLASSES = 100
_LEAST_ROW_NUMBERS = 20

_DRUG_HEADER = (
    "ID Age Gender Education Country Ethnicity Nscore Escore Oscore Ascore Cscore Impulsive SS "
    "Alcohol Amphet Amyl Benzos Caff Cannabis Choc Coke Crack Ecstasy Heroin Ketamine Legalh LSD "
    "Meth Mushrooms Nicotine Semer VSA"
)
_DRUG_FEATURES = "Amphet Benzos Cannabis Coke Ecstasy Ketamine Legalh Meth Mushrooms Nicotine"
_ABALONE_HEADER = (
    "Sex,Length,Diameter,Height,Whole weight,Shucked weight,Viscera weight,Shell weight,Rings"
)
_CENSUS_HEADER = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
)

DRUG_COLUMNS = tuple(_DRUG_HEADER.split())
DRUG_FEATURES = tuple(_DRUG_FEATURES.split())
ABALONE_COLUMNS = tuple(_ABALONE_HEADER.split(","))
CENSUS_COLUMNS = tuple(_CENSUS_HEADER.split())


@dataclass(frozen=True, eq=False)
class Table:
    """A table as its publisher has it.

    Attributes:
        features: one column per player, in original units.
        labels: int64, one position in `classes` per row.
        classes: names of the classes.
        categorical: columns to encode one-hot whatever they hold.
        test_rows: how many of the last rows are the publisher's test rows, if any are.
    """

    features: pd.DataFrame
    labels: Int64[Tensor, " rows"]
    classes: tuple[str, ...]
    categorical: tuple[str, ...] = ()
    test_rows: int | None = None


class TableDataModule(TensorDataModule):
    """A table, encoded by a `Schema`.

    Kinds and categories come from every row, so that no row holds an unknown category; means and
    scales come from the training rows only.
    """

    @abstractmethod
    def read(self) -> Table:
        """The whole table."""

    def load(self) -> Loaded:
        table = self.read()
        parts = self._split(table)
        schema = Schema.fit(
            table.features.iloc[parts[0].numpy()],
            categorical=table.categorical,
            categories_from=table.features,
        )
        x, y = schema.encode(table.features), table.labels
        train, validation, test = ((x[rows], y[rows]) for rows in parts)
        players = schema.players
        return Loaded(train, validation, test, table.classes, players, schema)

    def _split(self, table: Table) -> tuple[Tensor, ...]:
        rows = len(table.features)
        if table.test_rows is None:
            shares = {"validation": self.validation, "test": self.test}
            return split_rows(rows, shares, self.seed)
        rest = rows - table.test_rows
        kept = split_rows(rest, {"validation": self.validation}, self.seed)
        return (*kept, torch.arange(rest, rows))


class Iris(TableDataModule):
    """Fisher's irises: 150 flowers, 4 lengths in cm, 3 species."""

    def __init__(self, *, name: str = "iris", **settings: Unpack[Settings]) -> None:
        super().__init__(name=name, **settings)

    def read(self) -> Table:
        from sklearn.datasets import load_iris

        iris = load_iris(as_frame=True)
        return Table(
            iris.data, _labels(iris.target), tuple(str(name) for name in iris.target_names)
        )


class Drug(TableDataModule):
    """Whether 1,885 people ever used LSD, by whether they ever used ten other drugs.

    The experiment of Frye et al. (2021), App. B.1: every feature is binary.
    """

    def __init__(self, *, name: str = "drug", **settings: Unpack[Settings]) -> None:
        super().__init__(name=name, **settings)

    def read(self) -> Table:
        relative = "drug/drug_consumption.data"
        path = sources.require(self.root, relative, f"{_UCI}/00373/drug_consumption.data")
        frame = pd.read_csv(path, header=None, names=list(DRUG_COLUMNS))
        used = (frame[[*DRUG_FEATURES, "LSD"]] != "CL0").astype(int)
        return Table(used[list(DRUG_FEATURES)], _labels(used["LSD"]), ("never", "ever"))


class Abalone(TableDataModule):
    """Whether 4,177 abalone are older than the median, by their sex and 7 measurements.

    Lengths are in units of 200 mm, weights in units of 200 g, as published. The age of an abalone
    is its number of rings plus 1.5 years (Frye et al., 2021, App. B.3).
    """

    def __init__(self, *, name: str = "abalone", **settings: Unpack[Settings]) -> None:
        super().__init__(name=name, **settings)

    def read(self) -> Table:
        relative = "abalone/abalone.data"
        path = sources.find(self.root, relative)
        if path is not None:
            frame = pd.read_csv(path, header=None, names=list(ABALONE_COLUMNS))
        else:
            with sources.fetching(self.root, relative):
                frame = sources.openml("abalone", 1, ABALONE_COLUMNS)
        rings = frame.pop("Rings").astype(int)
        older = _labels(rings > rings.median())
        return Table(frame, older, ("younger", "older"), categorical=("Sex",))


class Census(TableDataModule):
    """Whether income exceeds 50,000 dollars a year, by 13 columns of the 1994 US census.

    The sampling weight `fnlwgt` is left out, and "?" is a category of its own (Frye et al., 2021,
    App. B.2). The publisher's two files give 32,561 training and 16,281 test rows; OpenML has all
    rows in one table, and only then does the share `test` count.
    """

    def __init__(self, *, name: str = "census", **settings: Unpack[Settings]) -> None:
        super().__init__(name=name, **settings)

    def read(self) -> Table:
        paths = [sources.find(self.root, f"census/adult.{part}") for part in ("data", "test")]
        frames = [_read_census(path) for path in paths if path is not None]
        if len(frames) == len(paths):
            frame, test_rows = pd.concat(frames, ignore_index=True), len(frames[1])
        else:
            absent = "census/adult.data" if paths[0] is None else "census/adult.test"
            with sources.fetching(self.root, absent):
                frame, test_rows = _openml_census(), None
        income = frame["income"].str.rstrip(".")
        features = frame.drop(columns=["fnlwgt", "income"])
        rich = _labels(income == ">50K")
        return Table(features, rich, ("<=50K", ">50K"), test_rows=test_rows)


def _read_census(path: Path) -> pd.DataFrame:
    # The first line of adult.test is a remark that starts with a bar.
    return pd.read_csv(path, names=list(CENSUS_COLUMNS), skipinitialspace=True, comment="|")


def _openml_census() -> pd.DataFrame:
    frame = sources.openml("adult", 2, CENSUS_COLUMNS)
    text = frame.select_dtypes(exclude="number").columns
    return frame.assign(**frame[text].astype(object).fillna("?").astype(str))


class CSV(TableDataModule):
    """A table of your own: a file of comma-separated values with a header line."""

    def __init__(
        self,
        *,
        path: str,
        target: str,
        categorical: Sequence[str] = (),
        drop: Sequence[str] = (),
        name: str = "csv",
        **settings: Unpack[Settings],
    ) -> None:
        """As the base, and:

        Args:
            path: the file, from the working directory or from the places `root` stands for.
            target: the column with the class to predict.
            categorical: columns of numbers that are categories.
            drop: columns to leave out, such as identifiers.
        """
        super().__init__(name=name, **settings)
        self.path = path
        self.target = target
        self.categorical = tuple(categorical)
        self.drop = tuple(drop)

    def read(self) -> Table:
        frame = read_csv(self.path, self.root)
        for argument, names in (
            ("target", (self.target,)),
            ("drop", self.drop),
            ("categorical", self.categorical),
        ):
            _check_columns(frame, argument, names)
        labels, classes = _classes(frame[self.target])
        features = frame.drop(columns=[self.target, *self.drop])
        categorical = tuple(name for name in self.categorical if name in features)
        _check_features(features.drop(columns=list(categorical)), self.drop)
        return Table(features, labels, classes, categorical)


def read_csv(path: str, root: str | None) -> pd.DataFrame:
    """The table in a file of comma-separated values.

    Raises:
        FileNotFoundError: no such file in the working directory or the places for data.
        ValueError: the file is empty, not text, or not a table, or a column name occurs twice.
    """
    direct = Path(path).expanduser()
    found = direct if sources.is_file(direct) else sources.find(root, path)
    if found is None:
        fix = f"nor is there one at {direct.absolute()}: correct `path`"
        raise sources.missing(root, path, fix)
    # Only an empty cell is missing: "None" and "NA" may well be categories.
    options: dict[str, Any] = {"skipinitialspace": True, "keep_default_na": False}
    try:
        header = pd.read_csv(found, header=None, nrows=1, dtype=str, **options).iloc[0]
        frame = pd.read_csv(found, na_values=[""], **options)
    except (ValueError, pd.errors.ParserError) as error:
        raise ValueError(
            f"Expected a table of comma-separated values with a header line in {found} but could "
            f"not read it as one: {error}"
        ) from error
    # pandas renames a second "a" to "a.1", so the names are compared as they stand in the file.
    check_distinct(header[header != ""])
    return frame


def _check_features(features: pd.DataFrame, dropped: Sequence[str]) -> None:
    """Refuse columns that number the rows rather than describe them."""
    odd = {str(name): why for name in features if (why := _numbering(features[name]))}
    if odd:
        found = " and ".join(f"{name!r}, which {why}" for name, why in odd.items())
        names = json.dumps([*dropped, *odd], ensure_ascii=False)
        raise ValueError(
            f"Expected columns that describe the rows but got {found}; leave it out by "
            f"'data.drop={names}'. To keep it, name it in the header, and write numbers that are "
            "consecutive by chance with a decimal point (1.0)."
        )


def _numbering(series: pd.Series) -> str | None:
    """What makes a column look like the number of its row, if anything does."""
    if re.fullmatch(r"Unnamed: \d+", str(series.name)):
        return "has no name, as a saved index"
    if types.is_integer_dtype(series.dtype) and len(series) >= _LEAST_ROW_NUMBERS:
        low, high = int(series.min()), int(series.max())
        if series.is_unique and high - low == len(series) - 1:
            return f"looks like a row number, from {low} to {high}"
    return None


def _check_columns(frame: pd.DataFrame, argument: str, names: Sequence[str]) -> None:
    columns = [str(column) for column in frame.columns]
    for name in names:
        if name in columns:
            continue
        close = difflib.get_close_matches(str(name), columns, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        if len(columns) == 1:
            hint = "; with a single column, is the file separated by something else than commas?"
        raise ValueError(
            f"Expected `{argument}` to name a column of the table but got {name!r}; the columns "
            f"are {columns}{hint}"
        )


def _labels(series: pd.Series) -> Int64[Tensor, " rows"]:
    return torch.tensor(series.to_numpy()).long()


def _classes(target: pd.Series) -> tuple[Int64[Tensor, " rows"], tuple[str, ...]]:
    """The position of each row's class, and the names of the classes in order."""
    _check_target(target)
    schema = Schema.fit(target.to_frame(), categorical=[str(target.name)])
    return schema.encode(target.to_frame()).argmax(dim=1), schema.columns[0].categories


def _check_target(target: pd.Series) -> None:
    distinct = target.nunique()
    if distinct == 1:
        raise ValueError(
            f"Expected at least two classes in the target {target.name!r} but every row holds "
            f"{str(target.dropna().iloc[0])!r}; name another `target`."
        )
    if types.is_string_dtype(target.dtype):
        check_numerals(target.dropna())
    if distinct > _MOST_CLASSES:
        raise ValueError(
            f"Expected classes in the target {target.name!r} but it holds {distinct} distinct "
            f"values, more than {_MOST_CLASSES}: it looks continuous or like an identifier; cut it "
            "into classes first (`pandas.qcut`), or name another `target`."
        )
    if types.is_float_dtype(target.dtype):
        _check_whole(target)


def _check_whole(target: pd.Series) -> None:
    values = target.to_numpy()
    fractions = values[np.isfinite(values) & (values != np.trunc(values))]
    if len(fractions):
        raise ValueError(
            f"Expected classes in the target {target.name!r} but {len(fractions)} of "
            f"{len(target)} rows hold a fraction, first {fractions[0]}: it looks continuous; bin "
            "it into classes first (`pandas.qcut`), or name another `target`."
        )
