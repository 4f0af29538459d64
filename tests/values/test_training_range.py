"""Rows far outside of the data are said in every result, and no others."""

import warnings

import pandas as pd
import pytest
import torch

import manifold_shap as ms
from manifold_shap.values import TrainingRange

X = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
X[:, 2] = 1.0
FEW = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 2}}


def model(x: torch.Tensor) -> torch.Tensor:
    return x[:, :2].softmax(-1)


@pytest.fixture(scope="module", params=["imputed", "surrogate", "grouped"])
def value(request: pytest.FixtureRequest) -> ms.ValueFunction:
    if request.param == "surrogate":
        return ms.fit_surrogate(model, X, hidden=[4], **FEW)
    imputed = ms.imputed_value(model, ms.imputers.MarginalImputer(X), draws=4)
    return imputed.grouped([0, 1, 1]) if request.param == "grouped" else imputed


def test_rows_of_other_units_are_said(value: ms.ValueFunction) -> None:
    with pytest.warns(UserWarning, match=r"2 of 4 rows are far .* units"):
        found = ms.exact_shapley(value, torch.cat((X[:2], 100 * X[:2])))
    assert found.made_by["rows_far_outside"] == 2


def test_of_pictures_numbers_are_said() -> None:
    x = X[:, :, None, None].expand(-1, -1, 2, 2)
    imputer = ms.imputers.MarginalImputer(x)
    value = ms.imputed_value(lambda x: x[:, :2, 0, 0].softmax(-1), imputer, draws=4)
    with pytest.warns(UserWarning, match=r"range \(0 to 255, where it learned -2.61 to 4.1\)"):
        ms.exact_shapley(value, torch.arange(0, 256, 255).expand(1, 3, 2, 2).byte())


def test_other_rows_are_not(value: ms.ValueFunction) -> None:
    # The last element never varied: nothing says how far from it is far.
    rows = torch.cat((X[:4], X[:1] + torch.tensor([0.0, 0.0, 5.0]), 1.2 * X[:2]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ms.exact_shapley(value, rows, evaluations=12)
    assert "rows_far_outside" not in found.made_by


@pytest.mark.parametrize(("x", "far"), [(1.9, 0), (2.1, 1), (-0.9, 0), (-1.1, 1)])
def test_far_is_further_than_the_range_is_wide(x: float, far: int) -> None:
    known = TrainingRange(torch.zeros(1), torch.ones(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert known.count_far_outside(torch.tensor([[x]]), ms.Players.of_elements((1,))) == far


def test_rows_of_a_frame_are_far_by_their_cells() -> None:
    """Not by their codes: that of a town which training had none of is as good as any."""
    frame = pd.DataFrame({"size": range(120), "town": ["Oslo", "Rome"] * 60})
    table = ms.Table.fit(frame)
    asked = ms.as_model(lambda f: f[["size"]].to_numpy() * [[1, 2]], table, returns="values")
    imputer = ms.imputers.table_imputer(ms.imputers.GaussianImputer, table, frame)
    value = ms.imputed_value(asked, imputer, "identity", draws=4)
    # Of codes, whose table the model has.
    of_codes = ms.imputers.MarginalImputer(table.rows(frame))
    value_of_codes = ms.imputed_value(asked, of_codes, "identity", draws=4)
    assert "rows_far_outside" not in ms.exact_shapley(value_of_codes, frame[:2]).made_by
    towns = pd.DataFrame({"size": range(4), "town": ["Bern", "Kiel", "Lyon", "Turin"]})
    with pytest.warns(UserWarning, match="had none of"):
        assert "rows_far_outside" not in ms.exact_shapley(value, towns).made_by
    with pytest.warns(UserWarning, match=r"1 of 2 rows.* far outside.*in \['size'\]"):
        found = ms.exact_shapley(value, frame[:2].assign(size=[5, 5000]))
    assert found.made_by["rows_far_outside"] == 1
