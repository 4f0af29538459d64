"""Players: names, and the elements that each of them owns."""

import numpy as np
import pytest
import torch
from torch import Tensor

from manifold_shap.players import Players


def test_players_of_elements() -> None:
    players = Players.of_elements((2, 3))
    assert len(players) == 6
    assert players.event == (2, 3)
    assert players.names == ("x0", "x1", "x2", "x3", "x4", "x5")
    assert Players.of_elements((2,), ["a", "b"]).names == ("a", "b")


def test_elements_of_one_player_enter_together() -> None:
    players = Players(("a", "b"), torch.tensor([[0, 1], [1, 1]]))
    mask = torch.tensor([[[True, False], [False, True], [True, True]]])
    expected = [[[True, False], [False, False]], [[False, True], [True, True]], [[True, True]] * 2]
    assert players.expand(mask).tolist() == [expected]


@pytest.mark.parametrize(
    "index",
    [torch.tensor([0, 2]), torch.tensor([0, 0]), torch.tensor([0, -1]), torch.tensor([0.0, 1.0])],
)
def test_players_must_each_own_an_element(index: Tensor) -> None:
    with pytest.raises(ValueError, match="Expected `index` to hold every integer from 0 to 1"):
        Players(("a", "b"), index)


@pytest.mark.usefixtures("any_type")
def test_what_players_own_is_told_by_numbers() -> None:
    for index in (None, ["x", "y"], [[0], [0, 1]]):
        with pytest.raises(TypeError, match=r"`index` to be a tensor, an array .* but got .*whose"):
            Players(["a", "b"], index)
    for count in ("3", 2.0, -1):
        with pytest.raises((TypeError, ValueError), match=f"`count` .* but got {count!r}"):
            Players.of_rows((4,), count)  # type: ignore[arg-type]


def test_players_have_names_of_their_own() -> None:
    with pytest.raises(ValueError, match=r"distinct names of players but got \['b'\]"):
        Players(("a", "b", "b"), torch.arange(3))


def test_names_are_strings_whatever_they_were_given_as() -> None:
    names = np.array(["a", "b"])
    assert all(type(name) is str for name in Players(names, [0, 1]).names)
    assert Players((0, 1), [0, 1]).names == ("0", "1")


def test_an_index_may_be_a_list_or_an_array() -> None:
    for index in ([0, 0, 1], np.array([0, 0, 1]), torch.tensor([0, 0, 1], dtype=torch.int32)):
        assert Players(["a", "b"], index).index.tolist() == [0, 0, 1]
        assert Players(["a", "b"], index).index.dtype == torch.int64


def test_players_of_rows_own_what_a_value_function_says() -> None:
    players = Players.of_rows((2, 3), 4)
    assert players.by_row
    assert (len(players), players.event) == (4, (2, 3))
    assert players.first(2).names == players.names[:2]
    assert not Players.of_elements((2, 3)).by_row


@pytest.mark.usefixtures("any_type")
def test_names_and_the_shape_of_a_row_go_together() -> None:
    with pytest.raises(ValueError, match=r"Expected 4 names, one per element .*, but got 2"):
        Players.of_elements((4,), ["a", "b"])
    with pytest.raises(TypeError, match=r"`event` to be a shape, such as \(4,\), but got 4"):
        Players.of_elements(4)  # type: ignore[arg-type]
