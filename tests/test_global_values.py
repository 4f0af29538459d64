"""Global Shapley values: Eqs. (4), (5) and (10) of Frye et al. by enumeration."""

from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import manifold_shap as ms
from tests.examples import Ragged

FEATURES, Y = load_iris(return_X_y=True)
X = torch.from_numpy(FEATURES).float()
NAMES = ("setosa", "versicolor", "virginica")


def marginal(space: str = "probability") -> ms.ValueFunction:
    model = ms.as_model(GaussianNB(var_smoothing=0.1).fit(FEATURES, Y), X, classes=NAMES)
    return ms.imputed_value(model, ms.imputers.MarginalImputer(X[::3]), space)


def test_they_are_the_mean_over_orders_for_the_true_class() -> None:
    """Eqs. (4) and (5), with all 24 orders of every row."""
    value, x, y = marginal(), X[::15], torch.from_numpy(Y[::15])
    explanation, rows = ms.exact_shapley(value, x), torch.arange(len(x))
    found = ms.global_values(explanation, y)
    expected = torch.zeros(4, dtype=torch.float64)
    orders = list(permutations(range(4)))
    for order in orders:
        mask = torch.zeros(len(x), 5, 4, dtype=torch.bool)
        for step, player in enumerate(order):
            mask[:, step + 1 :, player] = True
        v = value(x, mask).double()[rows, :, y]
        expected[list(order)] += v.diff(dim=1).mean(0) / len(orders)
    torch.testing.assert_close(found.phi, expected, rtol=1e-5, atol=1e-6)
    error = stats.sem(explanation.phi.double()[rows, :, y].numpy())
    torch.testing.assert_close(found.standard_error, torch.from_numpy(error))
    p = torch.from_numpy(GaussianNB(var_smoothing=0.1).fit(FEATURES, Y).predict_proba(FEATURES))
    assert found.accuracy == pytest.approx(p[::15][rows, y].mean().item(), 1e-5)
    assert found.offset == pytest.approx(p[::3].mean(0)[y].mean().item(), 1e-5)
    assert found.phi.sum().item() == pytest.approx(found.accuracy - found.offset, abs=1e-5)
    assert found.efficiency_gap < 1e-5


def test_retrained_models_give_the_sum_of_their_accuracies() -> None:
    """Eq. (10): weights times differences of A(g_S), by the accuracies of all 16 models."""
    value = ms.retrained_value(DecisionTreeClassifier(max_depth=2, random_state=0), X, Y)
    found = ms.global_values(ms.exact_shapley(value, X, batch_size=150 * 16), Y)
    masks = torch.tensor([[s >> i & 1 for i in range(4)] for s in range(16)]).bool()
    values = value(X, masks.expand(150, -1, -1)).double()
    accuracy = values[torch.arange(150), :, torch.from_numpy(Y)].mean(0)
    weights = torch.tensor([1 / 4, 1 / 12, 1 / 12, 1 / 4], dtype=torch.float64)
    for player in range(4):
        without = (~masks[:, player]).nonzero()[:, 0]
        gain = accuracy[without + 2**player] - accuracy[without]
        expected = (weights[masks[without].sum(1)] * gain).sum().item()
        assert found.phi[player].item() == pytest.approx(expected, abs=1e-6)


def test_labels_are_names_or_positions_of_the_explained_rows() -> None:
    names = [f"h{k}" for k in range(10)]
    explanation, y = ms.exact_shapley(marginal(), X[::15]).with_labels(names), Y[::15]
    series = pd.Series(y, index=names)
    found = [ms.global_values(explanation, each) for each in (y, np.array(NAMES)[y], series)]
    assert all(torch.equal(each.phi, found[0].phi) for each in found)
    assert list(found[0].to_frame().index) == list(explanation.players.names)
    assert ms.global_values(explanation[:1], [0]).standard_error.isnan().all()
    with pytest.raises(ValueError, match=r"Expected `y` of the explained rows, \['h0', 'h1'"):
        ms.global_values(explanation, series.iloc[::-1])


def test_of_a_regression_they_are_slopes_on_the_targets() -> None:
    """Of a linear model without its intercept on skewed targets."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 3, generator=generator)
    y = 2 * x[:, 0] - x[:, 1] + x[:, 0].abs() * torch.rand(400, generator=generator).square()
    weights = torch.tensor([[1.5], [-1.0], [0.5]])
    imputer = ms.imputers.MarginalImputer(x)
    value = ms.imputed_value(lambda x: x @ weights, imputer, "identity", draws=400)
    explanation = ms.exact_shapley(value, x, batch_size=2**20)
    found = ms.global_values(explanation, y)
    # Marginal Shapley values of a linear model are its terms, less their means.
    terms = x.double().numpy() * weights[:, 0].double().numpy()
    expected = [np.polyfit(y.double().numpy(), term, 1)[0] for term in terms.T]
    np.testing.assert_allclose(found.phi, expected, rtol=1e-4, atol=1e-5)
    covariance = np.cov(y.double().numpy(), terms.sum(1), ddof=0)
    assert found.accuracy == pytest.approx(covariance[0, 1] / covariance[0, 0], 1e-4)
    assert found.offset == pytest.approx(0, abs=1e-6)
    assert found.phi.sum().item() == pytest.approx(found.accuracy - found.offset, 1e-4)
    # Standard errors are those of rows drawn anew.
    drawn = np.random.default_rng(0).integers(0, len(y), (400, len(y)))
    again = [ms.global_values(explanation[rows.tolist()], y[rows]).phi for rows in drawn]
    torch.testing.assert_close(torch.stack(again).std(0), found.standard_error, rtol=0.15, atol=0)


def test_of_several_outputs_one_is_named() -> None:
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    model = ms.as_model(lambda x: x, x, classes=["price", "age"], returns="values")
    explanation = ms.exact_shapley(
        ms.imputed_value(model, ms.imputers.MarginalImputer(x), "identity"), x
    )
    found = ms.global_values(explanation, x[:, 1].numpy(), output="age")
    torch.testing.assert_close(found.phi, torch.tensor([0.0, 1.0]).double(), atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match=r"Expected the `output` that `y` measures, .*'age'"):
        ms.global_values(explanation, x[:, 1])


@pytest.mark.parametrize(
    ("explained", "y", "words"),
    [
        (lambda: ms.exact_shapley(marginal("ilr"), X[:3]), [0] * 3, "explain with space='prob"),
        (lambda: ms.exact_shapley(lambda x, mask: mask[..., :1], X[:3]), [*"abb"], "got <U1"),
        (lambda: ms.exact_shapley(Ragged(), Ragged.some_rows()), [0] * 5, "that all rows have"),
    ],
)
def test_what_has_no_global_values(explained: Any, y: Any, words: str) -> None:
    explanation = explained()
    with pytest.raises(ValueError, match=words):
        ms.global_values(explanation, y)
