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


@pytest.mark.filterwarnings("ignore:The covariance of `reference` is singular")
@pytest.mark.parametrize(
    "kind", [ms.imputers.MarginalImputer, ms.imputers.GaussianImputer, ms.imputers.EmpiricalImputer]
)
def test_completions_are_those_of_the_table_encoded_by_hand(kind: Any) -> None:
    towns, rng = ["Oslo", "Rome", "Ulm"], np.random.default_rng(0)
    town = rng.choice(3, 150)
    frame = pd.DataFrame({"age": rng.normal(40, 10, 150).round(1) + 10 * town})
    frame["town"] = np.take(towns, town)
    scaled = (frame["age"] - frame["age"].mean()) / frame["age"].std(ddof=0)
    rows = torch.from_numpy(np.column_stack([scaled, np.eye(3)[town]])).float()
    imputer, mask = ms.imputers.table_imputer(kind, ms.Table.fit(frame), frame), all_coalitions(2)
    found = imputer.table.frame(complete(imputer, frame[:4], mask).flatten(0, 2))
    masks, keys = mask.expand(4, -1, -1), torch.arange(16).reshape(4, 4)
    by_hand = kind(rows, ms.Players(frame.columns, [0, 1, 1, 1]))
    drawn = by_hand.impute(rows[:4], Listed(masks, keys), range(20)).rows.flatten(0, 2)
    # The observed values that are nearest to encoded cells.
    nearest = (drawn[:, :1] - rows[:, 0]).abs().argmin(1).numpy()
    assert (found["age"].to_numpy() == frame["age"].to_numpy()[nearest]).all()
    assert (found["town"] == np.take(towns, drawn[:, 1:].argmax(1))).all()


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
