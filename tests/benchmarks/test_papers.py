"""The experiments of the papers on small data, and oracles of what they compute."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

import manifold_shap as ms
from benchmarks.papers import compositions, negative
from benchmarks.support import coupled, forests, scores
from benchmarks.support.forests import Mixture
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


SCALE = 0.4
PRESENT = [[], [0], [0, 7], [0, 1, 2, 9, 12], list(range(19))]


@pytest.mark.parametrize("present", PRESENT, ids=str)
def test_the_true_conditional_has_the_moments_of_the_posterior(present: list[int]) -> None:
    """Against the four components' weights and moments from their densities, in doubles."""
    x = torch.rand(1, 20, generator=torch.Generator().manual_seed(1))
    mask = torch.zeros(1, 1, 20, dtype=torch.bool)
    mask[..., present] = True
    imputer = forests.TrueConditional(Mixture(SCALE), torch.rand(2, 20))
    count, keys = 40_000, torch.zeros(1, 1, dtype=torch.int64)
    drawn = imputer.impute(x, Listed(mask, keys), range(count)).rows[0, 0].double().numpy()
    assert (drawn[:, present] == x[0, present].double().numpy()).all()
    means = np.stack([np.full(20, z) for z in (0.0, 1.0)])
    means = np.concatenate([means, np.where(np.arange(20) < 5, 1 - means, means)])
    weights = np.array([0.495, 0.495, 0.005, 0.005])
    if present:
        own = x[0].double().numpy()[present]
        weights = weights * [multivariate_normal.pdf(own, m[present], SCALE**2) for m in means]
        weights /= weights.sum()
    absent = [i for i in range(20) if i not in present]
    mean = weights @ means[:, absent]
    centred = means[:, absent] - mean
    covariance = (weights[:, None] * centred).T @ centred + SCALE**2 * np.eye(len(absent))
    tolerance = 5 * np.sqrt(covariance.diagonal().max() / count)
    np.testing.assert_allclose(drawn[:, absent].mean(0), mean, atol=tolerance, rtol=0)
    spread = np.atleast_2d(np.cov(drawn[:, absent].T))
    np.testing.assert_allclose(spread, covariance, atol=tolerance, rtol=0)


@pytest.mark.skipif(not DRUG.exists(), reason="no drug data under MANIFOLD_SHAP_DATA")
def test_the_conditional_of_the_test_rows_is_the_optimum_on_them() -> None:
    own = scores.prepared("drug", 0)
    fixed = {"pairs": 2000, "draws": 16, "split": 0}
    found = scores.measure(lambda: own, "fixed", None, None, **fixed)["scores"]
    optimum = found[scores.TABLE]
    assert optimum["mse"] < found[scores.TRAINING_ROWS]["mse"] < found[scores.OFF]["mse"]
    # It draws nothing, and so has no noise to be taken out.
    assert optimum["debiased"] == pytest.approx(optimum["mse"])


@pytest.mark.parametrize("scaled_by", ["all", "training"])
def test_norms_and_cosines_are_those_of_the_paper(scaled_by: str) -> None:
    flower = coupled.iris(scaled_by)
    explained = [flower.explain(seed) for seed in range(10)]
    told = [compositions.summary(one) for one in explained]
    # To within what the random calibration of the machine itself moves.
    for what in (what for what in compositions.PAPER if what.startswith("norm")):
        figures = torch.tensor([one[what] for one in told])
        assert abs(figures.mean() - compositions.PAPER[what]) < 3 * figures.std()
    assert all(one["cosine of petal length and petal width"] > 0.98 for one in told)
    # Petal length says next to nothing on virginica.
    assert all(abs(one["projection of petal length on virginica"]) < 0.1 for one in told)
    # Features are told in centimetres.
    features: Any = explained[0].data
    assert features.index.tolist() == [coupled.IRIS_ROW]
    assert features["petal length (cm)"].item() == pytest.approx(4.6, abs=1e-4)
    path = compositions.path(explained[0])
    torch.testing.assert_close(path.sum(1), torch.ones_like(path[:, 0]))
    last = ms.simplex.ilr_inv(explained[0].prediction[0].double(), explained[0].basis)
    torch.testing.assert_close(path[-1], last.exp(), atol=1e-5, rtol=0)
