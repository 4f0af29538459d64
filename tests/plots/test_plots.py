"""Plots: what is drawn and where, not how it looks pixel by pixel."""

import ast
import gc
import io
import math
import weakref
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from manifold_shap.cli import report
from manifold_shap.explanation import Explanation
from manifold_shap.metrics import Score, SizeCurve
from manifold_shap.players import Players
from manifold_shap.plots import bars, mse_curve, pixel_maps, selection, sina, style
from manifold_shap.plots import style as words
from manifold_shap.tables.schema import Schema


def explained(
    x: torch.Tensor,
    players: Players,
    outputs: tuple[str, ...],
    space: str = "probability",
    schema: Schema | None = None,
    seed: int = 0,
) -> Explanation:
    generator = torch.Generator().manual_seed(seed)
    phi = 0.1 * torch.randn(len(x), len(players), len(outputs), generator=generator)
    base = torch.full((len(outputs),), 1 / len(outputs))
    return Explanation(
        phi, torch.full_like(phi, 0.01), base, base + phi.sum(1), x, players, outputs, space,
        schema=schema,
    )  # fmt: skip


@pytest.fixture
def digits() -> Explanation:
    x = (torch.rand(5, 1, 4, 6, generator=torch.Generator().manual_seed(1)) > 0.5).float()
    names = [f"pixel ({row}, {column})" for row in range(4) for column in range(6)]
    return explained(x, Players.of_elements((1, 4, 6), names), tuple("012"))


@pytest.fixture
def patches() -> Explanation:
    """Colour images of 4 x 4 pixels and four superpixels of 2 x 2."""
    index = (torch.arange(4)[:, None] // 2 * 2 + torch.arange(4) // 2).expand(3, 4, 4)
    players = Players(("top left", "top right", "bottom left", "bottom right"), index.contiguous())
    return explained(torch.rand(2, 3, 4, 4), players, ("cat", "dog"))


@pytest.fixture
def people() -> Explanation:
    frame = pd.DataFrame(
        {
            "age": [39.0, 25.0, 61.5, 40.0, 33.0, 58.0],
            "gain ($)": [0.0, 7688.0, 0.0, 0.0, 120.0, 0.0],
            "sex": ["f", "m", "m", "f", "m", "f"],
            "city": ["Rome", "Oslo", "Rome", "Bern", "Oslo", "Bern"],
            "owner": [0, 1, 0, 1, 1, 0],
        }
    )
    schema = Schema.fit(frame)
    players = schema.players
    return explained(schema.encode(frame), players, ("poor", "rich"), schema=schema)


def with_phi(explanation: Explanation, row: int, phi: list[float], output: int) -> Explanation:
    new = explanation.phi.clone()
    new[row, :, output] = torch.tensor(phi)
    return replace(explanation, phi=new)


def written(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text))


