"""Interactions of pairs: by enumeration against brute force, known games, laws and errors."""

import itertools

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from tests.examples import Drawn, Game, Ragged, people, table, uniform


def products(players: int, degrees: tuple[int, ...], seed: int = 0) -> tuple[Game, Tensor]:
    """A game that is a sum of products of players in two outputs, and its interactions."""
    draw = torch.Generator().manual_seed(seed)
    truth = torch.zeros(players, players, 2, dtype=torch.float64)
    terms, worth = [], []
    for degree in degrees:
        for _ in range(2 * players):
            members = torch.randperm(players, generator=draw)[:degree].tolist()
            worth.append(torch.randn(2, generator=draw, dtype=torch.float64))
            terms.append(members)
            for i, j in itertools.permutations(members, 2):
                truth[i, j] += worth[-1] / (degree - 1)
    member = torch.zeros(len(terms), players, dtype=torch.float64)
    for k, members in enumerate(terms):
        member[k, members] = 1

    def game(x: Tensor, mask: Tensor) -> Tensor:
        there = mask.double() @ member.T == member.sum(1)
        return there.double() @ torch.stack(worth) * x[:, None, :1]

    return game, truth


def pairs_only(values: Tensor) -> Tensor:
    """The upper triangle, `[rows, pairs, outputs]`."""
    first, second = torch.triu_indices(values.shape[1], values.shape[1], 1)
    return values[:, first, second]


@pytest.mark.parametrize(
    ("players", "degrees"), [(2, (1, 2)), (3, (1, 2, 3)), (4, (1, 3, 4)), (7, (1, 2, 4, 7))]
)
def test_all_coalitions_give_the_index(players: int, degrees: tuple[int, ...]) -> None:
    """Any game is a sum of products, whose interactions are their worth in equal shares."""
    game, truth = products(players, degrees)
    found = ms.shapley_interactions(game, torch.tensor([[1.0], [-2.0]]).double().expand(2, players))
    torch.testing.assert_close(
        pairs_only(found.values), pairs_only(torch.stack((truth, -2 * truth))), atol=1e-6, rtol=1e-6
    )
    assert (found.standard_error == 0).all()
    assert found.made_by["evaluations"] == 2 * (2**players - 2)


def test_first_order_terms() -> None:
    game, x = table(5), uniform(3, 5)
    shapley = ms.exact_shapley(game, x)
    plain = ms.shapley_interactions(game, x)
    torch.testing.assert_close(plain.values.diagonal(dim1=1, dim2=2).mT, shapley.phi)
    torch.testing.assert_close(plain.shapley.phi, shapley.phi)
    added = ms.shapley_interactions(game, x, index="k-SII")
    torch.testing.assert_close(pairs_only(added.values), pairs_only(plain.values))
    main = added.values.diagonal(dim1=1, dim2=2).mT
    torch.testing.assert_close(main, shapley.phi - (plain.values.sum(2) - shapley.phi) / 2)
    total = main.sum(1) + pairs_only(added.values).sum(1)
    torch.testing.assert_close(total, shapley.prediction - shapley.base)


def test_rows_with_players_of_their_own() -> None:
    x = Ragged.some_rows()
    found = ms.shapley_interactions(Ragged(), x)
    for row, count in enumerate((3, 1, 4, 3, 2)):
        alone = ms.shapley_interactions(Ragged(), x[row : row + 1])
        torch.testing.assert_close(found.values[row], alone.values[0], equal_nan=True)
        assert found.values[row].isnan().sum() == 2 * (16 - count**2)


def test_errors_of_draws() -> None:
    """What is claimed is what the same row shows many times."""
    x = torch.zeros(2000, 3)
    found = ms.shapley_interactions(Drawn(3), x, evaluations=24, index="k-SII")
    assert found.made_by["repeats"] == 4
    shown = found.values.var(0)
    claimed = found.standard_error.square().mean(0)
    assert ((claimed - shown).abs() < 0.15 * shown).all()
    assert (
        pairs_only(found.values).mean(0).abs() < 4 * pairs_only(shown[None] / 2000)[0].sqrt()
    ).all()
    once = ms.shapley_interactions(Drawn(3), x[:2], evaluations=6)
    assert once.standard_error.isnan().all()
    # By default every coalition is drawn for twice.
    assert ms.shapley_interactions(Drawn(3), x[:2]).standard_error.isfinite().all()


def test_constant_columns_do_not_interact() -> None:
    frame = people().assign(year=2024)
    table = ms.Table.fit(frame)
    model = ms.as_model(lambda some: some["age"] * some["member"], table, returns="values")
    imputer = ms.imputers.table_imputer(ms.imputers.MarginalImputer, table, frame)
    value = ms.imputed_value(model, imputer, "identity", 3)
    found = ms.shapley_interactions(value, frame.head(3))
    assert found.players.names == (*frame.columns,)
    assert (found.values[:, -1] == 0).all()
    assert (found.values[:, 0, 3] != 0).any()


# -- of sampled coalitions ----------------------------------------------------------------------


