"""Bars: their order, lengths, whiskers, colours and labels."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

import manifold_shap as ms
from manifold_shap import shown
from manifold_shap.plots import bar, canvas, waterfall
from tests.plots.helpers import explained, ragged, table, texts, tick_labels


def widths(axes: Axes) -> list[float]:
    return [each.get_width() for each in axes.patches]


def test_a_waterfall_leads_from_the_base_to_the_prediction() -> None:
    people = table()
    axes = waterfall(people, row=2, output="rich")
    order = people.phi[2, :, 1].abs().argsort(descending=True)
    np.testing.assert_allclose(widths(axes), people.phi[2, order, 1], atol=1e-6)
    starts = np.array([patch.get_x() for patch in axes.patches])
    ends = starts + widths(axes)
    assert starts[-1] == pytest.approx(people.base[2, 1].item())
    assert ends[0] == pytest.approx(people.prediction[2, 1].item(), abs=1e-6)
    np.testing.assert_allclose(starts[:-1], ends[1:])
    numbers = [text.get_text() for text in axes.texts if text.get_text()[0] in "+−"]
    assert numbers == shown.signed(people.phi[2, order, 1].tolist())
    assert [label.split(" = ")[0] for label in tick_labels(axes)] == [
        people.players.names[k] for k in order
    ]


def test_labels_have_feature_values_and_the_title_prediction_base_and_row() -> None:
    known = replace(table(), prediction=torch.tensor([[0.1, 0.9]] * 6))
    for axes in (waterfall(known, row=1), bar(known, row=1)):
        assert {"age = 25", "gain ($) = 7688", "sex = m"} <= set(tick_labels(axes))
        title = "Probability of rich: 0.90\nbase 0.50, row 1"
        assert axes.figure.get_suptitle() == title
    assert waterfall(known, 1).get_xlabel() == "probability of rich"
    assert bar(known, 1).get_xlabel() == "Shapley value (probability of rich)"
    marks = {text.get_text() for text in waterfall(known, 1).texts}
    assert {"base 0.50", "prediction 0.90"} <= marks
    grouped = table({"person": ["sex", "age"], "rest": ["gain ($)", "city", "owner"]})
    assert "person: age = 25, sex = m" in tick_labels(waterfall(grouped, 1))


def test_amounts_have_the_unit_and_rows_their_labels() -> None:
    players = ms.Players.of_elements((1,), ["size"])
    flat = explained(-torch.ones(2, 1), players, ("price",), ms.spaces.Identity("EUR"))
    days = tuple(pd.date_range("2019-12-31", periods=2))
    axes = waterfall(replace(flat, prediction=flat.base + 1500, instances=days), row=1)
    assert axes.figure.get_suptitle() == (
        "price: 1501 EUR\nbase 1 EUR, row 2020-01-01 (position 1 of 2)"
    )
    assert (axes.get_xlabel(), tick_labels(axes)) == ("price (EUR)", ["size = −1"])
    assert bar(flat).get_xlabel() == "Mean |Shapley value| (price, EUR)"


@pytest.mark.parametrize("plot", [waterfall, bar])
def test_the_rest_is_one_grey_bar_at_the_bottom(plot) -> None:
    people = table()
    axes = plot(people, row=0, max_display=2)
    assert tick_labels(axes)[-1] == "3 other features"
    assert sum(widths(axes)) == pytest.approx(float(people.phi[0, :, 1].sum()), abs=1e-6)
    signs = [canvas.RAISES if width >= 0 else canvas.LOWERS for width in widths(axes)[:-1]]
    colours = [to_hex(patch.get_facecolor()) for patch in axes.patches]
    assert colours == [*signs, canvas.NEUTRAL]


@pytest.mark.parametrize("plot", [waterfall, bar])
@pytest.mark.parametrize(
    ("error", "count", "said"),
    [
        (0.01, 5, "whiskers: 2 standard errors of sampling"),
        (0.0, 0, ""),
        (math.nan, 0, "errors of sampling unknown"),
    ],
)
def test_whiskers_reach_two_standard_errors_and_say_so(
    plot, error: float, count: int, said: str
) -> None:
    people = table()
    axes = plot(replace(people, standard_error=torch.full_like(people.phi, error)), row=0)
    assert axes.figure.get_supxlabel() == said
    of_learned = replace(people, made_by={"learned": True})
    known = plot(replace(of_learned, standard_error=torch.full_like(people.phi, error)), row=0)
    said = known.figure.get_supxlabel()
    assert ("error of learning is unknown" in said) == (error == 0)
    assert ("that of learning, often larger, not included" in said) == (error > 0)
    learned = plot(replace(of_learned, model_error=people.standard_error), row=0).figure
    assert learned.get_supxlabel() == "whiskers: 2 standard errors of sampling and learning"
    lines = axes.collections[: len(axes.collections) - (plot is waterfall)]
    ends = [each[:, 0] for drawn in lines for each in drawn.get_segments()]
    assert len(ends) == count
    np.testing.assert_allclose([np.ptp(each) for each in ends], 4 * error, rtol=1e-4)


def test_several_explanations_stand_in_the_order_of_the_first() -> None:
    first = table()
    second = replace(first, phi=-2 * first.phi, base=first.base + 0.25)
    axes = bar({"on manifold": first, "_off": second}, row=0, output="rich")
    drawn = np.array(widths(axes)).reshape(2, 5)
    assert (np.diff(np.abs(drawn[0])) < 0).all()
    np.testing.assert_allclose(drawn[1], -2 * drawn[0], atol=1e-7)
    places = np.array([each.get_y() for each in axes.patches]).reshape(2, 5)
    assert (places[0] < places[1]).all()
    assert len({each.get_facecolor() for each in axes.patches}) == 2
    legend = [text.get_text().strip() for text in axes.get_legend().get_texts()]
    assert legend == ["on manifold (base 0.50)", "_off (base 0.75)"]


def test_global_values_are_bars_of_what_adds_to_the_accuracy() -> None:
    values = ms.global_values(table(), ["poor", "rich"] * 3)
    learned = replace(values, made_by={"learned": True})
    assert "learning not included" in bar(learned).figure.get_supxlabel()
    axes = bar(values, max_display=3)
    order = values.phi.abs().argsort(descending=True)
    np.testing.assert_allclose(widths(axes)[:3], values.phi[order[:3]])
    assert sum(widths(axes)) == pytest.approx(values.accuracy - values.offset, abs=1e-6)
    assert tick_labels(axes)[-1] == "2 other features"
    (whiskers,) = axes.collections
    assert [len(ends) for ends in whiskers.get_segments()] == [2, 2, 2, 0]
    assert f"{values.accuracy:.3g}" in axes.figure.get_suptitle()


def test_over_rows_bars_are_means_with_their_errors() -> None:
    people = table()
    size = people.phi[..., 1].double().abs()
    order = size.mean(0).argsort(descending=True)
    axes = bar(people)
    np.testing.assert_allclose(widths(axes), size.mean(0)[order])
    (whiskers,) = axes.collections
    length = [np.ptp(ends[:, 0]) for ends in whiskers.get_segments()]
    np.testing.assert_allclose(length, 4 * size.std(0)[order] / 6**0.5)
    assert axes.get_xlabel() == "Mean |Shapley value| (probability of rich)"
    said = "whiskers: 2 standard errors of the mean over 6 rows"
    assert axes.figure.get_supxlabel() == said
    for of_learned in (
        replace(people, made_by={"learned": True}),
        replace(people, model_error=people.standard_error),
    ):
        assert "learning not included" in bar(of_learned).figure.get_supxlabel()
    both = {"sure": replace(people, model_error=people.standard_error), "other": people}
    small_print = " ".join(bar(both, row=0).figure.get_supxlabel().split())
    assert "of sampling, and of learning where it was estimated" in small_print
    assert axes.get_xlim()[0] == 0
    # What has no sign has neither of the colours of signs.
    colours = {to_hex(patch.get_facecolor()) for patch in axes.patches}
    assert not colours & {canvas.RAISES, canvas.LOWERS}
    rest = people.phi[..., 1].double().mean(0).sum()
    assert sum(widths(bar(people, signed=True, max_display=2))) == pytest.approx(rest.item())


@pytest.mark.parametrize("tokens", [None, [["is", "is"]] * 4000])
def test_a_bar_of_errors_alone_is_told_of(tokens) -> None:
    """|e| is a fifth less than the standard error of e, on average, if e is normal."""
    players = ms.Players.of_elements((2,))
    pure = explained(torch.zeros(4000, 2), players, ("y",), ms.spaces.Identity())
    pure = replace(pure, standard_error=torch.full_like(pure.phi, 0.1))
    axes = bar(pure, tokens=tokens) if tokens else bar(pure)
    (height, *_), small = widths(axes), axes.figure.get_supxlabel()
    assert float(small.split()[-1]) == pytest.approx(height, rel=0.05)
    for other in (replace(pure, phi=1 + pure.phi), replace(pure, standard_error=0 * pure.phi)):
        assert "without effect" not in bar(other).figure.get_supxlabel()
    assert "without effect" not in bar(pure, signed=True).figure.get_supxlabel()
    learned = replace(pure, model_error=pure.standard_error)
    small = bar(learned).figure.get_supxlabel()
    assert float(small.split()[-1]) == pytest.approx(2**0.5 * height, rel=0.05)
    # Of several, the largest.
    for both in ({"a": learned, "b": pure}, {"a": pure, "b": learned}):
        small = bar(both).figure.get_supxlabel()
        assert float(small.split()[-1]) == pytest.approx(2**0.5 * height, rel=0.05)
        assert "of each mean" in small


def test_of_texts_bars_are_means_over_the_places_of_a_word() -> None:
    explanation = texts()
    axes = bar(explanation, signed=True)
    assert tick_labels(axes) == ["good (2 ×)", "bad (1 ×)", "is (2 ×)"]
    assert widths(axes) == pytest.approx([(0.1 + 0.25) / 2, 0.15, (-0.3 + 0.4) / 2])
    (whiskers,) = axes.collections
    length = [np.ptp(ends[:, 0]) for ends in whiskers.get_segments() if len(ends)]
    np.testing.assert_allclose(length, [4 * 0.7 / 2], rtol=1e-6)  # "good" is in one text alone.
    assert "3 of 3 words" in axes.figure.get_suptitle()
    assert widths(bar(explanation)) == pytest.approx([0.35, 0.175, 0.15])
    assert tick_labels(bar(explanation[[1]], signed=True)) == ["is (1 ×)", "bad (1 ×)"]
    words = [["no", "good", "no"], ["good"] * 2]
    assert tick_labels(bar(ragged((6,)), tokens=words)) == ["good (3 ×)", "no (2 ×)"]
    assert "word 1 = Good" in tick_labels(bar(explanation, row=0))
    assert tick_labels(bar(explanation, row=0, max_display=1))[-1] == "2 other words"