def tick_labels(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def save(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def assert_nothing_is_cut(figure: Figure) -> None:
    """Whatever is drawn lies inside of the figure."""
    save(figure)
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert drawn.x0 >= 0
    assert drawn.y0 >= 0
    assert drawn.x1 <= width
    assert drawn.y1 <= height


def panels(figure: Figure) -> list[Axes]:
    """Axes of images and maps, without the colour bar."""
    return figure.axes[:-1]


# Pixel maps


def test_maps_hold_phi_of_the_predicted_output_at_its_pixel(digits: Explanation) -> None:
    other = replace(digits, phi=-digits.phi)
    figure = pixel_maps({"on": digits, "off": other}, rows=[3, 1])
    axes = panels(figure)
    assert len(axes) == 6
    for line, row in enumerate([3, 1]):
        predicted = digits.prediction[row].argmax()
        expected = digits.phi[row, :, predicted].reshape(4, 6).numpy()
        drawn = [panel.images[0].get_array() for panel in axes[3 * line : 3 * line + 3]]
        np.testing.assert_allclose(drawn[0], digits.x[row, 0].numpy())
        np.testing.assert_allclose(drawn[1], expected)
        np.testing.assert_allclose(drawn[2], -expected)


def test_maps_of_a_named_output_follow_it(digits: Explanation) -> None:
    drawn = panels(pixel_maps(digits, output="2"))[3].images[0].get_array()
    np.testing.assert_allclose(drawn, digits.phi[1, :, 2].reshape(4, 6).numpy())


def test_all_maps_share_one_symmetric_scale_with_red_for_positive(digits: Explanation) -> None:
    figure = pixel_maps({"on": digits, "off": replace(digits, phi=5 * digits.phi)})
    limits = {panel.images[0].get_clim() for k, panel in enumerate(panels(figure)) if k % 3}
    ((low, high),) = limits
    assert low == -high
    colour_bar = figure.axes[-1]
    assert colour_bar.get_xlabel() == "Shapley value (probability)"
    np.testing.assert_allclose(colour_bar.get_xticks()[1], 0)
    cmap = panels(figure)[1].images[0].cmap
    assert cmap(1.0)[0] > cmap(1.0)[2]
    assert cmap(0.0)[2] > cmap(0.0)[0]


def test_few_extreme_pixels_do_not_bleach_the_others() -> None:
    explanation = explained(torch.rand(1, 1, 30, 30), Players.of_elements((1, 30, 30)), ("a",))
    phi = torch.full_like(explanation.phi, 0.1)
    phi[0, 0] = 100.0
    low, high = panels(pixel_maps(replace(explanation, phi=phi)))[1].images[0].get_clim()
    assert (low, high) == pytest.approx((-0.1, 0.1))


def test_a_single_pixel_with_a_value_still_sets_the_scale() -> None:
    explanation = explained(torch.rand(1, 1, 30, 30), Players.of_elements((1, 30, 30)), ("a",))
    phi = torch.zeros_like(explanation.phi)
    assert panels(pixel_maps(replace(explanation, phi=phi)))[1].images[0].get_clim() == (-1, 1)
    phi[0, 0] = 0.5
    figure = pixel_maps(replace(explanation, phi=phi))
    assert panels(figure)[1].images[0].get_clim() == (-0.5, 0.5)


def test_superpixels_are_spread_evenly_and_channels_summed(patches: Explanation) -> None:
    figure = pixel_maps(patches, output="dog")
    image, signed = (panel.images[0].get_array() for panel in panels(figure)[:2])
    assert image.shape == (4, 4, 3)
    expected = patches.phi[0, :, 1].reshape(2, 2).numpy().repeat(2, 0).repeat(2, 1) / 4
    np.testing.assert_allclose(signed, expected, rtol=1e-6)
    assert signed.sum() == pytest.approx(patches.phi[0, :, 1].sum().item(), rel=1e-5)
    assert "per pixel" in figure.axes[-1].get_xlabel()


def test_the_outline_runs_between_ink_and_paper() -> None:
    x = torch.zeros(1, 1, 3, 3)
    x[0, 0, 1, 1] = 1
    axes = panels(pixel_maps(explained(x, Players.of_elements((1, 3, 3)), ("a",))))[1]
    (outline,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    ends = np.array(outline.get_segments())
    assert ends.shape == (4, 2, 2)
    assert set(ends.ravel()) == {0.5, 1.5}


def test_lines_are_titled_by_class_and_prediction(digits: Explanation) -> None:
    prediction = torch.tensor([[0.1, 0.87, 0.03]]).expand(5, -1)
    text = written(pixel_maps({"on manifold": replace(digits, prediction=prediction)}))
    assert text.count("predicted probability of 1: 0.87") == 5
    assert "on manifold" in text


def test_many_lines_go_on_beside(digits: Explanation) -> None:
    tall = pixel_maps(digits, rows=[0, 1, 2, 3, 4, 0, 1, 2]).get_size_inches()
    wide = pixel_maps(digits, rows=[0, 1, 2, 3, 4] * 6).get_size_inches()
    assert wide[0] > 3 * tall[0]
    assert wide[1] == tall[1]


def test_by_default_so_many_images_are_shown_as_a_page_holds(digits: Explanation) -> None:
    explanation = digits[[0] * 40]
    assert len(panels(pixel_maps(explanation))) == 2 * 32


@pytest.mark.parametrize("rows", [[5], [0, -6]])
def test_maps_of_rows_out_of_range_are_refused(digits: Explanation, rows: list[int]) -> None:
    with pytest.raises(ValueError, match="Expected `rows` to be a position from 0 to 4"):
        pixel_maps(digits, rows=rows)


def test_maps_of_no_row_are_refused(digits: Explanation) -> None:
    with pytest.raises(ValueError, match="at least one image but got none"):
        pixel_maps(digits, rows=[])


def test_maps_of_a_table_are_refused(people: Explanation) -> None:
    with pytest.raises(ValueError, match=r"Expected explanations of images.*got rows of shape \("):
        pixel_maps(people)


# Bars


def test_bars_are_ordered_by_size_and_labelled_with_values(people: Explanation) -> None:
    phi = [0.1, -0.4, 0.3, 0.0, -0.2]
    figure = bars(with_phi(people, 1, phi, 0), instance=1, output="poor")
    axes = figure.axes[0]
    widths = [bar.get_width() for bar in axes.patches]
    np.testing.assert_allclose(widths, [-0.4, 0.3, -0.2, 0.1, 0.0], atol=1e-7)
    assert axes.get_ylim() == (4.5, -0.5)
    assert tick_labels(axes) == [
        r"gain (\$) = 7688", "sex = m", "owner = 1", "age = 25", "city = Oslo"
    ]  # fmt: skip


def test_bars_write_prediction_base_and_row(people: Explanation) -> None:
    prediction = torch.tensor([[0.127, 0.873]]).expand(6, -1)
    labelled = replace(people, prediction=prediction).with_labels(range(10, 16))
    text = written(bars(labelled, instance=2))
    assert "Predicted probability of rich: 0.87" in text
    assert "base (mean prediction): 0.50; row 12" in text


def test_bars_sum_the_rest_and_the_whole_is_efficient(people: Explanation) -> None:
    axes = bars(people, output="rich", most=2).axes[0]
    widths = [bar.get_width() for bar in axes.patches]
    assert len(widths) == 3
    assert tick_labels(axes)[-1] == "3 other features"
    change = people.prediction[0, 1] - people.base[1]
    assert sum(widths) == pytest.approx(change.item(), abs=1e-6)


def test_one_feature_too_many_is_shown_rather_than_summed(people: Explanation) -> None:
    assert not any("other" in label for label in tick_labels(bars(people, most=4).axes[0]))


def test_whiskers_reach_two_standard_errors(people: Explanation) -> None:
    axes = bars(people, output="rich").axes[0]
    (whiskers,) = axes.collections
    ends = np.array([segment[:, 0] for segment in whiskers.get_segments()])
    largest = people.phi[0, :, 1].abs().argsort(descending=True)
    phi = people.phi[0, largest, 1].numpy()
    np.testing.assert_allclose(ends, np.stack([phi - 0.02, phi + 0.02], 1), atol=1e-6)


@pytest.mark.parametrize("error", [0.0, math.nan])
def test_exact_values_and_unknown_errors_have_no_whiskers(
    people: Explanation, error: float
) -> None:
    figure = bars(replace(people, standard_error=torch.full_like(people.phi, error)))
    assert not figure.axes[0].collections
    save(figure)


def test_a_table_says_errors_that_are_known(people: Explanation) -> None:
    error = torch.zeros_like(people.phi)
    error[0], error[1] = 0.25, math.nan
    lines = report.table(replace(people, standard_error=error)).splitlines()[1:]
    assert lines[0].count("± 0.250") == 3
    assert len(lines) > 2
    assert not any("±" in line or "nan" in line for line in lines[1:])


def test_several_explanations_stand_in_the_order_of_the_first(people: Explanation) -> None:
    phi = [0.1, -0.4, 0.3, 0.0, -0.2]
    first = with_phi(people, 0, phi, 1)
    second = replace(first, phi=-2 * first.phi, base=first.base + 0.25)
    figure = bars({"on manifold": first, "_off": second}, output="rich")
    axes = figure.axes[0]
    widths = np.array([bar.get_width() for bar in axes.patches]).reshape(2, 5)
    np.testing.assert_allclose(widths[0], [-0.4, 0.3, -0.2, 0.1, 0.0], atol=1e-7)
    np.testing.assert_allclose(widths[1], -2 * widths[0], atol=1e-7)
    places = np.array([bar.get_y() for bar in axes.patches]).reshape(2, 5)
    assert (places[0] < places[1]).all()
    assert len({bar.get_facecolor() for bar in axes.patches}) == 2
    legend = [text.get_text().strip() for text in axes.get_legend().get_texts()]
    assert legend == ["on manifold (base 0.50)", "_off (base 0.75)"]


def test_alone_the_sign_has_a_colour(people: Explanation) -> None:
    axes = bars(people, most=2).axes[0]
    for bar in axes.patches[:-1]:
        expected = style.RAISES if bar.get_width() >= 0 else style.LOWERS
        assert matplotlib.colors.to_hex(bar.get_facecolor()) == expected
    assert matplotlib.colors.to_hex(axes.patches[-1].get_facecolor()) == style.NEUTRAL


def test_rounding_errors_of_zero_print_as_zero() -> None:
    frame = pd.DataFrame({"gain": [0.0] * 50 + [99_999.0], "age": np.arange(51.0)})
    schema = Schema.fit(frame)
    players = schema.players
    explanation = explained(schema.encode(frame), players, ("a",), schema=schema)
    assert "gain = 0" in tick_labels(bars(explanation).axes[0])


def test_superpixels_are_labelled_by_name(patches: Explanation) -> None:
    labels = tick_labels(bars(patches).axes[0])
    assert sorted(labels) == sorted(patches.players.names)


def test_bars_of_a_row_out_of_range_are_refused(people: Explanation) -> None:
    with pytest.raises(ValueError, match=r"`instance` to be a position from 0 to 5 .* but got 6"):
        bars(people, instance=6)


@pytest.mark.parametrize("plot", [bars, sina, pixel_maps])
def test_an_unknown_output_is_refused_with_a_hint(digits: Explanation, plot) -> None:
    named = replace(digits, outputs=("zero", "one", "two"))
    with pytest.raises(ValueError, match=r"one of \['zero', 'one', 'two'\] but got 'twoo'.*'two'"):
        plot(named, output="twoo")


@pytest.mark.parametrize("plot", [bars, sina])
def test_no_line_is_refused(people: Explanation, plot) -> None:
    with pytest.raises(ValueError, match="Expected `most` of at least 1"):
        plot(people, most=0)


@pytest.mark.parametrize("plot", [bars, sina, pixel_maps])
def test_explanations_of_different_things_are_refused(digits: Explanation, plot) -> None:
    renamed = replace(digits, players=Players.of_elements((1, 4, 6)))
    with pytest.raises(ValueError, match="'a' and 'b' differ in their players"):
        plot({"a": digits, "b": renamed})
    with pytest.raises(ValueError, match=r"differ in their rows \(5 and 2\)"):
        plot({"a": digits, "b": digits[:2]})
    with pytest.raises(ValueError, match=r"differ in their rows \(`x` by up to 1\)"):
        plot({"a": digits, "b": replace(digits, x=1 - digits.x)})
    with pytest.raises(ValueError, match="differ in their outputs"):
        plot({"a": digits, "b": replace(digits, space=ms.Identity())})


@pytest.mark.parametrize("plot", [bars, sina, pixel_maps])
def test_no_explanation_is_refused(plot) -> None:
    with pytest.raises(ValueError, match="at least one named explanation but got none"):
        plot({})


@pytest.mark.parametrize("plot", [bars, sina, pixel_maps])
def test_an_explanation_of_no_row_is_refused(digits: Explanation, plot) -> None:
    empty = Explanation(
        digits.phi[:0], digits.phi[:0], digits.base, digits.prediction[:0], digits.x[:0],
        digits.players, digits.outputs,
    )  # fmt: skip
    with pytest.raises(ValueError, match="nothing to plot"):
        plot(empty)


# Sina


def points(figure: Figure) -> np.ndarray:
    return np.asarray(figure.axes[0].collections[0].get_offsets())


def test_every_row_is_a_point_on_the_line_of_its_feature(people: Explanation) -> None:
    figure = sina(people)
    importance = people.phi[..., 1].abs().mean(0)
    order = importance.argsort(descending=True)
    x, y = points(figure).reshape(5, 6, 2).transpose(2, 0, 1)
    np.testing.assert_allclose(x, people.phi[:, order, 1].T.numpy(), rtol=1e-6)
    assert (np.abs(y - np.arange(5)[:, None]) <= 0.4).all()
    assert figure.axes[0].get_ylim() == (4.5, -0.5)
    names = [label.split(":")[0].replace("\\", "") for label in tick_labels(figure.axes[0])]
    assert names == [people.players.names[k] for k in order]


def test_the_other_features_are_summed_row_by_row(people: Explanation) -> None:
    figure = sina(people, most=2)
    x = points(figure)[:, 0].reshape(3, 6)
    np.testing.assert_allclose(x.sum(0), people.phi[..., 1].sum(1).numpy(), atol=1e-6)
    assert tick_labels(figure.axes[0])[-1] == "3 other features"


def test_colours_are_ranks_and_categories_are_grey(people: Explanation) -> None:
    figure = sina(people)
    labels = [label.replace("\\", "") for label in tick_labels(figure.axes[0])]
    colours = np.ma.filled(figure.axes[0].collections[0].get_array(), np.nan).reshape(5, 6)
    by_label = dict(zip(labels, colours, strict=True))
    np.testing.assert_allclose(by_label["age"], [0.4, 0, 1, 0.6, 0.2, 0.8])
    np.testing.assert_allclose(by_label["sex: f … m"], [0, 1, 1, 0, 1, 0])
    np.testing.assert_allclose(by_label["owner"], [0, 1, 0, 1, 1, 0])
    assert np.isnan(by_label["city"]).all()
    text = written(figure)
    assert "grey: values without order" in text
    assert {"low", "high", "feature value"} <= set(text.split("\n"))


def test_points_spread_where_they_crowd_and_in_the_same_way_each_time() -> None:
    explanation = explained(torch.rand(400, 2), Players.of_elements((2,)), ("a",), "identity")
    phi = explanation.phi.clone()
    phi[:, 0, 0] = 0.0
    phi[:, 1, 0] = torch.linspace(-1, 1, 400) ** 5
    figure = sina(replace(explanation, phi=phi))
    x, y = points(figure)[:400].T
    assert tick_labels(figure.axes[0])[0] == "x1"
    middle, end = np.abs(x) < 0.05, np.abs(x) > 0.7
    assert np.abs(y[middle]).max() > 0.35
    assert np.abs(y[end]).max() < 0.1
    np.testing.assert_array_equal(points(figure), points(sina(replace(explanation, phi=phi))))


def test_sina_chooses_the_positive_class_or_the_most_moved_output(
    people: Explanation, digits: Explanation
) -> None:
    assert "Probability of rich, 6 rows" in written(sina(people))
    phi = digits.phi.clone()
    phi[..., 0] *= 10
    assert "Probability of 0, 5 rows" in written(sina(replace(digits, phi=phi)))
    assert "Probability of 2, 5 rows" in written(sina(digits, output="2"))


def test_superpixels_and_single_rows_are_grey_without_a_colour_bar(
    patches: Explanation, people: Explanation
) -> None:
    for figure in (sina(patches), sina(people[[2]])):
        assert len(figure.axes) == 1
        assert np.isnan(np.ma.filled(figure.axes[0].collections[0].get_array(), np.nan)).all()
        save(figure)


def test_several_explanations_stand_side_by_side_on_the_same_scales(people: Explanation) -> None:
    other = replace(people, phi=3 * people.phi.flip(1))
    figure = sina({"one": people, "the other": other, "third": people}, most=2)
    *axes, bar = figure.axes
    assert [panel.get_title(loc="left") for panel in axes] == ["one", "the other", "third"]
    assert bar.get_ylabel() == "feature value"
    shown = people.phi[..., 1].abs().mean(0).argsort(descending=True)[:2]
    for panel, explanation in zip(axes, (people, other, people), strict=True):
        x = np.asarray(panel.collections[0].get_offsets())[:, 0].reshape(3, 6)
        np.testing.assert_allclose(x[:2], explanation.phi[:, shown, 1].T.numpy(), rtol=1e-6)
    assert tick_labels(axes[0])[-1] == "3 other features"
    assert len({panel.get_xlim() for panel in axes}) == 1


def test_the_last_panel_of_every_column_has_its_ticks(people: Explanation) -> None:
    figure = sina(dict.fromkeys("abcde", people))
    save(figure)
    labelled = [
        any(label.get_visible() and label.get_text() for label in panel.get_xticklabels())
        for panel in figure.axes[:5]
    ]
    assert labelled == [False, True, True, True, True]


# MSE curve


def score(mse: float, sizes: list[float], draws: int = 1, error: float = 0.0011) -> Score:
    values = [mse * (2 - k / len(sizes)) for k in range(len(sizes))]
    curve = SizeCurve(sizes, values, [0.1 * v for v in values], [10] * len(sizes))
    return Score(mse, error, mse, draws, float(draws), curve)


def test_curves_are_drawn_with_bands_and_overall_errors() -> None:
    scores = {"on": score(0.0171, [0.0, 1.0, 2.0]), "off": score(0.05, [0.0, 1.0, 2.0], draws=16)}
    axes = mse_curve(scores, players=4).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0, 0.25, 0.5])
    np.testing.assert_allclose(axes.lines[1].get_ydata(), scores["off"].by_size.mse)
    low, high = axes.collections[0].get_datalim(axes.transData).intervaly
    curve = scores["on"].by_size
    assert (low, high) == pytest.approx((0.9 * curve.mse[-1], 1.1 * curve.mse[0]))
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["on: 0.0171 ± 0.0011", "off: 0.0500 ± 0.0011, 16 draws"]
    assert axes.get_xlabel() == "share of players in the coalition"
    assert axes.get_ylim()[0] == 0


def test_without_players_the_axis_counts_them() -> None:
    axes = mse_curve({"on": score(0.1, [0.0, 1.0, 2.0], error=math.nan)}).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0, 1, 2])
    assert axes.get_xlabel() == "players in the coalition"
    assert axes.get_legend().get_texts()[0].get_text() == "on: 0.1"


