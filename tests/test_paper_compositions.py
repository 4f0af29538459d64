"""The examples of Noé et al. (2024), Section 6: figures of the paper, and the three estimators."""

from dataclasses import replace

import pytest
import torch

import manifold_shap as ms
from benchmarks.papers import compositions

SEEDS = range(10)


@pytest.fixture(scope="module")
def flower() -> compositions.Example:
    return compositions.iris("training")


def test_norms_and_cosines_are_those_of_the_paper(flower: compositions.Example) -> None:
    found = [flower.explain(seed) for seed in SEEDS]
    told = [compositions.summary(one) for one in found]
    # To within what the random calibration of the machine itself moves.
    for what in (what for what in compositions.PAPER if what.startswith("norm")):
        figures = torch.tensor([one[what] for one in told])
        assert abs(figures.mean() - compositions.PAPER[what]) < 3 * figures.std()
    assert all(one["cosine of petal length and petal width"] > 0.98 for one in told)
    # Petal length says next to nothing on virginica.
    assert all(abs(one["projection of petal length on virginica"]) < 0.1 for one in told)


def test_sampling_agrees_with_enumeration(flower: compositions.Example) -> None:
    value, x = flower.value(0), flower.x
    exact = ms.exact_shapley(value, x)
    for sampled in (
        ms.permutation_shapley(value, x, permutations=22),
        ms.adaptive_shapley(value, x, samples=400),
    ):
        assert bool(((sampled.phi - exact.phi).abs() <= 3 * sampled.standard_error + 1e-6).all())
        assert sampled.efficiency_gap < 1e-5


def test_a_path_leads_from_the_base_to_the_prediction(flower: compositions.Example) -> None:
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


def test_other_figures_are_not_what_the_paper_says(flower: compositions.Example) -> None:
    found = flower.explain(0)
    # Sepals take the place of petals.
    turned = replace(found, phi=found.phi.flip(1))
    four, ten = compositions.digits(4).explain(0), compositions.digits(10).explain(0)
    before = [claim.holds for claim in compositions.claims([found], four, ten)]
    assert before[:3] == [True] * 3
    after = [claim.holds for claim in compositions.claims([turned], four, ten)]
    assert after[0] is after[2] is False
    assert after[3:] == before[3:]
    down = replace(ten, phi=-ten.phi)
    assert not any(claim.holds for claim in compositions.claims([found], four, down)[4:6])
