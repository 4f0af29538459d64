"""What figures show: which explanations together, and what players are called."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
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
from tests.plots.helpers import composed, ragged, table


def test_players_are_called_by_name_and_value_in_original_units(people: ms.Explanation) -> None:
    shown = torch.tensor([2, 1])
    said = ["sex = m", "gain ($) = 7688", "3 other features"]
    assert selection.labels(people, 1, shown, 33) == said
    assert selection.labels(people, 0, shown, 33)[1] == "gain ($) = 0"


def test_groups_have_the_values_of_their_columns() -> None:
    grouped = table({"person": ["sex", "age"], "money": ["gain ($)"], "rest": ["city", "owner"]})
    labels = selection.labels(grouped, 1, torch.arange(3), 40)
    assert labels == ["person: age = 25, sex = m", "money = 7688", "rest: city = Oslo, owner = 1"]


def test_rows_with_players_of_their_own_have_their_elements_values() -> None:
    explanation = ragged((6,))
    labels = selection.labels(explanation, 1, torch.tensor([1, 0]), 33)
    assert labels == ["player 1 = 6, 9, 10", "player 0 = 7, 8"]
    (columns,) = selection.features(explanation, torch.tensor([2]))
    assert columns.iloc[0].tolist() == [4.0, 5.0]
    assert columns.iloc[1].isna().all()


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


def differing(explanation: ms.Explanation) -> dict[str, ms.Explanation]:
    return {
        "players": replace(explanation, players=ms.Players.of_elements((1, 4, 6))),
        "rows": explanation[:2],
        "outputs": replace(explanation, space=ms.spaces.Identity()),
    }


@pytest.mark.parametrize("what", ["players", "rows", "outputs"])
def test_explanations_of_different_things_are_refused(digits: ms.Explanation, what: str) -> None:
    for plot in (bar, beeswarm, pixel_maps):
        with pytest.raises(ValueError, match=f"'a' and 'b' differ in their {what}"):
            plot({"a": digits, "b": differing(digits)[what]})


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize("plot", [waterfall, bar, beeswarm, heatmap, pixel_maps, ilr_plane])
def test_what_cannot_be_shown_is_refused(digits: ms.Explanation, plot) -> None:
    with pytest.raises(TypeError, match="to be an explanation, as of"):
        plot([digits])
    with pytest.raises(ValueError, match="nothing to show"):
        plot(digits[:0])


@pytest.mark.parametrize("plot", [waterfall, bar, beeswarm, heatmap, pixel_maps])
def test_an_unknown_output_is_refused(digits: ms.Explanation, plot) -> None:
    named = replace(digits, outputs=("zero", "one", "two"))
    with pytest.raises(ValueError, match=r"one of \['zero', 'one', 'two'\] but got 'twoo'"):
        plot(named, output="twoo")


def test_rows_of_a_store_are_those_that_it_was_made_of(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": range(30, 60), "town": list("abc") * 10})
    codebook = ms.Codebook.fit(frame)
    ages = lambda rows: rows["age"].to_numpy() / 60  # noqa: E731
    model = ms.as_model(ages, codebook.rows(frame), returns="values", codebook=codebook)
    imputer = ms.imputers.table_imputer(ms.imputers.MarginalImputer, codebook, frame)
    value, few = ms.imputed_value(model, imputer, "identity", 4), frame[20:24]
    ms.explain_rows(tmp_path / "store", value, few, ms.exact_shapley)
    both = {"stored": ms.Explanation.load(tmp_path / "store"), "new": ms.exact_shapley(value, few)}
    assert len(bar(both, row=0).containers) > 0


def test_axes_whose_place_panels_cannot_take_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Expected `ax` made by `plt\.subplots`"):
        compositions(composed(), ax=Figure().add_axes((0, 0, 1, 1)))