def test_curves_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one named score but got none"):
        mse_curve({})
    with pytest.raises(ValueError, match=r"'on' to hold a curve .* but it is empty"):
        mse_curve({"on": score(0.1, [])})
    with pytest.raises(ValueError, match=r"`players` of at least 7.* but got 4"):
        mse_curve({"on": score(0.1, [0.0, 7.0])}, players=4)


# All of them


def every_figure(
    digits: Explanation, patches: Explanation, people: Explanation
) -> dict[str, Figure]:
    return {
        "maps": pixel_maps({"on manifold": digits, "off manifold": digits}),
        "one map": pixel_maps(patches, rows=[0], output="cat"),
        "bars": bars(people),
        "grouped bars": bars({"on manifold": people, "off manifold": people}, most=2),
        "sina": sina(people),
        "five sinas": sina(dict.fromkeys("abcde", people)),
        "curve": mse_curve({"on": score(0.1, [0.0, 1.0]), "off": score(0.2, [0.0, 1.0])}, 2),
    }


def test_figures_save_without_warnings_and_cut_no_text(
    digits: Explanation, patches: Explanation, people: Explanation
) -> None:
    for name, figure in every_figure(digits, patches, people).items():
        assert save(figure).startswith(b"\x89PNG"), name
        assert_nothing_is_cut(figure)


