"""Orders of components, graphs and groups against all permutations; asymmetric and Owen values."""

import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

import manifold_shap as ms
from manifold_shap.coalitions import Listed
from manifold_shap.ordering import Ordering
from manifold_shap.posets import Lattice, closure, extensions
from tests.examples import table, uniform

# A statistical test here fails a correct sampler with this probability (over seeds).
FALSE_ALARM = 1e-6

PLAYERS = ms.Players.of_elements((5,), "abcde")
ORDERING = [["d", "b"], ["a"], ["e", "c"]]
GROUPS = Ordering.of_groups([["d", "a"], ["b", "e"], ["c"]], PLAYERS)
GRAPHS: list[dict[str, list[str]]] = [
    {"b": ["a"]},
    {"c": ["a", "b"], "d": ["b"]},  # An N: neither in series nor in parallel.
    {"b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["d"]},
    {"b": ["a"], "d": ["c"]},
    {"e": ["a", "b", "c", "d"]},
    {},
]
LISTS = [ORDERING, [["c", "a", "d"], ["b", "e"]], [[name] for name in "ecabd"], [list("badec")]]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def allowed(relations: Any) -> list[tuple[int, ...]]:
    """All orders that components, a graph or groups allow, by trying every order."""
    every = [*itertools.permutations(range(5))]
    if isinstance(relations, Ordering):
        group = {name: k for k, names in enumerate(relations.names) for name in names}
        runs = (itertools.groupby(order, lambda i: group["abcde"[i]]) for order in every)
        return [
            order
            for order, run in zip(every, runs, strict=True)
            if len([*run]) == len(relations.names)
        ]
    causes = relations
    if not isinstance(relations, Mapping):
        before = itertools.accumulate(relations, lambda known, names: [*known, *names], initial=[])
        causes = {n: known for names, known in zip(relations, before, strict=False) for n in names}
    pairs = [("abcde".index(c), "abcde".index(i)) for i, each in causes.items() for c in each]
    return [o for o in every if all(o.index(cause) < o.index(i) for cause, i in pairs)]


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


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        (graphs, dict),
        (components, list),
        (components, partial(Ordering.of_groups, players=PLAYERS)),
    ],
)
@given(st.data(), st.integers(0, 1000))
@settings(deadline=None, max_examples=12)
def test_values_equal_the_mean_over_all_allowed_permutations(
    kind: st.SearchStrategy, make: Callable[[Any], Any], data: st.DataObject, seed: int
) -> None:
    relations = make(data.draw(kind))
    orders, along = allowed(relations), Ordering.of(relations, PLAYERS).allowed
    assert along.count == len(orders)
    assert sorted(map(tuple, along.all().tolist())) == orders
    masks = along.weighted_coalitions()[0]
    coalitions = {frozenset(order[:k]) for order in orders for k in range(6)}
    assert along.coalitions == len(masks) == len(coalitions)
    assert {frozenset(mask.nonzero()[:, 0].tolist()) for mask in masks} == coalitions
    assert masks.sum(1)[[0, -1]].tolist() == [0, 5]
    game, x = random_game(seed), rows(2)
    expected = brute_force(game, x, dict.fromkeys(orders, 1.0))
    every = ms.permutation_shapley(game, x, ordering=relations, permutations=120)
    assert (every.standard_error == 0).all()
    for found in (
        every,
        *(f(game, x, ordering=relations) for f in (ms.exact_shapley, ms.auto_shapley)),
    ):
        torch.testing.assert_close(found.phi, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("relations", [*LISTS, *GRAPHS, GROUPS], ids=lambda r: repr(r)[:20])
def test_orders_are_drawn_uniformly(relations: Any) -> None:
    orders = allowed(relations)
    pairs = Ordering.of(relations, PLAYERS).allowed.draw(6000, generator())
    assert pairs.shape == (6000, 2, 5)
    for half in pairs.unbind(1):
        drawn = list(map(tuple, half.tolist()))
        counts = [drawn.count(order) for order in orders]
        assert sum(counts) == len(drawn)
        assert len(orders) == 1 or stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize("names", LISTS)
def test_orders_of_components_are_drawn_beside_their_reverses(names: list[list[str]]) -> None:
    pairs, first = Ordering(names, PLAYERS).allowed.draw(20, generator()), 0
    for part in map(len, names):
        place = slice(first, first + part)
        assert torch.equal(pairs[:, 0, place].flip(-1), pairs[:, 1, place])
        first += part


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
    place = wide.draw(100, generator()).argsort(-1)
    assert (place[..., [3, 7]] < place[..., [5, 9]]).all()


def edges_of(size: int, edges: list[tuple[int, int]]) -> Tensor:
    direct = torch.zeros(size, size, dtype=torch.bool)
    direct[tuple(zip(*edges, strict=True))] = True
    return direct


def test_orders_are_read_by_name_and_among_some() -> None:
    backwards = ms.Players.of_elements((5,), "edcba")
    assert Ordering.of(Ordering(ORDERING, PLAYERS), backwards).component.tolist() == [2, 0, 2, 0, 1]
    assert Ordering.of(GROUPS, backwards).names == [["d", "a"], ["e", "b"], ["c"]]
    assert GROUPS.among(ms.Players.of_elements((3,), "bed")).names == [["d"], ["b", "e"]]
    some = ms.Players.of_elements((3,), "ace")
    assert Ordering({"b": ["a"], "c": ["b"]}, PLAYERS).among(some).names == {"c": ["a"]}
    # What an effect has from a constant cause, it has from the causes of that.
    dropped = Ordering({"k": ["a"], "b": ["k"]}, PLAYERS, constants=["k"])
    assert dropped.names == {"b": ["a"]}


# Asymmetric values.


def random_game(seed: int = 0) -> ms.ValueFunction:
    """Rows scale it by their element a."""
    return ms.as_value_function(table(5, 2, seed), rows(), PLAYERS)


def rows(count: int = 3) -> Tensor:
    return uniform(count, 5)


def brute_force(game: Any, x: Tensor, weights: dict[tuple[int, ...], float]) -> Tensor:
    """Marginal contributions along orders, by their weights (Carballo, Eq. 3.5.1)."""
    phi = torch.zeros(len(x), 5, 2, dtype=torch.float64)
    for order, weight in weights.items():
        masks = torch.zeros(len(x), 6, 5, dtype=torch.bool)
        for size, player in enumerate(order):
            masks[:, size + 1 :, player] = True
        phi[:, order] += weight * game(x, masks).diff(dim=1).double()
    return (phi / sum(weights.values())).float()


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


FIRST = [["b"], ["c", "a", "e", "d"]]


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ({"orders": drawn, "permutations": 5}, NUMBERS),
        ({"ordering": FIRST, "permutations": 22}, dict.fromkeys(allowed(FIRST), 1.0)),
    ],
    ids=["single orders of a function", "pairs of an ordering"],
)
def test_sampled_orders_are_unbiased_with_honest_errors(
    options: dict[str, Any], weights: dict[tuple[int, ...], float]
) -> None:
    # The same row 4,000 times has 4,000 sets of orders. Each mean fails a correct estimator with
    # probability 6e-7; a variance over 4,000 has a relative standard error of about 2 %.
    count, game, x = 4_000, random_game(), rows(1)
    found = ms.permutation_shapley(game, x.expand(count, -1), **options)
    deviation = found.phi - brute_force(game, x, weights)
    # Where a player has one contribution, it is sampled without an error.
    assert (deviation.mean(0).abs() < 5 * deviation.std(0) / count**0.5 + 1e-6).all()
    claimed = found.standard_error.square().mean(0)
    torch.testing.assert_close(claimed, deviation.square().mean(0), rtol=0.12, atol=1e-9)


