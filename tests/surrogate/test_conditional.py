"""The surrogate against the exact conditional expectation of a real table of binary features."""

import os
from pathlib import Path

import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor

import manifold_shap as ms
from manifold_shap.data import Drug

FOLDER = os.environ.get("MANIFOLD_SHAP_DATA")


class TableConditional:
    """v(S) = mean of f over the rows of a table that agree with x on S."""

    def __init__(self, model: ms.Model, table: Tensor) -> None:
        self.table, self.predicted = table, model(table).exp().float()

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        # Disagreements on S, counted by matrix products: x_i(1-t_i) + (1-x_i)t_i summed over S.
        known = mask.float()
        ones = known * x[:, None]
        disagree = ones.sum(-1, keepdim=True) + (known - 2 * ones) @ self.table.T
        agree = (disagree < 0.5).float()
        return agree @ self.predicted / agree.sum(-1, keepdim=True)


@pytest.mark.slow
@pytest.mark.usefixtures("many_calls")
@pytest.mark.skipif(
    FOLDER is None or not Path(FOLDER, "drug").exists(),
    reason="no 'drug' in a folder named by MANIFOLD_SHAP_DATA",
)
def test_surrogate_values_agree_with_the_table_s_own_conditional_expectation() -> None:
    data = Drug(name="drug")
    data.setup()
    forest = RandomForestClassifier(30, max_features=None, random_state=0)
    forest.fit(data.x_train.numpy(), data.y_train.numpy())
    table = torch.cat((data.x_train, data.x_validation, data.x_test))
    model = ms.as_model(forest, table[:50])
    # Trained on training rows alone: test rows are new to it, though not to the table.
    value = ms.fit_surrogate(
        forest, data.x_train, x_validation=data.x_validation, hidden=(128, 128), max_epochs=8
    )
    x = data.x_test
    learned = ms.exact_shapley(value, x).phi[..., 1]
    exact = ms.exact_shapley(TableConditional(model, table), x).phi[..., 1]
    spliced = ms.imputed_value(forest, ms.MarginalImputer(data.x_train))
    marginal = ms.exact_shapley(spliced, x[:50]).phi[..., 1]

    def pearson(a: Tensor, b: Tensor) -> float:
        return torch.corrcoef(torch.stack((a.flatten(), b.flatten())))[0, 1].item()

    assert pearson(learned, exact) > 0.98
    # The comparison means something: splicing does not pass it.
    assert pearson(marginal, exact[:50]) < 0.9