def test_long_and_odd_names_are_shortened_and_never_cut() -> None:
    long = "a name that nobody would call short, of the systolic blood pressure " * 2
    names = (long + "1", long + "2", "$x$ and $y$", "_hidden", "two\nlines", "")
    explanation = explained(torch.rand(4, 6), Players.of_elements((6,), names), (long, "b"))
    scores = {long: score(0.1, [0.0, 1.0]), "_x": score(0.2, [0.0, 1.0])}
    for figure in (
        bars({long: explanation, "_b": replace(explanation, base=explanation.base + 1)}),
        bars(explanation, output=long),
        sina(explanation, output=long),
        sina({long: explanation, "_b": explanation}),
        mse_curve(scores),
    ):
        assert "…" in written(figure)
        assert_nothing_is_cut(figure)
    labels = tick_labels(sina(explanation).axes[0])
    assert len(set(labels)) == 6
    assert r"\$x\$ and \$y\$" in labels


def test_figures_show_themselves_in_notebooks(people: Explanation) -> None:
    picture, size = bars(people)._repr_png_()
    assert picture.startswith(b"\x89PNG")
    assert size["width"] == 432


def test_figures_leave_no_trace(
    digits: Explanation, patches: Explanation, people: Explanation
) -> None:
    before = dict(matplotlib.rcParams)
    figures = every_figure(digits, patches, people)
    references = [weakref.ref(figure) for figure in figures.values()]
    for figure in figures.values():
        save(figure)
    del figures, figure
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)
    assert dict(matplotlib.rcParams) == before


