"""Orders of causal graphs, laws of orders and groups, against enumeration of all permutations."""

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Listed
from manifold_shap.ordering import Ordering
from manifold_shap.posets import Lattice, closure, extensions
from tests.test_ordering import (
    GRAPHS,
    GROUPS,
    PLAYERS,
    allowed,
    brute_force,
    generator,
    random_game,
    rows,
)

graphs = st.permutations("abcde").flatmap(
    lambda names: st.sets(st.sampled_from(list(itertools.combinations(range(5), 2)))).map(
        lambda pairs: {
            names[j]: [names[i] for i, k in pairs if k == j] for j in {j for _, j in pairs}
        }
    )
)


components = st.permutations("abcde").flatmap(
    lambda names: st.sets(st.integers(1, 4)).map(
        lambda cuts: [[*names[i:j]] for i, j in itertools.pairwise([0, *sorted(cuts), 5])]
    )
)


@given(graphs | components)
@settings(deadline=None, max_examples=25)
def test_orders_and_coalitions_are_those_of_all_permutations(graph: Any) -> None:
    ordering, orders = Ordering(graph, PLAYERS), allowed(graph)
    assert ordering.allowed.count == len(orders)
    assert ordering.allowed.all().tolist() == [list(order) for order in orders]
    expected = {frozenset(order[:k]) for order in orders for k in range(6)}
    found = [
        frozenset(mask.nonzero()[:, 0].tolist())
        for mask in ordering.allowed.weighted_coalitions()[0]
    ]
    assert len(found) == len(expected) == ordering.allowed.coalitions
    assert set(found) == expected
    assert not found[0]
    assert len(found[-1]) == 5


@given(graphs | components, st.integers(0, 1000))
@settings(deadline=None, max_examples=12)
def test_values_equal_the_mean_over_all_allowed_permutations(graph: Any, seed: int) -> None:
    game, x = random_game(seed), rows(2)
    expected = brute_force(game, x, dict.fromkeys(allowed(graph), 1.0))
    exact = ms.exact_shapley(game, x, ordering=graph)
    torch.testing.assert_close(exact.phi, expected, rtol=1e-4, atol=1e-5)
    every = ms.permutation_shapley(game, x, ordering=graph, permutations=120)
    torch.testing.assert_close(every.phi, expected, rtol=1e-4, atol=1e-5)
    assert (every.standard_error == 0).all()


def edges_of(size: int, edges: list[tuple[int, int]]) -> Tensor:
    direct = torch.zeros(size, size, dtype=torch.bool)
    for cause, effect in edges:
        direct[cause, effect] = True
    return direct


def test_counts_of_known_partial_orders() -> None:
    # Two rows of k players, in which each one waits for its left and upper neighbour: Catalan.
    k = 10
    edges = [(i, i + 1) for row in (0, k) for i in range(row, row + k - 1)]
    edges += [(i, i + k) for i in range(k)]
    lattice = Lattice(closure(edges_of(2 * k, edges)))
    assert lattice.count == math.comb(2 * k, k) // (k + 1)
    # Forty players with two relations are taken apart: nothing is enumerated.
    wide = extensions(closure(edges_of(40, [(3, 5), (7, 9)])))
    assert wide.count == math.factorial(40) // 4
    drawn = wide.draw(100, generator())
    place = drawn.argsort(-1)
    assert (place[..., 3] < place[..., 5]).all()
    assert (place[..., 7] < place[..., 9]).all()
    assert torch.equal(drawn.sort(-1).values, torch.arange(40).expand(100, 2, 40))


def test_a_graph_of_too_many_coalitions_is_refused() -> None:
    # Each of 16 effects has two causes, all of which hang together.
    players = ms.Players.of_elements((32,))
    names = players.names
    crown = {names[16 + k]: [names[k], names[(k + 1) % 16]] for k in range(16)}
    x = torch.rand(2, 32, generator=generator())
    value = ms.as_value_function(lambda x, mask: mask.sum(-1, keepdim=True) * 1.0, x, players)
    for explain in (ms.permutation_shapley, ms.exact_shapley):
        with pytest.raises(ValueError, match=r"32 such players have more; .* `permutation_shapley"):
            explain(value, x, ordering=crown)


LAW = [("abcde", 0.5), ("edcba", 0.2), ("bacde", 0.3), ("cabde", 0.0)]
NUMBERS = {tuple("abcde".index(name) for name in order): weight for order, weight in LAW}


def drawn(count: int, generator: torch.Generator) -> Tensor:
    """Orders of the law."""
    weights = torch.tensor([*NUMBERS.values()])
    which = torch.multinomial(weights, count, replacement=True, generator=generator)
    return torch.tensor([*NUMBERS])[which]


