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
from tests.plots.helpers import explained, score, written


def wave(channels: int = 2, time: int = 12) -> torch.Tensor:
    at = torch.linspace(0, 6, time)
    return torch.stack([torch.sin(at + k) for k in range(channels)])


def segments() -> ms.Explanation:
    """Two series of two channels in segments of four points and of five, and padding."""
    x = torch.stack((wave(), wave()))
    owners = torch.stack((torch.arange(12) // 4, torch.arange(12) // 5)).clamp(max=2)
    owners[1, 10:] = -1
    x[1, :, 10:] = 0
    owners = owners[:, None].expand(2, 2, 12)
    phi = torch.tensor([[[0.1], [-0.3], [0.2]], [[0.15], [-0.05], [torch.nan]]])
    base = torch.full((2, 1), 0.25)
    return ms.Explanation(
        phi, 0 * phi, base, base + phi.nansum(1), x, ms.Players.of_rows((2, 12), 3), ("load",),
        ms.spaces.Identity(), owners=owners,
    )  # fmt: skip


def colours(axes: Axes) -> QuadMesh:
    (mesh,) = [each for each in axes.collections if isinstance(each, QuadMesh)]
    return mesh


def borders(axes: Axes) -> list[float]:
    return [line.get_xdata()[0] for line in axes.lines[1:]]


def test_curves_stand_on_the_values_of_their_segments() -> None:
    explanation = segments()
    panels = series(explanation)
    assert len(panels) == 2
    for channel, axes in enumerate(panels):
        np.testing.assert_allclose(axes.lines[0].get_xdata(), np.arange(12))
        np.testing.assert_allclose(axes.lines[0].get_ydata(), explanation.x[0, channel])
        mesh = colours(axes)
        expected = np.repeat([0.1, -0.3, 0.2], 4)
        np.testing.assert_allclose(mesh.get_array()[0], expected, rtol=1e-6)
        assert mesh.get_clim() == pytest.approx((-0.3, 0.3))
        assert borders(axes) == [3.5, 7.5]
        assert axes.get_xlim() == pytest.approx((-0.5, 11.5))
    texts = written(panels.figure)
    assert {"channel 0", "channel 1", "time", "Shapley value of a segment (load)"} <= set(texts)
    assert panels.figure.get_suptitle() == "load: 0.25\nbase 0.25, row 0 (position 0 of 2)"


def test_padding_is_left_out() -> None:
    explanation = segments()
    for axes in series(explanation, row=-1):
        assert len(axes.lines[0].get_ydata()) == 10
        drawn = colours(axes).get_array()[0]
        np.testing.assert_allclose(drawn, np.repeat([0.15, -0.05], 5), rtol=1e-6)
        assert borders(axes) == [4.5]
        assert axes.get_xlim() == pytest.approx((-0.5, 9.5))
    nothing = replace(explanation, owners=torch.full_like(explanation.owners, -1))
    with pytest.raises(ValueError, match="row 1 is nothing but padding"):
        series(nothing, row=1)


def test_explanations_stand_side_by_side_on_one_scale() -> None:
    on = segments()
    off = replace(on, phi=-2 * on.phi, base=on.base + 1)
    panels = series({"on": on, "off": off}, channels=["load", "heat"])
    for left, right in zip(panels[::2], panels[1::2], strict=True):
        twice = -2 * colours(left).get_array()
        np.testing.assert_allclose(colours(right).get_array(), twice, rtol=1e-6)
        assert colours(left).get_clim() == colours(right).get_clim() == pytest.approx((-0.6, 0.6))
        assert left.get_ylim() == right.get_ylim()
    titles = [axes.get_title("left") for axes in panels]
    assert titles == ["on: base 0.25", "off: base 1.25", "", ""]
    assert [axes.get_ylabel() for axes in panels] == ["load", "", "heat", ""]


def test_channels_of_their_own_players_have_their_own_values() -> None:
    index = torch.arange(12) // 6 + 2 * torch.arange(3)[:, None]
    explanation = explained(wave(3)[None], ms.Players(range(6), index), ("a",))
    phi = torch.tensor([0.1, -0.1, 0.01, 0.02, -0.5, 0.4])[None, :, None]
    panels = series(replace(explanation, phi=phi), max_display=2)
    # Those of the largest values, in their order.
    assert [axes.get_ylabel() for axes in panels] == ["channel 0", "channel 2"]
    for axes, values in zip(panels, ([0.1, -0.1], [-0.5, 0.4]), strict=True):
        drawn = colours(axes).get_array()[0]
        np.testing.assert_allclose(drawn, np.repeat(values, 6), rtol=1e-6)
    assert "2 of 3 channels" in panels.figure.get_suptitle()


def test_times_are_numbers_or_dates() -> None:
    explanation = segments()
    times = np.cumsum(np.arange(1.0, 13))
    for axes in series(explanation, times=times):
        np.testing.assert_allclose(axes.lines[0].get_xdata(), times)
        assert borders(axes) == [(times[3] + times[4]) / 2, (times[7] + times[8]) / 2]
    days = [date(2024, 1, 1 + k) for k in range(12)]
    for moments in (days, np.array(days, dtype="datetime64[ns]")):
        panels = series(explanation, row=1, times=moments)
        np.testing.assert_allclose(panels[0].lines[0].get_xdata(orig=False), date2num(days)[:10])
        panels.figure.draw_without_rendering()
        assert "Jan" in " ".join(written(panels.figure))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"times": range(11)}, "12 increasing `times`"),
        ({"times": [0.0] * 12}, "12 increasing `times`"),
        ({"channels": ["a"]}, "2 names of `channels`"),
        ({"max_display": 0}, "`max_display`"),
    ],
)
def test_what_does_not_fit_a_series_is_refused(settings: dict, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        series(segments(), **settings)


def test_what_is_no_series_is_refused(patches: ms.Explanation) -> None:
    with pytest.raises(ValueError, match=r"\(channels, time\), but got rows of shape \(3, 4, 4\)"):
        series(patches)


def test_curves_are_drawn_with_bands_and_overall_errors() -> None:
    scores = {
        "on": score(0.0171, [0.0, 1.0, 2.0]),
        "off": score(0.05, [0.0, 1.0, 2.0], draws=16),
        "unknown": score(0.1, [0.0, 1.0, 2.0], error=np.nan),
    }
    axes = mse_curve(scores)
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0, 1, 2])
    np.testing.assert_allclose(axes.lines[1].get_ydata(), scores["off"].by_size.mse)
    low, high = axes.collections[0].get_datalim(axes.transData).intervaly
    curve = scores["on"].by_size
    assert (low, high) == pytest.approx((0.9 * curve.mse[-1], 1.1 * curve.mse[0]))
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["on: 0.0171 ± 0.0011", "off: 0.0500 ± 0.0011, 16 draws", "unknown: 0.1"]
    assert axes.get_ylim()[0] == 0
