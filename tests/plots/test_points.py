"""Points of many rows: where they stand, and what colours they have."""

import datetime
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

import manifold_shap as ms
from manifold_shap.plots import beeswarm, canvas, scatter, selection
from tests.plots.helpers import explained, table, tick_labels, written

NAN = np.nan


def points(axes: Axes) -> np.ndarray:
    found = [c.get_offsets() for c in axes.collections if isinstance(c, PathCollection)]
    return np.concatenate([np.asarray(each) for each in found])


def names(labels: list) -> list[str]:
    return [label.get_text() for label in labels]


# -- swarms -------------------------------------------------------------------------------------


def test_swarms_have_a_point_a_row_coloured_by_rank_and_two_texts_can_be_decoded() -> None:
    people = table()
    axes = beeswarm(people)
    order = people.phi[..., 1].abs().mean(0).argsort(descending=True)
    x, y = points(axes).reshape(5, 6, 2).transpose(2, 0, 1)
    np.testing.assert_allclose(x, people.phi[:, order, 1].T.numpy(), rtol=1e-6)
    assert (np.abs(y - np.arange(5)[:, None]) <= 0.4).all()
    labels = tick_labels(axes)
    assert [label.split(":")[0] for label in labels] == [people.players.names[k] for k in order]
    assert axes.get_xlabel() == "Shapley value (probability of rich)"
    assert len(axes.get_xticks()) > 2
    colours = np.ma.filled(axes.collections[0].get_array(), NAN).reshape(5, 6)
    by_label = dict(zip(labels, colours, strict=True))
    np.testing.assert_allclose(by_label["age"], [0.4, 0, 1, 0.6, 0.2, 0.8])
    np.testing.assert_allclose(by_label["sex: f … m"], [0, 1, 1, 0, 1, 0])
    np.testing.assert_allclose(by_label["owner"], [0, 1, 0, 1, 1, 0])
    assert np.isnan(by_label["city"]).all()
    assert "grey: missing, or without order" in axes.figure.get_suptitle()
    assert {"low", "high", "feature value"} <= set(written(axes.figure))


def test_several_explanations_stand_side_by_side_on_the_same_scales() -> None:
    people, other = table(), explained(table().x, table().players, ("poor", "rich"), seed=1)
    panels = beeswarm({"one": people, "the other": other, "third": people}, max_display=2)
    assert [panel.get_title(loc="left") for panel in panels] == ["one", "the other", "third"]
    largest = people.phi[..., 1].abs().mean(0).argsort(descending=True)[:2]
    for panel, explanation in zip(panels, (people, other, people), strict=True):
        x = points(panel)[:, 0].reshape(3, 6)
        np.testing.assert_allclose(x[:2], explanation.phi[:, largest, 1].T.numpy(), rtol=1e-6)
        np.testing.assert_allclose(x.sum(0), explanation.phi[..., 1].sum(1), rtol=1e-5)
    assert tick_labels(panels[0])[-1] == "3 other features"
    assert len({panel.get_xlim() for panel in panels}) == 1


@pytest.mark.parametrize(
    ("column", "numbers"),
    [
        (pd.Series([3, None, 1], dtype="Int64"), [3, NAN, 1]),
        (pd.Series([True, None, False], dtype="boolean"), [1, NAN, 0]),
        (pd.Series([datetime.date(1970, 1, 2), None]), [1, NAN]),
        (pd.to_datetime(pd.Series(["1970-01-02T06:00+06:00"])), [1]),
        (pd.Series(["no", "yes", None, "no"]), [0, 1, NAN, 0]),
        (pd.Series(["a", "b", "c"]), [NAN, NAN, NAN]),
        (pd.Series(pd.Categorical(["mid", "low"], ["low", "mid"], ordered=True)), [1, 0]),
        (pd.Series(pd.Categorical(["a", "b", "c"])), [NAN, NAN, NAN]),
        (pd.Series([None, None], dtype=object), [NAN, NAN]),
    ],
)
def test_what_has_an_order_becomes_numbers(column: pd.Series, numbers: list[float]) -> None:
    found = selection.Column.of(column)
    np.testing.assert_allclose(found.numbers if found.ordered else found.rank, numbers)


# -- a feature and its values -------------------------------------------------------------------


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


def test_points_are_values_against_the_feature_or_the_column_of_a_group() -> None:
    people = table()
    axes = scatter(people, "age")
    ages = people.data["age"].to_numpy(float)
    np.testing.assert_allclose(points(axes), np.stack([ages, people.phi[:, 0, 1]], 1), rtol=1e-6)
    assert axes.get_xlabel() == "age"
    assert axes.get_ylabel() == "Shapley value of age\n(probability of rich)"
    assert axes.figure.get_suptitle() == "Probability of rich, 6 rows"
    by_position = points(scatter(people, 0, output=0))
    np.testing.assert_allclose(by_position[:, 1], people.phi[:, 0, 0], rtol=1e-6)
    grouped = table({"person": ["sex", "age"], "rest": ["gain ($)", "city", "owner"]})
    axes = scatter(grouped, "age")
    np.testing.assert_allclose(points(axes)[:, 1], grouped.phi[:, 0, 1], rtol=1e-6)
    assert axes.get_ylabel() == "Shapley value of person\n(probability of rich)"
    with pytest.raises(
        ValueError, match=r"one of the columns \['age', 'sex'.* but got 'person', .*'age'"
    ):
        scatter(grouped, "person")


