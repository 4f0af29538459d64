"""Players: names, and the elements that each of them owns."""

import itertools
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import manifold_shap as ms
from manifold_shap.convolutions import check_positions
from manifold_shap.players import Players


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


def test_players_of_padded_rows_begin_one_after_another() -> None:
    with pytest.raises(ValueError, match="but 'b' begins before 'a'; number and name them in"):
        Players("ab", [1, 0, 0], padding=0)
    # Where they begin together, a row has both or neither.
    assert len(Players("ab", [[1, 1], [0, 0]], padding=0)) == 2
    tokens = Players.tokens(4)
    assert tokens.grouped(["odd", "even"], torch.tensor([0, 1, 0, 1])).padding == 0
    with pytest.raises(ValueError, match="but 'last' begins before 'first'"):
        tokens.grouped(["first", "last"], torch.tensor([1, 1, 0, 0]))


PADDED = ms.Players.tokens(4, padding=0)
FEW = {"max_epochs": 1, "hidden": [4], "trainer": {"accelerator": "cpu"}, "progress": False}


def total(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1).sum(1, keepdim=True)


@pytest.mark.parametrize("row", [[0.0, 0.0, 5.0, 6.0], [5.0, 0.0, 0.0, 6.0]])
@pytest.mark.parametrize(
    "door",
    [
        lambda x: ms.exact_shapley(
            ms.imputed_value(total, ms.imputers.PaddingImputer(PADDED), "identity"), x
        ),
        lambda x: ms.imputers.MarginalImputer(x, PADDED),
        lambda x: ms.fit_surrogate(total, x, space="identity", players=PADDED, **FEW),
        lambda x: ms.fit_imputer(x, players=PADDED, **FEW),
        lambda x: ms.text.word_maps(x, [[0, 1, 2, 3]] * len(x)),
    ],
)
def test_padding_elsewhere_than_at_the_end_is_refused(
    row: list[float], door: Callable[[torch.Tensor], object]
) -> None:
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [3.0, 0.0, 0.0, 0.0], [4.0, 3.0, 2.0, 0.0], row])
    with pytest.raises(
        ValueError, match=r"padding \(0\) at the end of rows .* row 3 .*move padding"
    ):
        door(x)


@pytest.mark.parametrize(
    ("size", "heights", "widths"),
    [
        (3, (3, 3), (3, 2, 2)),
        ((2, 4), (2, 2, 2), (4, 3)),
        (4, (3, 3), (4, 3)),
        (9, (6,), (7,)),
        (1, (1,) * 6, (1,) * 7),
    ],
)
def test_patches_are_rectangles_with_all_channels(
    size: int | tuple[int, int], heights: tuple[int, ...], widths: tuple[int, ...]
) -> None:
    players = Players.patches((3, 6, 7), size)
    down, across = (
        torch.arange(len(s)).repeat_interleave(torch.tensor(s)) for s in (heights, widths)
    )
    expected = down[:, None] * len(widths) + across
    assert torch.equal(players.index, expected.expand(3, 6, 7))
    places = itertools.product(range(len(heights)), range(len(widths)))
    assert players.names == tuple(f"patch {i},{j}" for i, j in places)


PICTURE = torch.rand(40, 12, 12, 3)


@pytest.mark.parametrize(
    "door",
    [
        lambda: ms.Players.pixels((24, 24, 3)),
        lambda: ms.Players.patches((20, 32, 1), 4),
        lambda: ms.Players.channels((5, 24, 24, 3)),
        lambda: ms.Players.segments((200, 3), 20),
        lambda: ms.superpixels(4)(PICTURE),
        lambda: ms.label_maps(PICTURE, torch.zeros(40, 12, 12).long()),
        lambda: ms.imputers.BlurImputer(PICTURE),
        lambda: ms.fit_surrogate(total, PICTURE, space="identity", network="conv", **FEW),
        lambda: ms.fit_imputer(PICTURE, network="conv", **FEW),
    ],
)
def test_channels_that_come_last_are_refused(door: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"channels come first.* `x.permute\(0, [234], .*model\("):
        door()


@pytest.mark.parametrize("event", [(3, 24, 24), (1, 8, 8), (64, 4, 4), (12, 60), (60, 12)])
def test_channels_that_come_first_are_not(event: tuple[int, ...]) -> None:
    assert len(ms.Players.channels(event)) == event[0]
    series = ms.Players.segments((12, 12), 3)
    assert check_positions((12, 12), series.index.flatten().tolist()) == (12,)