def test_orders_of_a_function_are_counted_and_of_any_batch_size() -> None:
    game, x = random_game(), rows()
    whole = ms.permutation_shapley(game, x, orders=drawn, evaluations=30)
    assert whole.made_by["orders"] == "drawn"
    assert whole.made_by["permutations"] == 7
    assert whole.made_by["evaluations"] == 3 * 7 * 4
    assert (whole.degrees_of_freedom == 6).all()
    few = ms.permutation_shapley(game, x, orders=drawn, evaluations=30, batch_size=3)
    assert torch.equal(few.phi, whole.phi)
    met = ms.permutation_shapley(game, x, orders=drawn, target_error=0.2)
    assert met.made_by["target_error"] == 0.2


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
    assert estimator(game, x, ordering=GROUPS, **options).made_by["groups"] == GROUPS.names


# Each of 16 effects has two causes, all of which hang together.
CROWN = {f"x{16 + k}": [f"x{k}", f"x{(k + 1) % 16}"] for k in range(16)}
WIDE = [[f"x{k}" for k in part] for part in (range(15), range(15, 32))]
TOGETHER = Ordering.of_groups(WIDE, ms.Players.of_elements((32,)))

REFUSED = [
    (ms.exact_shapley, 32, {"ordering": CROWN}, "32 such players have more; .* `permutation_sh"),
    (ms.exact_shapley, 32, {"ordering": WIDE}, "those of 16 players, .* but got 163839"),
    (ms.adaptive_shapley, 32, {"ordering": CROWN}, "by components for `adaptive_shapley`"),
    (ms.adaptive_shapley, 32, {"ordering": TOGETHER}, "by components for `adaptive_shapley`"),
    (ms.permutation_shapley, 5, {"orders": [([0, 1, 2, 3], 1)]}, r"all players, .* got \[0, 1, 2"),
    (ms.permutation_shapley, 5, {"orders": [("abcde", -1.0)]}, r"not negative .* got \[-1.0\]"),
    (ms.permutation_shapley, 5, {"orders": []}, "not all zero"),
    (ms.permutation_shapley, 5, {"orders": LAW, "ordering": GRAPHS[0]}, "`orders` but got both"),
    (ms.permutation_shapley, 5, {"orders": lambda *_: torch.arange(5)}, "orders of 0, 1, .* 4"),
]


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(("estimator", "players", "options", "words"), REFUSED)
def test_orders_that_are_refused(
    estimator: Callable[..., ms.Explanation], players: int, options: dict[str, Any], words: str
) -> None:
    x = uniform(2, players)
    names = PLAYERS if players == 5 else None
    game = ms.as_value_function(lambda x, mask: mask.sum(-1, keepdim=True) * 1.0, x, names)
    with pytest.raises(ValueError, match=words):
        estimator(game, x, **options)


