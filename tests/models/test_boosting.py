"""Boosted trees on text and categories, as frames hold them."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
import xgboost

from manifold_shap.models import predictor_of

RNG = np.random.default_rng(0)
AGE = RNG.normal(size=200)
TOWN = np.where(AGE + RNG.normal(size=200) / 2 > 0, "Oslo", np.where(AGE > -1, "Rome", "Bern"))
ABSENT = RNG.random(200) < 0.3
TARGET = ((AGE > 0) ^ (RNG.random(200) < 0.05) ^ (TOWN == "Oslo")).astype(int)
UMLAUTS = {"Oslo": "Ängelholm", "Rome": "Århus", "Bern": "Zürich"}
KINDS = {"text": pl.String, "category": pl.Categorical, "enum": pl.Enum(["Rome", "Oslo", "Bern"])}


def frame_of(towns: Any, dtype: Any = pl.Categorical) -> pl.DataFrame:
    cells = [None if absent else town for town, absent in zip(towns, ABSENT, strict=True)]
    return pl.DataFrame({"age": AGE, "town": pl.Series(cells, dtype=dtype)})


def fitted(frame: Any) -> xgboost.XGBClassifier:
    return xgboost.XGBClassifier(n_estimators=8, enable_categorical=True).fit(frame, TARGET)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [ABSENT, ~ABSENT, np.arange(200) == np.flatnonzero(ABSENT)[0]])
def test_batches_of_polars_without_a_category_are_asked(kind: str, rows: np.ndarray) -> None:
    model, frame = fitted(frame_of(TOWN)), frame_of(TOWN, KINDS[kind])
    expected = torch.from_numpy(model.predict_proba(frame_of(TOWN))[rows])
    for asked in (model, model.get_booster()):
        found = predictor_of(asked)(frame.filter(pl.Series(rows)))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["text", "category"])
def test_names_that_are_not_ascii_are_whole_in_polars(kind: str) -> None:
    towns = [UMLAUTS[town] for town in TOWN]
    model, frame = fitted(frame_of(towns)), frame_of(towns, KINDS[kind])
    expected = torch.from_numpy(model.predict_proba(frame_of(towns)))
    some = np.flatnonzero((TOWN == "Bern") & ~ABSENT)
    found = predictor_of(model)(frame[some])
    assert torch.equal(found, expected[torch.from_numpy(some)])


def test_names_that_xgboost_cuts_in_pandas_are_asked_as_they_were_trained() -> None:
    towns = pd.Series([UMLAUTS[town] for town in TOWN])
    frame = pd.DataFrame({"age": AGE, "town": towns.astype("category")})
    model = fitted(frame)
    expected = model.predict_proba(frame)
    rows = frame.tail(5)
    assert np.array_equal(predictor_of(model)(rows).numpy(), expected[rows.index])
    with pytest.raises(TypeError, match=r"ASCII text in column 'town' .*astype"):
        predictor_of(model)(frame.assign(town=towns))
