"""The naive Bayes experiment: its data sets, its parts of variables, and its measures."""

import itertools
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from scipy.special import gammaln

import manifold_shap as ms
from benchmarks.papers.naive_bayes import kendall, spliced
from benchmarks.support.lemaire import equally_frequent, most_probable, most_probable_parts
from manifold_shap.data import DataSet


def cost(counts: np.ndarray, part: Sequence[int], log_prior: float) -> float:
    """Nats of parts of these cells: MODL's criterion, term by term."""
    total = log_prior
    for which in range(max(part) + 1):
        of = counts[np.asarray(part) == which].sum(0)
        n = int(of.sum())
        total += math.log(math.comb(n + len(of) - 1, len(of) - 1))
        total += gammaln(n + 1) - sum(gammaln(k + 1) for k in of)
    return total


@pytest.mark.parametrize("seed", range(5))
def test_intervals_cost_least_of_all(seed: int) -> None:
    counts = np.random.default_rng(seed).integers(0, 12, (7, 2))
    counts[:, 0] += 1
    rows = int(counts.sum())

    def of(part: Sequence[int]) -> float:
        parts = max(part) + 1
        ways = math.comb(rows + parts - 1, parts - 1)
        return cost(counts, part, math.log(rows) + math.log(ways))

    every = [np.cumsum((0, *steps)).tolist() for steps in itertools.product((0, 1), repeat=6)]
    assert most_probable_parts(counts, ordered=True).tolist() == min(every, key=of)


def small_table(rows: int = 400) -> DataSet:
    """One telling number and its noisy copy, a number and a category that tell nothing."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, rows)
    telling = y + 0.4 * rng.normal(size=rows)
    columns = {
        "telling": telling,
        "copy": telling + 0.01 * rng.normal(size=rows),
        "noise": rng.normal(size=rows),
        "colour": rng.choice(["red", "green", "blue"], rows),
    }
    return DataSet(pd.DataFrame(columns), torch.from_numpy(y), ("no", "yes"))


def test_variables_that_tell_nothing_are_dropped_and_copies_share_a_weight() -> None:
    assert equally_frequent(small_table(), 4).names == ("telling", "copy", "noise", "colour")
    found = most_probable(small_table())
    assert set(found.names) <= {"telling", "copy"}
    assert 0 < found.weights.sum() < 1.5
    assert (found.weights <= 1).all()


def test_rows_that_are_never_built_have_the_values_of_those_that_are() -> None:
    bayes = equally_frequent(small_table(60), 3)
    evidence = ms.naive_bayes.weight_of_evidence(bayes.model, bayes.x).phi[..., 0]
    game = partial(spliced, bayes.prior, evidence[:20])
    rows = torch.from_numpy(bayes.x).float()
    imputer = ms.imputers.MarginalImputer(rows[:20])
    built = ms.imputed_value(bayes.model, imputer, "probability", draws=20)
    short, long = ms.kernel_shapley(game, evidence[20:30]), ms.kernel_shapley(built, rows[20:30])
    found, wanted = short.phi[..., -1], long.phi[..., -1].to(short.phi.dtype)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_what_differs_by_rounding_alone_is_tied() -> None:
    one = torch.tensor([1.0, 2.0, 4.0, 3.0])
    tied = kendall(one, torch.tensor([0.0, 1.0, 1.00001, 9.0]))
    assert tied == pytest.approx(stats.kendalltau(one, [0, 1, 1, 9]).statistic)
