"""Orders of any causal graph, and weights of orders, against enumeration of all permutations."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

import manifold_shap as ms
from manifold_shap.ordering import Ordering
from manifold_shap.posets import Lattice, Sequential, closure, orders_of
from tests.test_ordering import FALSE_ALARM, PLAYERS, generator, random_game, rows

GRAPHS: list[dict[str, list[str]]] = [
    {"b": ["a"]},
    {"c": ["a", "b"], "d": ["b"]},  # An N: neither in series nor in parallel.
    {"b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["d"]},
    {"b": ["a"], "d": ["c"]},
    {"e": ["a", "b", "c", "d"]},
    {},
]
every_graph = pytest.mark.parametrize("graph", GRAPHS)
estimators = pytest.mark.parametrize("estimator", [ms.exact_shapley, ms.permutation_shapley])


def allowed(graph: dict[str, list[str]], names: str = "abcde") -> list[tuple[int, ...]]:
    """All allowed orders, by trying every order."""
    found = []
    for order in itertools.permutations(range(len(names))):
        place = {names[player]: k for k, player in enumerate(order)}
        if all(place[cause] < place[i] for i, causes in graph.items() for cause in causes):
            found.append(order)
    return found


def brute_force(game: Callable[..., Tensor], x: Tensor, weights: dict[Any, float]) -> Tensor:
    """Marginal contributions along all orders, by their weights (Carballo, Eq. 3.5.1)."""
    phi = torch.zeros(len(x), 5, 2, dtype=torch.float64)
    for order, weight in weights.items():
        masks = torch.zeros(len(x), 6, 5, dtype=torch.bool)
        for size, player in enumerate(order):
            masks[:, size + 1 :, player] = True
        phi[:, order] += weight * game(x, masks).diff(dim=1).double()
    return phi / sum(weights.values())


graphs = st.permutations("abcde").flatmap(
    lambda names: st.sets(st.sampled_from(list(itertools.combinations(range(5), 2)))).map(
        lambda pairs: {
            names[j]: [names[i] for i, k in pairs if k == j] for j in {j for _, j in pairs}
        }
    )
)


@given(graphs)
@settings(deadline=None, max_examples=25)
def test_orders_and_coalitions_are_those_of_all_permutations(graph: dict[str, list[str]]) -> None:
    ordering, orders = Ordering(graph, PLAYERS), allowed(graph)
    assert ordering.orders == len(orders)
    assert ordering.all_orders()[0].tolist() == [list(order) for order in orders]
    expected = {frozenset(order[:k]) for order in orders for k in range(6)}
    found = [frozenset(mask.nonzero()[:, 0].tolist()) for mask in ordering.coalitions()]
    assert len(found) == len(expected) == ordering.coalitions_count
    assert set(found) == expected
    assert not found[0]
    assert len(found[-1]) == 5


@given(graphs, st.integers(0, 1000))
@settings(deadline=None, max_examples=25)
def test_values_equal_the_mean_over_all_allowed_permutations(
    graph: dict[str, list[str]], seed: int
) -> None:
    game, x = random_game(seed), rows(2)
    expected = brute_force(game, x, dict.fromkeys(allowed(graph), 1.0)).float()
    exact = ms.exact_shapley(game, x, ordering=graph)
    torch.testing.assert_close(exact.phi, expected, rtol=1e-4, atol=1e-5)
    every = ms.permutation_shapley(game, x, ordering=graph, permutations=120)
    torch.testing.assert_close(every.phi, expected, rtol=1e-4, atol=1e-5)
    assert (every.standard_error == 0).all()


@every_graph
def test_orders_are_drawn_uniformly(graph: dict[str, list[str]]) -> None:
    ordering, orders = Ordering(graph, PLAYERS), allowed(graph)
    pairs = ordering.sample_pairs((200, 60), generator())
    assert ordering.log_weights(pairs) is None
    for half in pairs.flatten(0, 1).unbind(1):
        drawn = list(map(tuple, half.tolist()))
        counts = [drawn.count(order) for order in orders]
        assert sum(counts) == len(drawn)
        assert len(orders) == 1 or stats.chisquare(counts).pvalue > FALSE_ALARM


@every_graph
def test_weights_make_sequential_orders_uniform(graph: dict[str, list[str]]) -> None:
    before, orders = Ordering(graph, PLAYERS).before, allowed(graph)
    law = Sequential(before)
    pairs = law.draw(20_000, generator())
    drawn = pairs[:, 1]
    weights = law.log_weights(drawn).exp()
    codes = (drawn * 5 ** torch.arange(5)).sum(1)
    listed = (torch.tensor(orders) * 5 ** torch.arange(5)).sum(1)
    assert torch.isin(codes, listed).all()
    # Mean of w over draws is the number of orders; w of each order has its share of that.
    share = torch.stack([(weights * (codes == code)).mean() for code in listed])
    error = torch.stack([(weights * (codes == code)).std() for code in listed]) / 20_000**0.5
    assert ((share - 1).abs() <= 5.5 * error + 1e-9).all()


def test_sequential_orders_of_a_forest_have_equal_weights() -> None:
    before = closure(edges_of(9, [(0, 1), (0, 2), (2, 3), (4, 5), (4, 6), (6, 7)]))
    weights = Sequential(before).log_weights(Sequential(before).draw(50, generator())[:, 0])
    torch.testing.assert_close(weights, weights[:1].expand(50))


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
    wide = orders_of(closure(edges_of(40, [(3, 5), (7, 9)])))
    assert wide.count == math.factorial(40) // 4
    drawn = wide.draw(100, generator())
    place = drawn.argsort(-1)
    assert (place[..., 3] < place[..., 5]).all()
    assert (place[..., 7] < place[..., 9]).all()
    assert torch.equal(drawn.sort(-1).values, torch.arange(40).expand(100, 2, 40))


def crown(size: int) -> tuple[ms.Players, dict[str, list[str]]]:
    """A partial order with far more ideals than are enumerated: each effect has two causes."""
    players = ms.Players.of_elements((2 * size,))
    names = players.names
    graph = {names[size + k]: [names[k], names[(k + 1) % size]] for k in range(size)}
    return players, graph


def test_many_players_are_weighted_and_say_so() -> None:
    players, graph = crown(16)
    x = torch.rand(2, 32, generator=generator())
    linear = ms.as_value_function(
        lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True), x, players
    )
    found = ms.permutation_shapley(linear, x, ordering=graph, permutations=64)
    torch.testing.assert_close(found.phi[..., 0], x, rtol=1e-4, atol=1e-5)
    assert 1 < found.made_by["effective_permutations"] < 64
    with pytest.warns(UserWarning, match=r"20 weighted orders are worth only \d+\.\d for some row"):
        few = ms.auto_shapley(linear, x, ordering=graph, evaluations=640)
    assert few.efficiency_gap < 1e-4
    with pytest.raises(ValueError, match="at most 65536 coalitions along its orders"):
        ms.exact_shapley(linear, x, ordering=graph)


def late_a(orders: Tensor) -> Tensor:
    """Orders count more the later the first player comes."""
    return 1.0 + (orders == 0).long().argmax(1)


LATE_A = {order: 1.0 + order.index(0) for order in itertools.permutations(range(5))}


def test_self_normalised_values_come_close_with_honest_errors() -> None:
    game, x, count = random_game(), rows(1), 2_000
    found = self_normalised_unlisted(game, x.expand(count, -1), 64)
    deviation = found.phi - brute_force(game, x, LATE_A).float()
    # A bias of the order of 1/32, where each value has a standard deviation of 1/√32.
    spread = deviation.std(0)
    assert (deviation.mean(0).abs() < 5 * spread / count**0.5 + 0.1 * spread).all()
    claimed = found.standard_error.square().mean(0)
    torch.testing.assert_close(claimed, deviation.square().mean(0), rtol=0.2, atol=0)
    assert found.efficiency_gap < 1e-5
    assert 32 < found.made_by["effective_permutations"] < 64


def self_normalised_unlisted(game: Any, x: Tensor, permutations: int) -> ms.Explanation:
    class Unlisted(ms.WeightedOrdering):
        _listed = False

        def of_players(self, players: ms.Players, constants: Any = ()) -> "Unlisted":
            return self

    ordering = Unlisted(late_a, PLAYERS)
    return ms.permutation_shapley(game, x, ordering=ordering, permutations=permutations)


@estimators
def test_a_function_of_orders_weights_all_of_them(estimator: Any) -> None:
    game, x = random_game(), rows()
    ordering = ms.WeightedOrdering(late_a, PLAYERS)
    options = {} if estimator is ms.exact_shapley else {"permutations": 120}
    found = estimator(game, x, ordering=ordering, **options)
    torch.testing.assert_close(
        found.phi, brute_force(game, x, LATE_A).float(), rtol=1e-4, atol=1e-5
    )
    assert found.made_by["order_weights"] == "late_a"
    assert found.efficiency_gap < 1e-5


def test_a_function_is_restricted_by_a_graph() -> None:
    game, x, graph = random_game(), rows(), GRAPHS[1]
    ordering = ms.WeightedOrdering(late_a, PLAYERS, graph)
    weights = {order: LATE_A[order] for order in allowed(graph)}
    found = ms.exact_shapley(game, x, ordering=ordering)
    torch.testing.assert_close(
        found.phi, brute_force(game, x, weights).float(), rtol=1e-4, atol=1e-5
    )
    assert found.made_by["ordering"] == graph


TABLE = {tuple("abcde"): 0.5, tuple("edcba"): 0.2, tuple("bacde"): 0.3, tuple("cabde"): 0.0}


@estimators
def test_a_table_of_orders(estimator: Any) -> None:
    game, x = random_game(), rows()
    numbers = {tuple("abcde".index(name) for name in order): w for order, w in TABLE.items()}
    expected = brute_force(game, x, numbers).float()
    ordering = ms.WeightedOrdering(TABLE, PLAYERS)
    found = estimator(game, x, ordering=ordering)
    torch.testing.assert_close(found.phi, expected, rtol=1e-4, atol=1e-5)
    auto = ms.auto_shapley(game, x, ordering=ordering)
    torch.testing.assert_close(auto.phi, expected, rtol=1e-4, atol=1e-5)


def test_orders_are_drawn_by_their_weights() -> None:
    drawn = ms.WeightedOrdering(TABLE, PLAYERS).sample_pairs((5_000,), generator()).flatten(0, 1)
    counts = [(drawn == torch.tensor(order)).all(1).sum().item() for order in
              ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 0, 2, 3, 4])]  # fmt: skip
    assert sum(counts) == 10_000
    assert stats.chisquare(counts, [5_000, 2_000, 3_000]).pvalue > FALSE_ALARM


@every_graph
def test_sampled_values_of_a_graph_are_unbiased_with_honest_errors(
    graph: dict[str, list[str]],
) -> None:
    count, game, x = 1_500, random_game(), rows(1)
    if len(allowed(graph)) <= 12:
        return
    found = ms.permutation_shapley(game, x.expand(count, -1), ordering=graph, permutations=8)
    deviation = found.phi - brute_force(game, x, dict.fromkeys(allowed(graph), 1.0)).float()
    assert (deviation.mean(0).abs() < 5 * deviation.std(0) / count**0.5 + 1e-6).all()
    claimed = found.standard_error.square().mean(0)
    torch.testing.assert_close(claimed, deviation.square().mean(0), rtol=0.2, atol=1e-9)


@estimators
def test_an_explanation_keeps_its_graph(estimator: Any, tmp_path: Any) -> None:
    explanation = estimator(random_game(), rows(), ordering=GRAPHS[1])
    assert explanation.made_by["ordering"] == GRAPHS[1]
    explanation.save(tmp_path / "explanation.zarr")
    loaded = ms.Explanation.load(tmp_path / "explanation.zarr")
    assert loaded.made_by == explanation.made_by


def test_a_graph_by_its_edges_and_among_some() -> None:
    ordering = Ordering.of_edges([("a", "b"), ("b", "c")], PLAYERS)
    assert ordering.names == {"b": ["a"], "c": ["b"]}
    some = ordering.among(ms.Players.of_elements((3,), "ace"))
    assert some.names == {"c": ["a"]}
    # What an effect has from a constant cause, it has from the causes of that.
    dropped = Ordering({"k": ["a"], "b": ["k"]}, PLAYERS, constants=["k"])
    assert dropped.names == {"b": ["a"]}


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, r"but got the circle \w -> \w -> \w -> \w"),
        ({"a": ["a"]}, "the circle a -> a"),
        ({"q": ["a"]}, r"among \['a', .* but got \['q'\]"),
        ({"a": ["b", "b"]}, r"distinct causes of 'a' in `ordering` but got \['b'\]"),
    ],
)
def test_graphs_that_are_no_ordering(graph: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Ordering(graph, PLAYERS)


def test_causes_are_lists() -> None:
    with pytest.raises(TypeError, match=r"causes of 'a' .* list of names but got 'b'"):
        Ordering({"a": "b"}, PLAYERS)
    with pytest.raises(TypeError, match=r"pair \(cause, effect\) of names but got 'ab'"):
        Ordering.of_edges(["ab"], PLAYERS)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({tuple("abcd"): 1.0}, r"name all players but .* leaves out \['e'\]"),
        ({tuple("abcdd"): 1.0}, "distinct players in an order of `weights`"),
        ({tuple("abcde"): -1.0}, r"finite and not negative but got \[-1.0\]"),
        ({tuple("abcde"): 0.0}, "some are not zero"),
        ({}, "some are not zero"),
    ],
)
def test_weights_that_are_none(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ms.WeightedOrdering(weights, PLAYERS)


def test_functions_of_orders_that_are_no_weights() -> None:
    game, x = random_game(), rows()
    for weights, message in [
        (lambda orders: orders, "to return 120 numbers"),
        (lambda orders: 0 * orders[:, 0], "all orders have 0"),
        (lambda orders: -1.0 * orders[:, 0], "finite and not negative"),
    ]:
        with pytest.raises(ValueError, match=message):
            ms.exact_shapley(game, x, ordering=ms.WeightedOrdering(weights, PLAYERS))
    with pytest.raises(TypeError, match="a table of orders"):
        ms.WeightedOrdering(3, PLAYERS)
    with pytest.raises(ValueError, match="no `relations` beside a table"):
        ms.WeightedOrdering(TABLE, PLAYERS, GRAPHS[0])


@pytest.mark.parametrize("ordering", [GRAPHS[0], ms.WeightedOrdering(TABLE, PLAYERS)])
def test_adaptive_sampling_takes_components_only(ordering: Any) -> None:
    with pytest.raises(ValueError, match="by components for `adaptive_shapley`"):
        ms.adaptive_shapley(random_game(), rows(), ordering=ordering)


def gaussian(covariance: list[list[float]], names: str, graph: Any) -> tuple[Any, Tensor]:
    """A causal imputer of a Gaussian law, and its covariance matrix."""
    matrix = torch.tensor(covariance, dtype=torch.float64)
    root = torch.linalg.cholesky(matrix)
    noise = torch.randn(20_000, len(names), generator=generator(), dtype=torch.float64)
    noise = (noise - noise.mean(0)) @ torch.linalg.inv(torch.linalg.cholesky(noise.T.cov()).T)
    players = ms.Players.of_elements((len(names),), names)
    inner = ms.GaussianImputer((noise @ root.T).float(), players)
    return ms.CausalImputer(inner, graph), matrix


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
    found = imputer.impute(x, mask, range(20_000), keys).rows[0, 0].double()
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
    found = imputer.impute(x, mask, range(4_000), keys).rows[0]
    means = found[..., 2].mean(1)
    torch.testing.assert_close(means, torch.tensor([4 * 0.95**2, 0.0]), rtol=0, atol=0.12)


def test_roots_of_a_graph_are_drawn_independently() -> None:
    matrix = [[1.0, 0.9], [0.9, 1.0]]
    imputer, _ = gaussian(matrix, "ab", {})
    keys = torch.zeros(1, 1, dtype=torch.int64)
    empty = torch.zeros(1, 1, 2, dtype=torch.bool)
    found = imputer.impute(torch.zeros(1, 2), empty, range(10_000), keys).rows[0, 0]
    assert abs(float(found.T.corrcoef()[0, 1])) < 0.05


def test_what_a_causal_imputer_refuses() -> None:
    players = ms.Players.of_elements((3,), "abc")
    inner = ms.GaussianImputer(torch.randn(50, 3, generator=generator()), players)
    with pytest.raises(ValueError, match="no `confounding` beside a causal graph"):
        ms.CausalImputer(inner, {"b": ["a"]}, confounding=[True])
    with pytest.raises(ValueError, match="but got weighted orders"):
        ms.CausalImputer(inner, ms.WeightedOrdering({tuple("abc"): 1.0}, players))
    made = ms.CausalImputer(inner, {"b": ["a"]})
    assert made.provenance["causal_ordering"] == {"b": ["a"]}
