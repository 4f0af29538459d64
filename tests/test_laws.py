"""Laws over coalitions of neighbours: against probabilities worked out by hand, and as laws."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from tests.test_coalitions import assert_law, counts, generator

LINE = [[0.0], [1.0], [2.0], [3.0]]
SHORT = torch.tensor([3, 4, 2])


def blocks_on_a_line(places: int) -> Tensor:
    """Probabilities of all coalitions of so many places in a row, by enumeration."""
    probability = torch.zeros(2**places)
    for number in range(1, places):
        weight = math.log(1 + 1 / number) / math.log(places)
        cuts = list(itertools.product(range(places - 1), repeat=number))
        for gaps in cuts:
            cell = torch.tensor([sum(gap < place for gap in set(gaps)) for place in range(places)])
            cells = int(cell.max()) + 1
            for size in range(cells):
                for some in itertools.combinations(range(cells), size):
                    code = sum(2**k for k in range(places) if int(cell[k]) in some)
                    probability[code] += weight / len(cuts) / cells / math.comb(cells, size)
    return probability


@pytest.mark.parametrize("law", [ms.laws.Blocks(LINE), ms.laws.SizeUniform(4)])
def test_rows_of_any_length_have_the_law_of_so_many_players(law: ms.laws.CoalitionLaw) -> None:
    short = law.sample_antithetic((3, 10_000), generator(3), SHORT[:, None])
    whole = law.sample_antithetic((40_000,), generator(2))
    single = law.sample((200, 200), generator(1)).flatten(0, 1)[:, None]
    for mask, count in zip((*short, whole, single), (*SHORT.tolist(), 4, 4), strict=True):
        assert not mask[..., count:].any()
        expected = blocks_on_a_line(count)
        if isinstance(law, ms.laws.SizeUniform):
            expected = ms.laws.SizeUniform(count).log_prob(all_coalitions(count)).exp()
            # Halves cover all players but one.
            assert mask is single or (mask.sum((1, 2)) == count - 1).all()
        for half in mask.unbind(1):
            assert_law(counts(half[:, :count]), expected)


@pytest.mark.parametrize("shape", [(6, 6), (2, 9), (1, 12)])
def test_cells_of_a_picture_are_contiguous(shape: tuple[int, int]) -> None:
    law = ms.laws.Blocks.of(ms.Players.pixels(shape), axes=[0, 1])
    cells = law.cells((200,), generator(6))
    assert len({len(row.unique()) for row in cells}) > 3
    place = torch.cartesian_prod(*(torch.arange(n) for n in shape)).double()
    for row in cells[:50]:
        for cell in row.unique().tolist():
            inside = place[row == cell]
            # A cell is convex: the middle of two of its pixels, where it is one, is in it as well.
            middle = (inside[:, None] + inside) / 2
            whole = (middle == middle.floor()).all(-1)
            pixels = middle[whole].long()
            assert (row[pixels[:, 0] * shape[1] + pixels[:, 1]] == cell).all()


@given(
    st.tuples(st.integers(4, 7), st.integers(4, 7)),
    st.integers(1, 3),
    st.lists(st.integers(1, 49), min_size=1, max_size=5),
    st.integers(0, 1000),
)
@settings(deadline=None, max_examples=15)
def test_every_law_keeps_its_promises(
    picture: tuple[int, int], size: int, lengths: list[int], seed: int
) -> None:
    players = ms.Players.patches((2, *picture), size)
    law, n = ms.laws.laws_for(players), len(players)
    if n >= 3:
        assert [each.name for each in law.parts] == ["scattered", "blocks"]
    count = torch.tensor(lengths).clamp(max=n)
    for each in (law, *law.parts):
        assert each.players == n
        pairs = each.sample_antithetic((len(lengths), 3), generator(seed), count[:, None])
        assert pairs.shape == (len(lengths), 3, 2, n)
        assert not (pairs[:, :, 0] & pairs[:, :, 1]).any()
        single = each.sample((len(lengths), 3), generator(seed), count[:, None])
        beyond = torch.arange(n) >= count[:, None]
        for mask in (*pairs.unbind(2), single):
            assert not mask[beyond[:, None].expand_as(mask)].any()
            assert (mask.sum(-1) < count[:, None]).all()
        again = each.sample((len(lengths), 3), generator(seed), count[:, None])
        assert torch.equal(single, again)
        assert each.sample((), generator(seed)).shape == (n,)


def test_a_mixture_draws_by_its_weights() -> None:
    law = ms.laws.Mixture([ms.laws.SizeUniform(4), ms.laws.LeverageScores(4)], [3, 1])
    assert law.weights == (0.75, 0.25)
    probability = law.log_prob(all_coalitions(4)).exp()
    first, other = (each.log_prob(all_coalitions(4)).exp() for each in law.laws)
    torch.testing.assert_close(probability, 0.75 * first + 0.25 * other)
    assert_law(counts(law.sample((400, 100), generator(7))), probability)
    pairs = law.sample_antithetic((40_000,), generator(8))
    for half in range(2):
        assert_law(counts(pairs[:, half]), probability)
    with pytest.raises(NotImplementedError, match="probabilities of Blocks have no formula"):
        ms.laws.Mixture([ms.laws.SizeUniform(4), ms.laws.Blocks(LINE)]).log_prob(all_coalitions(4))


BOTH, ALONE = {"scattered": 0.5, "blocks": 0.5}, {"scattered": 1.0}


@pytest.mark.parametrize(
    ("players", "options", "shares"),
    [
        (ms.Players.of_elements((8,)), {"axes": [0]}, BOTH),
        (ms.Players.of_elements((3, 8)), {}, BOTH),
        (ms.Players.segments((3, 40), 5), {}, BOTH),
        (ms.Players.channels((3, 8, 8)), {}, ALONE),
        (ms.Players.of_rows((3, 8, 8), 5), {}, ALONE),
        (ms.Players.tokens(8), {}, BOTH),
        (ms.Players.tokens(8), {"blocks": 0.25}, {"scattered": 0.75, "blocks": 0.25}),
        (ms.Players.tokens(8), {"blocks": 0}, ALONE),
        (ms.Players.tokens(8), {"blocks": 1}, {"blocks": 1.0}),
    ],
)
def test_players_with_neighbours_have_as_many_blocks_as_are_asked_for(
    players: ms.Players, options: dict, shares: dict[str, float]
) -> None:
    law = ms.laws.laws_for(players, **options)
    weights = law.weights if isinstance(law, ms.laws.Mixture) else [1.0]
    assert dict(zip((each.name for each in law.parts), weights, strict=True)) == shares


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ms.laws.Blocks([[1.0], [1.0]]), "all in one"),
        (lambda: ms.laws.laws_for(ms.Players.tokens(8), blocks=-1), "`blocks` to be a finite"),
        (lambda: ms.laws.Blocks.of(ms.Players.of_rows((4,), 2)), "these differ from row to row"),
        (
            lambda: ms.laws.ShapleyKernel(3).sample((3,), generator(), SHORT),
            "ShapleyKernel is of all players",
        ),
    ],
)
@pytest.mark.usefixtures("any_type")
def test_laws_that_cannot_be(make, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()
