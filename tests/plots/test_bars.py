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
from tests.plots.helpers import explained, ragged, table, tick_labels

PHI = [0.1, -0.4, 0.3, 0.0, -0.2]


def with_phi(explanation: ms.Explanation, row: int, output: int) -> ms.Explanation:
    new = explanation.phi.clone()
    new[row, :, output] = torch.tensor(PHI)
    return replace(explanation, phi=new)


def widths(axes: Axes) -> list[float]:
    return [each.get_width() for each in axes.patches]


def test_a_waterfall_leads_from_the_base_to_the_prediction(people: ms.Explanation) -> None:
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
    labels = [name.split(" = ")[0].replace("\\", "") for name in tick_labels(axes)]
    assert labels == [people.players.names[k] for k in order]


def test_labels_have_feature_values_and_the_title_prediction_base_and_row(
    people: ms.Explanation,
) -> None:
    known = replace(people, prediction=torch.tensor([[0.1, 0.9]] * 6))
    for axes in (waterfall(known, row=1), bar(known, row=1)):
        assert {"age = 25", "gain ($) = 7688", "sex = m"} <= set(tick_labels(axes))
        title = "Probability of rich: 0.90\nbase 0.50, row 1 (position 1 of 6)"
        assert axes.figure.get_suptitle() == title
    assert waterfall(known, 1).get_xlabel() == "probability of rich"
    assert bar(known, 1).get_xlabel() == "Shapley value (probability of rich)"
    marks = {text.get_text() for text in waterfall(known, 1).texts}
    assert {"base 0.50", "prediction 0.90"} <= marks
    grouped = table({"person": ["sex", "age"], "rest": ["gain ($)", "city", "owner"]})
    assert "person: age = 25, sex = m" in tick_labels(waterfall(grouped, 1))


def test_amounts_have_the_unit_and_rows_their_labels() -> None:
    players = ms.Players.of_elements((1,), ["size"])
    flat = explained(torch.ones(2, 1), players, ("price",), ms.spaces.Identity("EUR"))
    days = tuple(pd.date_range("2019-12-31", periods=2))
    flat = replace(flat, prediction=flat.base + 1500, instances=days)
    axes = waterfall(flat, row=1)
    assert axes.figure.get_suptitle() == (
        "price: 1501 EUR\nbase 1 EUR, row 2020-01-01 (position 1 of 2)"
    )
    assert axes.get_xlabel() == "price (EUR)"
    assert bar(flat).get_xlabel() == "Mean |Shapley value| (price, EUR)"


@pytest.mark.parametrize("plot", [waterfall, bar])
def test_the_rest_is_one_grey_bar_at_the_bottom(people: ms.Explanation, plot) -> None:
    axes = plot(people, row=0, max_display=2)
    assert tick_labels(axes)[-1] == "3 other features"
    assert sum(widths(axes)) == pytest.approx(float(people.phi[0, :, 1].sum()), abs=1e-6)
    for patch in axes.patches[:-1]:
        expected = canvas.RAISES if patch.get_width() >= 0 else canvas.LOWERS
        assert to_hex(patch.get_facecolor()) == expected
    assert to_hex(axes.patches[-1].get_facecolor()) == canvas.NEUTRAL


@pytest.mark.parametrize("plot", [waterfall, bar])
@pytest.mark.parametrize(("error", "count"), [(0.01, 5), (0.0, 0), (math.nan, 0)])
def test_whiskers_reach_two_standard_errors(
    people: ms.Explanation, plot, error: float, count: int
) -> None:
    axes = plot(replace(people, standard_error=torch.full_like(people.phi, error)), row=0)
    lines = axes.collections[: len(axes.collections) - (plot is waterfall)]
    ends = [each[:, 0] for drawn in lines for each in drawn.get_segments()]
    assert len(ends) == count
    np.testing.assert_allclose([np.ptp(each) for each in ends], 4 * error, rtol=1e-4)


def test_several_explanations_stand_in_the_order_of_the_first(people: ms.Explanation) -> None:
    first = with_phi(people, 0, 1)
    second = replace(first, phi=-2 * first.phi, base=first.base + 0.25)
    axes = bar({"on manifold": first, "_off": second}, row=0, output="rich")
    drawn = np.array(widths(axes)).reshape(2, 5)
    np.testing.assert_allclose(drawn[0], [-0.4, 0.3, -0.2, 0.1, 0.0], atol=1e-7)
    np.testing.assert_allclose(drawn[1], -2 * drawn[0], atol=1e-7)
    places = np.array([each.get_y() for each in axes.patches]).reshape(2, 5)
    assert (places[0] < places[1]).all()
    assert len({each.get_facecolor() for each in axes.patches}) == 2
    legend = [text.get_text().strip() for text in axes.get_legend().get_texts()]
    assert legend == ["on manifold (base 0.50)", "_off (base 0.75)"]


def test_global_values_are_bars_of_what_adds_to_the_accuracy(people: ms.Explanation) -> None:
    values = ms.global_values(people, ["poor", "rich"] * 3)
    axes = bar(values, max_display=3)
    order = values.phi.abs().argsort(descending=True)
    np.testing.assert_allclose(widths(axes)[:3], values.phi[order[:3]])
    assert sum(widths(axes)) == pytest.approx(values.accuracy - values.offset, abs=1e-6)
    assert tick_labels(axes)[-1] == "2 other features"
    (whiskers,) = axes.collections
    assert [len(ends) for ends in whiskers.get_segments()] == [2, 2, 2, 0]
    assert f"{values.accuracy:.3g}" in axes.figure.get_suptitle()
    with pytest.raises(ValueError, match="plot them apart"):
        bar({"values": values, "rows": people})


def test_over_rows_bars_are_means_with_their_errors(people: ms.Explanation) -> None:
    size = people.phi[..., 1].double().abs()
    order = size.mean(0).argsort(descending=True)
    axes = bar(people)
    np.testing.assert_allclose(widths(axes), size.mean(0)[order])
    (whiskers,) = axes.collections
    length = [np.ptp(ends[:, 0]) for ends in whiskers.get_segments()]
    np.testing.assert_allclose(length, 4 * size.std(0)[order] / 6**0.5)
    assert axes.get_xlabel() == "Mean |Shapley value| (probability of rich)"
    assert axes.figure.get_suptitle() == "Probability of rich, 6 rows"
    rest = people.phi[..., 1].double().mean(0).sum()
    assert sum(widths(bar(people, signed=True, max_display=2))) == pytest.approx(rest.item())


def test_players_that_a_row_lacks_take_no_part_in_the_means() -> None:
    np.testing.assert_allclose(widths(bar(ragged())), [0.25, 0.25, 0.225], rtol=1e-6)
    assert not bar(ragged()[[1]]).collections
