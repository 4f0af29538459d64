"""Outliers of Frye et al. (2021), Section 3.2: rows, coalitions, and what is claimed of them."""

import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from benchmarks.papers import outliers, outliers_figures
from benchmarks.papers.mixture import Mixture, TrueConditional
from benchmarks.papers.outliers_coalitions import (
    EVEN,
    INLIER,
    KINDS,
    LAWS,
    ORDERS,
    OUTLIER,
    coalitions,
    distance,
    mistaken,
    scores,
)
from benchmarks.papers.outliers_forests import OFF, ON, Effort, Found, Judged, error_rate, judge

SCALE = 0.4
PRESENT = [[], [0], [0, 7], [0, 1, 2, 9, 12], list(range(19))]


@pytest.mark.parametrize("present", PRESENT, ids=str)
def test_the_true_conditional_has_the_moments_of_the_posterior(present: list[int]) -> None:
    """Against the four components' weights and moments from their densities, in doubles."""
    mixture = Mixture(SCALE)
    x = torch.rand(1, 20, generator=torch.Generator().manual_seed(1))
    mask = torch.zeros(1, 1, 20, dtype=torch.bool)
    mask[..., present] = True
    imputer = TrueConditional(mixture, torch.rand(2, 20))
    count = 40_000
    keys = torch.zeros(1, 1, dtype=torch.int64)
    drawn = imputer.impute(x, mask, range(count), keys).rows[0, 0].double().numpy()
    assert (drawn[:, present] == x[0, present].double().numpy()).all()

    weights, means = posterior(x[0].double().numpy(), present)
    absent = [i for i in range(20) if i not in present]
    mean = weights @ means[:, absent]
    centred = means[:, absent] - mean
    covariance = (weights[:, None] * centred).T @ centred + SCALE**2 * np.eye(len(absent))
    found = np.atleast_2d(np.cov(drawn[:, absent].T))
    tolerance = 5 * np.sqrt(covariance.diagonal().max() / count)
    np.testing.assert_allclose(drawn[:, absent].mean(0), mean, atol=tolerance, rtol=0)
    np.testing.assert_allclose(found, covariance, atol=tolerance, rtol=0)


