"""What shap is given, and each of its plots of it."""

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import shap
import torch
from torch import Tensor

import manifold_shap as ms
from tests.examples import Padded, Ragged, people, people_model, table, uniform

ROWS = 40
DATES = pd.date_range("2024-01-01", periods=ROWS)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


FRAME = people(ROWS).assign(day=DATES)


@cache
def explained(groups: bool = False) -> ms.Explanation:
    imputer = ms.imputers.table_imputer(ms.imputers.MarginalImputer, ms.Table.fit(FRAME), FRAME)
    value: ms.ValueFunction = ms.imputed_value(people_model, imputer)
    if groups:
        value = value.grouped({"person": ["age", "member"], "rest": ["income", "town", "day"]})
    return ms.exact_shapley(value, FRAME, progress=False)


def test_columns_are_numbers_or_text() -> None:
    theirs = explained().to_shap()
    np.testing.assert_array_equal(theirs.base_values, explained().base[:, 1])
    np.testing.assert_array_equal(theirs.values, explained().phi[..., 1])
    first = explained().to_shap(output=0)
    np.testing.assert_array_equal(first.values, explained().phi[..., 0])
    assert (first.output_names, theirs.output_names) == ("0", "1")
    np.testing.assert_allclose(theirs.data[:, 0].astype(float), FRAME["age"])
    assert theirs.data[:, 2].tolist() == FRAME["town"].fillna("missing").tolist()
    assert theirs.data[:, 4].tolist() == [day.date().isoformat() for day in DATES]


def test_groups_have_the_values_of_all_their_columns() -> None:
    theirs, row = explained(groups=True).to_shap(), FRAME.iloc[3]
    assert theirs.feature_names == ["person", "rest"]
    assert theirs.data[3, 0] == f"age = {row['age']}, member = {row['member']}"


@pytest.mark.parametrize(
    ("draw", "groups"),
    [
        (lambda e: shap.plots.bar(e, show=False), False),
        (lambda e: shap.plots.beeswarm(e, show=False), True),
        (lambda e: shap.plots.waterfall(e[0], show=False), False),
    ],
)
@pytest.mark.filterwarnings("ignore")  # Of the plots of shap, under newer versions of others.
def test_each_plot_draws_the_players(draw: Callable[[Any], Any], groups: bool) -> None:
    explanation = explained(groups)
    draw(explanation.to_shap())
    figure = plt.gcf()
    figure.canvas.draw()
    told = " ".join(text.get_text() for axes in figure.axes for text in axes.get_yticklabels())
    assert all(player in told for player in explanation.players.names), told


@cache
def patches(channels: int = 2) -> tuple[Tensor, ms.Explanation]:
    """Pictures of some channels, 4 high and 6 wide, in patches of 2, whose sums are explained."""
    x = uniform(3, channels * 24).reshape(3, channels, 4, 6)
    players = ms.Players.patches((channels, 4, 6), 2)

    def value(x: Tensor, mask: Tensor) -> Tensor:
        total = (x[:, None] * players.expand(mask)).flatten(2).sum(-1, keepdim=True)
        return total * torch.tensor([1.0, -1.0])

    return x, ms.exact_shapley(ms.as_value_function(value, x, players), x, progress=False)


def test_elements_share_the_value_of_their_player() -> None:
    x, explanation = patches()
    theirs = explanation.to_shap(elements=True)
    assert theirs.values.shape == (3, 4, 6, 2, 2)
    np.testing.assert_array_equal(theirs.data, x.movedim(1, -1))
    np.testing.assert_allclose(
        theirs.values.sum((1, 2, 3)) + theirs.base_values, explanation.prediction, rtol=1e-4
    )
    mean = x[0, :, :2, :2].mean()
    np.testing.assert_allclose(theirs.values[0, :2, :2, :, 0], mean, rtol=1e-4)


def test_words_are_drawn_on_their_values() -> None:
    pytest.importorskip("IPython")
    x = Padded.some_rows()
    explanation = ms.exact_shapley(Padded(), x)
    words = [[f"word{k}", *("and" for _ in range(5))] for k in range(len(x))]
    theirs = explanation.to_shap(data=words)
    assert [len(row) for row in theirs.values] == [3, 1, 6, 3, 2]
    assert [len(row) for row in theirs.data] == [3, 1, 6, 3, 2]
    html = shap.plots.text(theirs[2][:, "tanh"], display=False)
    assert "word2" in html
    assert html.count("and") >= 5


def test_rows_have_the_players_that_they_have() -> None:
    explanation = ms.exact_shapley(Ragged(), Ragged.some_rows())
    theirs = explanation.to_shap()
    for row, count in enumerate((3, 1, 4, 3, 2)):
        assert theirs.values[row].shape == theirs.error_std[row].shape == (count, 2)
        assert np.isfinite(theirs.values[row]).all()
        assert len(theirs.feature_names[row]) == count
    assert [len(row) for row in theirs.data] == [3, 1, 4, 3, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shap.plots.waterfall(theirs[0][:, 0], show=False)
    assert plt.gcf().axes


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"data": [["a", "b", "c"]]}, "`data` of 2 rows"),
        ({"data": [["a", "b"]] * 2}, r"got \[2, 2\] entries for \[3, 3\] players"),
    ],
)
def test_bad_input(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ms.exact_shapley(table(3), uniform(2, 3)).to_shap(**settings)
