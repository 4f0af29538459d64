"""Waterfalls: bars lead from the base to the prediction, labelled with feature values."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

import manifold_shap as ms
from manifold_shap.plots import style, waterfall
from tests.plots.helpers import explained, tick_labels


def spans(axes: Axes) -> np.ndarray:
    """Where bars start and end, the last one of which is at the base."""
    starts = np.array([patch.get_x() for patch in axes.patches])
    return np.stack((starts, starts + [patch.get_width() for patch in axes.patches]), 1)


def test_bars_lead_from_the_base_to_the_prediction(people: ms.Explanation) -> None:
    axes = waterfall(people, row=2, output="rich")
    ends = spans(axes)
    order = people.phi[2, :, 1].abs().argsort(descending=True)
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], people.phi[2, order, 1], atol=1e-6)
    assert ends[-1, 0] == pytest.approx(people.base[2, 1].item())
    assert ends[0, 1] == pytest.approx(people.prediction[2, 1].item(), abs=1e-6)
    np.testing.assert_allclose(ends[:-1, 0], ends[1:, 1])
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    numbers = [text.get_text() for text in axes.texts if text.get_text()[0] in "+−"]
    assert [float(n.replace("−", "-")) for n in numbers] == pytest.approx(
        people.phi[2, order, 1].tolist(), abs=1e-3
    )


def test_labels_have_feature_values_and_the_title_prediction_and_row(
    people: ms.Explanation,
) -> None:
    axes = waterfall(replace(people, prediction=torch.tensor([[0.1, 0.9]] * 6)), row=1)
    assert "age = 25" in tick_labels(axes)
    assert axes.figure.get_suptitle() == "Predicted probability of rich: 0.90\nrow 1 (1 of 6 rows)"
    assert axes.get_xlabel() == "probability of rich"
    assert {"base 0.50", "prediction 0.90"} <= {text.get_text() for text in axes.texts}


def test_the_rest_is_one_grey_bar_at_the_bottom(people: ms.Explanation) -> None:
    axes = waterfall(people, most=2)
    assert tick_labels(axes)[-1] == "3 other features"
    assert len(axes.patches) == 3
    colours = [to_hex(patch.get_facecolor()) for patch in axes.patches]
    steps = np.diff(spans(axes)[:2])[:, 0]
    assert colours[:2] == [style.RAISES if step > 0 else style.LOWERS for step in steps]
    assert colours[2] == style.NEUTRAL


@pytest.mark.parametrize(("error", "count"), [(0.01, 5), (0.0, 0), (math.nan, 0)])
def test_known_errors_have_whiskers(people: ms.Explanation, error: float, count: int) -> None:
    axes = waterfall(replace(people, standard_error=torch.full_like(people.phi, error)))
    ends = [each for drawn in axes.collections[:-1] for each in drawn.get_segments()]
    assert len(ends) == count
    for start, end in ends:
        assert end[0] - start[0] == pytest.approx(0.04)


def test_amounts_have_the_unit_and_rows_their_labels() -> None:
    players = ms.Players.of_elements((1,), ["size"])
    flat = explained(torch.ones(2, 1), players, ("price",), ms.spaces.Identity("EUR"))
    flat = replace(
        flat, prediction=flat.base + 1500, instances=tuple(pd.date_range("2019-12-31", periods=2))
    )
    axes = waterfall(flat, row=1)
    title = "Predicted price: 1501 EUR\nrow 2020-01-01 (1 of 2 rows)"
    assert axes.figure.get_suptitle() == title
    assert axes.get_xlabel() == "price (EUR)"
    assert "prediction 1501 EUR" in [text.get_text() for text in axes.texts]


def test_of_several_outputs_the_one_that_the_row_moves_most_is_said_to_be_one() -> None:
    three = explained(
        torch.rand(2, 3), ms.Players.of_elements((3,)), tuple("abc"), ms.spaces.Identity()
    )
    moved = (three.prediction - three.base)[0].abs().argmax()
    title = waterfall(three).figure.get_suptitle()
    assert title.startswith(f"Predicted {'abc'[moved]}: ")
    assert "1 of 3 outputs, the one that this row moves most" in title
    assert "outputs" not in waterfall(three, output="b").figure.get_suptitle()