def test_only_plots_import_matplotlib_and_nothing_imports_pyplot(root: Path) -> None:
    found = {}
    for path in (root / "manifold_shap").rglob("*.py"):
        names = set()
        tree = ast.parse(path.read_text())
        for_types = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in set(ast.walk(tree)) - for_types:
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
        found[path.relative_to(root / "manifold_shap")] = names
    users = {path.parts[0] for path, names in found.items() if _of_matplotlib(names)}
    assert users == {"plots"}
    assert not any("pyplot" in name for names in found.values() for name in names)


def _of_matplotlib(names: set[str]) -> bool:
    return any(name.split(".")[0] == "matplotlib" for name in names)


# Words


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (39.0, "39"),
        (38.64, "38.6"),
        (-0.01234, "−0.0123"),
        (2012.0, "2012"),
        (123456.7, "123457"),
        (1.5e9, "1.5e+09"),
        (math.nan, "nan"),
    ],
)
def test_numbers_have_about_three_digits(value: float, said: str) -> None:
    assert words.number(value) == said


def test_values_of_features_keep_categories_as_they_are() -> None:
    assert [words.feature_value(v) for v in ("1.23456", True, np.float32(0.5), np.int64(7))] == [
        "1.23456", "True", "0.5", "7"
    ]  # fmt: skip


def test_probabilities_are_never_rounded_to_certainty() -> None:
    said = [selection.probability(p) for p in (0.0, 0.001, 0.5, 0.9993, 1.0)]
    assert said == ["0.00", "< 0.01", "0.50", "> 0.99", "1.00"]


def test_errors_set_the_decimals() -> None:
    assert words.with_error(0.01714, 0.00114) == "0.0171 ± 0.0011"
    assert words.with_error(4000.0, 400.0) == "4000 ± 400"
    assert words.with_error(0.5, 0.0) == "0.5"


def test_shortened_text_keeps_both_ends_and_fits() -> None:
    text = "mean radius of the cell nucleus, worst of three readings"
    short = style.shorten(text, 100.0)
    assert style.text_width(short) <= 100
    assert short.startswith("mean radius")
    assert short.endswith("ings")
    assert style.shorten("short", 100.0) == "short"
    assert style.shorten("anything", 0.0) == "…"