# Interventions.


def test_interventions_of_a_graph_reach_effects_alone() -> None:
    # x0 -> x1 -> x2, x0 -> x2 and x1 -> x3, each with a noise of variance 1.
    effect = torch.tensor([[1.0, 0, 0, 0], [1, 1, 0, 0], [1.3, 0.8, 1, 0], [0.9, 0.9, 0, 1]])
    law = ms.oracles.GaussianMixture([1.0], torch.zeros(1, 4), (effect @ effect.T)[None])
    graph = {"x1": ["x0"], "x2": ["x0", "x1"], "x3": ["x1"]}
    imputer = ms.imputers.CausalImputer(ms.oracles.OracleImputer(law), graph)
    x, keys = torch.tensor([[4.0, 2.0, 9.0, 9.0]]), torch.zeros(1, 3, dtype=torch.int64)
    mask = torch.tensor([[[False, True, False, False], [True, False, False, False], [False] * 4]])
    found = imputer.impute(x, Listed(mask, keys), range(20_000)).rows[0].double()
    # x3 has the cause x1 alone, but whether x0 is known changes the draw of x1.
    means = torch.tensor([[0, 2, 1.6, 1.8], [4, 4, 5.2, 3.6], [0, 0, 0, 0]]).double()
    torch.testing.assert_close(found.mean(1), means, rtol=0, atol=0.05)
    # With x1 set, x0 keeps its law, and x2 follows the draws of x0.
    expected = torch.tensor([[1.0, 0.5], [0.5, 1.25]]).double()
    torch.testing.assert_close(found[0, :, [0, 2]].T.cov(), expected, rtol=0.05, atol=0.05)


def test_groups_that_stay_together_have_no_causes() -> None:
    inner = ms.imputers.GaussianImputer(torch.randn(50, 5, generator=generator()), PLAYERS)
    with pytest.raises(ValueError, match="groups that stay together"):
        ms.imputers.CausalImputer(inner, GROUPS)
