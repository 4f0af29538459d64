"""Interactions by least squares: the fit to all coalitions, exact games, intervals and errors."""

import itertools

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from manifold_shap.estimators import parting
from manifold_shap.estimators.pairs import Pairs
from tests.examples import Drawn, Game, Recorded, table, uniform


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


@pytest.mark.parametrize("players", [4, 7])
def test_the_fit_to_all_coalitions_is_the_index(players: int) -> None:
    game, x = table(players, 3), torch.ones(1, players)
    mask = all_coalitions(players - 1)
    mask = torch.cat((mask, mask.new_zeros(len(mask), 1)), dim=1)
    size = mask.sum(1)
    c = game(x, torch.ones(1, 1, players) > 0) + game(x, torch.zeros(1, 1, players) > 0)
    c = (c - game(x, mask[None]) - game(x, ~mask[None]))[0].T.double()
    # Of single players one is the complement of the others.
    last = (size == players - 1).nonzero()[:, 0]
    alone = [(mask.sum(1) == 1) & mask[:, k] for k in range(players - 1)]
    alone_losses = torch.cat((*(c[:, one] for one in alone), c[:, last]), dim=1)
    inner = (size >= 2) & (size <= players - 2)
    fit = parting.Parting(Pairs.all_of(mask[inner]))
    fitted, _ = fit.fit(fit.losses(c[:, inner], alone_losses))
    found = (fitted + parting.equal_shares(alone_losses)).permute(1, 2, 0)[None]
    expected = ms.shapley_interactions(game, x).values.double()
    torch.testing.assert_close(pairs_only(found), pairs_only(expected), atol=2e-6, rtol=0)


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
    assert found.made_by["estimator"] == "parting"
    assert found.made_by["evaluations"] <= 2 * 2 * players**2
    expected = pairs_only(torch.stack((truth, -2 * truth)))
    torch.testing.assert_close(pairs_only(found.values), expected, atol=1e-4, rtol=0)
    first = found.values.diagonal(dim1=1, dim2=2).mT
    total = first.sum(1) + pairs_only(found.values).sum(1)
    torch.testing.assert_close(total, found.shapley.prediction - found.shapley.base)
    assert torch.equal(found.values, found.values.transpose(1, 2))


@pytest.mark.parametrize(("players", "evaluations"), [(9, 200), (20, 1600)])
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


def test_estimates_have_no_bias_to_speak_of(many_calls: None) -> None:
    """Against enumeration, of 10 players; standard errors say how far estimates are from it."""
    game, x = table(10), torch.ones(1, 10)
    truth = ms.shapley_interactions(game, x).values
    found = [ms.shapley_interactions(game, x, evaluations=400, seed=seed) for seed in range(30)]
    apart = torch.cat([pairs_only(each.values - truth) for each in found])
    # Of order 1/evaluations, a tenth of a standard error here; the square over seeds adds 1/30.
    bias = (apart.mean(0) / apart.std(0)).square().mean() - 1 / 30
    assert float(bias) < 0.15**2
    claimed = torch.cat([pairs_only(each.standard_error) for each in found]).square().mean()
    assert 0.7 < float(apart.square().mean() / claimed) < 1.1


def test_groups() -> None:
    """24 elements as 20 players, of which the first four are pairs of neighbours."""
    game, truth = products(24, (2,))
    value = ms.as_value_function(game, torch.ones(1, 24).double()).grouped(
        {f"both{k}": [f"x{2 * k}", f"x{2 * k + 1}"] for k in range(4)}
    )
    found = ms.shapley_interactions(value, torch.ones(1, 24).double())
    assert found.players.names[:5] == ("both0", "both1", "both2", "both3", "x8")
    join = torch.zeros(20, 24, dtype=torch.float64)
    join[[k // 2 if k < 8 else k - 4 for k in range(24)], range(24)] = 1
    expected = torch.einsum("ik,klo,jl->ijo", join, truth, join)[None]
    torch.testing.assert_close(pairs_only(found.values), pairs_only(expected), atol=1e-5, rtol=0)


def test_errors_of_draws() -> None:
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


def test_shapley_values_beside_them() -> None:
    game, _ = products(17, (1, 2))
    x = torch.ones(1, 17, dtype=torch.float64)
    found = ms.shapley_interactions(game, x)
    expected = ms.kernel_shapley(game, x)
    torch.testing.assert_close(found.shapley.phi, expected.phi)
    first = found.values.diagonal(dim1=1, dim2=2).mT
    torch.testing.assert_close(first, found.shapley.phi)
    assert found.made_by["evaluations"] <= 4 * 17**2
    game = table(9)
    found = ms.shapley_interactions(game, uniform(2, 9), evaluations=400)
    exact = ms.exact_shapley(game, uniform(2, 9)).phi
    ratio = (found.shapley.phi - exact) / found.shapley.standard_error
    assert ratio.abs().max() < 4


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


def test_coalitions_are_proper_and_as_many_as_said() -> None:
    value = Recorded(table(9), 9)
    ms.shapley_interactions(value, uniform(1, 9), evaluations=201)
    inner = torch.cat(value.masks, 1).sum(-1)
    assert inner.numel() == 200
    # Every player alone, and every player left out.
    assert (inner == 1).sum() == (inner == 8).sum() == 9


def test_log_ratios() -> None:
    value = Recorded(table(9), 9, classes=3)
    found = ms.shapley_interactions(value, uniform(2, 9), evaluations=200)
    assert found.shapley.covariance is not None
    assert found.compositions().shape == (2, 9, 9, 3)


@pytest.mark.parametrize(
    ("players", "evaluations", "least"), [(6, 60, 62), (9, 161, 162), (17, 577, 578)]
)
def test_too_few_evaluations(players: int, evaluations: int, least: int) -> None:
    game, _ = products(players, (2,))
    with pytest.raises(ValueError, match=rf"at least {least} for the .* of {players} players"):
        ms.shapley_interactions(game, torch.ones(1, players), evaluations=evaluations)
    with pytest.raises(ValueError, match="at least 216 for the interactions of 9 players"):
        ms.shapley_interactions(Drawn(9), torch.ones(1, 9), evaluations=200)


def test_too_many_players() -> None:
    with pytest.raises(ValueError, match=r"at most 45 players .* but got 46; group features"):
        ms.shapley_interactions(products(46, (2,))[0], torch.ones(1, 46))
