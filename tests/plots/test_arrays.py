"""Pixel maps and series: which values stand at which pixels and time points, on which scale."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.dates import date2num

import manifold_shap as ms
from manifold_shap import shown
from manifold_shap.plots import pixel_maps, series
from tests.plots.helpers import explained, ragged, written

# -- images -------------------------------------------------------------------------------------


def pixels(axes: Axes) -> np.ndarray:
    return axes.images[0].get_array()


def test_maps_hold_phi_of_the_predicted_output_at_its_pixel(digits: ms.Explanation) -> None:
    other = replace(digits, phi=-digits.phi)
    panels = pixel_maps({"on": digits, "off": other}, rows=[3, 1])
    assert len(panels) == 6
    for line, row in enumerate([3, 1]):
        image, on, off = map(pixels, panels[3 * line : 3 * line + 3])
        expected = digits.phi[row, :, digits.prediction[row].argmax()].reshape(4, 6).numpy()
        np.testing.assert_allclose(image, 1 - digits.x[row, 0].numpy())
        np.testing.assert_allclose(on, expected)
        np.testing.assert_allclose(off, -expected)


def test_all_maps_share_one_symmetric_scale_with_red_for_positive(digits: ms.Explanation) -> None:
    other = replace(digits, phi=5 * digits.phi, made_by={"half_trained": True})
    panels = pixel_maps({"on": digits, "off": other}, rows=[0, 2])
    ((low, high),) = {panel.images[0].get_clim() for k, panel in enumerate(panels) if k % 3}
    assert low == -high
    title = panels.figure.get_suptitle()
    assert title.startswith("2 of 5 rows\nCaution: off: half-trained")
    bar = panels.figure.axes[-1]
    assert bar.get_xlabel() == "Shapley value (probability)"
    assert 0 in bar.get_xticks().tolist()
    cmap = panels[1].images[0].cmap
    assert cmap(1.0)[0] > cmap(1.0)[2]
    assert cmap(0.0)[2] > cmap(0.0)[0]


def test_superpixels_are_spread_evenly_and_channels_summed(patches: ms.Explanation) -> None:
    panels = pixel_maps(patches, output="dog")
    assert pixels(panels[0]).shape == (4, 4, 3)
    expected = patches.phi[0, :, 1].reshape(2, 2).numpy().repeat(2, 0).repeat(2, 1) / 4
    np.testing.assert_allclose(pixels(panels[1]), expected, rtol=1e-6)
    assert "per pixel" in panels.figure.axes[-1].get_xlabel()


def test_maps_follow_the_owners_of_each_row_and_leave_padding_blank() -> None:
    explanation = ragged()
    first, second = map(pixels, pixel_maps(explanation)[1::2])
    phi = explanation.phi[..., 0].tolist()
    a, b, c = (value / 2 for value in phi[0])
    np.testing.assert_allclose(first, [[a, a, b], [b, c, c]], rtol=1e-6)
    a, b = phi[1][0] / 2, phi[1][1] / 3
    np.testing.assert_allclose(second, [[b, a, a], [b, b, 0]], rtol=1e-6)


def test_the_top_outputs_of_each_image_are_columns_with_their_predictions(
    digits: ms.Explanation,
) -> None:
    panels = pixel_maps({"on": digits, "off": replace(digits, phi=-digits.phi)}, top=2, rows=[0, 1])
    assert len(panels) == 2 * 5
    for row in range(2):
        order = digits.prediction[row].argsort(descending=True)[:2].tolist()
        for column, k in enumerate([*order, *order]):
            panel = panels[5 * row + 1 + column]
            expected = digits.phi[row, :, k].reshape(4, 6) * (1 if column < 2 else -1)
            np.testing.assert_allclose(pixels(panel), expected, rtol=1e-5)
            said = shown.amount(digits, digits.prediction[row, k].item())
            assert panel.get_title("left").endswith(f"{k}: {said}")
    assert panels[1].get_title("left").startswith("on\n")


def lines_of(axes: Axes) -> set[tuple[tuple[float, float], ...]]:
    (drawn,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    return {tuple(map(tuple, np.array(segment).tolist())) for segment in drawn.get_segments()}


def test_borders_part_players_and_outlines_ink(patches: ms.Explanation) -> None:
    across = {((1.5, k - 0.5), (1.5, k + 0.5)) for k in range(4)}
    drawn = lines_of(pixel_maps(patches, rows=[0])[1])
    assert drawn == across | {(start[::-1], end[::-1]) for start, end in across}
    # Padding belongs to nobody, and has a border, too.
    first, second = pixel_maps(ragged())[1::2]
    assert ((1.5, -0.5), (1.5, 0.5)) in lines_of(first)
    assert ((1.5, 0.5), (1.5, 1.5)) in lines_of(second)
    x = torch.zeros(1, 1, 3, 3)
    x[0, 0, 1, 1] = 1
    outline = lines_of(pixel_maps(explained(x, ms.Players.of_elements((1, 3, 3)), ("a",)))[1])
    assert len(outline) == 4
    assert {number for ends in outline for end in ends for number in end} == {0.5, 1.5}


def test_colours_are_shown_as_they_are_or_stretched_where_they_are_out_of_range() -> None:
    x = torch.rand(2, 3, 4, 4)
    x[1] = 5 * x[1] - 2
    players = ms.Players(range(16), torch.arange(16).reshape(4, 4).expand(3, 4, 4))
    inside, stretched = map(pixels, pixel_maps(explained(x, players, ("a",)))[::2])
    np.testing.assert_allclose(inside, x[0].permute(1, 2, 0))
    expected = (x[1] - x[1].min()) / (x[1].max() - x[1].min())
    np.testing.assert_allclose(stretched, expected.permute(1, 2, 0), atol=1e-6)


@pytest.mark.parametrize("kind", [np.uint8, torch.uint8, np.float64])
def test_images_stand_in_the_place_of_rows(digits: ms.Explanation, kind: object) -> None:
    grey = (np.arange(5 * 24).reshape(5, 1, 4, 6) * 2).astype(np.uint8)
    images = torch.from_numpy(grey) if kind is torch.uint8 else grey
    images = grey / 255 if kind is np.float64 else images
    drawn = pixel_maps(digits, rows=[2], images=images)[0].images[0]
    np.testing.assert_allclose(drawn.get_array(), grey[2, 0] / 255, rtol=1e-6)
    assert drawn.get_clim() == (0, 1)


def test_an_overlay_is_a_pale_grey_copy_of_the_image_over_each_map(patches: ms.Explanation) -> None:
    picture, *maps = pixel_maps(patches, rows=[0], top=2, overlay=0.4)
    assert len(picture.images) == 1
    for panel in maps:
        signed, over = panel.images
        assert (signed.get_alpha(), over.get_alpha()) == (None, 0.4)
        bright = 0.299 * patches.x[0, 0] + 0.587 * patches.x[0, 1] + 0.114 * patches.x[0, 2]
        np.testing.assert_allclose(over.get_array(), bright, rtol=1e-5)
        assert over.cmap(over.norm(0.0))[0] > 0.3


def test_images_that_cannot_be_shown_are_refused(digits: ms.Explanation) -> None:
    x = torch.rand(1, 7, 3, 3)
    players = ms.Players(range(9), torch.arange(9).reshape(3, 3).expand(7, 3, 3))
    explanation = explained(x, players, ("a",))
    with pytest.raises(ValueError, match=r"of 1, 3 or 4 channels.*\(1, 7, 3, 3\); by default"):
        pixel_maps(explanation)
    assert pixel_maps(explanation, images=x[:, :3])
    with pytest.raises(ValueError, match=r"`images` .*for 5 rows of 4 x 6 pixels"):
        pixel_maps(digits, images=digits.x[:2])
    with pytest.raises(ValueError, match="numbers from 0 to 1, or of bytes, but got 0 to 2; undo"):
        pixel_maps(digits, images=2 * digits.x)


# -- series -------------------------------------------------------------------------------------


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
        np.testing.assert_allclose(np.ravel(mesh.get_array()), expected, rtol=1e-6)
        assert mesh.get_clim() == pytest.approx((-0.3, 0.3))
        assert borders(axes) == [3.5, 7.5]
        assert axes.get_xlim() == (-0.5, 11.5)
    texts = written(panels.figure)
    assert {"channel 0", "channel 1", "time", "Shapley value of a segment (load)"} <= set(texts)
    assert panels.figure.get_suptitle() == "load: 0.25\nbase 0.25, row 0 (position 0 of 2)"


def test_padding_is_left_out() -> None:
    explanation = segments()
    for axes in series(explanation, row=-1):
        assert len(axes.lines[0].get_ydata()) == 10
        drawn = np.ravel(colours(axes).get_array())
        np.testing.assert_allclose(drawn, np.repeat([0.15, -0.05], 5), rtol=1e-6)
        assert borders(axes) == [4.5]
        assert axes.get_xlim() == (-0.5, 9.5)
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
        drawn = np.ravel(colours(axes).get_array())
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
        np.testing.assert_allclose(panels[0].lines[0].get_xdata(), date2num(days)[:10])
        panels.figure.draw_without_rendering()
        assert "Jan" in " ".join(written(panels.figure))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"times": range(11)}, "`times` to be 12 increasing numbers or dates"),
        ({"times": [0.0] * 12}, "`times` to be 12 increasing numbers or dates"),
        ({"channels": ["a"]}, r"`channels` to hold 2 names but got \['a'\]"),
        ({"max_display": 0}, "`max_display`"),
    ],
)
def test_what_does_not_fit_a_series_is_refused(settings: dict, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        series(segments(), **settings)


def test_what_is_no_series_is_refused(patches: ms.Explanation) -> None:
    with pytest.raises(ValueError, match=r"\(channels, time\), but got rows of shape \(3, 4, 4\)"):
        series(patches)
