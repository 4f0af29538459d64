"""Heat maps: colours are values, rows in order of their prediction."""

import numpy as np
import pytest

import manifold_shap as ms
from manifold_shap.plots import heatmap
from tests.plots.helpers import ragged, tick_labels


def test_rows_stand_in_the_order_of_their_prediction(people: ms.Explanation) -> None:
    axes = heatmap(people.with_labels(range(10, 16)))
    rows = people.prediction[:, 1].argsort()
    players = people.phi[..., 1].abs().mean(0).argsort(descending=True)
    drawn = axes.images[0].get_array()
    np.testing.assert_allclose(drawn, people.phi[rows][:, players, 1].T, rtol=1e-6)
    low, high = axes.images[0].get_clim()
    assert low == -high
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        str(10 + k) for k in rows.tolist()
    ]
    assert [name.replace("\\", "") for name in tick_labels(axes)] == [
        people.players.names[k] for k in players
    ]
    (curve, base) = axes.child_axes[0].lines
    np.testing.assert_allclose(curve.get_ydata(), people.prediction[rows, 1], rtol=1e-6)
    assert base.get_ydata()[0] == pytest.approx(0.5)
    assert axes.figure.get_suptitle() == "Probability of rich, 6 rows"


def test_the_others_are_summed_and_players_that_a_row_lacks_are_left_out(
    people: ms.Explanation,
) -> None:
    drawn = heatmap(people, most=2).images[0].get_array()
    np.testing.assert_allclose(np.sort(drawn.sum(0)), np.sort(people.phi[..., 1].sum(1)), atol=1e-6)
    drawn = heatmap(ragged()).images[0].get_array()
    assert np.ma.getmaskarray(np.ma.masked_invalid(drawn)).sum() == 1