def test_whiskers_reach_two_standard_errors() -> None:
    people = table()
    sampling = 0.01 * torch.arange(1.0, 7.0)[:, None, None].expand_as(people.phi)
    learning = torch.full_like(sampling, 0.02)
    explanation = replace(people, standard_error=sampling, model_error=learning)
    (drawn,) = scatter(explanation, "age").containers
    ends = np.array(drawn.lines[2][0].get_segments())[..., 1]
    reach = 2 * torch.hypot(sampling, learning)[:, 0, 1]
    phi = people.phi[:, 0, 1]
    np.testing.assert_allclose(ends, torch.stack((phi - reach, phi + reach), 1), rtol=1e-5)


def test_where_names_are_numbers_a_number_is_a_name() -> None:
    explanation = explained(torch.rand(4, 3), ms.Players.of_elements((3,), ["3", "1", "0"]), ("y",))
    assert scatter(explanation, 0).get_xlabel() == "0"
    with pytest.raises(ValueError, match="`feature`"):
        scatter(explanation, 2)


def test_colours_are_numbers_on_a_scale_or_categories_in_a_legend() -> None:
    people = table()
    axes = scatter(people, "age", color="gain ($)")
    _, bar = axes.figure.axes
    assert bar.get_ylabel() == "gain ($)"
    gains = people.data["gain ($)"].to_numpy(float)
    np.testing.assert_allclose(axes.collections[-1].get_array(), gains, atol=1e-3)
    axes = scatter(people, "age", color="city")
    legend = axes.get_legend()
    assert names(legend.get_texts()) == ["Bern", "Oslo", "Rome"]
    assert legend.get_title().get_text() == "city"
    of_city = dict(zip(["Bern", "Oslo", "Rome"], legend.legend_handles, strict=True))
    drawn = next(c for c in axes.collections if len(c.get_offsets()) == 6).get_facecolors()
    for colour, city in zip(drawn, people.data["city"], strict=True):
        assert to_hex(colour) == to_hex(of_city[city].get_facecolor()[0])


def test_missing_cells_stand_apart_at_the_left() -> None:
    axes = scatter(messy(), "age", color="town")
    x = points(axes)[:, 0]
    assert sorted(x)[1:] == [20, 30, 40, 50, 60]
    assert axes.get_xlim()[0] < x.min() < 18
    ticks = dict(zip(names(axes.get_xticklabels()), axes.get_xticks(), strict=True))
    assert ticks.pop("missing") == x.min()
    assert min(ticks.values()) >= 20
    legend = axes.get_legend()
    missing = legend.legend_handles[names(legend.get_texts()).index("missing")]
    assert to_hex(missing.get_facecolor()[0]) == canvas.NEUTRAL


def test_few_numbers_are_spread_within_the_limits_and_apart_from_missing_cells() -> None:
    frame = pd.DataFrame({"two": [0.0, 1.0, NAN] * 10, "x": range(30)})
    explanation = explained(frame, ms.Players.of_columns(frame, (2,)), ("y",), ms.spaces.Identity())
    axes = scatter(explanation, "two")
    zeros, ones, missing = points(axes)[:, 0].reshape(10, 3).T
    low, high = axes.get_xlim()
    assert low < missing.min() <= missing.max() < zeros.min() <= ones.max() < high
    assert "spread sideways" in axes.get_xlabel()


def test_dates_are_dates_and_categories_stand_in_their_order_the_rarest_together() -> None:
    axes = scatter(messy(), "born", color="age")
    axes.figure.draw_without_rendering()
    assert any("19" in label for label in names(axes.get_xticklabels()))
    assert "age (grey: missing)" in written(axes.figure)
    axes = scatter(messy(), "grade", color="born")
    assert names(axes.get_xticklabels()) == ["l", "m", "h"]
    np.testing.assert_array_equal(points(axes)[:, 0].round(), [0, 1, 2, 0, 1, 2])
    towns = scatter(messy(), "town").get_xticklabels()
    assert names(towns) == ["Bern", "Oslo", "Rome", "missing"]
    frame = pd.DataFrame({"name": [f"n{k:02}" for k in range(30)] * 2, "x": range(60)})
    explanation = explained(frame, ms.Players.of_columns(frame, (2,)), ("y",), ms.spaces.Identity())
    axes = scatter(explanation, "name", color="name")
    assert (len(axes.get_xticks()), names(axes.get_xticklabels())[-1]) == (12, "19 rare ones")
    assert len(axes.get_legend().get_texts()) == 6
