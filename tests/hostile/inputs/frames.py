"""Data frames that hold what no table should."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow
import torch

import manifold_shap as ms
from tests.hostile.inputs.table import Input
from tests.hostile.inputs.things import codebook, explained, frame, of_frame

UTC = datetime.UTC


def front(rows: Any, model: Any = of_frame, **options: Any) -> object:
    """What the front door does with a table."""
    return ms.Explainer(model, rows, candidates=["gaussian"], progress=False, **options)


def duplicated() -> pd.DataFrame:
    return pd.concat((frame(), frame()[["age"]]), axis=1)


INPUTS = [
    Input(
        "a column twice",
        lambda _: front(duplicated()),
        ValueError,
        "Expected distinct column names but got ['age'] more than once; rename or drop the copies.",
        mark="kept",
    ),
    Input(
        "a column twice, as numbers",
        lambda _: explained(duplicated()[["age", "price"]]),
        ValueError,
        "Expected distinct column names in `x` but got ['age', 'age', 'price']; rename or drop the copies.",
        mark="twin",
    ),
    Input(
        "cells that are lists",
        lambda _: front(frame(bag=[[1, 2]] * 40)),
        TypeError,
        "Expected single values in column 'bag' but it holds list (such as [1, 2]); make columns of its elements, or drop it.",
        mark="kept",
    ),
    Input(
        "cells that are dicts",
        lambda _: front(frame(bag=[{"a": 1}] * 40)),
        TypeError,
        "Expected single values in column 'bag' but it holds dict (such as {'a': 1}); make columns of its elements, or drop it.",
        mark="twin",
    ),
    Input(
        "cells that are arrays",
        lambda _: front(frame(bag=[np.ones(2)] * 40)),
        TypeError,
        "Expected single values in column 'bag' but it holds ndarray (such as array([1., 1.])); make columns of its elements, or drop it.",
        mark="twin",
    ),
    Input(
        "cells that are complex",
        lambda _: front(frame(bag=np.arange(40) * 1j)),
        TypeError,
        "Expected real numbers in column 'bag' but it holds complex ones; make columns of their real and imaginary parts.",
        mark="library",
    ),
    Input(
        "times of two zones",
        lambda _: front(
            frame(
                when=[
                    datetime.datetime(2024, 1, 1, tzinfo=UTC),
                    datetime.datetime(
                        2024, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=1))
                    ),
                ]
                * 20
            )
        ),
        ValueError,
        "Expected dates of one time zone in column 'when' but got several, such as ['2024-01-01 00:00:00+00:00', '2024-01-02 00:00:00+01:00']; convert them first, as by `pd.to_datetime(column, utc=True)`.",
        mark="library",
    ),
    Input(
        "times with and without a zone",
        lambda _: front(
            frame(
                when=[datetime.datetime(2024, 1, 1, tzinfo=UTC), datetime.datetime(2024, 1, 2)] * 20
            )
        ),
        ValueError,
        "Expected dates of one time zone in column 'when' but got several, such as ['2024-01-01 00:00:00+00:00', '2024-01-02 00:00:00']; convert them first, as by `pd.to_datetime(column, utc=True)`.",
        mark="library",
    ),
    Input(
        "an infinite cell",
        lambda _: front(frame(price=np.r_[np.inf, np.ones(39)])),
        ValueError,
        "Expected finite numbers in column 'price' but it holds inf in row 0 (1 of 40 rows); correct these cells, or make them missing (NaN).",
        mark="kept",
    ),
    Input(
        "a frame without rows",
        lambda _: front(frame()[:0]),
        ValueError,
        "Expected a table with rows and columns but got 0 rows and 3 columns.",
        mark="kept",
    ),
    Input(
        "a frame of one row",
        lambda _: front(frame()[:1]),
        ValueError,
        "Expected at least one column that varies but the frame has a single row: ['age', 'price', 'town']; pass the rows that the model was trained on.",
        mark="kept",
    ),
    Input(
        "a frame without columns",
        lambda _: front(frame()[[]]),
        ValueError,
        "Expected a table with rows and columns but got 40 rows and 0 columns.",
        mark="twin",
    ),
    Input(
        "a frame of constants",
        lambda _: front(
            pd.DataFrame({"a": [1] * 40, "b": ["x"] * 40}),
            lambda rows: np.full((len(rows), 2), 0.5),
        ),
        ValueError,
        "Expected at least one column that varies but every one holds one value: ['a', 'b']; pass the rows that the model was trained on.",
        mark="kept",
    ),
    Input(
        "a frame that is all missing",
        lambda _: front(
            pd.DataFrame({"a": [None] * 40, "b": [np.nan] * 40}),
            lambda rows: np.full((len(rows), 2), 0.5),
        ),
        ValueError,
        "Expected at least one column that varies but every one holds one value: ['a', 'b']; pass the rows that the model was trained on.",
        mark="twin",
    ),
    Input(
        "columns of several levels",
        lambda _: front(pd.concat({"x": frame()}, axis=1)),
        RuntimeError,
        "Expected the model to take a frame of pandas of 40 rows but the function 'of_frame' failed with KeyError: 'price'",
        mark="library",
    ),
    Input(
        "a lazy frame",
        lambda _: front(polars.LazyFrame({"a": [1, 2]})),
        TypeError,
        "Expected a data frame (of pandas or polars), an array, a tensor or a list of rows but got LazyFrame; `.collect()` makes a lazy frame eager.",
        mark="library",
    ),
    Input(
        "a column in the place of a frame",
        lambda _: front(frame()["age"]),
        TypeError,
        "Expected a data frame (of pandas or polars), an array, a tensor or a list of rows but got Series; one row stays a frame by `frame.loc[[label]]`, of polars by `frame[k : k + 1]`.",
        mark="kept",
    ),
    Input(
        "an array in the place of a frame",
        lambda _: front(np.zeros((40, 2))),
        ValueError,
        "Expected at least one column that varies but every one holds one value: ['x0', 'x1']; pass the rows that the model was trained on.",
        mark="twin",
    ),
    Input(
        "the path of a frame",
        lambda _: front("table.csv"),
        TypeError,
        "Expected a data frame (of pandas or polars), an array, a tensor or a list of rows but got str; read the file first, as by `pandas.read_csv(path)`.",
        mark="twin",
    ),
    Input(
        "a group by in the place of a frame",
        lambda _: front(frame().groupby("town")),
        TypeError,
        "Expected a data frame (of pandas or polars), an array, a tensor or a list of rows but got DataFrameGroupBy; `pandas.DataFrame(...)` makes a frame of many things.",
        mark="library",
    ),
    Input(
        "the frame and the model swapped",
        lambda _: ms.Explainer(frame(), of_frame),
        TypeError,
        "Expected a data frame (of pandas or polars), an array, a tensor or a list of rows but got function; a model comes first, then the rows, as in `ms.Explainer(model, frame)`.",
        mark="kept",
    ),
    Input(
        "an unknown candidate",
        lambda _: ms.Explainer(of_frame, frame(), candidates=["gausian"]),
        ValueError,
        "Expected `candidates` among ['gaussian', 'copula', 'empirical', 'vae', 'surrogate', 'guided_surrogate'] but got ['gausian']; did you mean 'gaussian' for 'gausian'?",
        mark="kept",
    ),
    Input(
        "no candidates",
        lambda _: ms.Explainer(of_frame, frame(), candidates=[]),
        ValueError,
        "Expected at least one of `candidates` to be fitted but of [] none was: {}; name others, such as 'empirical'.",
        mark="kept",
    ),
    Input(
        "players of unknown columns",
        lambda _: front(frame(), players={"a": ["nosuch"]}),
        ValueError,
        "Expected columns of the group 'a' among ['age', 'price', 'town'] but got ['nosuch'].",
        mark="kept",
    ),
    Input(
        "a negative time to fit",
        lambda _: front(frame(), fit_seconds=-1),
        ValueError,
        "Expected `fit_seconds` to be a finite number above 0 but got -1.",
        mark="library",
    ),
    Input(
        "a frame that lacks a column",
        lambda _: codebook().rows(frame().drop(columns="town")),
        ValueError,
        "Expected the columns ['age', 'price', 'town'], as in training, but the frame lacks ['town']; give it these columns, as by `frame[columns]`.",
        mark="kept",
    ),
    Input(
        "a category that training had none of",
        lambda _: codebook().rows(frame(town="Bonn")),
        UserWarning,
        "Cells that training had none of: 'town' holds ['Bonn']. The model sees them as they are; the value function takes them for rare categories, or for average cells.",
        mark="kept",
    ),
    Input(
        "text in a column of numbers",
        lambda _: codebook().rows(frame(price="dear")),
        ValueError,
        "Expected column 'price' of dtype float64, as in training, but got str; convert it first, in the same way as the training data.",
        mark="kept",
    ),
    Input(
        "numbers in a column of text",
        lambda _: codebook().rows(frame(town=3.5)),
        ValueError,
        "Expected column 'town' of dtype str, as in training, but got float64; convert it first, in the same way as the training data.",
        mark="twin",
    ),
    Input(
        "dates in a column of numbers",
        lambda _: codebook().rows(frame(age=pd.Timestamp(2024, 1, 1))),
        ValueError,
        "Expected column 'age' of dtype int64, as in training, but got datetime64[us]; convert it first, in the same way as the training data.",
        mark="twin",
    ),
    Input(
        "codes beyond the codebook",
        lambda _: codebook().check(torch.full((1, 3), 1e6)),
        ValueError,
        "Expected `x` to be a frame or its codes, whole numbers below 24 in column 'age', but row 0 has 1e+06 there; pass the frame itself, or `codebook.rows(frame)`.",
        mark="kept",
    ),
    Input(
        "negative codes",
        lambda _: codebook().check(torch.full((1, 3), -1.0)),
        ValueError,
        "Expected `x` to be a frame or its codes, whole numbers below 24 in column 'age', but row 0 has -1 there; pass the frame itself, or `codebook.rows(frame)`.",
        mark="twin",
    ),
    Input(
        "codes that are no whole numbers",
        lambda _: codebook().check(torch.full((1, 3), 0.5)),
        ValueError,
        "Expected `x` to be a frame or its codes, whole numbers below 24 in column 'age', but row 0 has 0.5 there; pass the frame itself, or `codebook.rows(frame)`.",
        mark="twin",
    ),
    Input(
        "missing cells as numbers",
        lambda _: explained(pd.DataFrame({"a": [1.0, np.nan]})),
        ValueError,
        "Expected `x` without missing cells but of its 2 rows some lack one in these columns: ['a (1)']; `ms.Explainer(model, ... and, step by step, `ms.Codebook.fit(frame)` makes rows of it, and missing cells with it.",
        mark="kept",
    ),
    Input(
        "text as numbers",
        lambda _: explained(frame()),
        TypeError,
        "Expected `x` to hold numbers but these columns do not: ['town (String)']; `ms.Explainer(model, frame)` explains such a table as it is and, step by step, `ms.Codebook.fit(frame)` makes rows of it.",
        mark="kept",
    ),
    Input(
        "a table of pyarrow with lists",
        lambda _: front(pyarrow.table({"a": [[1], [2]] * 20, "b": list(range(40))})),
        TypeError,
        "Expected single values in column 'a' but it holds List(Int64); make columns of its elements, or drop it.",
        mark="twin",
    ),
    Input(
        "a frame of polars with objects",
        lambda _: front(polars.DataFrame({"a": [object()] * 40, "b": list(range(40))})),
        TypeError,
        "Expected single values in column 'a' but it holds Object; make columns of its elements, or drop it.",
        mark="twin",
    ),
    Input(
        "a frame of polars with structs",
        lambda _: front(polars.DataFrame({"a": [{"x": 1}] * 40, "b": list(range(40))})),
        TypeError,
        "Expected single values in column 'a' but it holds Struct({'x': Int64}); make columns of its elements, or drop it.",
        mark="twin",
    ),
    Input(
        "a schema without columns",
        lambda _: ms.Schema(()),
        ValueError,
        "Expected `columns` to hold at least one column but got none.",
        mark="library",
    ),
    Input(
        "a schema of unknown kinds",
        lambda _: ms.Schema((ms.Column("a", "colour"),)),
        ValueError,
        "Expected `kind of column 'a'` to be one of ['continuous', 'ordered', 'binary', 'categorical'] but got 'colour'.",
        mark="kept",
    ),
    Input(
        "a schema that is no dict",
        lambda _: ms.Schema.from_dict([1]),
        ValueError,
        "Expected a schema written by `Schema.to_dict` but got [1]: TypeError('list indices must be integers or slices, not str').",
        mark="library",
    ),
    Input(
        "a codebook that is no dict",
        lambda _: ms.Codebook.from_dict({"columns": 3}),
        ValueError,
        "Expected a codebook written by `Codebook.to_dict` but it is damaged, or something else wrote it (KeyError: 'form'); write it again.",
        mark="library",
    ),
]
