"""Imputers of tables: cells that were observed, as by hand, and reproducible draws of rare ones."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Listed, all_coalitions
from tests.examples import of_people, people, vae_of_people

KINDS: dict[str, Any] = {
    "marginal": lambda: of_people(ms.imputers.MarginalImputer),
    "gaussian": lambda: of_people(ms.imputers.GaussianImputer),
    "copula": lambda: of_people(ms.imputers.CopulaImputer),
    "empirical": lambda: of_people(ms.imputers.EmpiricalImputer),
    "mixture": lambda: of_people(ms.imputers.MixtureImputer, components=3),
    "vae": vae_of_people,
}


def complete(
    imputer: ms.imputers.Imputer, frame: pd.DataFrame, mask: Tensor, draws: int = 20
) -> Tensor:
    """Codes of completed rows, each coalition with a key of its own."""
    assert imputer.table is not None
    masks = mask.expand(len(frame), -1, -1)
    keys = torch.arange(masks[..., 0].numel()).reshape(masks.shape[:2])
    return imputer.impute(imputer.table.rows(frame), Listed(masks, keys), range(draws)).rows


@pytest.mark.parametrize("kind", KINDS)
def test_present_cells_are_the_frames_own_and_others_were_observed(kind: str) -> None:
    imputer, frame, mask = KINDS[kind](), people(5, seed=1), all_coalitions(4)
    table = imputer.table
    rows = complete(imputer, frame, mask)
    found = table.frame(rows.flatten(0, 2))
    assert (found.dtypes == frame.dtypes).all()
    given = frame.loc[frame.index.repeat(rows.shape[1] * rows.shape[2])].reset_index(drop=True)
    present = mask.repeat_interleave(rows.shape[2], 0).repeat(len(frame), 1).numpy()
    observed = people()
    for k, name in enumerate(frame.columns):
        pd.testing.assert_series_equal(found[name][present[:, k]], given[name][present[:, k]])
        drawn = found[name][~present[:, k]]
        assert drawn.isin(observed[name]).all()
        assert drawn.nunique(dropna=False) > 1
        if observed[name].isna().any():
            assert 0 < drawn.isna().mean() < 1


def test_categories_of_a_copula_occur_as_often_as_in_the_table() -> None:
    towns = np.array(["Bern", "Oslo", "Rome", None], dtype=object)
    frame = people(400).assign(
        town=np.random.default_rng(1).choice(towns, 400, p=[0.1, 0.2, 0.3, 0.4])
    )
    imputer = ms.imputers.table_imputer(ms.imputers.CopulaImputer, ms.Table.fit(frame), frame)
    nobody = torch.zeros(1, 1, 4, dtype=torch.bool)
    rows = complete(imputer, frame[:1], nobody, draws=4000)[0, 0]
    assert imputer.table is not None
    drawn = imputer.table.frame(rows)["town"]
    shares, expected = (
        own.fillna("nowhere").value_counts(normalize=True) for own in (drawn, frame["town"])
    )
    pd.testing.assert_series_equal(shares, expected, rtol=0, atol=0.06)


@pytest.mark.parametrize("kind", [ms.imputers.GaussianImputer, ms.imputers.EmpiricalImputer])
def test_samples_are_cells_of_the_table_and_serve_a_causal_order(
    kind: type[ms.imputers.Imputer],
) -> None:
    imputer = of_people(kind)
    assert imputer.table is not None
    causal = ms.imputers.CausalImputer(
        imputer, [["age"], ["income", "town", "member"]], [True, False]
    )
    assert causal.table is imputer.table
    x, mask = imputer.table.rows(people(2, 1)), torch.tensor([[[False, False, False, True]]])
    rows = causal.impute(x, Listed(mask.expand(2, -1, -1), torch.tensor([[1], [2]])), range(8)).rows
    assert torch.equal(rows[..., 3], x[:, None, None, 3].expand(2, 1, 8))
    frame = imputer.table.frame(rows.flatten(0, 2))
    assert all(frame[name].isin(people()[name]).all() for name in frame)