def test_of_listed_orders_the_weighted_mean_is_exact() -> None:
    game, x = random_game(), rows()
    # What only their ratios say.
    orders = [([*order], 10 * weight) for order, weight in LAW]
    found = ms.permutation_shapley(game, x, orders=orders)
    expected = brute_force(game, x, NUMBERS)
    torch.testing.assert_close(found.phi, expected, rtol=1e-4, atol=1e-5)
    assert (found.standard_error == 0).all()
    assert found.made_by["orders"] == 4
    assert found.made_by["evaluations"] == len(x) * 4 * 4


def test_single_orders_that_a_function_draws_are_unbiased_with_honest_errors() -> None:
    count, game, x = 1_500, random_game(), rows(1)
    found = ms.permutation_shapley(game, x.expand(count, -1), orders=drawn, permutations=5)
    deviation = found.phi - brute_force(game, x, NUMBERS)
    assert (deviation.mean(0).abs() < 5 * deviation.std(0) / count**0.5 + 1e-6).all()
    claimed = found.standard_error.square().mean(0)
    torch.testing.assert_close(claimed, deviation.square().mean(0), rtol=0.2, atol=1e-9)
    assert found.made_by["evaluations"] == count * 5 * 4
    assert found.made_by["orders"] == "drawn"
    assert (found.degrees_of_freedom == 4).all()
    assert found.efficiency_gap < 1e-5
    few = ms.permutation_shapley(game, rows(), orders=drawn, evaluations=30, batch_size=3)
    whole = ms.permutation_shapley(game, rows(), orders=drawn, evaluations=30)
    assert torch.equal(few.phi, whole.phi)
    assert whole.made_by["permutations"] == 7
    met = ms.permutation_shapley(game, rows(), orders=drawn, target_error=0.2)
    assert met.made_by["target_error"] == 0.2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"orders": [("abcd", 1.0)]}, r"all players, .* once but got \['a', 'b', 'c', 'd'\]"),
        ({"orders": [("abcde", -1.0)]}, r"not negative .* got \[-1.0\]"),
        ({"orders": []}, "not all zero"),
        ({"orders": LAW, "ordering": GRAPHS[0]}, "`ordering` or `orders` but got both"),
        ({"orders": lambda count, generator: torch.arange(5)}, "orders of 0, 1, .* 4"),
    ],
)
def test_orders_that_are_no_law(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ms.permutation_shapley(random_game(), rows(), **settings)


# -- groups that stay together ---------------------------------------------------------------------

partitions = st.lists(st.integers(0, 4), min_size=5, max_size=5).map(
    lambda own: [[n for n, k in zip("abcde", own, strict=True) if k == g] for g in sorted({*own})]
)


def together(groups: list[list[str]]) -> list[tuple[int, ...]]:
    """The orders in which the players of each group stand side by side."""
    number = {name: k for k, names in enumerate(groups) for name in names}
    return [
        order
        for order in itertools.permutations(range(5))
        if len(list(itertools.groupby(order, lambda i: number["abcde"[i]]))) == len(groups)
    ]


@given(partitions, st.integers(0, 1000))
@settings(deadline=None, max_examples=8)
def test_owen_values_are_the_mean_over_orders_that_keep_groups_together(
    groups: list[list[str]], seed: int
) -> None:
    game, x, orders = random_game(seed), rows(2), together(groups)
    ordering = Ordering.of_groups(groups, PLAYERS)
    assert sorted(map(tuple, ordering.allowed.all().tolist())) == orders
    assert ordering.allowed.count == len(orders)
    expected = brute_force(game, x, dict.fromkeys(orders, 1.0))
    for found in (
        ms.exact_shapley(game, x, ordering=ordering),
        ms.permutation_shapley(game, x, ordering=ordering, permutations=120),
        ms.auto_shapley(game, x, ordering=ordering),
    ):
        torch.testing.assert_close(found.phi, expected, rtol=1e-4, atol=1e-5)
    coalitions = {frozenset(order[:k]) for order in orders for k in range(6)}
    assert {
        frozenset(m.nonzero()[:, 0].tolist()) for m in ordering.allowed.weighted_coalitions()[0]
    } == coalitions
    assert (
        ordering.allowed.coalitions
        == len(ordering.allowed.weighted_coalitions()[0])
        == len(coalitions)
    )


def test_groups_share_as_the_players_of_a_game_of_groups() -> None:
    """And 20 players of 5 groups have few enough coalitions for an exact sum."""
    x = torch.rand(2, 20, generator=generator()) + 0.5
    groups = {f"g{k}": [f"x{4 * k + j}" for j in range(4)] for k in range(5)}
    value = ms.as_value_function(lambda x, mask: (x[:, None] * mask + 1).prod(-1, True), x)
    ordering = Ordering.of_groups([*groups.values()], value.players)
    found = ms.exact_shapley(value, x, ordering=ordering)
    of_groups = ms.exact_shapley(value.grouped(groups), x)
    torch.testing.assert_close(found.phi.unflatten(1, (5, 4)).sum(2), of_groups.phi)
    assert found.made_by["groups"] == [*groups.values()]
    assert found.made_by["evaluations"] == 2 * (2**5 - 2 + 5 * 16 * 14)


def test_orders_among_some_and_by_name() -> None:
    some = ms.Players.of_elements((3,), "ace")
    assert Ordering({"b": ["a"], "c": ["b"]}, PLAYERS).among(some).names == {"c": ["a"]}
    # What an effect has from a constant cause, it has from the causes of that.
    dropped = Ordering({"k": ["a"], "b": ["k"]}, PLAYERS, constants=["k"])
    assert dropped.names == {"b": ["a"]}
    groups = Ordering.of_groups(GROUPS, PLAYERS)
    assert groups.among(ms.Players.of_elements((3,), "bed")).names == [["d"], ["b", "e"]]
    turned = Ordering.of(groups, ms.Players.of_elements((5,), "edcba"))
    assert turned.names == [["d", "a"], ["e", "b"], ["c"]]


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize("ordering", [GRAPHS[0], Ordering.of_groups(GROUPS, PLAYERS)])
def test_adaptive_sampling_takes_components_only(ordering: Any) -> None:
    with pytest.raises(ValueError, match="by components for `adaptive_shapley`"):
        ms.adaptive_shapley(random_game(), rows(), ordering=ordering)
    if isinstance(ordering, Ordering):
        inner = ms.imputers.GaussianImputer(torch.randn(50, 5, generator=generator()), PLAYERS)
        with pytest.raises(ValueError, match="groups that stay together"):
            ms.imputers.CausalImputer(inner, ordering)


def gaussian(covariance: list[list[float]], names: str, graph: Any) -> tuple[Any, Tensor]:
    """A causal imputer of a Gaussian law, and its covariance matrix."""
    matrix = torch.tensor(covariance, dtype=torch.float64)
    root = torch.linalg.cholesky(matrix)
    noise = torch.randn(20_000, len(names), generator=generator(), dtype=torch.float64)
    noise = (noise - noise.mean(0)) @ torch.linalg.inv(torch.linalg.cholesky(noise.T.cov()).T)
    players = ms.Players.of_elements((len(names),), names)
    inner = ms.imputers.GaussianImputer((noise @ root.T).float(), players)
    return ms.imputers.CausalImputer(inner, graph), matrix


def test_interventions_of_a_graph_reach_effects_alone() -> None:
    # a -> b -> c and a -> c: with b set, a keeps its law, and c follows b and a's own draws.
    a, b = 1.0, 0.8
    matrix = torch.tensor([[1.0, a, 0.5 + a * b], [0, 0, 0], [0, 0, 0]])
    matrix[1, 1], matrix[1, 2] = a * a + 1, 0.5 * a + b * (a * a + 1)
    matrix[2, 2] = 0.5 * matrix[0, 2] + b * matrix[1, 2] + 1
    matrix = matrix.triu() + matrix.triu(1).T
    graph = {"b": ["a"], "c": ["a", "b"]}
    imputer, _ = gaussian(matrix.tolist(), "abc", graph)
    x = torch.tensor([[9.0, 2.0, 9.0]])
    mask = torch.tensor([[[False, True, False]]])
    keys = torch.zeros(1, 1, dtype=torch.int64)
    found = imputer.impute(x, Listed(mask, keys), range(20_000)).rows[0, 0].double()
    assert (found[:, 1] == 2).all()
    expected_mean = torch.tensor([0.0, 2.0, b * 2.0], dtype=torch.float64)
    torch.testing.assert_close(found.mean(0), expected_mean, rtol=0, atol=0.05)
    law = found[:, [0, 2]].T.cov()
    expected = torch.tensor([[1.0, 0.5], [0.5, 1.25]], dtype=torch.float64)
    torch.testing.assert_close(law, expected, rtol=0.05, atol=0.05)


def test_coalitions_share_draws_only_where_all_that_came_before_is_equal() -> None:
    # c has the cause b alone; whether a is known changes the draw of b, and so that of c.
    matrix = [[1.0, 0.95, 0.9], [0.95, 1.0, 0.95], [0.9, 0.95, 1.0]]
    imputer, _ = gaussian(matrix, "abc", {"b": ["a"], "c": ["b"]})
    x = torch.tensor([[4.0, 0.0, 0.0]])
    mask = torch.tensor([[[True, False, False], [False, False, False]]])
    keys = torch.zeros(1, 2, dtype=torch.int64)
    found = imputer.impute(x, Listed(mask, keys), range(4_000)).rows[0]
    means = found[..., 2].mean(1)
    torch.testing.assert_close(means, torch.tensor([4 * 0.95**2, 0.0]), rtol=0, atol=0.12)
