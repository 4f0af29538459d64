"""Interactions of pairs: by enumeration against brute force, known games, laws and errors."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from tests.examples import Drawn, Game, Padded, Ragged, people, table, uniform
from tests.laws import Enumerated


def pair_by_pair(value: Game, x: Tensor, players: int) -> Tensor:
    """The mean second difference over all coalitions of the others, one call per coalition."""
    outputs = value(x, torch.zeros(len(x), 1, players, dtype=torch.bool)).shape[-1]
    found = torch.zeros(len(x), players, players, outputs, dtype=torch.float64)

    def v(members: tuple[int, ...]) -> Tensor:
        mask = torch.zeros(len(x), 1, players, dtype=torch.bool)
        mask[..., list(members)] = True
        return value(x, mask)[:, 0].double()

    for i, j in itertools.combinations(range(players), 2):
        others = [k for k in range(players) if k not in (i, j)]
        for size in range(players - 1):
            weight = 1 / (players - 1) / math.comb(players - 2, size)
            for some in itertools.combinations(others, size):
                difference = v((*some, i, j)) - v((*some, i)) - v((*some, j)) + v(some)
                found[:, i, j] += weight * difference
    return found + found.transpose(1, 2)


def off_diagonal(values: Tensor) -> Tensor:
    return values * ~torch.eye(values.shape[1], dtype=torch.bool)[:, :, None]


@pytest.mark.parametrize("players", [2, 3, 4, 7])
def test_enumeration_is_the_definition(players: int) -> None:
    game, x = table(players, 3), uniform(2, players)
    found = ms.shapley_interactions(game, x)
    expected = pair_by_pair(game, x, players)
    torch.testing.assert_close(off_diagonal(found.values).double(), expected, atol=1e-6, rtol=0)
    assert (found.standard_error == 0).all()
    assert found.made_by["evaluations"] == 2 * (2**players - 2)


def test_first_order_terms() -> None:
    game, x = table(5), uniform(3, 5)
    shapley = ms.exact_shapley(game, x)
    plain = ms.shapley_interactions(game, x)
    torch.testing.assert_close(plain.values.diagonal(dim1=1, dim2=2).mT, shapley.phi)
    torch.testing.assert_close(plain.shapley.phi, shapley.phi)
    added = ms.shapley_interactions(game, x, index="k-SII")
    torch.testing.assert_close(off_diagonal(added.values), off_diagonal(plain.values))
    both = off_diagonal(plain.values).sum(2)
    main = added.values.diagonal(dim1=1, dim2=2).mT
    torch.testing.assert_close(main, shapley.phi - both / 2)
    total = main.sum(1) + both.sum(1) / 2
    torch.testing.assert_close(total, shapley.prediction - shapley.base)


def test_sums_of_products() -> None:
    """A product of k players gives each of its pairs 1 / (k - 1)."""

    def game(x: Tensor, mask: Tensor) -> Tensor:
        z = mask.double()
        parts = (3 * z[..., 0], z[..., 0] * z[..., 1], -2 * z[..., 1:5].prod(-1))
        return torch.stack(parts, -1)

    found = ms.shapley_interactions(game, torch.zeros(1, 6)).values[0]
    expected = torch.zeros(6, 6, 3, dtype=torch.float64)
    expected[0, 0, 0], expected[0, 1, 1], expected[1, 0, 1] = 3, 1, 1
    expected[0, 0, 1] = expected[1, 1, 1] = 0.5
    expected[1:5, 1:5, 2] = -2 / 3
    expected[range(1, 5), range(1, 5), 2] = -0.5
    torch.testing.assert_close(found, expected)


def test_copies_are_redundant_and_exclusive_or_is_synergy() -> None:
    """Of the probability of the true class: -(p - base) for copies, +(p - base) for XOR."""
    bits = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])

    def copies(x: Tensor, mask: Tensor) -> Tensor:
        # Two columns say the class, and each of them alone says it, too.
        p = 0.5 + 0.4 * mask.any(-1) * (2 * x[:, :1] - 1)
        return torch.stack((1 - p, p), -1)

    def parity(x: Tensor, mask: Tensor) -> Tensor:
        p = 0.5 + 0.4 * mask.all(-1) * (2 * (x[:, :1] != x[:, 1:2]).float() - 1)
        return torch.stack((1 - p, p), -1)

    for game, truth, sign in (
        (copies, bits[:, 0], -1),
        (parity, (bits[:, 0] != bits[:, 1]).float(), 1),
    ):
        found = ms.shapley_interactions(game, bits).values[:, 0, 1]
        of_truth = found[range(4), truth.long()]
        torch.testing.assert_close(of_truth, torch.full((4,), sign * 0.4))
        torch.testing.assert_close(found.sum(-1), torch.zeros(4))


def test_signs_follow_the_effect_where_the_law_is_known() -> None:
    """Noisy labels: redundancy and synergy hold on average, and in a row relative to its effect."""
    certain = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    # A player that says the class and its copy; two players that differ in one class.
    copies = torch.einsum("cf,fg->fgc", certain, torch.eye(2))
    differ = torch.stack((certain, certain.flip(0)))
    for joint, sign in ((copies, -1), (differ, 1)):
        law = Enumerated(joint)
        x, y = law.sample(1000, seed=0)
        found = ms.shapley_interactions(ms.oracles.PosteriorValue(law), x)
        pair, row = found.values[:, 0, 1], torch.arange(1000)
        # 0.4 for nine rows of ten, -0.4 for the others; 0.008 is the standard error of the mean.
        assert float(pair[row, y].mean()) == pytest.approx(sign * 0.32, abs=0.03)
        effect = found.shapley.phi[:, 0].sign()
        torch.testing.assert_close(pair * effect, torch.full_like(pair, sign * 0.4))
        torch.testing.assert_close(pair.sum(-1), torch.zeros(1000, dtype=pair.dtype))


@settings(max_examples=5, deadline=None)
@given(players=st.integers(2, 6), seed=st.integers(0, 1000))
def test_laws(players: int, seed: int) -> None:
    x = uniform(1, players)
    first, second = table(players, 2, seed), table(players, 2, seed + 1)
    one, two, both = (
        ms.shapley_interactions(game, x, index="k-SII").values
        for game in (first, second, lambda x, mask: first(x, mask) - 2 * second(x, mask))
    )
    torch.testing.assert_close(both, one - 2 * two, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(one, one.transpose(1, 2))
    # A player that adds the same to all has no interactions.
    dummy = ms.shapley_interactions(
        lambda x, mask: first(x, mask[..., :-1]) + 3 * mask[..., -1:], torch.cat((x, x[:, :1]), 1)
    ).values
    torch.testing.assert_close(dummy[:, -1, :-1], torch.zeros_like(dummy[:, -1, :-1]))
    torch.testing.assert_close(dummy[:, -1, -1], torch.full_like(dummy[:, -1, -1], 3.0))


def test_groups_are_players() -> None:
    x = uniform(2, 6)
    value = ms.as_value_function(table(6), x)
    grouped = value.grouped({"a": ["x0", "x1"], "b": ["x2", "x5"]})
    found = ms.shapley_interactions(grouped, x)
    assert found.players.names == ("a", "b", "x3", "x4")
    expected = pair_by_pair(grouped, x, 4)
    torch.testing.assert_close(off_diagonal(found.values).double(), expected, atol=1e-6, rtol=0)


def test_rows_with_players_of_their_own() -> None:
    x = Ragged.some_rows()
    found = ms.shapley_interactions(Ragged(), x)
    for row, count in enumerate((3, 1, 4, 3, 2)):
        alone = ms.shapley_interactions(Ragged(), x[row : row + 1]) if count > 1 else None
        if alone is not None:
            torch.testing.assert_close(found.values[row], alone.values[0], equal_nan=True)
        assert found.values[row].isnan().sum() == 2 * (16 - count**2)
    with pytest.raises(ValueError, match=r"at least two players.* but got 1, 'token 0'"):
        ms.shapley_interactions(Padded(), Padded.some_rows()[1:2])


def test_batches_change_nothing() -> None:
    game, x = table(6), uniform(5, 6)
    whole = ms.shapley_interactions(game, x)
    for size in (1, 13):
        parts = ms.shapley_interactions(game, x, batch_size=size)
        torch.testing.assert_close(parts.values, whole.values, atol=1e-6, rtol=1e-6)
    assert torch.equal(whole[1:3].values, whole.values[1:3])
    assert whole[2].instances == (2,)


def test_errors_of_draws() -> None:
    """What is claimed is what the same row shows many times."""
    x = torch.zeros(2000, 3)
    found = ms.shapley_interactions(Drawn(3), x, evaluations=24, index="k-SII")
    assert found.made_by["repeats"] == 4
    shown = found.values.var(0)
    claimed = found.standard_error.square().mean(0)
    assert ((claimed - shown).abs() < 0.15 * shown).all()
    assert (off_diagonal(found.values).mean(0).abs() < 4 * (shown / 2000).sqrt()).all()
    once = ms.shapley_interactions(Drawn(3), x[:2], evaluations=6)
    assert once.standard_error.isnan().all()
    # By default every coalition is drawn for twice.
    assert ms.shapley_interactions(Drawn(3), x[:2]).standard_error.isfinite().all()


def test_constant_columns_do_not_interact() -> None:
    frame = people().assign(year=2024)
    codebook = ms.Codebook.fit(frame)
    model = ms.as_model(lambda some: some["age"] * some["member"], codebook, returns="values")
    imputer = ms.table_imputer(ms.MarginalImputer, codebook, frame)
    value = ms.imputed_value(model, imputer, "identity", 3)
    found = ms.shapley_interactions(value, frame.head(3))
    assert found.players.names == (*frame.columns,)
    assert (found.values[:, -1] == 0).all()
    assert (found.values[:, 0, 3] != 0).any()


def test_bad_input() -> None:
    game, x = table(3), uniform(1, 3)
    with pytest.raises(ValueError, match=r"`index` to be one of .*'SII', 'k-SII'.* 'STII'"):
        ms.shapley_interactions(game, x, index="STII")
    with pytest.raises(ValueError, match=r"at least two players.* but got 1, 'x0'"):
        ms.shapley_interactions(table(1), uniform(1, 1))
    with pytest.raises(
        ValueError, match=r"`evaluations` of at least 6 for the interactions of 3 players"
    ):
        ms.shapley_interactions(game, x, evaluations=5)
    with pytest.raises(ValueError, match="evaluations"):
        ms.shapley_interactions(game, x, evaluations=0)
    with pytest.raises(ValueError, match="seed"):
        ms.shapley_interactions(game, x, seed=-1)
    with pytest.raises(ValueError, match="nosuch"):
        ms.shapley_interactions(game, x, outputs="nosuch")
