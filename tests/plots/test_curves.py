"""Curves: which values stand at which time points, on which scale; errors by coalition size."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.dates import date2num

import manifold_shap as ms
from manifold_shap.plots import mse_curve, series
from tests.plots.helpers import explained, ragged, score, written


def colours(axes: Axes) -> QuadMesh:
    (mesh,) = [each for each in axes.collections if isinstance(each, QuadMesh)]
    return mesh


def borders(axes: Axes) -> list[float]:
    return [line.get_xdata()[0] for line in axes.lines[1:]]


def test_a_curve_stands_on_the_values_of_its_segments_without_padding() -> None:
    explanation = ragged((1, 6))
    (axes,) = panels = series(explanation)
    np.testing.assert_allclose(axes.lines[0].get_xdata(), np.arange(6))
    np.testing.assert_allclose(axes.lines[0].get_ydata(), explanation.x[0, 0])
    expected = np.repeat([0.1, -0.3, 0.25], 2)
    np.testing.assert_allclose(colours(axes).get_array()[0], expected, rtol=1e-6)
    assert colours(axes).get_clim() == pytest.approx((-0.3, 0.3))
    assert borders(axes) == [1.5, 3.5]
    assert {"time", "Shapley value of a segment (a)"} <= set(written(panels.figure))
    assert panels.figure.get_suptitle() == "a: 0.55\nbase 0.5, row 0"
    (axes,) = series(explanation, row=-1)
    assert len(axes.lines[0].get_ydata()) == 5
    drawn = colours(axes).get_array()[0]
    np.testing.assert_allclose(drawn, [0.15, 0.4, 0.4, 0.15, 0.15], rtol=1e-6)
    assert borders(axes) == [0.5, 2.5]
    exact = replace(explanation, standard_error=0 * explanation.phi)
    assert series(exact, row=-1).figure.get_supxlabel() == ""
    assert axes.get_xlim() == pytest.approx((-0.5, 4.5))


def test_explanations_stand_side_by_side_on_one_scale() -> None:
    on = ragged((2, 3))
    off = replace(on, phi=-2 * on.phi, base=on.base + 1)
    panels = series({"on": on, "off": off}, channels=["load", "heat"])
    for left, right in zip(panels[::2], panels[1::2], strict=True):
        twice = -2 * colours(left).get_array()
        np.testing.assert_allclose(colours(right).get_array(), twice, rtol=1e-6)
        assert colours(left).get_clim() == colours(right).get_clim() == pytest.approx((-0.6, 0.6))
        assert left.get_ylim() == right.get_ylim()
    titles = [axes.get_title("left") for axes in panels]
    assert titles == ["on: base 0.5", "off: base 1.5", "", ""]
    assert [axes.get_ylabel() for axes in panels] == ["load", "", "heat", ""]
    unsure = replace(on, standard_error=torch.full_like(on.phi, 0.02), made_by={"learned": True})
    small_print = series({"on": on, "unsure": unsure}).figure.get_supxlabel()
    assert small_print.startswith("standard errors up to 0.02 of sampling, that of learning")


def test_channels_of_their_own_players_have_their_own_values() -> None:
    index = torch.arange(12) // 6 + 2 * torch.arange(3)[:, None]
    explanation = explained(torch.rand(1, 3, 12), ms.Players(range(6), index), ("a",))
    phi = torch.tensor([0.1, -0.1, 0.01, 0.02, -0.5, 0.4])[None, :, None]
    panels = series(replace(explanation, phi=phi), max_display=2)
    # Those of the largest values, in their order.
    assert [axes.get_ylabel() for axes in panels] == ["channel 0", "channel 2"]
    for axes, values in zip(panels, ([0.1, -0.1], [-0.5, 0.4]), strict=True):
        drawn = colours(axes).get_array()[0]
        np.testing.assert_allclose(drawn, np.repeat(values, 6), rtol=1e-6)
    assert "2 of 3 channels" in panels.figure.get_suptitle()


def test_times_are_numbers_or_dates() -> None:
    times = np.array([0.0, 1, 3, 6, 10, 15])
    (axes,) = series(ragged((6,)), times=times)
    np.testing.assert_allclose(axes.lines[0].get_xdata(), times)
    assert borders(axes) == [2, 8]
    days = [date(2024, 1, 1 + k) for k in range(6)]
    for moments in (days, np.array(days, dtype="datetime64[ns]")):
        panels = series(ragged((6,)), row=1, times=moments)
        np.testing.assert_allclose(panels[0].lines[0].get_xdata(orig=False), date2num(days)[:5])
        panels.figure.draw_without_rendering()
        assert "Jan" in " ".join(written(panels.figure))


def test_curves_are_drawn_with_bands_and_overall_errors() -> None:
    scores = {"on": score(0.0171), "off": score(0.05, draws=16), "?": score(0.1, error=np.nan)}
    axes = mse_curve(scores)
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0, 1, 2])
    np.testing.assert_allclose(axes.lines[1].get_ydata(), scores["off"].by_size.mse)
    low, high = axes.collections[0].get_datalim(axes.transData).intervaly
    curve = scores["on"].by_size
    assert (low, high) == pytest.approx((0.9 * curve.mse[-1], 1.1 * curve.mse[0]))
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["on: 0.0171 ± 0.0011", "off: 0.0500 ± 0.0011, 16 draws", "?: 0.1"]
    assert axes.get_ylim()[0] == 0
