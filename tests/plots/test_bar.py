"""Bars: their order, lengths, whiskers, colours and labels."""

import math
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
import torch

import manifold_shap as ms
from manifold_shap.plots import bar, style
from tests.plots.helpers import (
    ragged,
    save,
    tick_labels,
    written,
)


def with_phi(
    explanation: ms.Explanation, row: int, phi: list[float], output: int
) -> ms.Explanation:
    new = explanation.phi.clone()
    new[row, :, output] = torch.tensor(phi)
    return replace(explanation, phi=new)


def test_bars_are_ordered_by_size_and_labelled_with_values(people: ms.Explanation) -> None:
    phi = [0.1, -0.4, 0.3, 0.0, -0.2]
    axes = bar(with_phi(people, 1, phi, 0), row=1, output="poor")
    widths = [each.get_width() for each in axes.patches]
    np.testing.assert_allclose(widths, [-0.4, 0.3, -0.2, 0.1, 0.0], atol=1e-7)
    assert axes.get_ylim() == (4.5, -0.5)
    assert tick_labels(axes) == [
        r"gain (\$) = 7688", "sex = m", "owner = 1", "age = 25", "city = Oslo"
    ]  # fmt: skip


def test_bars_write_prediction_base_and_row(people: ms.Explanation) -> None:
    prediction = torch.tensor([[0.127, 0.873]]).expand(6, -1)
    labelled = replace(people, prediction=prediction).with_labels(range(10, 16))
    text = written(bar(labelled, row=2).figure)
    assert (
        "Predicted probability of rich: 0.87\nbase (mean prediction): 0.50; row 12 (1 of 6 rows)"
        in text
    )


def test_whiskers_reach_two_standard_errors(people: ms.Explanation) -> None:
    axes = bar(people, row=0, output="rich")
    (whiskers,) = axes.collections
    ends = np.array([segment[:, 0] for segment in whiskers.get_segments()])
    largest = people.phi[0, :, 1].abs().argsort(descending=True)
    phi = people.phi[0, largest, 1].numpy()
    np.testing.assert_allclose(ends, np.stack([phi - 0.02, phi + 0.02], 1), atol=1e-6)


@pytest.mark.parametrize("error", [0.0, math.nan])
def test_exact_values_and_unknown_errors_have_no_whiskers(
    people: ms.Explanation, error: float
) -> None:
    axes = bar(replace(people, standard_error=torch.full_like(people.phi, error)), row=0)
    assert not axes.collections
    save(axes.figure)


def test_several_explanations_stand_in_the_order_of_the_first(people: ms.Explanation) -> None:
    phi = [0.1, -0.4, 0.3, 0.0, -0.2]
    first = with_phi(people, 0, phi, 1)
    second = replace(first, phi=-2 * first.phi, base=first.base + 0.25)
    axes = bar({"on manifold": first, "_off": second}, row=0, output="rich")
    widths = np.array([each.get_width() for each in axes.patches]).reshape(2, 5)
    np.testing.assert_allclose(widths[0], [-0.4, 0.3, -0.2, 0.1, 0.0], atol=1e-7)
    np.testing.assert_allclose(widths[1], -2 * widths[0], atol=1e-7)
    places = np.array([each.get_y() for each in axes.patches]).reshape(2, 5)
    assert (places[0] < places[1]).all()
    assert len({each.get_facecolor() for each in axes.patches}) == 2
    legend = [text.get_text().strip() for text in axes.get_legend().get_texts()]
    assert legend == ["on manifold (base 0.50)", "_off (base 0.75)"]


def test_alone_the_sign_has_a_colour(people: ms.Explanation) -> None:
    axes = bar(people, row=0, most=2)
    for each in axes.patches[:-1]:
        expected = style.RAISES if each.get_width() >= 0 else style.LOWERS
        assert matplotlib.colors.to_hex(each.get_facecolor()) == expected
    assert matplotlib.colors.to_hex(axes.patches[-1].get_facecolor()) == style.NEUTRAL


def test_global_values_are_bars_of_what_adds_to_the_accuracy(people: ms.Explanation) -> None:
    values = ms.global_values(people, ["poor", "rich"] * 3)
    axes = bar(values, most=3)
    order = values.phi.abs().argsort(descending=True)
    widths = [each.get_width() for each in axes.patches]
    np.testing.assert_allclose(widths[:3], values.phi[order[:3]])
    assert sum(widths) == pytest.approx(values.accuracy - values.offset, abs=1e-6)
    assert tick_labels(axes) == [
        *(values.players[k].replace("$", r"\$") for k in order[:3]), "2 other features"
    ]  # fmt: skip
    (whiskers,) = axes.collections
    assert [len(ends) for ends in whiskers.get_segments()] == [2, 2, 2, 0]
    assert f"{values.accuracy:.3g}" in axes.figure.get_suptitle()
    half = replace(values, made_by={"half_trained": True})
    assert "Caution: half-trained value function" in bar(half).figure.get_suptitle()
    both = bar({"on manifold": values, "off manifold": values})
    assert [text.get_text() for text in both.get_legend().get_texts()] == [
        "on manifold", "off manifold"
    ]  # fmt: skip


def test_over_rows_bars_are_means_with_their_errors(people: ms.Explanation) -> None:
    size = people.phi[..., 1].double().abs()
    order = size.mean(0).argsort(descending=True)
    axes = bar(people)
    np.testing.assert_allclose([each.get_width() for each in axes.patches], size.mean(0)[order])
    (whiskers,) = axes.collections
    length = [np.ptp(ends[:, 0]) for ends in whiskers.get_segments()]
    np.testing.assert_allclose(length, 4 * size.std(0)[order] / 6**0.5)
    assert axes.get_xlabel() == "Mean |Shapley value| (probability)"
    assert axes.figure.get_suptitle() == "Probability of rich, 6 rows"
    signed = bar(people, signed=True, most=2)
    rest = people.phi[..., 1].double().mean(0).sum()
    assert sum(each.get_width() for each in signed.patches) == pytest.approx(rest.item())


def test_players_that_a_row_lacks_take_no_part_in_the_means() -> None:
    widths = [each.get_width() for each in bar(ragged()).patches]
    np.testing.assert_allclose(widths, [0.25, 0.25, 0.225], rtol=1e-6)
    assert not bar(ragged()[[1]]).collections
