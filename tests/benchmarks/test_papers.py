"""Oracles of what the papers' experiments compute, on small data."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import manifold_shap as ms
from benchmarks.papers import compositions, negative, outliers, table1
from benchmarks.support.trained import Trained
from manifold_shap.coalitions import Listed

DRUG = Path(os.environ.get("MANIFOLD_SHAP_DATA", "."), "drug", "drug_consumption.data")


def test_values_of_the_tree_are_those_of_the_table_by_hand() -> None:
    x, y = negative.patients(seed=3)
    table = np.zeros((2, 2, 2))
    np.add.at(table, (*x.long().numpy().T, y.numpy()), 1 / len(x))
    p = table.sum(2)
    chance = table / p[..., None]  # f_y(x): a tree that is grown in full.
    on = {
        (): (p[..., None] * chance).sum((0, 1)) + 0 * chance,
        (0,): (table.sum(1) / p.sum(1)[:, None])[:, None] + 0 * chance,
        (1,): (table.sum(0) / p.sum(0)[:, None])[None] + 0 * chance,
        (0, 1): chance,
    }
    off = on | {
        (0,): np.einsum("b,aby->ay", p.sum(0), chance)[:, None] + 0 * chance,
        (1,): np.einsum("a,aby->by", p.sum(1), chance)[None] + 0 * chance,
    }
    found = negative.synthetic(seed=3)
    for name, v in {"on manifold": on, "off manifold": off}.items():
        mean = {coalition: (table * values).sum() for coalition, values in v.items()}
        empty, zero, one, both = mean[()], mean[0,], mean[1,], mean[0, 1]
        expected = [(zero - empty + both - one) / 2, (one - empty + both - zero) / 2]
        # Means of 10,000 numbers in single precision.
        np.testing.assert_allclose(found[name]["phi"], expected, atol=5e-5)
    # What Fig. 4(b) shows; of all tables with the same chances, not of this sample alone.
    assert negative.negative(found["off manifold"]) == ["x1"]
    assert not negative.negative(found["on manifold"])


@pytest.mark.parametrize("present", [[], [0], [0, 7], [0, 1, 2, 9, 12]], ids=str)
def test_the_true_conditional_has_the_moments_of_the_law(present: list[int]) -> None:
    means, count, sigma = torch.eye(20)[:4], 20_000, 0.4
    weights = [outliers.SHARE if k > 1 else 1 - outliers.SHARE for k in range(4)]
    law = ms.oracles.GaussianMixture(weights, means, [sigma**2 * torch.eye(20)] * 4)
    x, mask = torch.rand(1, 20), torch.zeros(1, 1, 20, dtype=torch.bool)
    mask[..., present] = True
    some = Listed(mask, torch.zeros(1, 1, dtype=torch.int64))
    imputers = outliers.TrueConditional(means, sigma, means), ms.oracles.OracleImputer(law)
    own, wanted = (each.impute(x, some, range(count)).rows[0, 0] for each in imputers)
    torch.testing.assert_close(own[:, present], wanted[:, present])
    torch.testing.assert_close(own.mean(0), wanted.mean(0), atol=0.03, rtol=0)
    torch.testing.assert_close(own.T.cov(), wanted.T.cov(), atol=0.03, rtol=0)


@pytest.mark.skipif(not DRUG.exists(), reason="no drug data under MANIFOLD_SHAP_DATA")
def test_the_conditional_of_the_test_rows_is_the_optimum_on_them() -> None:
    found = table1.measure("drug, off the manifold", 2000, 16, None, None)
    optimum = found[table1.TABLE]
    assert optimum["mse"] < found[table1.TRAINING_ROWS]["mse"] < found[table1.OFF]["mse"]


def test_norms_and_cosines_are_those_of_the_paper() -> None:
    flower = compositions.iris()
    explained = [flower.explain(seed) for seed in range(10)]
    told = [compositions.summary(one) for one in explained]
    # To within what the random calibration of the machine itself moves.
    for what in (what for what in compositions.PAPER if what.startswith("norm")):
        figures = torch.tensor([one[what] for one in told])
        assert abs(figures.mean() - compositions.PAPER[what]) < 3 * figures.std()
    assert all(one["cosine of petal length and petal width"] > 0.98 for one in told)
    # Petal length says next to nothing on virginica.
    assert all(abs(one["projection of petal length on virginica"]) < 0.1 for one in told)
    path = compositions.path(explained[0])
    torch.testing.assert_close(path.sum(1), torch.ones_like(path[:, 0]))
    last = ms.simplex.ilr_inv(explained[0].prediction[0].double(), explained[0].basis)
    torch.testing.assert_close(path[-1], last.exp(), atol=1e-5, rtol=0)


def test_a_model_of_a_table_is_of_numbers_not_of_the_codes_of_cells() -> None:
    seen: list[torch.Tensor] = []

    def fit(x: torch.Tensor, y: torch.Tensor) -> LogisticRegression:
        seen.append(x)
        return LogisticRegression().fit(x.numpy(), y.numpy())

    trained = Trained("iris", 0, fit)
    torch.testing.assert_close(seen[0].mean(0), torch.zeros(4), atol=1e-4, rtol=0)
    assert trained.accuracy > 0.9
