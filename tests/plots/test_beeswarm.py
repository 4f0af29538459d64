"""Sina plots: where points stand, and what colours they have."""

from dataclasses import replace

import numpy as np
import torch
from matplotlib.axes import Axes

import manifold_shap as ms
from manifold_shap.plots import beeswarm
from tests.plots.helpers import ragged, tick_labels, written


def points(axes: Axes) -> np.ndarray:
    return np.asarray(axes.collections[0].get_offsets())


def test_every_row_is_a_point_on_the_line_of_its_feature(people: ms.Explanation) -> None:
    axes = beeswarm(people)
    importance = people.phi[..., 1].abs().mean(0)
    order = importance.argsort(descending=True)
    x, y = points(axes).reshape(5, 6, 2).transpose(2, 0, 1)
    np.testing.assert_allclose(x, people.phi[:, order, 1].T.numpy(), rtol=1e-6)
    assert (np.abs(y - np.arange(5)[:, None]) <= 0.4).all()
    assert axes.get_ylim() == (4.5, -0.5)
    names = [label.split(":")[0].replace("\\", "") for label in tick_labels(axes)]
    assert names == [people.players.names[k] for k in order]


def test_the_other_features_are_summed_row_by_row(people: ms.Explanation) -> None:
    axes = beeswarm(people, most=2)
    x = points(axes)[:, 0].reshape(3, 6)
    np.testing.assert_allclose(x.sum(0), people.phi[..., 1].sum(1).numpy(), atol=1e-6)
    assert tick_labels(axes)[-1] == "3 other features"


def test_colours_are_ranks_and_categories_are_grey(people: ms.Explanation) -> None:
    axes = beeswarm(people)
    labels = [label.replace("\\", "") for label in tick_labels(axes)]
    colours = np.ma.filled(axes.collections[0].get_array(), np.nan).reshape(5, 6)
    by_label = dict(zip(labels, colours, strict=True))
    np.testing.assert_allclose(by_label["age"], [0.4, 0, 1, 0.6, 0.2, 0.8])
    np.testing.assert_allclose(by_label["sex: f … m"], [0, 1, 1, 0, 1, 0])
    np.testing.assert_allclose(by_label["owner"], [0, 1, 0, 1, 1, 0])
    assert np.isnan(by_label["city"]).all()
    assert "grey: missing, or without order" in " ".join(axes.figure.get_suptitle().split())
    assert {"low", "high", "feature value"} <= set(written(axes.figure))


def test_the_positive_class_is_shown_or_the_one_that_is_predicted_for_the_most_rows(
    people: ms.Explanation, digits: ms.Explanation
) -> None:
    assert "Probability of rich, 6 rows" in beeswarm(people).figure.get_suptitle()
    predicted = torch.eye(3)[[1, 0, 1, 2, 1]]
    title = beeswarm(replace(digits, prediction=predicted)).figure.get_suptitle()
    assert "Probability of 1, 5 rows\n1 of 3 outputs, predicted for 3 rows" in title
    scores = replace(digits, space=ms.spaces.Identity(), phi=digits.phi * torch.tensor([10, 1, 1]))
    assert "1 of 3 outputs, the most moved" in beeswarm(scores).figure.get_suptitle()
    named = beeswarm(digits, output=2, most=2).figure.get_suptitle()
    assert "Probability of 2, 5 rows; too few rows for a summary" in named.replace("\n", "; ")


def test_rows_have_no_point_for_players_that_they_lack() -> None:
    explanation = ragged()[[1, 0]]
    axes = beeswarm(explanation)
    x, y = points(axes).T.reshape(2, 3, 2)
    order = explanation.phi[..., 0].abs().nanmean(0).argsort(descending=True)
    np.testing.assert_allclose(x, explanation.phi[:, order, 0].T, rtol=1e-6)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
    rest = points(beeswarm(explanation, most=1))[:, 0].reshape(2, 2)
    np.testing.assert_allclose(rest.sum(0), explanation.phi[..., 0].nansum(1), rtol=1e-5)


def test_several_explanations_stand_side_by_side_on_the_same_scales(people: ms.Explanation) -> None:
    other = replace(people, phi=3 * people.phi.flip(1))
    axes = beeswarm({"one": people, "the other": other, "third": people}, most=2)
    *panels, bar = axes.figure.axes
    assert [panel.get_title(loc="left") for panel in panels] == ["one", "the other", "third"]
    assert bar.get_ylabel() == "feature value"
    shown = people.phi[..., 1].abs().mean(0).argsort(descending=True)[:2]
    for panel, explanation in zip(panels, (people, other, people), strict=True):
        x = np.asarray(panel.collections[0].get_offsets())[:, 0].reshape(3, 6)
        np.testing.assert_allclose(x[:2], explanation.phi[:, shown, 1].T.numpy(), rtol=1e-6)
    assert tick_labels(panels[0])[-1] == "3 other features"
    assert len({panel.get_xlim() for panel in panels}) == 1
