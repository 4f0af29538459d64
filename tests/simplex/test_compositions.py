"""Shapley compositions: the axioms on the simplex, and what no choice of a basis changes."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap import simplex
from manifold_shap.simplex import compositions

few = settings(deadline=None, max_examples=12)
seeds = st.integers(0, 10_000)
players = st.integers(2, 4)
factors = st.floats(-2, 2)

ABCD = ("a", "b", "c", "d")


@st.composite
def trees(draw: st.DrawFn, count: int = 4) -> Any:
    """A binary tree of the first letters."""
    groups: list[Any] = list("abcdefg"[:count])
    while len(groups) > 1:
        first, second, *others = draw(st.permutations(groups))
        groups = [(first, second), *others]
    return groups[0]


two_trees = st.integers(2, 7).flatmap(lambda count: st.tuples(trees(count), trees(count)))


def partition_of(tree: Any) -> ms.Partition:
    leaves = ms.Partition.of_tree(tree).classes
    return ms.Partition.of_tree(tree, sorted(leaves))


def random_explanation(partition: ms.Partition, seed: int = 0, count: int = 3) -> ms.Explanation:
    """Two rows of three players, with errors that go together."""
    generator = torch.Generator().manual_seed(seed)
    outputs = len(partition.signs)
    phi = torch.randn(2, count, outputs, generator=generator)
    root = 0.1 * torch.randn(2, count, outputs, outputs, generator=generator)
    covariance = root @ root.mT
    base = torch.randn(2, outputs, generator=generator)
    return ms.Explanation(
        phi=phi,
        standard_error=covariance.diagonal(dim1=2, dim2=3).sqrt(),
        base=base,
        prediction=base + phi.sum(1),
        x=torch.zeros(2, count),
        players=ms.Players.of_elements((count,)),
        outputs=partition.names,
        space=ms.ILR(),
        partition=partition,
        covariance=covariance,
    )


def assert_near(actual: Tensor, expected: Tensor, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True
    )


# What no choice of a basis changes.

NUMBERS = ("phi", "standard_error", "base", "prediction", "covariance")


@given(two_trees, seeds)
@few
def test_another_basis_changes_coordinates_and_nothing_else(
    both: tuple[Any, Any], seed: int
) -> None:
    one, other = map(partition_of, both)
    explanation = random_explanation(one, seed)
    there = explanation.in_basis(other)
    assert there.partition == other
    assert there.outputs == other.names
    assert there.efficiency_gap < 1e-5
    for name in ("compositions", "norms", "norm_errors", "cosines", "projections"):
        assert_near(getattr(there, name)(), getattr(explanation, name)())
    assert explanation.covariance is not None
    assert there.covariance is not None
    turn = one.rotation(other).float()
    assert_near(there.phi, explanation.phi @ turn.T)
    assert_near(there.covariance, turn @ explanation.covariance @ turn.T)
    assert_near(there.standard_error, there.covariance.diagonal(dim1=2, dim2=3).sqrt())
    for name in ("x", "players", "space"):
        assert getattr(there, name) is getattr(explanation, name)
    assert there.made_by == explanation.made_by
    assert there.instances == explanation.instances


@given(two_trees, seeds)
@few
def test_going_back_restores_everything(both: tuple[Any, Any], seed: int) -> None:
    one, other = map(partition_of, both)
    explanation = random_explanation(one, seed)
    back = explanation.in_basis(other).in_basis(one)
    assert back.outputs == explanation.outputs
    assert back.partition == explanation.partition
    for name in NUMBERS:
        assert_near(getattr(back, name), getattr(explanation, name))


@given(trees(), seeds)
@few
def test_a_tree_or_classes_in_another_order_mean_the_same_basis(tree: Any, seed: int) -> None:
    partition = partition_of(tree)
    explanation = random_explanation(ms.Partition.sequential(ABCD), seed)
    expected = explanation.in_basis(partition)
    for same in (tree, partition.aligned(ABCD[::-1])):
        there = explanation.in_basis(same)
        assert there.outputs == expected.outputs
        assert torch.equal(there.phi, expected.phi)
    assert expected.in_basis(tree) is expected


def test_coordinates_in_another_basis_are_those_of_the_compositions() -> None:
    explanation = random_explanation(ms.Partition.sequential(ABCD))
    there = explanation.in_basis([["a", "c"], ["b", "d"]])
    log_p = explanation.compositions().double().log()
    expected = (log_p - log_p.mean(-1, keepdim=True)) @ there.basis.T
    assert_near(there.phi.double(), expected)
    prediction = simplex.ilr_inv(explanation.prediction, explanation.basis)
    assert_near(there.prediction, simplex.ilr(prediction, there.basis))


def test_errors_that_were_not_kept_together_are_unknown_in_another_basis() -> None:
    explanation = random_explanation(ms.Partition.sequential(ABCD))
    error = explanation.standard_error.clone()
    error[0, 1] = 0
    error[1, 2, 0] = 0
    alone = ms.Explanation(**{**vars(explanation), "covariance": None, "standard_error": error})
    there = alone.in_basis([["a", "c"], ["b", "d"]])
    assert there.covariance is None
    assert (there.standard_error[0, 1] == 0).all()
    known = torch.zeros(2, 3, dtype=torch.bool)
    known[0, 1] = True
    assert torch.equal(~there.standard_error.isnan().any(-1), known)
    assert torch.equal(~alone.norm_errors().isnan(), known)
    assert alone.norm_errors()[0, 1] == 0
    # Nothing is turned, and nothing lost.
    assert torch.equal(alone.in_basis(ms.Partition.sequential(ABCD)).standard_error, error)


# Figures, against their definitions.


def test_compositions_are_those_with_these_coordinates() -> None:
    explanation = random_explanation(partition_of((("a", "c"), ("b", "d"))))
    weights = (explanation.phi.double() @ explanation.basis).exp()
    expected = weights / weights.sum(-1, keepdim=True)
    assert_near(explanation.compositions().double(), expected)


@given(trees(), seeds)
@few
def test_norms_cosines_and_projections_are_inner_products_of_compositions(
    tree: Any, seed: int
) -> None:
    explanation = random_explanation(partition_of(tree), seed)
    p = explanation.compositions()[0].double().numpy()
    log_p = torch.from_numpy(p).log()
    centred = log_p - log_p.mean(1, keepdim=True)
    inner = centred @ centred.T
    size = inner.diagonal().sqrt()
    assert_near(explanation.norms()[0].double(), size)
    cosines = explanation.cosines()[0].double()
    assert_near(cosines, inner / size / size[:, None], 1e-4)
    onto = centred @ simplex.clr(simplex.class_compositions(4)).T
    assert_near(explanation.projections()[0].double(), onto)


def test_a_class_composition_has_a_projection_of_one_on_itself() -> None:
    partition = partition_of((("a", "c"), ("b", "d")))
    phi = simplex.ilr(simplex.class_compositions(4), partition.basis)
    onto = compositions.projections(phi, partition.basis)
    # The bonds of methane.
    expected = torch.full((4, 4), -1 / 3, dtype=torch.float64).fill_diagonal_(1)
    assert_near(onto, expected, 1e-12)
    assert_near(compositions.cosines(phi), expected, 1e-12)
    assert_near(phi.norm(dim=-1), torch.ones(4, dtype=torch.float64), 1e-12)


@given(trees(), seeds)
@few
def test_what_speaks_for_a_class_speaks_against_others(tree: Any, seed: int) -> None:
    onto = random_explanation(partition_of(tree), seed).projections()
    assert_near(onto.sum(-1), torch.zeros(2, 3))


def test_cosines_stay_in_the_domain_of_the_arc_cosine() -> None:
    phi = torch.randn(1000, 3, 5, generator=torch.Generator().manual_seed(0))
    phi[:, 1] = -2 * phi[:, 0]
    angles = compositions.cosines(phi).acos()
    assert angles.isfinite().all()
    assert_near(angles[:, 0, 1], torch.full((1000,), math.pi), 2e-3)


def test_a_player_that_moves_nothing_has_no_direction() -> None:
    phi = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    assert compositions.cosines(phi).isnan().tolist() == [[False, True], [True, True]]
    nothing = torch.zeros(2, 2, 2)
    assert (compositions.norm_errors(phi, nothing) == 0).all()


def test_norm_errors_of_precise_estimates_are_those_along_the_composition() -> None:
    explanation = random_explanation(ms.Partition.sequential(ABCD))
    assert explanation.covariance is not None
    phi, covariance = explanation.phi.double(), 1e-6 * explanation.covariance.double()
    along = torch.nn.functional.normalize(phi, dim=-1)
    expected = torch.einsum("bpo,bpoq,bpq->bp", along, covariance, along).sqrt()
    torch.testing.assert_close(
        compositions.norm_errors(phi, covariance), expected, rtol=1e-5, atol=0
    )
    assert_near(explanation.norm_errors(), compositions.norm_errors(phi, 1e6 * covariance).float())


@pytest.mark.parametrize("outputs", [1, 2, 3, 9])
def test_norm_errors_at_zero_are_those_of_a_chi_distribution(outputs: int) -> None:
    # Var |ε| = d - 2 (Γ((d + 1) / 2) / Γ(d / 2))² for ε ~ N(0, I).
    gamma = math.gamma((outputs + 1) / 2) / math.gamma(outputs / 2)
    zero, covariance = torch.zeros(outputs).double(), 0.01 * torch.eye(outputs).double()
    found = compositions.norm_errors(zero, covariance)
    assert found.item() == pytest.approx(0.1 * math.sqrt(outputs - 2 * gamma**2), rel=1e-6)


@pytest.mark.parametrize("length", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("direction", ["even", "across"])
@pytest.mark.parametrize("spread", [(1.0,), (1.0, 0.0), (2.0, 1.0, 0.1)])
def test_norm_errors_of_small_norms_are_those_of_simulated_estimates(
    length: float, direction: str, spread: tuple[float, ...]
) -> None:
    generator = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(len(spread), len(spread), generator=generator).double())[0]
    root = turn * torch.tensor(spread, dtype=torch.float64)
    along = torch.ones(len(spread)).double() if direction == "even" else turn[:, -1]
    phi = length * torch.nn.functional.normalize(along, dim=0)
    # Pairs of opposite draws, for less noise of the simulation.
    noise = torch.randn(200_000, len(spread), generator=generator, dtype=torch.float64)
    simulated = (phi + torch.cat((noise, -noise)) @ root.T).norm(dim=1).std()
    found = compositions.norm_errors(phi, root @ root.T)
    assert found.dtype == torch.float64
    assert simulated.item() == pytest.approx(found.item(), rel=0.01)


def test_norm_errors_are_honest() -> None:
    # 20,000 estimates: the ratio of the spreads has a standard error of 0.005.
    explanation = random_explanation(ms.Partition.sequential(ABCD))
    assert explanation.covariance is not None
    phi, covariance = explanation.phi[0].double(), 0.01 * explanation.covariance[0].double()
    root = torch.linalg.cholesky(covariance + 1e-12 * torch.eye(3))
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(20_000, 3, 3, 1, generator=generator, dtype=torch.float64)
    estimates = (phi + (root @ noise)[..., 0]).norm(dim=-1)
    ratio = estimates.std(0) / compositions.norm_errors(phi, covariance)
    assert ((ratio > 0.97) & (ratio < 1.03)).all()
    # The error in all directions together would be too wide.
    total = covariance.diagonal(dim1=1, dim2=2).sum(-1).sqrt()
    assert (estimates.std(0) / total < 0.97).any()


def test_a_summary_has_the_largest_norm_first() -> None:
    explanation = random_explanation(ms.Partition.sequential(ABCD))
    for row in (0, 1, -1):
        frame = explanation.summarize(row)
        order = explanation.norms()[row].argsort(descending=True).tolist()
        names = [explanation.players.names[i] for i in order]
        assert frame.index.tolist() == names
        assert frame.index.name == "players"
        assert frame.columns.tolist() == [
            "norm",
            "standard_error",
            *(f"on {name}" for name in ABCD),
            *(f"cosine with {name}" for name in names),
        ]
        for columns, figures in [
            ("norm", explanation.norms()),
            ("standard_error", explanation.norm_errors()),
            ([f"on {name}" for name in ABCD], explanation.projections()),
            ([f"cosine with {name}" for name in names], explanation.cosines()[..., order]),
        ]:
            # A product of matrices, computed again, may differ in its last bit.
            np.testing.assert_allclose(frame[columns], figures[row][order], rtol=1e-6)


# The axioms (Noé et al. 2024, Theorem 1).


class Composed(ms.ValueFunction):
    """A game of compositions, given by a table `[2^n, classes]` of log-probabilities."""

    def __init__(self, log_p: Tensor) -> None:
        self.table = simplex.ilr(log_p)
        classes = ABCD[: log_p.shape[1]]
        players = ms.Players.of_elements((len(log_p).bit_length() - 1,))
        super().__init__(players, ms.ILR().outputs(classes), ms.ILR(), classes)

    def values(self, x: Tensor, mask: Tensor, keys: Tensor) -> Tensor:
        return self.table[(mask * 2 ** torch.arange(mask.shape[-1])).sum(-1)]

    def base(self, x: Tensor) -> Tensor:
        return self.table[0].expand(len(x), -1)

    def prediction(self, x: Tensor) -> Tensor:
        return self.table[-1].expand(len(x), -1)


def random_game(count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2**count, 4, generator=generator, dtype=torch.float64)


def shapley(log_p: Tensor, tree: Any) -> ms.Explanation:
    """Of one row, in the basis of this tree."""
    count = len(log_p).bit_length() - 1
    return ms.exact_shapley(Composed(log_p), torch.zeros(1, count)).in_basis(tree)


def log_compositions(explanation: ms.Explanation) -> Tensor:
    return simplex.ilr_inv(explanation.phi[0], explanation.basis)


@given(players, seeds, factors, factors, trees())
@few
def test_linearity(count: int, seed: int, a: float, b: float, tree: Any) -> None:
    f, g = random_game(count, seed), random_game(count, seed + 1)
    combined = simplex.perturb(simplex.power(f, a), simplex.power(g, b))
    of_f, of_g = (log_compositions(shapley(game, tree)) for game in (f, g))
    expected = simplex.perturb(simplex.power(of_f, a), simplex.power(of_g, b))
    assert_near(log_compositions(shapley(combined, tree)), expected)


def swapped(table: Tensor) -> Tensor:
    """The same game after players 0 and 1 have changed places."""
    code = torch.arange(len(table))
    return table[(code & ~3) | (code & 1) << 1 | (code & 2) >> 1]


@given(players, seeds, trees())
@few
def test_symmetry(count: int, seed: int, tree: Any) -> None:
    game = random_game(count, seed)
    alike = log_compositions(shapley(simplex.perturb(game, swapped(game)), tree))
    assert_near(alike[0], alike[1])
    here, there = (log_compositions(shapley(v, tree)) for v in (game, swapped(game)))
    assert_near(here[[1, 0]], there[:2])


@given(players, seeds, trees())
@few
def test_a_dummy_gets_the_uniform_composition(count: int, seed: int, tree: Any) -> None:
    game = random_game(count, seed)
    game = game[torch.arange(len(game)) & ~1]
    explanation = shapley(game, tree)
    assert_near(explanation.compositions()[0, 0], torch.full((4,), 0.25), 1e-6)
    assert explanation.norms()[0, 0] < 1e-6


@given(players, seeds, trees())
@few
def test_efficiency(count: int, seed: int, tree: Any) -> None:
    game = random_game(count, seed)
    explanation = shapley(game, tree)
    reached = simplex.ilr_inv(explanation.base[0], explanation.basis)
    assert_near(reached, simplex.closure(game[0]))
    for log_p in log_compositions(explanation):
        reached = simplex.perturb(reached, log_p)
    assert_near(reached, simplex.closure(game[-1]).float())
    prediction = simplex.ilr_inv(explanation.prediction[0], explanation.basis)
    assert_near(reached, prediction)


@given(st.sets(st.integers(0, 3), min_size=1), seeds, trees())
@few
def test_a_unanimity_game_is_shared_by_its_members(members: set[int], seed: int, tree: Any) -> None:
    # Eq. (23): each of the players in T gets the |T|-th part, all others the uniform composition.
    e, code = random_game(1, seed)[0], torch.arange(16)
    needed = sum(2**i for i in members)
    game = torch.where(((code & needed) == needed)[:, None], e, 0.0)
    share = simplex.power(e, 1 / len(members)).float()
    uniform = torch.full((4,), -math.log(4))
    expected = torch.stack([share if i in members else uniform for i in range(4)])
    assert_near(log_compositions(shapley(game, tree)), expected)


# From an estimator to another basis.


def test_sampled_errors_in_another_basis_are_those_of_the_game_in_that_basis() -> None:
    game, x = Composed(random_game(6, 0)), torch.zeros(2, 6)
    partition = partition_of((("a", "c"), ("b", "d")))
    turn = ms.Partition.sequential(ABCD).rotation(partition)
    explanation = ms.permutation_shapley(game, x, permutations=20)
    there = explanation.in_basis(partition)
    direct = ms.permutation_shapley(lambda x, mask: game(x, mask) @ turn.T, x, permutations=20)
    assert_near(there.phi, direct.phi)
    assert_near(there.standard_error, direct.standard_error)
    assert (there.standard_error - explanation.standard_error).abs().max() > 0.01
    plain = ms.permutation_shapley(lambda x, mask: game(x, mask), x, permutations=20)
    assert plain.covariance is None
    assert explanation.covariance is not None
    assert_near(explanation.standard_error, plain.standard_error)


def test_errors_of_enumeration_are_zero_in_every_basis() -> None:
    explanation = shapley(random_game(3, 0), (("a", "c"), ("b", "d")))
    assert (explanation.standard_error == 0).all()
    assert (explanation.norm_errors() == 0).all()


def test_errors_of_one_pair_are_unknown_in_every_basis() -> None:
    game = Composed(random_game(6, 0))
    explanation = ms.permutation_shapley(game, torch.zeros(1, 6), permutations=2)
    assert explanation.norm_errors().isnan().all()
    assert explanation.in_basis([["a", "c"], ["b", "d"]]).standard_error.isnan().all()


# Errors.

ON_SIMPLEX: list[Callable[[ms.Explanation], Any]] = [
    lambda explanation: explanation.compositions(),
    lambda explanation: explanation.norms(),
    lambda explanation: explanation.norm_errors(),
    lambda explanation: explanation.cosines(),
    lambda explanation: explanation.projections(),
    lambda explanation: explanation.summarize(),
    lambda explanation: explanation.in_basis([["a", "b"], "c"]),
    lambda explanation: explanation.classes,
    lambda explanation: explanation.basis,
]


@pytest.mark.parametrize("call", ON_SIMPLEX)
def test_probabilities_have_no_compositions(call: Callable[[ms.Explanation], Any]) -> None:
    explanation = ms.exact_shapley(lambda x, mask: mask.double(), torch.zeros(1, 3))
    with pytest.raises(ValueError, match=r"with output='ilr' but this one is in 'identity'; make"):
        call(explanation)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (
            [["a", "b"], ["c", "e"]],
            r"classes in a partition among \['a', 'b', 'c', 'd'\] .* \['e'\]",
        ),
        ([["a", "b"], "c"], r"every class in the partition but it leaves out \['d'\]"),
        ([["a", "b"], "c", "d"], "Expected a binary tree of class names"),
        (ms.Partition.sequential(("a", "b", "c")), "but got one of"),
        (ms.Partition.sequential(("a", "b", "c", "e")), "but got one of"),
    ],
)
def test_other_classes_have_no_basis_here(tree: Any, message: str) -> None:
    explanation = random_explanation(ms.Partition.sequential(ABCD))
    with pytest.raises(ValueError, match=message):
        explanation.in_basis(tree)
