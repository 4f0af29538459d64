"""Values of a frame against those of the same table encoded by hand, with the same seeds."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from torch import Tensor

import manifold_shap as ms

TOWNS = ["Oslo", "Rome", "Ulm"]
OWNERS = [0, 1, 2, 3, 3, 3]


def people(rows: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    town = rng.choice(TOWNS, rows)
    age = rng.normal(40, 10, rows).round(1) + 10 * (town == "Rome")
    return pd.DataFrame(
        {
            "age": age,
            "rooms": 1 + rng.poisson(age / 20),
            "sex": np.where(rng.random(rows) < age / 80, "male", "female"),
            "town": town,
        }
    )


TABLE = people()
NUMBERS = TABLE[["age", "rooms"]]


@pytest.fixture(scope="module")
def model() -> Any:
    encode = OneHotEncoder(handle_unknown="ignore")
    forest = RandomForestClassifier(10, random_state=0)
    found = make_pipeline(
        make_column_transformer((encode, ["sex", "town"]), remainder="passthrough"), forest
    )
    return found.fit(TABLE, TABLE["age"] + 5 * (TABLE["town"] == "Ulm") > 42)


def encoded(frame: pd.DataFrame) -> Tensor:
    scaled = (frame[["age", "rooms"]] - NUMBERS.mean()) / NUMBERS.std(ddof=0)
    flags = [frame["sex"] == "male", *(frame["town"] == town for town in TOWNS)]
    rows = np.column_stack([scaled.to_numpy(), *flags])
    return torch.from_numpy(rows.astype(np.float32))


def decoded(x: Tensor) -> pd.DataFrame:
    """The observed values that are nearest to encoded cells."""
    rows = x.double().numpy()
    made: dict[str, Any] = {}
    for place, name in enumerate(NUMBERS):
        values = np.unique(NUMBERS[name])
        scaled = ((values - NUMBERS[name].mean()) / NUMBERS[name].std(ddof=0)).astype(np.float32)
        made[name] = values[abs(rows[:, place, None] - scaled).argmin(1)]
    made["sex"] = np.where(rows[:, 2] >= 0.5, "male", "female")
    made["town"] = np.array(TOWNS)[rows[:, 3:].argmax(1)]
    return pd.DataFrame(made)


@pytest.fixture(scope="module")
def games(model: Any) -> tuple[Any, Any]:
    """The model, and rows, by codes of the frame and by hand."""
    table = ms.Table.fit(TABLE)
    rows = encoded(TABLE)
    torch.testing.assert_close(table.encode(table.rows(TABLE)), rows, atol=1e-6, rtol=0)
    by_hand = ms.as_model(lambda x: model.predict_proba(decoded(x)), rows, returns="probabilities")
    return (ms.as_model(model, table), table.rows(TABLE)), (by_hand, rows)


PLAYERS = ms.Players(TABLE.columns, OWNERS)


def agree(value: Any, other: Any, games: tuple[Any, Any]) -> None:
    (_, codes), (_, rows) = games
    found, expected = ms.exact_shapley(value, codes[:4]), ms.exact_shapley(other, rows[:4])
    torch.testing.assert_close(found.phi, expected.phi, atol=1e-6, rtol=0)
    torch.testing.assert_close(found.prediction, expected.prediction, atol=1e-6, rtol=0)
    assert found.phi.abs().amax() > 0.05


@pytest.mark.filterwarnings("ignore:The covariance of `reference` is singular")
# A copula draws elements of a category for themselves, and ties between them are broken by chance,
# which the encoding by hand has none of.
@pytest.mark.parametrize(
    "kind", [ms.imputers.MarginalImputer, ms.imputers.GaussianImputer, ms.imputers.EmpiricalImputer]
)
def test_an_imputer_of_a_frame_is_that_of_its_encoding(games: tuple[Any, Any], kind: Any) -> None:
    (frames, codes), (by_hand, rows) = games
    imputer = ms.imputers.table_imputer(kind, frames.table, codes)
    value = ms.imputed_value(frames, imputer, draws=16)
    agree(value, ms.imputed_value(by_hand, kind(rows, PLAYERS), draws=16), games)
