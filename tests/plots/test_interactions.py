"""Maps and networks of interactions: what is drawn is what was found."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import manifold_shap as ms
from manifold_shap.plots import interaction_map, interaction_network, style
from tests.examples import Ragged, table, uniform
from tests.plots.helpers import LONG, assert_nothing_is_cut, overlapping, tick_labels


@pytest.fixture
def found() -> ms.Interactions:
    return ms.shapley_interactions(table(5), uniform(4, 5))


def of_network(axes: plt.Axes) -> tuple[list[str], np.ndarray]:
    """Names in the order of their places, and places that lines lead between."""
    discs = np.asarray(axes.collections[0].get_offsets())
    names = [text.get_text() for text in axes.texts]
    ends = [line.get_xydata() for line in axes.lines]
    near = [[int(np.abs(discs - end).sum(1).argmin()) for end in pair] for pair in ends]
    return names, np.array(near)


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


def test_a_network_says_what_its_colours_and_sizes_mean(found: ms.Interactions) -> None:
    legend = interaction_network(found, 0, output=0).get_legend()
    raising, lowering = legend.get_lines()
    assert [text.get_text() for text in legend.get_texts()] == ["raises the output", "lowers it"]
    assert [line.get_color() for line in (raising, lowering)] == [style.RAISES, style.LOWERS]
    values = found.values[0, ..., 0]
    own = style.number(float(values.diagonal().abs().max()))
    widest = style.number(float((values - values.diagonal().diag()).abs().max()))
    title = f"widest line {widest}, largest disc {own} (model output)"
    assert legend.get_title().get_text() == title
    alone = ms.shapley_interactions(
        lambda x, mask: (x[:, None] * mask).sum(-1, True), uniform(1, 3)
    )
    none = interaction_network(alone, 0).get_legend()
    assert none.get_title().get_text().startswith("largest disc")


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


def test_a_network_draws_pairs_by_size(found: ms.Interactions) -> None:
    axes = interaction_network(found, row=1, output=0, pairs=4)
    values = found.values[1, ..., 0]
    names, lines = of_network(axes)
    which = [found.players.names.index(name) for name in names]
    pairs = values[torch.triu_indices(5, 5, 1).unbind()]
    largest = pairs.abs().sort().values[-4:]
    drawn = torch.stack([values[which[one], which[other]] for one, other in lines])
    torch.testing.assert_close(drawn.abs(), largest)
    widths = [line.get_linewidth() for line in axes.lines]
    assert widths == sorted(widths)
    assert widths[0] / widths[-1] == pytest.approx(float(largest[0] / largest[-1]), rel=1e-5)
    for line, value in zip(axes.lines, drawn.tolist(), strict=True):
        assert to_hex(line.get_color()) == (style.RAISES if value > 0 else style.LOWERS)
    areas = axes.collections[0].get_sizes()
    own = values.diagonal()[which].abs()
    assert int(areas.argmax()) == int(own.argmax())
    assert "4 pairs of 10 drawn" in axes.figure.get_suptitle()


def test_lines_within_two_standard_errors_are_left_out(found: ms.Interactions) -> None:
    error = torch.zeros_like(found.values)
    error[:, 0, 1:] = error[:, 1:, 0] = 1e6
    axes = interaction_network(replace(found, standard_error=error), row=0)
    names, lines = of_network(axes)
    assert len(lines) == 6
    assert names.index("x0") not in lines


@pytest.mark.parametrize("plot", [interaction_map, interaction_network])
def test_many_players_and_long_names_fit(plot) -> None:
    names = [f"{LONG}{k}" if k % 3 else f"${k}" for k in range(16)]
    value = ms.as_value_function(table(16), uniform(2, 16))
    found = ms.shapley_interactions(value, uniform(2, 16), evaluations=2 * 16**2)
    players = ms.Players.of_elements((16,), names)
    found = replace(found, shapley=replace(found.shapley, players=players))
    axes = plot(found, row=0)
    assert "12 of 16 players" in axes.figure.get_suptitle()
    assert_nothing_is_cut(axes.figure)
    if plot is interaction_network:
        assert overlapping(axes.texts, tolerance=0.2) == []


@pytest.mark.parametrize("plot", [interaction_map, interaction_network])
def test_given_axes_are_kept(plot, found: ms.Interactions) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    assert plot(found, ax=left) is left
    assert plot(found, row=-1, ax=right) is right
    assert "row 3" in right.get_title("left")
    assert isinstance(figure, Figure)
    assert_nothing_is_cut(figure)
    plt.close(figure)


def test_players_that_a_row_lacks_are_left_out() -> None:
    found = ms.shapley_interactions(Ragged(2), torch.tensor([[1.0, 2, 3, 4], [5.0, 6, 0, 0]]))
    assert len(tick_labels(interaction_map(found, row=0))) == 2
    assert len(tick_labels(interaction_map(found, row=1))) == 1
    assert len(interaction_network(found, row=1).texts) == 1
    assert len(tick_labels(interaction_map(found))) == 2


def test_a_game_without_interactions_is_drawn() -> None:
    found = ms.shapley_interactions(
        lambda x, mask: (x[:, None] * mask).sum(-1, True), uniform(1, 3)
    )
    assert not interaction_network(found).lines
    high = float(found.shapley.phi.abs().max())
    assert interaction_map(found).images[0].get_clim() == pytest.approx((-high, high))


def test_bad_input(found: ms.Interactions, any_type: None) -> None:
    with pytest.raises(TypeError, match="Expected interactions but got an Explanation"):
        interaction_map(found.shapley)
    with pytest.raises(ValueError, match=r"`row`.*4 rows"):
        interaction_map(found, row=4)
    with pytest.raises(ValueError, match="`output`"):
        interaction_network(found, output="no")
    with pytest.raises(ValueError, match="`most`"):
        interaction_map(found, most=0)
    with pytest.raises(ValueError, match="`pairs`"):
        interaction_network(found, pairs=0)
