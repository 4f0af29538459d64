"""Imputers: what they keep, and what they draw."""

import pandas as pd
import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions


def impute(imputer: ms.Imputer, x: Tensor, draws: int, key: int = 0) -> Tensor:
    masks = all_coalitions(len(imputer.players)).expand(len(x), -1, -1)
    keys = torch.full(masks.shape[:2], key)
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


def test_the_key_decides_the_donors() -> None:
    imputer, x = ms.MarginalImputer(reference(50)), torch.zeros(1, 3)
    assert torch.equal(impute(imputer, x, 5), impute(imputer, x, 5))
    assert not torch.equal(impute(imputer, x, 5), impute(imputer, x, 5, key=1))


def test_nothing_is_changed() -> None:
    imputer, x = ms.MarginalImputer(reference()), torch.zeros(2, 3)
    impute(imputer, x, 4)
    assert torch.equal(imputer.reference, reference())
    assert torch.equal(x, torch.zeros(2, 3))


def test_images_with_superpixels() -> None:
    players = ms.Players(("left", "right"), torch.tensor([[[0, 1], [0, 1]]]))
    imputer = ms.MarginalImputer(torch.ones(5, 1, 2, 2), players)
    completed = impute(imputer, torch.zeros(1, 1, 2, 2), draws=3)
    assert completed.shape == (1, 4, 3, 1, 2, 2)
    assert completed[0, 1, 0].tolist() == [[[0, 1], [0, 1]]]


def test_errors() -> None:
    with pytest.raises(ValueError, match="Expected at least one row in `reference`"):
        ms.MarginalImputer(torch.zeros(0, 3))
    with pytest.raises(ValueError, match=r"`reference` of shape \(rows, 2\) but got \(6, 3\)"):
        ms.MarginalImputer(reference(), ms.Players.of_elements((2,)))
    with pytest.raises(ValueError, match=r"`reference` of shape \(rows, \*event\) but got \(6,\)"):
        ms.MarginalImputer(reference()[:, 0])
    holed = reference()
    holed[4, 1] = torch.nan
    with pytest.raises(ValueError, match=r"entries of `reference` are NaN or infinite, .* row 4"):
        ms.MarginalImputer(holed)
    with pytest.raises(TypeError, match=r"`reference` to be a tensor or an array .* got DataFrame"):
        ms.MarginalImputer(pd.DataFrame(reference().numpy()))


def test_reference_rows_are_a_copy() -> None:
    tensor, array = reference(), reference().numpy()
    imputers = ms.MarginalImputer(tensor), ms.MarginalImputer(array)
    tensor.zero_()
    array.fill(0)
    for imputer in imputers:
        assert torch.equal(imputer.reference, reference())
