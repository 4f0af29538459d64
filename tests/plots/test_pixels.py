"""Pixel maps: which values stand at which pixels, on which scale."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import manifold_shap as ms
from manifold_shap.plots import pixel_maps, selection
from tests.plots.helpers import explained, ragged, written


def panels(figure: Figure) -> list[Axes]:
    """Axes of images and maps, without the colour bar."""
    return figure.axes[:-1]


def test_maps_hold_phi_of_the_predicted_output_at_its_pixel(digits: ms.Explanation) -> None:
    other = replace(digits, phi=-digits.phi)
    figure = pixel_maps({"on": digits, "off": other}, rows=[3, 1]).figure
    axes = panels(figure)
    assert len(axes) == 6
    for line, row in enumerate([3, 1]):
        predicted = digits.prediction[row].argmax()
        expected = digits.phi[row, :, predicted].reshape(4, 6).numpy()
        drawn = [panel.images[0].get_array() for panel in axes[3 * line : 3 * line + 3]]
        np.testing.assert_allclose(drawn[0], 1 - digits.x[row, 0].numpy())
        np.testing.assert_allclose(drawn[1], expected)
        np.testing.assert_allclose(drawn[2], -expected)


def test_all_maps_share_one_symmetric_scale_with_red_for_positive(digits: ms.Explanation) -> None:
    other = replace(digits, phi=5 * digits.phi, made_by={"half_trained": True})
    figure = pixel_maps({"on": digits, "off": other}, rows=[0, 2]).figure
    limits = {panel.images[0].get_clim() for k, panel in enumerate(panels(figure)) if k % 3}
    ((low, high),) = limits
    assert low == -high
    colour_bar = figure.axes[-1]
    label = colour_bar.get_xlabel()
    assert label.startswith("Shapley value (probability)\n2 of 5 rows\nCaution: half-trained")
    assert 0 in colour_bar.get_xticks().tolist()
    cmap = panels(figure)[1].images[0].cmap
    assert cmap(1.0)[0] > cmap(1.0)[2]
    assert cmap(0.0)[2] > cmap(0.0)[0]


def test_superpixels_are_spread_evenly_and_channels_summed(patches: ms.Explanation) -> None:
    figure = pixel_maps(patches, output="dog").figure
    image, signed = (panel.images[0].get_array() for panel in panels(figure)[:2])
    assert image.shape == (4, 4, 3)
    expected = patches.phi[0, :, 1].reshape(2, 2).numpy().repeat(2, 0).repeat(2, 1) / 4
    np.testing.assert_allclose(signed, expected, rtol=1e-6)
    assert signed.sum() == pytest.approx(patches.phi[0, :, 1].sum().item(), rel=1e-5)
    assert "per pixel" in figure.axes[-1].get_xlabel()


def test_the_outline_runs_between_ink_and_paper() -> None:
    x = torch.zeros(1, 1, 3, 3)
    x[0, 0, 1, 1] = 1
    axes = panels(pixel_maps(explained(x, ms.Players.of_elements((1, 3, 3)), ("a",))).figure)[1]
    (outline,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    ends = np.array(outline.get_segments())
    assert ends.shape == (4, 2, 2)
    assert set(ends.ravel()) == {0.5, 1.5}


def test_maps_follow_the_owners_of_each_row_and_leave_padding_blank() -> None:
    explanation = ragged()
    maps = [panels(pixel_maps(explanation).figure)[k].images[0].get_array() for k in (1, 3)]
    phi = explanation.phi[..., 0].tolist()
    a, b, c = (value / 2 for value in phi[0])
    np.testing.assert_allclose(maps[0], [[a, a, b], [b, c, c]], rtol=1e-6)
    a, b = phi[1][0] / 2, phi[1][1] / 3
    np.testing.assert_allclose(maps[1], [[b, a, a], [b, b, 0]], rtol=1e-6)


def test_the_top_outputs_of_each_image_are_columns_with_their_predictions(
    digits: ms.Explanation,
) -> None:
    figure = pixel_maps(
        {"on": digits, "off": replace(digits, phi=-digits.phi)}, top=2, rows=[0, 1]
    ).figure
    axes = panels(figure)
    assert len(axes) == 2 * 5
    for row in range(2):
        order = digits.prediction[row].argsort(descending=True)[:2].tolist()
        for column, k in enumerate([*order, *order]):
            panel = axes[5 * row + 1 + column]
            expected = digits.phi[row, :, k].reshape(4, 6) * (1 if column < 2 else -1)
            np.testing.assert_allclose(panel.images[0].get_array(), expected, rtol=1e-5)
            said = selection.amount(digits, digits.prediction[row, k].item())
            assert panel.get_title("left") == f"{k}: {said}"
    assert {"on", "off"} <= set(written(figure))


def lines_of(axes: Axes) -> set[tuple[tuple[float, float], ...]]:
    (drawn,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    return {tuple(map(tuple, np.array(segment).tolist())) for segment in drawn.get_segments()}


def test_borders_part_players_of_several_pixels_in_each_row(patches: ms.Explanation) -> None:
    axes = panels(pixel_maps(patches, rows=[0]).figure)[1]
    across = {((1.5, k - 0.5), (1.5, k + 0.5)) for k in range(4)}
    assert lines_of(axes) == across | {(start[::-1], end[::-1]) for start, end in across}
    # Padding belongs to nobody, and has a border, too.
    first, second = panels(pixel_maps(ragged()).figure)[1::2]
    assert ((1.5, -0.5), (1.5, 0.5)) in lines_of(first)
    assert ((1.5, 0.5), (1.5, 1.5)) in lines_of(second)


def test_colours_are_shown_as_they_are_or_stretched_where_they_are_out_of_range() -> None:
    x = torch.rand(2, 3, 4, 4)
    x[1] = 5 * x[1] - 2
    players = ms.Players(range(16), torch.arange(16).reshape(4, 4).expand(3, 4, 4))
    explanation = explained(x, players, ("a",))
    inside, stretched = (
        panel.images[0].get_array() for panel in panels(pixel_maps(explanation).figure)[::2]
    )
    np.testing.assert_allclose(inside, x[0].permute(1, 2, 0))
    expected = (x[1] - x[1].min()) / (x[1].max() - x[1].min())
    np.testing.assert_allclose(stretched, expected.permute(1, 2, 0), atol=1e-6)
    opaque = torch.cat((x[1:], torch.ones(1, 1, 4, 4)), 1)
    players = ms.Players(range(16), torch.arange(16).reshape(4, 4).expand(4, 4, 4))
    drawn = panels(pixel_maps(explained(opaque, players, ("a",))).figure)[0].images[0].get_array()
    np.testing.assert_allclose(drawn[..., :3], stretched, atol=1e-6)
    assert (drawn[..., 3] == 1).all()


@pytest.mark.parametrize("kind", [np.uint8, torch.uint8, np.float64])
def test_given_images_stand_in_the_place_of_rows(digits: ms.Explanation, kind: object) -> None:
    grey = (np.arange(5 * 24).reshape(5, 1, 4, 6) * 2).astype(np.uint8)
    images = torch.from_numpy(grey) if kind is torch.uint8 else grey
    images = grey / 255 if kind is np.float64 else images
    drawn = panels(pixel_maps(digits, rows=[2], images=images).figure)[0].images[0]
    np.testing.assert_allclose(drawn.get_array(), grey[2, 0] / 255, rtol=1e-6)
    assert drawn.get_clim() == (0, 1)
    assert drawn.cmap(1.0)[:3] == (1, 1, 1)


def test_an_overlay_is_a_pale_grey_copy_of_the_image_over_each_map(
    patches: ms.Explanation,
) -> None:
    picture, *maps = panels(pixel_maps(patches, rows=[0], top=2, overlay=0.4).figure)
    assert len(picture.images) == 1
    for panel in maps:
        signed, over = panel.images
        assert signed.get_alpha() is None
        assert over.get_alpha() == 0.4
        bright = 0.299 * patches.x[0, 0] + 0.587 * patches.x[0, 1] + 0.114 * patches.x[0, 2]
        np.testing.assert_allclose(over.get_array(), bright, rtol=1e-5)
        assert over.cmap(over.norm(0.0))[0] > 0.3
        assert over.cmap(over.norm(1.0))[0] == 1


def test_images_that_cannot_be_shown_are_refused(digits: ms.Explanation) -> None:
    x = torch.rand(1, 7, 3, 3)
    players = ms.Players(range(9), torch.arange(9).reshape(3, 3).expand(7, 3, 3))
    explanation = explained(x, players, ("a",))
    with pytest.raises(ValueError, match=r"of 1, 3 or 4 channels.*\(1, 7, 3, 3\); by default"):
        pixel_maps(explanation)
    assert pixel_maps(explanation, images=x[:, :3])
    with pytest.raises(ValueError, match=r"`images` of 1, 3 or 4 channels.*but got shape \(1, 2,"):
        pixel_maps(explanation, images=x[:, :2])
    with pytest.raises(ValueError, match=r"`images` .*for 5 rows of 4 x 6 pixels"):
        pixel_maps(digits, images=digits.x[:2])
    with pytest.raises(ValueError, match="numbers from 0 to 1, or of bytes, but got 0 to 2; undo"):
        pixel_maps(digits, images=2 * digits.x)
