"""Surrogates of models of frames: as by hand, saved and loaded, taught; groups and new cells."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import manifold_shap as ms
from tests.examples import people, people_model

FEW: dict[str, Any] = {
    "hidden": [16],
    "max_epochs": 2,
    "trainer": {"accelerator": "cpu", "limit_train_batches": 20},
}
FRAME, SOME = people(300), people(5, seed=1)


def phi(value: ms.ValueFunction, rows: Any = SOME) -> torch.Tensor:
    return ms.exact_shapley(value, rows).phi


def test_values_of_a_frame_are_those_of_the_table_encoded_by_hand(
    surrogate_of_people: ms.SurrogateValue,
) -> None:
    value, table = surrogate_of_people, ms.Table.fit(FRAME)
    x = table.encode(table.rows(FRAME))

    def model(x: torch.Tensor) -> torch.Tensor:
        return people_model(table.frame(table.nearest(x, torch.zeros(len(x), len(table.names)))))

    by_hand = ms.fit_surrogate(model, x, players=table.elements, **FEW)
    found = ms.exact_shapley(value, FRAME[:5])
    torch.testing.assert_close(found.phi, phi(by_hand, x[:5]), rtol=0, atol=1e-6)
    torch.testing.assert_close(found.prediction, people_model(FRAME[:5]), rtol=0, atol=1e-6)
    assert found.players.names == tuple(FRAME.columns)
    assert list(found.x) == list(FRAME.columns)


def test_the_table_of_a_model_or_of_a_teacher_is_shared() -> None:
    imputer = ms.imputers.table_imputer(ms.imputers.GaussianImputer, ms.Table.fit(FRAME), FRAME)
    teacher = ms.imputed_value(people_model, imputer, draws=2)
    taught = ms.fit_surrogate(people_model, FRAME, teacher=teacher, teacher_pairs=200, **FEW)
    assert taught.spec.table is imputer.table
    alone = ms.fit_surrogate(teacher.model, FRAME, **FEW)
    assert alone.spec.table is imputer.table
    assert not torch.equal(phi(taught), phi(alone))
    other = ms.as_model(people_model, ms.Table.fit(FRAME))
    with pytest.raises(ValueError, match="codes of the same table as the rows"):
        ms.imputed_value(other, imputer)
    # Imputers that know no table take codes, too.
    codes = ms.imputers.MarginalImputer(imputer.reference, imputer.players)
    assert ms.imputed_value(other, codes).spec.table is other.table


def test_a_missing_cell_is_a_value_that_the_column_reveals() -> None:
    def lacks_income(frame: pd.DataFrame) -> np.ndarray:
        return frame["income"].isna().to_numpy(dtype=float)[:, None]

    more = {**FEW, "max_epochs": 5, "learning_rate": 0.01, "weight_averaging": None}
    value = ms.fit_surrogate(lacks_income, FRAME, space="identity", **more)
    income = torch.tensor([[[False, True, False, False]]])
    found = value(FRAME, income.expand(len(FRAME), -1, -1))[:, 0, 0]
    missing = torch.tensor(FRAME["income"].isna().tolist())
    assert found[missing].min() > 0.8
    assert found[~missing].max() < 0.2


def test_cells_that_training_had_none_of_reach_the_model_as_they_are(
    surrogate_of_people: ms.SurrogateValue,
) -> None:
    new = SOME.assign(age=[101, 102, 103, 104, 105])
    found = ms.exact_shapley(surrogate_of_people, new)
    torch.testing.assert_close(found.prediction, people_model(new), rtol=0, atol=1e-6)
    odd = SOME.assign(town=["Paris", *SOME["town"][1:]])
    with pytest.warns(UserWarning, match="Paris"):
        assert ms.exact_shapley(surrogate_of_people, odd).efficiency_gap < 1e-5
