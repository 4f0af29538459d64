"""Imputers off the manifold: absent features come from one row each, all rows in turn."""

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions


def impute(imputer: ms.Imputer, x: Tensor, draws: int) -> Tensor:
    masks = all_coalitions(len(imputer.players)).expand(len(x), -1, -1)
    keys = torch.zeros(masks.shape[:2], dtype=torch.int64)
    return imputer.impute(x, masks, range(draws), keys).rows


def reference(rows: int = 6) -> Tensor:
    return torch.arange(3.0 * rows).reshape(rows, 3)


def test_present_players_stay_and_absent_ones_come_from_one_donor() -> None:
    x = -torch.ones(2, 3)
    completed = impute(ms.MarginalImputer(reference()), x, draws=4)
    assert completed.shape == (2, 8, 4, 3)
    donors = completed[0, 0]
    assert all((donor == reference()).all(1).any() for donor in donors)
    for k, mask in enumerate(all_coalitions(3)):
        assert (completed[:, k][..., mask] == -1).all()
        assert torch.equal(completed[0, k][:, ~mask], donors[:, ~mask])


def test_as_many_draws_as_rows_take_each_row_once() -> None:
    donors = impute(ms.MarginalImputer(reference()), torch.zeros(1, 3), draws=6)[0, 0]
    assert torch.equal(donors[donors[:, 0].argsort()], reference())


def test_more_draws_than_rows_take_them_in_turn() -> None:
    donors = impute(ms.MarginalImputer(reference(2)), torch.zeros(1, 3), draws=5)[0, 0]
    assert torch.equal(donors[:2], donors[2:4])
    assert sorted(torch.bincount(donors[:, 0].long() // 3).tolist()) == [2, 3]


def test_errors() -> None:
    with pytest.raises(ValueError, match="Expected at least one row in `reference`"):
        ms.MarginalImputer(torch.zeros(0, 3))
    with pytest.raises(ValueError, match=r"`reference` of shape \(rows, 2\) but got \(6, 3\)"):
        ms.MarginalImputer(reference(), ms.Players.of_elements((2,)))
    with pytest.raises(ValueError, match=r"`reference` of shape \(rows, \*event\) but got \(6,\)"):
        ms.MarginalImputer(reference()[:, 0])
    with pytest.raises(ValueError, match=r"`point` of shape \(3\), one row without .* \(6, 3\)"):
        ms.BaselineImputer(reference(), ms.Players.of_elements((3,)))
    with pytest.raises(ValueError, match=r"`point` of shape \(\*event\)"):
        ms.BaselineImputer(torch.tensor(1.0))


def test_a_baseline_is_the_whole_of_its_support() -> None:
    imputer = ms.BaselineImputer(torch.tensor([1.0, 2, 3]))
    assert imputer.support == 1
    assert torch.equal(impute(imputer, torch.zeros(1, 3), 1)[0, 0, 0], torch.tensor([1.0, 2, 3]))


def test_an_array_is_copied() -> None:
    array = reference().numpy()
    imputer = ms.MarginalImputer(array)
    array.fill(0)
    assert torch.equal(imputer.reference, reference())
