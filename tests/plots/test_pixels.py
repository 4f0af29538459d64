"""Pixel maps: which values stand at which pixels, on which scale."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import manifold_shap as ms
from manifold_shap.plots import pixel_maps
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
        np.testing.assert_allclose(drawn[0], digits.x[row, 0].numpy())
        np.testing.assert_allclose(drawn[1], expected)
        np.testing.assert_allclose(drawn[2], -expected)


def test_maps_of_a_named_output_follow_it(digits: ms.Explanation) -> None:
    drawn = panels(pixel_maps(digits, output="2").figure)[3].images[0].get_array()
    np.testing.assert_allclose(drawn, digits.phi[1, :, 2].reshape(4, 6).numpy())


def test_all_maps_share_one_symmetric_scale_with_red_for_positive(digits: ms.Explanation) -> None:
    figure = pixel_maps({"on": digits, "off": replace(digits, phi=5 * digits.phi)}).figure
    limits = {panel.images[0].get_clim() for k, panel in enumerate(panels(figure)) if k % 3}
    ((low, high),) = limits
    assert low == -high
    colour_bar = figure.axes[-1]
    assert colour_bar.get_xlabel() == "Shapley value (probability)\n5 rows"
    np.testing.assert_allclose(colour_bar.get_xticks()[1], 0)
    cmap = panels(figure)[1].images[0].cmap
    assert cmap(1.0)[0] > cmap(1.0)[2]
    assert cmap(0.0)[2] > cmap(0.0)[0]


def test_few_extreme_pixels_do_not_bleach_the_others() -> None:
    explanation = explained(torch.rand(1, 1, 30, 30), ms.Players.of_elements((1, 30, 30)), ("a",))
    phi = torch.full_like(explanation.phi, 0.1)
    phi[0, 0] = 100.0
    low, high = panels(pixel_maps(replace(explanation, phi=phi)).figure)[1].images[0].get_clim()
    assert (low, high) == pytest.approx((-0.1, 0.1))


def test_a_single_pixel_with_a_value_still_sets_the_scale() -> None:
    explanation = explained(torch.rand(1, 1, 30, 30), ms.Players.of_elements((1, 30, 30)), ("a",))
    phi = torch.zeros_like(explanation.phi)
    assert panels(pixel_maps(replace(explanation, phi=phi)).figure)[1].images[0].get_clim() == (
        -1,
        1,
    )
    phi[0, 0] = 0.5
    figure = pixel_maps(replace(explanation, phi=phi)).figure
    assert panels(figure)[1].images[0].get_clim() == (-0.5, 0.5)


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


def test_lines_are_titled_by_class_and_prediction(digits: ms.Explanation) -> None:
    prediction = torch.tensor([[0.1, 0.87, 0.03]]).expand(5, -1)
    text = written(pixel_maps({"on manifold": replace(digits, prediction=prediction)}).figure)
    assert sum("predicted probability of 1: 0.87" in line for line in text) == 5
    assert "on manifold" in text


def test_many_lines_go_on_beside(digits: ms.Explanation) -> None:
    tall = pixel_maps(digits, rows=[0, 1, 2, 3, 4, 0, 1, 2]).figure.get_size_inches()
    wide = pixel_maps(digits, rows=[0, 1, 2, 3, 4] * 6).figure.get_size_inches()
    assert wide[0] > 3 * tall[0]
    assert wide[1] == tall[1]


def test_by_default_so_many_images_are_shown_as_a_page_holds(digits: ms.Explanation) -> None:
    explanation = digits[[0] * 40]
    assert len(panels(pixel_maps(explanation).figure)) == 2 * 32


@pytest.mark.parametrize("rows", [[5], [0, -6]])
def test_maps_of_rows_out_of_range_are_refused(digits: ms.Explanation, rows: list[int]) -> None:
    with pytest.raises(ValueError, match="Expected `rows` to be a whole number from -5 to 4"):
        pixel_maps(digits, rows=rows)


def test_maps_of_no_row_are_refused(digits: ms.Explanation) -> None:
    with pytest.raises(ValueError, match="at least one image but got none"):
        pixel_maps(digits, rows=[])


def test_maps_of_a_table_are_refused(people: ms.Explanation) -> None:
    with pytest.raises(ValueError, match=r"Expected explanations of images.*got rows of shape \("):
        pixel_maps(people)


def test_colour_bar_of_several_outputs_names_none_of_them(digits: ms.Explanation) -> None:
    scores = replace(digits, space=ms.Identity(), outputs=("first", "second", "third"))
    assert len(set(scores.prediction.argmax(1).tolist())) > 1
    label = pixel_maps(scores, rows=[0, 2]).figure.axes[-1].get_xlabel()
    assert label == "Shapley value (model output)\n2 of 5 rows"


def test_maps_follow_the_owners_of_each_row_and_leave_padding_blank() -> None:
    explanation = ragged()
    maps = [panels(pixel_maps(explanation).figure)[k].images[0].get_array() for k in (1, 3)]
    phi = explanation.phi[..., 0].tolist()
    a, b, c = (value / 2 for value in phi[0])
    np.testing.assert_allclose(maps[0], [[a, a, b], [b, c, c]], rtol=1e-6)
    a, b = phi[1][0] / 2, phi[1][1] / 3
    np.testing.assert_allclose(maps[1], [[b, a, a], [b, b, 0]], rtol=1e-6)


def test_maps_of_a_half_trained_value_function_say_so(digits: ms.Explanation) -> None:
    half = replace(digits, made_by={"half_trained": True})
    label = pixel_maps({"on": digits, "off": half}).figure.axes[-1].get_xlabel()
    assert label.endswith("\nCaution: half-trained value function: off")
