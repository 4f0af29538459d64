"""Maps: colours are values, in the order of predictions or of sizes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

import manifold_shap as ms
from manifold_shap import shown
from manifold_shap.plots import heatmap, interaction_map, pixel_maps, waterfall
from tests.examples import Ragged, uniform
from tests.examples import table as game
from tests.plots.helpers import digits, patches, picture_and_columns, ragged, table, tick_labels


def test_rows_stand_in_the_order_of_their_prediction() -> None:
    people = table().with_labels(range(10, 16))
    axes = heatmap(people)
    rows = people.prediction[:, 1].argsort()
    players = people.phi[..., 1].abs().mean(0).argsort(descending=True)
    drawn = axes.images[0].get_array()
    np.testing.assert_allclose(drawn, people.phi[rows][:, players, 1].T, rtol=1e-6)
    low, high = axes.images[0].get_clim()
    assert low == -high
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == [str(10 + k) for k in rows.tolist()]
    assert tick_labels(axes) == [people.players.names[k] for k in players]
    curve, base = axes.child_axes[0].lines
    assert [text.get_text() for text in axes.child_axes[0].texts] == ["mean base"]
    np.testing.assert_allclose(curve.get_ydata(), people.prediction[rows, 1], rtol=1e-6)
    assert base.get_ydata()[0] == pytest.approx(0.5)
    # Numbers of places would be taken for positions of rows.
    assert not heatmap(people[[0] * 21]).get_xticklabels()


@pytest.fixture
def found() -> ms.Interactions:
    return ms.shapley_interactions(game(5), uniform(4, 5))


def test_a_map_has_the_interactions_of_a_row(found: ms.Interactions) -> None:
    axes = interaction_map(found, row=2, output="1")
    values = found.values[2, ..., 1]
    order = values.abs().sum(1).argsort(descending=True)
    names = [found.players.names[k] for k in order.tolist()]
    assert tick_labels(axes) == names
    assert [label.get_text() for label in axes.get_xticklabels()] == names
    lower = np.tri(5, dtype=bool)
    expected = values[order][:, order].double().numpy()
    drawn = axes.images[0].get_array()
    np.testing.assert_allclose(np.ma.getdata(drawn)[lower], expected[lower], rtol=1e-6)
    assert np.ma.getmaskarray(drawn).sum() == 10
    assert [float(text.get_text().replace("−", "-")) for text in axes.texts] == pytest.approx(
        expected[lower].tolist(), abs=0.01
    )
    # The scale is that of pairs.
    high = np.abs(expected - np.diag(expected.diagonal())).max()
    assert axes.images[0].get_clim() == pytest.approx((-high, high))
    title = axes.figure.get_suptitle()
    assert title == "Interactions (SII): Output 1, row 2"


def test_over_rows_it_has_their_mean_and_marks_what_may_be_none(found: ms.Interactions) -> None:
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0])[:, None, None, None]
    steady = torch.full_like(found.values, 0.5)
    steady[:, 0, 1] = steady[:, 1, 0] = signs[:, 0, 0]
    axes = interaction_map(replace(found, values=steady), output=0)
    bracketed = [text.get_text() for text in axes.texts if "(" in text.get_text()]
    assert bracketed == ["(0.000)"]
    assert len(axes.texts) == 15
    assert "mean of 4 rows" in axes.figure.get_suptitle()
    assert "( ): within two standard errors" in axes.figure.get_suptitle()
    many = ms.shapley_interactions(game(9), uniform(2, 9))
    unsure = replace(many, standard_error=torch.full_like(many.values, 1e6))
    axes = interaction_map(unsure, row=0, max_display=9)
    assert {text.get_text() for text in axes.texts} == {"×"}


def test_interactions_of_players_that_a_row_lacks_are_left_out() -> None:
    found = ms.shapley_interactions(Ragged(2), torch.tensor([[1.0, 2, 3, 4], [5.0, 6, 0, 0]]))
    assert [len(tick_labels(interaction_map(found, row=row))) for row in (0, 1)] == [2, 1]
    with pytest.raises(ValueError, match="the same players in every row"):
        interaction_map(found)


# -- pixels -------------------------------------------------------------------------------------


def pixels(axes: Axes) -> np.ndarray:
    return axes.images[0].get_array()


def test_maps_hold_phi_of_the_top_outputs_on_one_symmetric_scale() -> None:
    on = digits()
    off = replace(on, phi=-5 * on.phi, made_by={"half_trained": True})
    panels = pixel_maps({"on": on, "off": off}, row=[3, 1], top=2)
    assert len(panels) == 2 * 5
    for line, row in enumerate([3, 1]):
        image, *maps = panels[5 * line : 5 * line + 5]
        np.testing.assert_allclose(pixels(image), 1 - on.x[row, 0].numpy())
        order = on.prediction[row].argsort(descending=True)[:2].tolist()
        for panel, k, factor in zip(maps, [*order, *order], [1, 1, -5, -5], strict=True):
            expected = factor * on.phi[row, :, k].reshape(4, 6)
            np.testing.assert_allclose(pixels(panel), expected, rtol=1e-5)
            said = shown.amount(on, on.prediction[row, k].item())
            assert panel.get_title("left").endswith(f"{k}: {said}")
    assert panels[1].get_title("left").startswith("on\n")
    ((low, high),) = {panel.images[0].get_clim() for k, panel in enumerate(panels) if k % 5}
    assert low == -high
    assert panels.figure.get_suptitle().startswith("2 of 5 rows\nCaution: off: half-trained")
    bar = panels.figure.axes[-1]
    assert bar.get_xlabel() == "Shapley value (probability)"
    assert 0 in bar.get_xticks().tolist()
    cmap = panels[1].images[0].cmap
    assert cmap(1.0)[0] > cmap(1.0)[2]
    assert cmap(0.0)[2] > cmap(0.0)[0]


def test_superpixels_are_spread_evenly_and_channels_summed() -> None:
    explanation = patches()
    panels = pixel_maps(explanation, output="dog")
    assert pixels(panels[0]).shape == (4, 4, 3)
    expected = explanation.phi[0, :, 1].reshape(2, 2).numpy().repeat(2, 0).repeat(2, 1) / 4
    np.testing.assert_allclose(pixels(panels[1]), expected, rtol=1e-6)
    assert "per pixel" in panels.figure.axes[-1].get_xlabel()


def test_of_several_inputs_the_picture_has_a_map_and_its_patches_have_no_numbers() -> None:
    explanation = picture_and_columns()
    assert "patch 0,1: −" in repr(explanation)
    picture, drawn = pixel_maps(explanation, row=0, output=0)
    np.testing.assert_allclose(
        pixels(picture), explanation.x[0, 2:50].reshape(3, 4, 4).movedim(0, -1)
    )
    expected = explanation.phi[0, 2:, 0].reshape(2, 2).numpy().repeat(2, 0).repeat(2, 1) / 4
    np.testing.assert_allclose(pixels(drawn), expected, rtol=1e-6)
    labels = tick_labels(waterfall(explanation))
    assert {"patch 0,0", "patch 1,1"} <= set(labels)
    (said,) = shown.signed([explanation.phi[0, :2, 0].sum().item()])
    assert f"add {said}" in drawn.figure.get_supxlabel().replace("\n", " ")
    learned = replace(explanation, model_error=torch.full_like(explanation.phi, 10.0))
    assert "mostly noise" in pixel_maps(learned)[0].figure.get_supxlabel()


def test_maps_of_noise_say_so() -> None:
    clear = digits()
    # Many values that are as good as zero are no noise beside one that is not.
    one = torch.zeros_like(clear.phi).index_fill(1, torch.tensor([5]), 1.0)
    sparse = replace(clear, phi=one, standard_error=torch.full_like(one, 0.01))
    assert "mostly noise" not in pixel_maps(sparse)[0].figure.get_supxlabel()
    error = torch.full_like(clear.phi, 0.01).index_fill(1, torch.arange(20), 10.0)
    noise = replace(clear, standard_error=error)
    below = pixel_maps(noise, row=[0, 1])[0].figure.get_supxlabel().replace("\n", " ")
    k = noise.prediction[:2].argmax(1)
    phi = torch.stack([noise.phi[row, 20:, k[row]] for row in (0, 1)])
    assert f"mostly noise: {int((phi.abs() > 0.02).sum())} of 48 values are farther" in below
    learned = replace(clear, standard_error=error / 1e4, model_error=error)
    for each, said in ((learned, "mostly noise"), (replace(learned, model_error=error / 1e4), "")):
        below = pixel_maps(each)[0].figure.get_supxlabel().replace("\n", " ")
        assert below.startswith(said or "1")
        assert "evaluations" not in below  # Errors of learning are the larger ones.
        assert "standard errors of sampling and learning" in below
    exact = replace(clear, standard_error=0 * error)
    assert "evaluations" not in pixel_maps({"a": clear, "b": exact})[0].figure.get_supxlabel()


def test_maps_follow_the_owners_of_each_row_and_leave_padding_blank() -> None:
    first, second = map(pixels, pixel_maps(ragged())[1::2])
    np.testing.assert_allclose(first, [[0.05, 0.05, -0.15], [-0.15, 0.125, 0.125]], rtol=1e-6)
    np.testing.assert_allclose(second, [[0.05, 0.2, 0.2], [0.05, 0.05, 0]], rtol=1e-6)


def test_colours_are_shown_as_they_are_or_stretched_where_they_are_out_of_range() -> None:
    x = torch.rand(2, 3, 4, 4)
    x[1] = 5 * x[1] - 2
    inside, stretched = map(pixels, pixel_maps(replace(patches(), x=x))[::2])
    np.testing.assert_allclose(inside, x[0].permute(1, 2, 0))
    expected = (x[1] - x[1].min()) / (x[1].max() - x[1].min())
    np.testing.assert_allclose(stretched, expected.permute(1, 2, 0), atol=1e-6)


@pytest.mark.parametrize("kind", [np.uint8, torch.uint8, np.float64])
def test_images_stand_in_the_place_of_rows(kind: object) -> None:
    grey = (np.arange(5 * 24).reshape(5, 1, 4, 6) * 2).astype(np.uint8)
    images = torch.from_numpy(grey) if kind is torch.uint8 else grey
    images = grey / 255 if kind is np.float64 else images
    drawn = pixel_maps(digits(), row=[2], images=images)[0].images[0]
    np.testing.assert_allclose(drawn.get_array(), grey[2, 0] / 255, rtol=1e-6)
    assert drawn.get_clim() == (0, 1)


def test_an_overlay_is_a_pale_grey_copy_of_the_image_over_each_map() -> None:
    explanation = patches()
    picture, *maps = pixel_maps(explanation, row=[0], top=2, overlay=0.4)
    assert len(picture.images) == 1
    red, green, blue = explanation.x[0]
    for panel in maps:
        signed, over = panel.images
        assert (signed.get_alpha(), over.get_alpha()) == (None, 0.4)
        bright = 0.299 * red + 0.587 * green + 0.114 * blue
        np.testing.assert_allclose(over.get_array(), bright, rtol=1e-5)
        assert over.cmap(over.norm(0.0))[0] > 0.3
