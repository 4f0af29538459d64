"""Curves of mean squared errors over coalition sizes."""

import math
from dataclasses import replace

import numpy as np
import pytest

from manifold_shap.plots import distance_curve, mse_curve
from tests.plots.helpers import score


def test_curves_are_drawn_with_bands_and_overall_errors() -> None:
    scores = {"on": score(0.0171, [0.0, 1.0, 2.0]), "off": score(0.05, [0.0, 1.0, 2.0], draws=16)}
    axes = mse_curve(scores, players=4)
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0, 0.25, 0.5])
    np.testing.assert_allclose(axes.lines[1].get_ydata(), scores["off"].by_size.mse)
    low, high = axes.collections[0].get_datalim(axes.transData).intervaly
    curve = scores["on"].by_size
    assert (low, high) == pytest.approx((0.9 * curve.mse[-1], 1.1 * curve.mse[0]))
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["on: 0.0171 ± 0.0011", "off: 0.0500 ± 0.0011, 16 draws"]
    assert axes.get_xlabel() == "share of players in the coalition"
    assert axes.get_ylim()[0] == 0


def test_curves_of_distances_are_without_the_noise_of_draws() -> None:
    on = score(0.0171, [0.0, 1.0, 2.0], draws=16)
    debiased = [-0.001, 0.004, 0.002]
    on = replace(on, debiased=0.0021, by_size=replace(on.by_size, debiased=debiased))
    axes = distance_curve({"on": on}, players=4)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), debiased)
    assert axes.get_ylim()[0] < -0.001
    assert axes.get_legend().get_texts()[0].get_text() == "on: 0.0021 ± 0.0011, 16 draws"
    assert axes.get_ylabel() == "squared distance to the truth"


def test_without_players_the_axis_counts_them() -> None:
    axes = mse_curve({"on": score(0.1, [0.0, 1.0, 2.0], error=math.nan)})
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0, 1, 2])
    assert axes.get_xlabel() == "players in the coalition"
    assert axes.get_legend().get_texts()[0].get_text() == "on: 0.1"


def test_fewer_players_than_a_coalition_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`players` of at least 7.* but got 4"):
        mse_curve({"on": score(0.1, [0.0, 7.0])}, players=4)
