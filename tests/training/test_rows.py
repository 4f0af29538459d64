"""Rows and players of a training: by default, held out, of a table."""

import pandas as pd
import pytest
import torch

import manifold_shap as ms
from manifold_shap.training.rows import training_rows
from tests.training.test_task import X

FRAME = pd.DataFrame({"age": [30, 20, 40], "town": ["Oslo", None, "Rome"], "size": [1.5, 2.5, 0.5]})


def test_players_by_default() -> None:
    table, x = ms.Table.fit(FRAME), torch.zeros(5, 3)
    given = ms.Players(("left", "right"), torch.tensor([0, 0, 1]))
    assert training_rows(x, None, 0, given, table)[0] is given
    assert training_rows(x, None, 0, None, table)[0].names == ("age", "town", "size")
    assert training_rows(x, None, 0)[0].names == ("x0", "x1", "x2")
    with pytest.raises(ValueError, match=r"`x_train` of shape \(rows, 3\) but got \(5, 2\)"):
        training_rows(x[:, :2], None, 0, None, table)
    with pytest.raises(TypeError, match="Expected `x_train` to be a tensor"):
        training_rows("rows", None, 0)


def test_a_tenth_is_held_out_unless_rows_to_validate_on_are_given() -> None:
    _, train, validation, _ = training_rows(X, None, seed=4)
    assert (len(train), len(validation)) == (36, 4)
    together = torch.cat((train, validation)).sort(0).values
    assert torch.equal(together, X.sort(0).values)
    assert torch.equal(training_rows(X, None, seed=4)[2], validation)
    assert not torch.equal(training_rows(X, None, seed=5)[2], validation)
    assert torch.equal(training_rows(X, X[:1], seed=4)[1], X)
    with pytest.raises(ValueError, match="Expected at least 2 training rows but got 1"):
        training_rows(X[:1], None, seed=0)
    with pytest.raises(ValueError, match="`x_validation`"):
        training_rows(X, X[:, :2], seed=0)


@pytest.mark.usefixtures("any_type")
def test_a_training_needs_players_that_are_the_same_in_every_row() -> None:
    x = torch.zeros(5, 2)
    with pytest.raises(
        TypeError, match=r"`players` to be a Players .* but got list; .*of_elements"
    ):
        training_rows(x, None, 0, ["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="for a training but these differ from row to row"):
        training_rows(x, None, 0, ms.Players.of_rows((2,), 2))


def test_padded_rows_are_trained_on() -> None:
    x = torch.tensor([[1.0, 0.0], [1.0, 2.0], [3.0, 0.0]])
    assert training_rows(x, x[:1], 0, ms.Players.tokens(2)).settings["padding"] == 0
    with pytest.raises(ValueError, match="row 3 of `x_train`"):
        training_rows(torch.cat((x, 0 * x[:1])), None, 0, ms.Players.tokens(2))
    with pytest.raises(ValueError, match="for a GaussianImputer but these are of"):
        ms.imputers.GaussianImputer(x, players=ms.Players.tokens(2))


def test_columns_of_a_frame_are_grouped_by_name() -> None:
    rows = training_rows(FRAME, FRAME, 0, {"body": ["age", "size"]})
    assert rows.players.names == ("body", "town")
    assert rows.players.index.tolist() == [0, 1, 0]
    known = training_rows(FRAME, FRAME, 0, {"body": ["age", "size"]}, ms.Table.fit(FRAME))
    assert known.players.same_as(rows.players)
    with pytest.raises(ValueError, match="columns of the group 'body'"):
        training_rows(FRAME, FRAME, 0, {"body": ["nose"]}, ms.Table.fit(FRAME))
    with pytest.raises(TypeError, match="with a frame or a table, groups of columns"):
        training_rows(X, X, 0, {"body": ["x0"]})