@pytest.mark.parametrize("players", [17, 45])
def test_what_depends_on_the_number_of_players_alone_is_no_noise(players: int) -> None:
    """A sum of contributions, and a part that is c(s) for all coalitions of s players.

    The interaction of each pair in that part is Σ_s (c(s) - 2 c(s+1) + c(s+2)) / (n-1), a sum that
    telescopes. Learned value functions jump at nobody and at everybody: c(0) and c(n).
    """
    draw = torch.Generator().manual_seed(0)
    c = torch.randn(players + 1, generator=draw, dtype=torch.float64)
    weight = torch.randn(players, generator=draw, dtype=torch.float64)

    def game(x: Tensor, mask: Tensor) -> Tensor:
        return (mask.double() @ weight + c[mask.sum(-1)])[..., None]

    x = torch.ones(1, players, dtype=torch.float64)
    found = ms.shapley_interactions(game, x, evaluations=3 * players**2)
    expected = (c[0] - c[1] - c[-2] + c[-1]) / (players - 1)
    pairs = pairs_only(found.values)
    torch.testing.assert_close(pairs, expected.expand_as(pairs), atol=1e-6, rtol=0)
    assert pairs_only(found.standard_error).max() < 1e-6


@pytest.mark.parametrize("players", [17, 45])
def test_terms_of_three_players_are_exact(players: int) -> None:
    game, truth = products(players, (1, 2, 3))
    found = ms.shapley_interactions(
        game, torch.tensor([[1.0], [-2.0]]).double().expand(2, players), index="k-SII",
        evaluations=2 * players**2,
    )  # fmt: skip
    assert found.made_by["estimator"] == "pairwise regression"
    assert found.made_by["evaluations"] <= 2 * 2 * players**2
    expected = pairs_only(torch.stack((truth, -2 * truth)))
    torch.testing.assert_close(pairs_only(found.values), expected, atol=1e-4, rtol=0)
    first = found.values.diagonal(dim1=1, dim2=2).mT
    total = first.sum(1) + pairs_only(found.values).sum(1)
    torch.testing.assert_close(total, found.shapley.prediction - found.shapley.base)
    assert torch.equal(found.values, found.values.transpose(1, 2))


@pytest.mark.parametrize(("players", "evaluations"), [(9, 200), (9, 500), (20, 1600)])
def test_standard_errors_cover(players: int, evaluations: int, many_calls: None) -> None:
    """Of 95 % intervals about 95 % hold the truth, somewhat more where pairs are few."""
    game, truth = products(players, (1, 2, 3, 4, 6))
    x = torch.ones(1, players, dtype=torch.float64)
    found = [
        ms.shapley_interactions(game, x, evaluations=evaluations, seed=seed) for seed in range(6)
    ]
    ratio = torch.cat(
        [pairs_only(each.values - truth) / pairs_only(each.standard_error) for each in found]
    )
    assert 0.92 < float((ratio.abs() < 1.96).double().mean()) < 0.99
    assert abs(float(ratio.mean())) < 0.15


def test_errors_of_draws_of_sampled_coalitions() -> None:
    """Of values that are drawn anew, over designs, in the mean over players and pairs."""
    value = Drawn(9)
    found = [
        ms.shapley_interactions(value, torch.zeros(40, 9), index=index, evaluations=300, seed=seed)
        for index in ("SII", "k-SII")
        for seed in range(8)
    ]
    for half in (found[:8], found[8:]):
        truth = torch.zeros(9, 9, 1)
        truth[range(9), range(9), 0] = torch.arange(9.0)
        apart = torch.cat([each.values - truth for each in half])
        claimed = torch.cat([each.standard_error for each in half]).square().mean(0)
        ratio = (apart.square().mean(0) / claimed)[..., 0]
        assert 0.6 < float(ratio.diag().mean()) < 1.15
        assert 0.6 < float(ratio[~torch.eye(9, dtype=torch.bool)].mean()) < 1.15


def test_seeds_rows_and_batches() -> None:
    game, x = table(9), uniform(3, 9)
    one = ms.shapley_interactions(game, x, evaluations=180, seed=1)
    assert torch.equal(one.values, ms.shapley_interactions(game, x, evaluations=180, seed=1).values)
    other = ms.shapley_interactions(game, x, evaluations=180, seed=2)
    assert not torch.allclose(one.values, other.values)
    parts = ms.shapley_interactions(game, x, evaluations=180, seed=1, batch_size=7)
    torch.testing.assert_close(parts.values, one.values)
    fewer = ms.shapley_interactions(game, x[:2], evaluations=180, seed=1)
    torch.testing.assert_close(fewer.values, one.values[:2])


@pytest.mark.parametrize(
    ("players", "evaluations", "least"), [(6, 60, 62), (9, 161, 162), (17, 577, 578)]
)
def test_too_few_evaluations(players: int, evaluations: int, least: int) -> None:
    game, _ = products(players, (2,))
    with pytest.raises(ValueError, match=rf"at least {least} for the .* of {players} players"):
        ms.shapley_interactions(game, torch.ones(1, players), evaluations=evaluations)
    with pytest.raises(ValueError, match="at least 216 for the interactions of 9 players"):
        ms.shapley_interactions(Drawn(9), torch.ones(1, 9), evaluations=200)