def posterior(x: np.ndarray, present: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the components of Eqs. (11) and (12), and their means."""
    first = np.arange(20) < 5
    means = np.stack([np.full(20, z) for z in (0.0, 1.0)])
    means = np.concatenate([means, np.where(first, 1 - means, means)])
    prior = np.array([0.495, 0.495, 0.005, 0.005])
    if len(present) == 0:
        return prior, means
    density = [multivariate_normal.pdf(x[present], m[present], SCALE**2) for m in means]
    weights = prior * np.array(density)
    return weights / weights.sum(), means


def test_a_hundredth_of_the_rows_read_the_opposite_in_the_first_five() -> None:
    x, is_outlier = Mixture(0.01).draw(seed=0)
    bits = x.round()
    assert is_outlier.sum() == 100
    assert (bits[:, 5:] == bits[:, 5:6]).all()
    assert (bits[:, :5] == torch.where(is_outlier, 1 - bits[:, 5], bits[:, 5])[:, None]).all()
    assert bits[:, 5].mean() == pytest.approx(0.5, abs=0.02)


def test_an_explanation_is_wrong_unless_the_first_five_are_the_largest() -> None:
    right = torch.cat((torch.full((5,), 2.0), torch.ones(15)))
    order_within = right + 0.1 * torch.arange(20).flip(0) * (torch.arange(20) < 5)
    one_below, a_tie = right.clone(), right.clone()
    one_below[3], a_tie[7] = 0.9, 2.0
    negative_ones = right - 5
    phi = torch.stack((right, order_within, one_below, a_tie, negative_ones))
    assert error_rate(phi) == 2 / 5


def settings(**changes: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"sigmas": [0.01, 0.15], "trees": 100, "more_trees": [400]}
    usual |= {"forests": 2, "outliers": 20, "orders": 16, "draws": 1, "learned": [0.15]}
    return usual | {"epochs": 1, "seed": 0} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sigmas": []}, "Expected `sigmas` to be scales of the noise, at least one"),
        ({"sigmas": [0.0, 0.15]}, r"`sigmas` .* all above 0, but got \[0.0, 0.15\]"),
        ({"learned": [0.15, 0.05]}, r"Expected `learned` to be some of `sigmas`, .* got \[0.05\]"),
        ({"forests": 0}, "Expected `forests` to be 1 or more but got 0"),
        ({"orders": 0}, "Expected `orders` to be 1 or more but got 0"),
        ({"draws": 0}, "Expected `draws` to be 1 or more but got 0"),
        ({"epochs": 0}, "Expected `epochs` to be 1 or more but got 0"),
        ({"trees": 0}, "Expected `trees` to be 1 or more but got 0"),
        ({"more_trees": [400, 0]}, "Expected `more_trees` to be 1 or more but got 0"),
        ({"more_trees": [400, 100]}, r"others than `trees`, 100, but got \[400, 100\]"),
        ({"outliers": 0}, "Expected `outliers` to be 1 or more but got 0"),
        ({"outliers": 101}, "Expected `outliers` to be at most 100, .* but got 101"),
    ],
)
def test_settings_that_cannot_be_run_are_refused_at_the_door(
    changes: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outliers, "judge", lambda *_: pytest.fail("ran"))
    with pytest.raises(ValueError, match=message):
        outliers.run(**settings(**changes))


def test_larger_forests_stand_at_the_ends_of_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def judged(sigma: float, trees: int, efforts: list[Effort], epochs: Any = None) -> Judged:
        assert [effort.seed for effort in efforts] == [3, 4]
        return Judged(0, {name: [sigma, 0.5] for name in (OFF, ON, *(["VAE"] if epochs else []))})

    monkeypatch.setattr(outliers, "judge", judged)
    sigmas = [0.15, 0.05, 0.01]
    small = settings(sigmas=sigmas, trees=5, more_trees=[7, 6], seed=3)
    report = outliers.run(**small)
    rates, shares = report.tables
    assert [row[:2] for row in rates.rows] == [
        *([5, sigma] for sigma in sigmas),
        *([trees, sigma] for trees in (7, 6) for sigma in (0.01, 0.15)),
    ]
    # What is not there at a noise, or with larger forests, has an empty cell.
    assert rates.columns[-1] == "VAE"
    assert [row[-1] is not None for row in rates.rows] == [True] + 6 * [False]
    assert rates.rows[1][3] == (pytest.approx(0.275), pytest.approx(0.225))
    assert len(shares.rows) == len(KINDS) * len(LAWS)
    papers = [line for line in report.lines if line.paper]
    assert [line.paper for line in papers] == [0.25, 2 / 3] * 3


def test_shares_are_of_the_outliers_of_each_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    """And methods that learn are there where they are asked for."""
    monkeypatch.setattr(Found, "learned", lambda self, epochs: {"VAE": self.values[ON]})
    efforts = [Effort(4, 8, 1, seed) for seed in (0, 1)]
    plain, more = (judge(0.05, 20, efforts, epochs) for epochs in (None, 1))
    assert plain.wrong.keys() == {OFF, ON}
    assert more.wrong["VAE"] == more.wrong[ON] == plain.wrong[ON]
    for wrong in more.wrong.values():
        assert len(wrong) == 2
        assert all(4 * share == int(4 * share) for share in wrong)


def law_of_others(kind: str, law: str) -> np.ndarray:
    """Chances of 0 to 15 others, from the 1 / (21 C(20, size)) that a coalition of orders has."""
    if law == EVEN:
        return np.full(16, 1 / 16)
    with_five = 5 if kind == OUTLIER else 0
    chance = np.array([math.comb(15, k) / math.comb(20, k + with_five) for k in range(16)])
    return chance / chance.sum()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", KINDS)
def test_coalitions_hold_all_five_or_none_and_others_by_their_law(kind: str, law: str) -> None:
    mask = coalitions(1000, kind, law).flatten(0, 1)
    assert (mask[:, :5] == (kind == OUTLIER)).all()
    found = np.bincount(mask[:, 5:].sum(1).numpy(), minlength=16) / len(mask)
    expected = law_of_others(kind, law)
    assert (np.abs(found - expected) < 5 * np.sqrt(expected / len(mask)) + 1e-3).all()
    # No feature is more often in than another.
    share = mask[:, 5:].double().mean(0)
    assert share.max() - share.min() < 0.03


def test_scores_of_coalitions_off_and_on_the_manifold() -> None:
    found = Found(0.05, 100, Effort(4, 8, 1, 0))
    outputs = scores(found, EVEN)
    assert len(outputs[INLIER]["data"]) == 1000
    assert len(outputs[OUTLIER]["data"]) == 100
    assert all(len(outputs[kind][game]) == 1600 for kind in KINDS for game in (OFF, ON))
    # One in sixteen has the first five alone, which agree, as in an inlier.
    alone = ~coalitions(100, OUTLIER, EVEN)[..., 5:].any(-1).flatten()
    inliers = torch.tensor(outputs[OUTLIER][ON])[alone] < 0
    assert 0.04 < alone.double().mean() < 0.09
    assert inliers.double().mean() > 0.95
    assert mistaken(outputs, OUTLIER, ON) < alone.double().mean() + 0.05
    # Orders hardly ever meet them alone.
    assert mistaken(scores(found, ORDERS), OUTLIER, ON) < 0.01


def test_a_coalition_is_mistaken_by_the_sign_of_its_score() -> None:
    made = {
        INLIER: {OFF: [-1.0] * 7 + [0.5] * 3, "data": [-1.0]},
        OUTLIER: {OFF: [-0.1, 0.0, 0.2], "data": [1.0]},
    }
    assert mistaken(made, INLIER, OFF) == 0.3
    assert mistaken(made, OUTLIER, OFF) == 2 / 3


def test_the_distance_is_how_far_scores_have_to_be_moved() -> None:
    made = {INLIER: {OFF: [0.0, 0.5, 1.5, 1.0], ON: [1.0, 0.0], "data": [0.0, 1.0]}}
    assert distance(made, INLIER, ON) == 0
    assert distance(made, INLIER, OFF) == pytest.approx(0.25)


def of_paper() -> tuple[dict[int, dict[float, Judged]], dict[str, Any]]:
    """Forests of two sizes, and scores by law, that are just as the paper says."""
    sizes = {
        trees: {
            0.01: Judged(0, {OFF: [0.0, 0.5], ON: [0.0, 0.0]}),
            0.15: Judged(0, {OFF: [2 / 3, 2 / 3], ON: [0.0, 0.4]}),
        }
        for trees in (100, 400)
    }
    outputs = {
        law: {
            INLIER: {"data": [-0.1], OFF: [-0.1] * 9 + [0.1], ON: [-0.1]},
            OUTLIER: {"data": [0.1], OFF: [0.13], ON: [0.11]},
        }
        for law in LAWS
    }
    return sizes, outputs


def failing(sizes: Mapping[int, Any], outputs: Mapping[str, Any]) -> list[int]:
    told = outliers.claims(sizes, outputs)
    assert len(told) == len({claim.text for claim in told}) == 12
    return [number for number, claim in enumerate(told) if not claim.holds]


def test_what_the_paper_says_holds_of_its_own_figures() -> None:
    assert failing(*of_paper()) == []


@pytest.mark.parametrize(
    ("trees", "sigma", "judged", "fails"),
    [
        (100, 0.01, Judged(1, {OFF: [0.25], ON: [0.0]}), [0]),
        (100, 0.01, Judged(0, {OFF: [0.2, 0.29], ON: [0.0]}), [1]),
        (100, 0.15, Judged(0, {OFF: [0.65], ON: [0.2]}), [2]),
        (400, 0.01, Judged(0, {OFF: [0.24], ON: [0.0]}), [3]),
        (400, 0.15, Judged(0, {OFF: [0.66], ON: [0.2]}), [4]),
        (100, 0.15, Judged(0, {OFF: [0.7], ON: [0.24]}), [5]),
    ],
)
def test_claims_about_explanations_may_fail(
    trees: int, sigma: float, judged: Judged, fails: list[int]
) -> None:
    sizes, outputs = of_paper()
    sizes[trees][sigma] = judged
    assert failing(sizes, outputs) == fails


@pytest.mark.parametrize(
    ("law", "kind", "game", "made", "fails"),
    [
        (EVEN, INLIER, OFF, [-0.1] * 10 + [0.1], [6]),
        (EVEN, INLIER, ON, [-0.1] * 99 + [0.1], [7]),
        (EVEN, OUTLIER, OFF, [0.119], [8]),
        (ORDERS, INLIER, OFF, [-0.1], [9]),
        (ORDERS, INLIER, ON, [0.1], [10]),
        (ORDERS, OUTLIER, ON, [0.08], [11]),
    ],
)
def test_claims_about_coalitions_may_fail(
    law: str, kind: str, game: str, made: list[float], fails: list[int]
) -> None:
    sizes, outputs = of_paper()
    outputs[law][kind][game] = made
    assert failing(sizes, outputs) == fails


def test_methods_stand_side_by_side_and_those_at_few_scales_have_no_line() -> None:
    sigmas = (0.01, 0.05, 0.15)
    rates: dict[str, Any] = {name: {sigma: [0.1, 0.3] for sigma in sigmas} for name in (OFF, ON)}
    rates |= {name: {sigma: [0.1, 0.3] for sigma in sigmas[1:]} for name in ("surrogate", "VAE")}
    figure = outliers_figures.draw(rates, of_paper()[1][EVEN], 0.05)
    figure.savefig(io.BytesIO())
    errors, *histograms = figure.axes
    points = [container.lines[0] for container in errors.containers]
    assert [line.get_linestyle() for line in points] == ["-", "-", "None", "None"]
    places = np.array([line.get_xdata()[-1] for line in points])
    assert places == pytest.approx(0.15, abs=0.005)
    left, right = errors.get_xlim()
    # In inches: beyond half a marker of 3.5 points.
    width = errors.get_window_extent().width / figure.dpi
    assert (np.diff(places) * width / (right - left) > 1.75 / 72).all()
    assert 0 < right - left < 0.17
    for container in errors.containers:
        ends = container.lines[2][0].get_segments()[0][:, 1]
        assert ends == pytest.approx([0.1, 0.3])
    assert errors.get_xlabel() == "noise σ\nwhiskers: least and most of 2 forests"
    assert [axes.get_ylabel() for axes in histograms] == ["density"] * 2
    words = {text.get_text() for text in figure.legends[0].get_texts()}
    assert words == {OFF, ON, "surrogate", "VAE", "data"}
