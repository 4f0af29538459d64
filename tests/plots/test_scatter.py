"""Scatter plots: values of a feature against the feature, with another one as colour."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

import manifold_shap as ms
from manifold_shap.plots import scatter, style
from tests.plots.helpers import assert_nothing_is_cut, explained, save, table, written


def points(axes: Axes) -> np.ndarray:
    found = [c.get_offsets() for c in axes.collections if isinstance(c, PathCollection)]
    return np.concatenate([np.asarray(each) for each in found])


def messy() -> ms.Explanation:
    frame = pd.DataFrame(
        {
            "age": [30.0, None, 50.0, 40.0, 20.0, 60.0],
            "born": pd.to_datetime(["1954-03-02", "1960-01-01", None] * 2),
            "town": ["Rome", None, "Oslo", "Rome", "Bern", "Oslo"],
            "grade": pd.Categorical(list("lmhlmh"), ["l", "m", "h"], ordered=True),
        }
    )
    return explained(frame, ms.Players.of_columns(frame, (4,)), ("price",), ms.spaces.Identity())


def test_points_are_values_against_the_feature(people: ms.Explanation) -> None:
    axes = scatter(people, "age")
    ages = people.data["age"].to_numpy(float)
    np.testing.assert_allclose(points(axes), np.stack([ages, people.phi[:, 0, 1]], 1), rtol=1e-6)
    assert axes.get_xlabel() == "age"
    assert axes.get_ylabel() == "Shapley value (probability)"
    assert axes.figure.get_suptitle() == "Probability of rich, 6 rows"
    by_position = points(scatter(people, 0, output=0))
    np.testing.assert_allclose(by_position[:, 1], people.phi[:, 0, 0], rtol=1e-6)


def test_a_column_of_a_group_has_the_value_of_the_group() -> None:
    grouped = table({"person": ["sex", "age"], "rest": ["gain ($)", "city", "owner"]})
    axes = scatter(grouped, "age")
    np.testing.assert_allclose(points(axes)[:, 1], grouped.phi[:, 0, 1], rtol=1e-6)
    assert axes.get_ylabel() == "Shapley value of person (probability)"
    with pytest.raises(ValueError, match=r"one of the columns \['age', 'sex'.* but got 'person'"):
        scatter(grouped, "person")


def test_colours_are_numbers_on_a_scale_or_categories_in_a_legend(people: ms.Explanation) -> None:
    axes = scatter(people, "age", color="gain ($)")
    _, bar = axes.figure.axes
    assert bar.get_ylabel() == r"gain (\$)"
    gains = people.data["gain ($)"].to_numpy(float)
    np.testing.assert_allclose(axes.collections[-1].get_array(), gains, atol=1e-3)
    axes = scatter(people, "age", color="city")
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["Bern", "Oslo", "Rome"]
    assert axes.get_legend().get_title().get_text() == "city"
    assert_nothing_is_cut(axes.figure)


def test_missing_cells_stand_apart_at_the_left() -> None:
    explanation = messy()
    axes = scatter(explanation, "age", color="town")
    x = points(axes)[:, 0]
    assert sorted(x)[1:] == [20, 30, 40, 50, 60]
    assert axes.get_xlim()[0] < x.min() < 18
    assert "missing" in [text.get_text() for text in axes.texts]
    handles = dict(
        zip(
            [text.get_text() for text in axes.get_legend().get_texts()],
            axes.get_legend().legend_handles,
            strict=True,
        )
    )
    assert to_hex(handles["missing"].get_facecolor()[0]) == style.NEUTRAL
    save(axes.figure)


def test_dates_are_dates_and_categories_stand_in_their_order() -> None:
    explanation = messy()
    axes = scatter(explanation, "born", color="age")
    axes.figure.draw_without_rendering()
    assert any("19" in label.get_text() for label in axes.get_xticklabels())
    assert "age (grey: missing)" in written(axes.figure)
    axes = scatter(explanation, "grade", color="born")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["l", "m", "h"]
    np.testing.assert_array_equal(points(axes)[:, 0].round(), [0, 1, 2, 0, 1, 2])
    axes = scatter(explanation, "town")
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "Bern", "Oslo", "Rome", "missing"
    ]  # fmt: skip


def test_many_categories_share_a_place() -> None:
    frame = pd.DataFrame({"name": [f"n{k:02}" for k in range(30)] * 2, "x": range(60)})
    players = ms.Players.of_columns(frame, (2,))
    explanation = explained(frame, players, ("y",), ms.spaces.Identity())
    axes = scatter(explanation, "name", color="name")
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert len(labels) == 12
    assert labels[-1] == "other"
    assert len(axes.get_legend().get_texts()) == 6


@pytest.mark.parametrize("feature", ["agee", 17, None])
@pytest.mark.usefixtures("any_type")
def test_unknown_features_are_refused(people: ms.Explanation, feature: object) -> None:
    with pytest.raises(ValueError, match=r"`feature` to be one of the columns"):
        scatter(people, feature)
