"""What figures show: which explanations together, and what players are called."""

from dataclasses import replace

import pytest
import torch
from matplotlib.figure import Figure

import manifold_shap as ms
from manifold_shap.plots import (
    bar,
    beeswarm,
    compositions,
    heatmap,
    ilr_plane,
    pixel_maps,
    selection,
    waterfall,
)
from tests.plots.helpers import composed, explained, ragged, table


@pytest.mark.parametrize("plot", [bar, beeswarm, pixel_maps])
def test_an_unknown_output_is_refused_with_a_hint(digits: ms.Explanation, plot) -> None:
    named = replace(digits, outputs=("zero", "one", "two"))
    with pytest.raises(ValueError, match=r"one of \['zero', 'one', 'two'\] but got 'twoo'.*'two'"):
        plot(named, output="twoo")


@pytest.mark.parametrize("plot", [bar, beeswarm])
def test_no_line_is_refused(people: ms.Explanation, plot) -> None:
    with pytest.raises(ValueError, match="Expected `most` to be a whole number of at least 1"):
        plot(people, most=0)


@pytest.mark.parametrize("plot", [bar, beeswarm, pixel_maps])
def test_explanations_of_different_things_are_refused(digits: ms.Explanation, plot) -> None:
    renamed = replace(digits, players=ms.Players.of_elements((1, 4, 6)))
    with pytest.raises(ValueError, match="'a' and 'b' differ in their players"):
        plot({"a": digits, "b": renamed})
    with pytest.raises(ValueError, match=r"differ in their rows \(5 and 2\)"):
        plot({"a": digits, "b": digits[:2]})
    with pytest.raises(ValueError, match=r"differ in their rows \(`x` by up to 1\)"):
        plot({"a": digits, "b": replace(digits, x=1 - digits.x)})
    with pytest.raises(ValueError, match="differ in their outputs"):
        plot({"a": digits, "b": replace(digits, space=ms.Identity())})


@pytest.mark.parametrize("plot", [bar, beeswarm, pixel_maps])
def test_nothing_to_plot_is_refused(digits: ms.Explanation, plot) -> None:
    with pytest.raises(ValueError, match="at least one named explanation but got none"):
        plot({})
    with pytest.raises(ValueError, match="nothing to show"):
        plot(digits[:0])


def test_players_are_called_by_name_and_value_in_original_units(people: ms.Explanation) -> None:
    shown = torch.tensor([2, 1])
    said = ["sex = m", "gain ($) = 7688", "3 other features"]
    assert selection.labels(people, 1, shown, 150.0) == said
    assert selection.labels(people, 0, shown, 150.0)[1] == "gain ($) = 0"


def test_groups_have_the_values_of_their_columns() -> None:
    grouped = table({"person": ["sex", "age"], "money": ["gain ($)"], "rest": ["city", "owner"]})
    labels = selection.labels(grouped, 1, torch.arange(3), 180.0)
    assert labels == ["person: age = 25, sex = m", "money = 7688", "rest: city = Oslo, owner = 1"]


def test_beside_groups_single_elements_without_a_schema_have_their_values() -> None:
    players = ms.Players(["age", "pair", "block"], [0, 1, 1, 2, 2, 2, 2, 2])
    explanation = explained(torch.arange(16.0).reshape(2, 8), players, ("a",))
    labels = selection.labels(explanation, 1, torch.arange(3), 150.0)
    assert labels == ["age = 8", "pair = 9, 10", "block = 11, 12, 13, 14, 15"]


def test_rows_of_double_precision_have_their_values() -> None:
    explanation = composed(players=2)
    doubled = replace(explanation, x=explanation.x.double())
    both = torch.arange(2)
    said = selection.labels(explanation, 0, both, 150.0)
    assert selection.labels(doubled, 0, both, 150.0) == said


def test_rows_with_players_of_their_own_have_their_elements_values() -> None:
    explanation = ragged((6,))
    labels = selection.labels(explanation, 1, torch.tensor([1, 0]), 150.0)
    assert labels == ["player 1 = 6, 9, 10", "player 0 = 7, 8"]
    (columns,) = selection.features(explanation, torch.tensor([2]))
    assert columns.iloc[0].tolist() == [4.0, 5.0]
    assert columns.iloc[1].isna().all()


def test_explanations_of_the_same_rows_with_other_players_are_refused() -> None:
    explanation = ragged()
    other = replace(explanation, owners=explanation.owners.flip(-1).clamp(min=0))
    with pytest.raises(ValueError, match="differ in their players"):
        bar({"a": explanation, "b": other})


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize("plot", [bar, beeswarm, pixel_maps])
def test_what_is_no_explanation_is_refused(people: ms.Explanation, plot) -> None:
    with pytest.raises(TypeError, match=r"an explanation, or several by name .* got a list"):
        plot([people, people])
    with pytest.raises(TypeError, match="Expected 'a' to be an explanation but got an int"):
        plot({"a": 1})


def test_numbers_name_outputs_where_outputs_are_numbered_and_count_them_elsewhere() -> None:
    explanation = table()
    assert selection.output_index(explanation, 1) == 1
    assert selection.output_index(explanation, -1) == 1
    with pytest.raises(ValueError, match="Expected `output` to be a whole number from -2 to 1"):
        selection.output_index(explanation, 2)
    numbered = replace(explanation, outputs=("1", "2"))
    assert selection.output_index(numbered, 1) == 0
    with pytest.raises(ValueError, match="`output`"):
        selection.output_index(numbered, 0)


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize("plot", [waterfall, heatmap, compositions, ilr_plane])
def test_plots_of_one_explanation_refuse_several(people: ms.Explanation, plot) -> None:
    with pytest.raises(TypeError, match="Expected an explanation but got a dict; estimators"):
        plot({"a": people})


@pytest.mark.usefixtures("any_type")
def test_what_is_no_axes_is_refused_before_anything_is_drawn(people: ms.Explanation) -> None:
    with pytest.raises(TypeError, match=r"Expected `ax` to be axes of matplotlib.* but got Figure"):
        bar(people, ax=Figure())
    with pytest.raises(ValueError, match=r"Expected `ax` made by `plt\.subplots`"):
        compositions(composed(), ax=Figure().add_axes((0, 0, 1, 1)))
