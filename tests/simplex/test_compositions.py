"""Shapley compositions: the axioms on the simplex, and what no choice of a basis changes."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap import simplex
from manifold_shap.coalitions import Coalitions
from manifold_shap.simplex import compositions
from manifold_shap.values.base import Estimate

few = settings(deadline=None, max_examples=12)
seeds = st.integers(0, 10_000)
players = st.integers(2, 4)

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


def partition_of(tree: Any) -> ms.simplex.Partition:
    leaves = ms.simplex.Partition.of_tree(tree).classes
    return ms.simplex.Partition.of_tree(tree, sorted(leaves))


def random_explanation(
    partition: ms.simplex.Partition, seed: int = 0, count: int = 3
) -> ms.Explanation:
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
        space=ms.spaces.ILR(),
        partition=partition,
        covariance=covariance,
    )


def assert_near(actual: Tensor, expected: Tensor, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True
    )


# What no choice of a basis changes.


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


@pytest.mark.parametrize("length", [0.0, 0.3, 2.0])
@pytest.mark.parametrize(
    ("direction", "spread"), [("even", (1.0,)), ("across", (1.0, 0.0)), ("across", (2.0, 1.0, 0.1))]
)
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


# The axioms (Noé et al. 2024, Theorem 1).


class Composed(ms.ValueFunction):
    """A game of compositions, given by a table `[2^n, classes]` of log-probabilities."""

    def __init__(self, log_p: Tensor) -> None:
        self.log_ratios = simplex.ilr(log_p)
        classes = ABCD[: log_p.shape[1]]
        players = ms.Players.of_elements((len(log_p).bit_length() - 1,))
        space, names = ms.spaces.ILR(), tuple(classes)
        super().__init__(ms.values.GameSpec(players, space.outputs(names), space, names))

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        mask = coalitions.masks()
        return Estimate(self.log_ratios[(mask * 2 ** torch.arange(mask.shape[-1])).sum(-1)])

    def base(self, x: Tensor) -> Tensor:
        return self.log_ratios[0].expand(len(x), -1)

    def prediction(self, x: Tensor) -> Tensor:
        return self.log_ratios[-1].expand(len(x), -1)


def random_game(count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2**count, 4, generator=generator, dtype=torch.float64)


def shapley(log_p: Tensor, tree: Any) -> ms.Explanation:
    """Of one row, in the basis of this tree."""
    count = len(log_p).bit_length() - 1
    return ms.exact_shapley(Composed(log_p), torch.zeros(1, count)).in_basis(tree)


def log_compositions(explanation: ms.Explanation) -> Tensor:
    return simplex.ilr_inv(explanation.phi[0], explanation.basis)


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


# Errors.
