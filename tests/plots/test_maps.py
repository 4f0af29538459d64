"""Maps: colours are values, in the order of predictions or of sizes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import manifold_shap as ms
from manifold_shap.plots import heatmap, interaction_map
from tests.examples import Ragged, uniform
from tests.examples import table as game
from tests.plots.helpers import ragged, tick_labels


def test_rows_stand_in_the_order_of_their_prediction(people: ms.Explanation) -> None:
    axes = heatmap(people.with_labels(range(10, 16)))
    rows = people.prediction[:, 1].argsort()
    players = people.phi[..., 1].abs().mean(0).argsort(descending=True)
    drawn = axes.images[0].get_array()
    np.testing.assert_allclose(drawn, people.phi[rows][:, players, 1].T, rtol=1e-6)
    low, high = axes.images[0].get_clim()
    assert low == -high
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == [str(10 + k) for k in rows.tolist()]
    names = [name.replace("\\", "") for name in tick_labels(axes)]
    assert names == [people.players.names[k] for k in players]
    curve, base = axes.child_axes[0].lines
    np.testing.assert_allclose(curve.get_ydata(), people.prediction[rows, 1], rtol=1e-6)
    assert base.get_ydata()[0] == pytest.approx(0.5)


def test_the_others_are_summed_and_players_that_a_row_lacks_are_left_out(
    people: ms.Explanation,
) -> None:
    drawn = heatmap(people, max_display=2).images[0].get_array()
    np.testing.assert_allclose(np.sort(drawn.sum(0)), np.sort(people.phi[..., 1].sum(1)), atol=1e-6)
    drawn = heatmap(ragged()).images[0].get_array()
    assert np.ma.getmaskarray(np.ma.masked_invalid(drawn)).sum() == 1


@pytest.fixture
def found() -> ms.Interactions:
    return ms.shapley_interactions(game(5), uniform(4, 5))


def test_a_map_has_the_interactions_of_a_row(found: ms.Interactions) -> None:
    axes = interaction_map(found, row=2, output="1")
    values = found.values[2, ..., 1]
    order = values.abs().sum(1).argsort(descending=True)
    names = [found.players.names[k] for k in order.tolist()]
    assert tick_labels(axes) == names
    assert [label.get_text() for label in axes.get_xticklabels()] == names
    lower = np.tri(5, dtype=bool)
    expected = values[order][:, order].double().numpy()
    drawn = axes.images[0].get_array()
    np.testing.assert_allclose(np.ma.getdata(drawn)[lower], expected[lower], rtol=1e-6)
    assert np.ma.getmaskarray(drawn).sum() == 10
    assert [float(text.get_text().replace("−", "-")) for text in axes.texts] == pytest.approx(
        expected[lower].tolist(), abs=0.01
    )
    # The scale is that of pairs.
    high = np.abs(expected - np.diag(expected.diagonal())).max()
    assert axes.images[0].get_clim() == pytest.approx((-high, high))
    title = axes.figure.get_suptitle()
    assert title.startswith("Interactions (SII): Output 1, row 2 (position 2 of 4)")


def test_over_rows_it_has_their_mean_and_marks_what_may_be_none(found: ms.Interactions) -> None:
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0])[:, None, None, None]
    steady = torch.full_like(found.values, 0.5)
    steady[:, 0, 1] = steady[:, 1, 0] = signs[:, 0, 0]
    axes = interaction_map(replace(found, values=steady), output=0)
    bracketed = [text.get_text() for text in axes.texts if "(" in text.get_text()]
    assert bracketed == ["(0.000)"]
    assert len(axes.texts) == 15
    assert "mean of 4 rows" in axes.figure.get_suptitle()
    assert "( ): within two standard errors" in axes.figure.get_suptitle()


def test_many_players_have_a_cross_instead_of_numbers() -> None:
    found = ms.shapley_interactions(game(9), uniform(2, 9))
    unsure = replace(found, standard_error=torch.full_like(found.values, 1e6))
    axes = interaction_map(unsure, row=0, max_display=9)
    assert {text.get_text() for text in axes.texts} == {"×"}
    assert "×: within two standard errors" in axes.figure.get_suptitle()


def test_interactions_of_players_that_a_row_lacks_are_left_out() -> None:
    found = ms.shapley_interactions(Ragged(2), torch.tensor([[1.0, 2, 3, 4], [5.0, 6, 0, 0]]))
    assert len(tick_labels(interaction_map(found, row=0))) == 2
    assert len(tick_labels(interaction_map(found, row=1))) == 1
    assert len(tick_labels(interaction_map(found))) == 2
