"""VAE imputers of frames: as by hand, saved and loaded, and which cells are missing."""

from typing import Any

import numpy as np
import pandas as pd
import torch

import manifold_shap as ms
from manifold_shap.coalitions import Listed
from tests.examples import people

FEW: dict[str, Any] = {
    "latent": 2,
    "hidden": [16],
    "bank_size": 500,
    "max_epochs": 2,
    "trainer": {"accelerator": "cpu", "limit_train_batches": 20},
}
FRAME, SOME = people(300), people(5, seed=1)


def test_the_training_is_that_of_the_table_encoded_by_hand(
    imputer_of_people: ms.imputers.TableImputer,
) -> None:
    table = ms.Table.fit(FRAME)
    x, inner = table.encode(table.rows(FRAME)), imputer_of_people.inner
    by_hand = ms.fit_imputer(x, players=table.elements, temper=1.0, **FEW)
    assert isinstance(inner, ms.VAEImputer)
    assert isinstance(by_hand, ms.VAEImputer)
    assert torch.equal(inner.bank.table, by_hand.bank.table)
    assert imputer_of_people.training_record["epochs"] == 2


def test_cells_are_missing_where_they_are_in_rows_like_this_one() -> None:
    generator = np.random.default_rng(0)
    group = generator.choice(["a", "b"], 600)
    gone = generator.random(600) < np.where(group == "a", 0.9, 0.1)
    size = np.where(gone, np.nan, generator.normal(size=600))
    frame = pd.DataFrame({"group": group, "size": size})
    more = {**FEW, "max_epochs": 3, "trainer": {"accelerator": "cpu"}, "weight_averaging": None}
    imputer = ms.fit_imputer(frame, temper=1.0, learning_rate=0.01, **more)
    assert imputer.table is not None
    x = imputer.table.rows(pd.DataFrame({"group": ["a", "b"], "size": [1.0, 1.0]}))
    mask = torch.tensor([[[True, False]]]).expand(2, -1, -1)
    rows = imputer.impute(x, Listed(mask, torch.tensor([[1], [2]])), range(400)).rows
    share = [imputer.table.frame(own[0])["size"].isna().mean() for own in rows]
    assert share[0] > 0.6
    assert share[1] < 0.4
