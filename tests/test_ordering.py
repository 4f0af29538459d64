"""Partial orders against enumeration, and asymmetric values against brute force."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

import manifold_shap as ms
from manifold_shap.ordering import Ordering
from tests.examples import Game, table, uniform

# A statistical test here fails a correct sampler with this probability (over seeds).
FALSE_ALARM = 1e-6

PLAYERS = ms.Players.of_elements((5,), "abcde")
ORDERING = [["d", "b"], ["a"], ["e", "c"]]
GROUPS = [["d", "a"], ["b", "e"], ["c"]]
GRAPHS: list[dict[str, list[str]]] = [
    {"b": ["a"]},
    {"c": ["a", "b"], "d": ["b"]},  # An N: neither in series nor in parallel.
    {"b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["d"]},
    {"b": ["a"], "d": ["c"]},
    {"e": ["a", "b", "c", "d"]},
    {},
]
LISTS = [ORDERING, [["c", "a", "d"], ["b", "e"]], [[name] for name in "ecabd"], [list("badec")]]

Names = Sequence[Sequence[str]]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def allowed(relations: Any) -> list[tuple[int, ...]]:
    """All orders that components or a graph allow, by trying every order."""
    causes = relations
    if not isinstance(relations, Mapping):
        before = itertools.accumulate(relations, lambda known, names: [*known, *names], initial=[])
        causes = {n: known for names, known in zip(relations, before, strict=False) for n in names}
    found = []
    for order in itertools.permutations(range(5)):
        place = {PLAYERS.names[player]: k for k, player in enumerate(order)}
        if all(place[cause] < place[i] for i, each in causes.items() for cause in each):
            found.append(order)
    return found


@pytest.mark.parametrize(
    "relations", [*LISTS, *GRAPHS, Ordering.of_groups(GROUPS, PLAYERS)], ids=lambda r: repr(r)[:20]
)
def test_orders_are_drawn_uniformly(relations: Any) -> None:
    ordering = Ordering.of(relations, PLAYERS)
    orders = list(map(tuple, ordering.allowed.all().tolist()))
    pairs = ordering.allowed.draw(6000, generator())
    assert pairs.shape == (6000, 2, 5)
    for half in pairs.unbind(1):
        drawn = list(map(tuple, half.tolist()))
        counts = [drawn.count(order) for order in orders]
        assert sum(counts) == len(drawn)
        assert len(orders) == 1 or stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize("names", LISTS)
def test_orders_of_components_are_drawn_beside_their_reverses(names: Names) -> None:
    pairs, first = Ordering(names, PLAYERS).allowed.draw(20, generator()), 0
    for part in map(len, names):
        place = slice(first, first + part)
        assert torch.equal(pairs[:, 0, place].flip(-1), pairs[:, 1, place])
        first += part


def test_an_ordering_is_read_by_name() -> None:
    ordering = Ordering(ORDERING, PLAYERS)
    swapped = Ordering.of(ordering, ms.Players.of_elements((5,), "edcba"))
    assert swapped.component.tolist() == [2, 0, 2, 0, 1]
    with pytest.raises(ValueError, match=r"among \['a', 'b'\] but got \['d', 'e', 'c'\]"):
        Ordering.of([["d", "b"], ["a"], ["e", "c"]], ms.Players.of_elements((2,), "ab"))


# Asymmetric values.


def random_game(seed: int = 0) -> ms.ValueFunction:
    """Rows scale it by their element a."""
    return ms.as_value_function(table(5, 2, seed), rows(), PLAYERS)


def rows(count: int = 3) -> Tensor:
    return uniform(count, 5)


def brute_force(game: Game, x: Tensor, weights: dict[tuple[int, ...], float]) -> Tensor:
    """Marginal contributions along orders, by their weights (Carballo, Eq. 3.5.1)."""
    phi = torch.zeros(len(x), 5, 2, dtype=torch.float64)
    for order, weight in weights.items():
        masks = torch.zeros(len(x), 6, 5, dtype=torch.bool)
        for size, player in enumerate(order):
            masks[:, size + 1 :, player] = True
        phi[:, order] += weight * game(x, masks).diff(dim=1).double()
    return (phi / sum(weights.values())).float()


def test_sampled_values_are_unbiased_and_their_errors_honest() -> None:
    # The same row 4,000 times has 4,000 sets of orders. Each mean fails a correct estimator with
    # probability 6e-7; a variance over 4,000 has a relative standard error of about 2 %.
    count, names = 4_000, [["b"], ["c", "a", "e", "d"]]
    game, x = random_game(), rows(1)
    sampled = ms.permutation_shapley(game, x.expand(count, -1), ordering=names, permutations=22)
    deviation = sampled.phi - brute_force(game, x, dict.fromkeys(allowed(names), 1.0))
    # The player that always comes first has one contribution: sampled without an error.
    assert deviation[:, 1].abs().max() < 1e-6
    assert sampled.standard_error[:, 1].max() < 1e-6
    others = deviation[:, [0, 2, 3, 4]]
    assert (others.mean(0).abs() < 5 * others.std(0) / count**0.5).all()
    claimed = sampled.standard_error[:, [0, 2, 3, 4]].square().mean(0)
    torch.testing.assert_close(claimed, others.square().mean(0), rtol=0.12, atol=0)


@pytest.mark.parametrize("estimator", [ms.exact_shapley, ms.permutation_shapley])
def test_one_component_gives_the_symmetric_values(estimator: Callable[..., ms.Explanation]) -> None:
    game, x = random_game(), rows()
    options = {} if estimator is ms.exact_shapley else {"permutations": 16, "seed": 3}
    symmetric = estimator(game, x, **options)
    one = estimator(game, x, ordering=[list("badec")], **options)
    assert torch.equal(one.phi, symmetric.phi)
    assert torch.equal(one.standard_error, symmetric.standard_error)
    assert one.made_by == symmetric.made_by
    ordered = estimator(game, x, ordering=Ordering(ORDERING, PLAYERS), **options)
    assert ordered.made_by["ordering"] == [["b", "d"], ["a"], ["c", "e"]]


def test_many_players_in_small_components_are_enumerated() -> None:
    players = ms.Players.of_elements((40,))

    x = torch.rand(2, 40, generator=generator())
    linear = ms.as_value_function(lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True), x)
    names = [list(players.names[k : k + 4]) for k in range(0, 40, 4)]
    explanation = ms.exact_shapley(linear, x, ordering=names)
    torch.testing.assert_close(explanation.phi[..., 0], x, rtol=1e-4, atol=1e-5)
    wide = [list(players.names[:17]), list(players.names[17:])]
    with pytest.raises(ValueError, match=r"those of 16 players, .* but got 8519679"):
        ms.exact_shapley(linear, x, ordering=wide)
