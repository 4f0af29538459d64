"""Maps of interactions: what is drawn is what was found."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import manifold_shap as ms
from manifold_shap.plots import interaction_map
from tests.examples import Ragged, table, uniform
from tests.plots.helpers import tick_labels


@pytest.fixture
def found() -> ms.Interactions:
    return ms.shapley_interactions(table(5), uniform(4, 5))


def test_a_map_has_the_values_of_a_row(found: ms.Interactions) -> None:
    axes = interaction_map(found, row=2, output="1")
    drawn = axes.images[0].get_array()
    values = found.values[2, ..., 1]
    order = values.abs().sum(1).argsort(descending=True)
    names = [found.players.names[k] for k in order.tolist()]
    assert tick_labels(axes) == names
    assert [label.get_text() for label in axes.get_xticklabels()] == names
    lower = np.tri(5, dtype=bool)
    expected = values[order][:, order].double().numpy()
    np.testing.assert_allclose(np.ma.getdata(drawn)[lower], expected[lower], rtol=1e-6)
    assert np.ma.getmaskarray(np.ma.masked_invalid(drawn)).sum() == 10
    assert [float(text.get_text().replace("−", "-")) for text in axes.texts] == pytest.approx(
        expected[lower].tolist(), abs=0.01
    )
    # The scale is that of pairs.
    high = np.abs(expected - np.diag(expected.diagonal())).max()
    assert axes.images[0].get_clim() == pytest.approx((-high, high))
    assert axes.figure.get_suptitle().startswith(
        "Interactions (SII): Output 1, row 2 (1 of 4 rows)"
    )


def test_over_rows_it_has_their_mean_and_marks_what_may_be_none() -> None:
    found = ms.shapley_interactions(table(5), uniform(4, 5))
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0])[:, None, None, None]
    steady = torch.full_like(found.values, 0.5)
    steady[:, 0, 1] = steady[:, 1, 0] = signs[:, 0, 0]
    axes = interaction_map(replace(found, values=steady), output=0)
    bracketed = [text.get_text() for text in axes.texts if "(" in text.get_text()]
    assert bracketed == ["(0.000)"]
    assert len(axes.texts) == 15
    assert "mean of 4 rows" in axes.figure.get_suptitle()
    assert "( ): within two standard errors" in axes.figure.get_suptitle()
    narrow = plt.figure(figsize=(2, 2)).add_subplot()
    interaction_map(replace(found, values=steady), output=0, ax=narrow)
    assert [text.get_text() for text in narrow.texts] == ["×"]
    assert "×: within" in narrow.get_title("left").replace("\n", " ")
    plt.close(narrow.figure)


def test_players_that_a_row_lacks_are_left_out() -> None:
    found = ms.shapley_interactions(Ragged(2), torch.tensor([[1.0, 2, 3, 4], [5.0, 6, 0, 0]]))
    assert len(tick_labels(interaction_map(found, row=0))) == 2
    assert len(tick_labels(interaction_map(found, row=1))) == 1
    assert len(tick_labels(interaction_map(found))) == 2


def test_bad_input(found: ms.Interactions) -> None:
    with pytest.raises(ValueError, match=r"`row`.*4 rows"):
        interaction_map(found, row=4)
    with pytest.raises(ValueError, match="`output`"):
        interaction_map(found, output="no")
    with pytest.raises(ValueError, match="`most`"):
        interaction_map(found, most=0)
