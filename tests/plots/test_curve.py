"""Curves of mean squared errors over coalition sizes."""

import math

import numpy as np
import pytest

from manifold_shap.plots import mse_curve
from tests.plots.helpers import score


def test_curves_are_drawn_with_bands_and_overall_errors() -> None:
    scores = {"on": score(0.0171, [0.0, 1.0, 2.0]), "off": score(0.05, [0.0, 1.0, 2.0], draws=16)}
    axes = mse_curve(scores)
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0, 1, 2])
    np.testing.assert_allclose(axes.lines[1].get_ydata(), scores["off"].by_size.mse)
    low, high = axes.collections[0].get_datalim(axes.transData).intervaly
    curve = scores["on"].by_size
    assert (low, high) == pytest.approx((0.9 * curve.mse[-1], 1.1 * curve.mse[0]))
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["on: 0.0171 ± 0.0011", "off: 0.0500 ± 0.0011, 16 draws"]
    assert axes.get_ylim()[0] == 0


def test_an_error_that_is_not_known_is_left_out() -> None:
    axes = mse_curve({"on": score(0.1, [0.0, 1.0, 2.0], error=math.nan)})
    assert axes.get_legend().get_texts()[0].get_text() == "on: 0.1"
