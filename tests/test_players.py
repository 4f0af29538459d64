"""Players: names, and the elements that each of them owns."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.convolutions import check_positions
from manifold_shap.players import Players


def test_elements_of_one_player_enter_together() -> None:
    players = Players(("a", "b"), torch.tensor([[0, 1], [1, 1]]))
    mask = torch.tensor([[[True, False], [False, True], [True, True]]])
    expected = [[[True, False], [False, False]], [[False, True], [True, True]], [[True, True]] * 2]
    assert players.expand(mask).tolist() == [expected]


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


SERIES = torch.tensor(
    [
        [[1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 1.0, 1.0, 1.0, 1.0]],
        [[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0, 0.0]],
        [[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]],
    ]
)


def test_trailing_positions_at_which_all_channels_are_padding_belong_to_nobody() -> None:
    players = Players.segments((2, 5), 2, padding=0)
    assert players.by_row
    assert players.lengths(SERIES).tolist() == [5, 3, 1]
    rows = [[0, 0, 1, 1, 2], [0, 0, 1, -1, -1], [0, -1, -1, -1, -1]]
    assert players.owners(SERIES).tolist() == [[row, row] for row in rows]
    plain = Players.segments((2, 5), 2)
    assert not plain.by_row
    assert plain.owners(SERIES).tolist() == [[rows[0]] * 2] * 3


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from([0, -1, 2.5]),
    st.integers(0, 100),
)
@settings(deadline=None, max_examples=60)
def test_a_row_has_the_first_players_and_they_own_all_before_its_padding(
    lengths: list[int], channels: int, size: int, padding: float, seed: int
) -> None:
    players = Players.segments((channels, 9), size, padding)
    generator = torch.Generator().manual_seed(seed)
    ends = torch.tensor(lengths)[:, None, None]
    x = torch.randint(3, (len(lengths), channels, 9), generator=generator) - 1.0
    place = torch.arange(9)
    x = torch.where(place == ends - 1, padding + 1.0, x.where(place < ends, padding))
    assert players.lengths(x).tolist() == lengths
    owners = players.owners(x)
    mask = torch.rand(len(players), generator=generator) < 0.5
    for row, length in enumerate(lengths):
        inside = place.expand(channels, 9) < length
        assert torch.equal(owners[row] >= 0, inside)
        assert owners[row][inside].unique().tolist() == list(range(-(-length // size)))
        assert torch.equal(players.expand(mask)[inside], mask[owners[row][inside]])


def test_masks_over_the_first_players_leave_the_others_out() -> None:
    players = Players.segments((5,), 2, padding=-1.5)
    assert players.padding == -1.5
    mask = torch.tensor([[True, False, True], [False, True, False]])
    whole = [[True, True, False, False, True], [False, False, True, True, False]]
    assert players.expand(mask).tolist() == whole
    few = [[True, True, False, False, False], [False, False, True, True, False]]
    assert players.expand(mask[:, :2]).tolist() == few
    assert players.first(2).expand(mask[:, :2]).tolist() == few
    assert (len(players.first(2)), players.first(2).by_row) == (2, True)


def test_which_elements_players_of_rows_own_is_not_known_to_them() -> None:
    players = Players.of_rows((3,), 2)
    for call in (
        lambda: players.expand(torch.ones(2, dtype=torch.bool)),
        lambda: players.owners(torch.ones(1, 3)),
        lambda: players.grouped(["all"], torch.tensor([0, 0])),
    ):
        with pytest.raises(ValueError, match="but these differ from row to row"):
            call()


def test_players_of_padded_rows_begin_one_after_another() -> None:
    with pytest.raises(ValueError, match="but 'b' begins before 'a'; number and name them in"):
        Players("ab", [1, 0, 0], padding=0)
    # Where they begin together, a row has both or neither.
    assert len(Players("ab", [[1, 1], [0, 0]], padding=0)) == 2
    tokens = Players.tokens(4)
    assert tokens.grouped(["odd", "even"], torch.tensor([0, 1, 0, 1])).padding == 0
    with pytest.raises(ValueError, match="but 'last' begins before 'first'"):
        tokens.grouped(["first", "last"], torch.tensor([1, 1, 0, 0]))


class Items(torch.utils.data.Dataset):
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, number: int) -> torch.Tensor:
        return self.x[number]


PADDED = ms.Players.tokens(4, padding=0)
FEW = {"max_epochs": 1, "hidden": [4], "trainer": {"accelerator": "cpu"}, "progress": False}


def total(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1, keepdim=True)


def explained(x: torch.Tensor) -> object:
    return ms.exact_shapley(ms.imputed_value(total, ms.PaddingImputer(PADDED), "identity"), x)


def explained_by_row(x: torch.Tensor) -> object:
    value = ms.imputed_value(total, ms.PaddingImputer(PADDED), "identity")
    labels = torch.where(x != 0, 0, -1)
    return ms.exact_shapley(value.grouped(ms.label_maps(x, labels), 1), x)


@pytest.mark.parametrize("row", [[0.0, 0.0, 5.0, 6.0], [5.0, 0.0, 0.0, 6.0]])
@pytest.mark.parametrize(
    "door",
    [
        explained,
        explained_by_row,
        lambda x: ms.MarginalImputer(x, PADDED),
        lambda x: ms.fit_surrogate(total, x, output="identity", players=PADDED, **FEW),
        lambda x: ms.fit_surrogate(total, Items(x), output="identity", players=PADDED, **FEW),
        lambda x: ms.fit_imputer(x, players=PADDED, **FEW),
        lambda x: ms.word_maps(x, [[0, 1, 2, 3]] * len(x)),
    ],
)
def test_padding_elsewhere_than_at_the_end_is_refused(
    row: list[float], door: Callable[[torch.Tensor], object]
) -> None:
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [3.0, 0.0, 0.0, 0.0], [4.0, 3.0, 2.0, 0.0], row])
    with pytest.raises(ValueError, match=r"padding \(0\) at the end of rows .* row 3 .*move it"):
        door(x)


@pytest.mark.parametrize(("size", "sides"), [(3, (3, 3)), ((2, 4), (2, 4)), (9, (9, 9))])
def test_patches_are_rectangles_with_all_channels(
    size: int | tuple[int, int], sides: tuple[int, int]
) -> None:
    players = Players.patches((3, 5, 7), size)
    across = -(-7 // sides[1])
    for row in range(5):
        for column in range(7):
            i, j = row // sides[0], column // sides[1]
            assert players.index[:, row, column].tolist() == [i * across + j] * 3
            assert players.names[i * across + j] == f"patch {i},{j}"


def test_pixels_channels_and_time_points_are_players() -> None:
    pixels = Players.pixels((2, 3, 4))
    assert torch.equal(pixels.index, torch.arange(12).reshape(3, 4).expand(2, 3, 4))
    assert pixels.names[5] == "pixel 1,1"
    assert torch.equal(Players.pixels((3, 4)).index, pixels.index[0])
    assert Players.channels((2, 3)).names == ("channel 0", "channel 1")
    assert Players.channels((2, 3, 4)).index.unique(dim=0).flatten(1).unique(dim=1).tolist() == [
        [0],
        [1],
    ]
    points = Players.segments((3,), 1)
    assert (points.names, points.index.tolist()) == (("time 0", "time 1", "time 2"), [0, 1, 2])


PICTURE, LINES = torch.rand(40, 12, 12, 3), torch.rand(40, 48, 3)


def fitted(x: Tensor, **options: object) -> object:
    more = {**FEW, "output": "identity", **options}
    return ms.fit_surrogate(lambda x: x.flatten(1)[:, :1], x, **more)


@pytest.mark.parametrize(
    "door",
    [
        lambda: ms.Players.pixels((24, 24, 3)),
        lambda: ms.Players.patches((20, 32, 1), 4),
        lambda: ms.Players.channels((5, 24, 24, 3)),
        lambda: ms.Players.channels((200, 3)),
        lambda: ms.Players.segments((200, 3), 20),
        lambda: ms.superpixels(4)(PICTURE),
        lambda: ms.label_maps(PICTURE, torch.zeros(40, 12, 12).long()),
        lambda: ms.BlurImputer(PICTURE),
        lambda: fitted(PICTURE, network="conv"),
        lambda: fitted(LINES, network="transformer", hidden=[32]),
        lambda: ms.fit_imputer(PICTURE, network="conv", **FEW),
    ],
)
def test_channels_that_come_last_are_refused(door: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"channels come first.* `x.permute\(0, [234], .*model\("):
        door()


@pytest.mark.parametrize(("network", "hidden"), [("conv", [4]), ("transformer", [32])])
@pytest.mark.parametrize(
    "players", [None, ms.Players.pixels((12, 12)), ms.Players.patches((12, 12), 4)]
)
def test_pictures_without_channels_are_no_series(
    players: ms.Players | None, network: str, hidden: list[int]
) -> None:
    with pytest.raises(ValueError, match=r"pictures without; give .* `x\[:, None\]`"):
        fitted(PICTURE[..., 0], players=players, network=network, hidden=hidden)
    patches = ms.Players.patches((9, 12), 3)
    with pytest.raises(ValueError, match="pictures without"):
        fitted(PICTURE[:, :9, :, 0], players=patches, network=network, hidden=hidden)


@pytest.mark.parametrize(
    "event", [(3, 24, 24), (1, 8, 8), (64, 4, 4), (64, 8, 4), (12, 60), (60, 12)]
)
def test_channels_that_come_first_are_not(event: tuple[int, ...]) -> None:
    assert len(ms.Players.channels(event)) == event[0]
    series = ms.Players.segments((12, 12), 3)
    assert check_positions((12, 12), series.index.flatten().tolist()) == (12,)
    for shape in ((64, 8), (32, 4)):
        said = ms.Players.segments(shape, 2)
        assert check_positions(shape, said.index.flatten().tolist()) == shape[1:]
