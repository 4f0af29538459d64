"""The examples of Noé et al. (2024), Section 6: figures of the paper, and the three estimators."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

import manifold_shap as ms
from benchmarks.papers import compositions
from benchmarks.papers.composition_examples import IRIS_ROW, Example, digits, iris

SEEDS = range(10)


@pytest.fixture(scope="module")
def flower() -> Example:
    return iris("all")


@pytest.mark.parametrize("scaled_by", ["all", "training"])
def test_norms_and_cosines_are_those_of_the_paper(scaled_by: str) -> None:
    flower = iris(scaled_by)
    found = [flower.explain(seed) for seed in SEEDS]
    told = [compositions.summary(one) for one in found]
    # To within what the random calibration of the machine itself moves.
    for what in (what for what in compositions.PAPER if what.startswith("norm")):
        figures = torch.tensor([one[what] for one in told])
        assert abs(figures.mean() - compositions.PAPER[what]) < 3 * figures.std()
    assert all(one["cosine of petal length and petal width"] > 0.98 for one in told)
    # Petal length says next to nothing on virginica.
    assert all(abs(one["projection of petal length on virginica"]) < 0.1 for one in told)


def test_sampling_agrees_with_enumeration(flower: Example) -> None:
    value, x = flower.value(0), flower.x
    exact = ms.exact_shapley(value, x)
    for sampled in (
        ms.permutation_shapley(value, x, permutations=22),
        ms.adaptive_shapley(value, x, samples=400),
    ):
        assert bool(((sampled.phi - exact.phi).abs() <= 3 * sampled.standard_error + 1e-6).all())
        assert sampled.efficiency_gap < 1e-5


@pytest.mark.parametrize("scaled_by", ["all", "training"])
def test_features_are_told_in_centimetres(scaled_by: str) -> None:
    told = iris(scaled_by).explain(0).features()
    assert told is not None
    table = load_iris()
    rows = train_test_split(table.data, test_size=0.2, random_state=0)[1]
    assert told.columns.tolist() == table.feature_names
    np.testing.assert_allclose(told.to_numpy()[0], rows[IRIS_ROW], atol=1e-5)
    assert told.index.tolist() == [IRIS_ROW]


def test_a_path_leads_from_the_base_to_the_prediction(flower: Example) -> None:
    explained = flower.explain(0)
    path = compositions.path(explained)
    torch.testing.assert_close(path.sum(1), torch.ones_like(path[:, 0]))
    ends = ms.simplex.ilr_inv(
        torch.stack((explained.base, explained.prediction[0])).double(), explained.basis
    )
    torch.testing.assert_close(path[[0, -1]], ends.exp(), atol=1e-5, rtol=0)


def test_the_report_has_every_figure_of_the_paper() -> None:
    report = compositions.run(seeds=2, samples=200)
    assert {line.what: line.paper for line in report.lines}.items() >= compositions.PAPER.items()
    assert set(report.figures) == {f"figure_{number}" for number in (4, 7, 8, 9, 10)}
    ours = {line.what: (line.ours, line.error) for line in report.lines}
    for what, paper, exact, sampled, scaled_by_training in report.tables[0].rows:
        assert paper == compositions.PAPER[what]
        assert exact == ours[what]
        assert len({exact, sampled, scaled_by_training}) == 3


def test_one_seed_has_no_deviation() -> None:
    with pytest.raises(ValueError, match=r"Expected `seeds` to be 2 or more, .* but got 1"):
        compositions.run(seeds=1, samples=200)


Three = tuple[ms.Explanation, ms.Explanation, ms.Explanation]


@pytest.fixture(scope="module")
def three(flower: Example) -> Three:
    """One iris, and the two digits."""
    return flower.explain(0), digits(4).explain(0), digits(10).explain(0)


def failing(found: ms.Explanation, four: ms.Explanation, ten: ms.Explanation) -> set[int]:
    told = compositions.claims([found], four, ten)
    return {k for k, claim in enumerate(told) if not claim.holds}


def test_claims_hold_of_the_examples(three: Three) -> None:
    assert failing(*three) == set()


def test_claims_about_the_iris_may_fail(three: Three) -> None:
    found, four, ten = three
    # Sepals take the place of petals.
    turned = replace(found, phi=found.phi.flip(1))
    assert {0, 2} <= failing(turned, four, ten) <= {0, 1, 2}
    # The base is a versicolor already.
    there = replace(found, base=found.prediction[0])
    assert failing(there, four, ten) == {1}


def test_claims_about_the_digits_may_fail(three: Three) -> None:
    found, four, ten = three
    against = replace(four, phi=-four.phi)
    assert failing(found, against, ten) == {3}
    down = replace(ten, phi=-ten.phi)
    assert {4, 5, 7} <= failing(found, four, down) <= {4, 5, 6, 7}
    # The 2 leaves nothing for the 3.
    far = replace(ten, phi=5 * ten.phi)
    assert 6 in failing(found, four, far)
