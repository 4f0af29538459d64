"""Shapley compositions: the axioms on the simplex, and what no choice of a basis changes."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap import simplex
from manifold_shap.simplex import compositions
from tests.examples import Recorded, Table, random_table, uniform
from tests.plots.helpers import composed_texts

few = settings(max_examples=12)
seeds = st.integers(0, 10_000)


@st.composite
def trees(draw: st.DrawFn) -> Any:
    """A binary tree of two to seven classes."""
    groups: list[Any] = list("0123456"[: draw(st.integers(2, 7))])
    while len(groups) > 1:
        first, second, *others = draw(st.permutations(groups))
        groups = [(first, second), *others]
    return groups[0]


def partition_of(tree: Any) -> simplex.Partition:
    """Of classes in the order of the leaves."""
    return simplex.Partition.of_tree(tree)


def explained(classes: int, seed: int = 0, players: int = 3) -> tuple[Tensor, ms.Explanation]:
    """Log-probabilities of a random game, `[2^n, classes]`, and its sampled Shapley values."""
    log_p = random_table(players, classes, seed)
    value = Recorded(Table(simplex.ilr(log_p)), players, classes=classes)
    x = torch.cat((torch.ones(1, players), uniform(1, players)))
    return log_p, ms.permutation_shapley(value, x, permutations=4)


def assert_near(actual: Tensor, expected: Tensor, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True
    )


@given(trees(), seeds)
@few
def test_another_basis_changes_coordinates_and_nothing_else(tree: Any, seed: int) -> None:
    other = partition_of(tree)
    _, explanation = explained(len(other.classes), seed)
    there = explanation.in_basis(other)
    one = explanation.partition
    assert one is not None
    assert there.partition == other.aligned(one.classes)
    assert there.outputs == there.partition.names
    assert there.efficiency_gap < 1e-4
    for name in ("compositions", "norms", "norm_errors", "cosines", "projections"):
        assert_near(getattr(there, name)(), getattr(explanation, name)())
    assert explanation.covariance is not None
    assert there.covariance is not None
    turn = one.rotation(other).float()
    assert_near(turn @ turn.T, torch.eye(len(turn)))
    assert_near(there.covariance, turn @ explanation.covariance @ turn.T)
    assert_near(there.standard_error, there.covariance.diagonal(dim1=2, dim2=3).sqrt())
    for name in ("x", "players", "space"):
        assert getattr(there, name) is getattr(explanation, name)
    assert there.made_by == explanation.made_by


def test_compositions_are_those_with_these_coordinates() -> None:
    explanation = explained(4)[1].in_basis((("0", "2"), ("1", "3")))
    weights = (explanation.phi.double() @ explanation.basis).exp()
    assert_near(explanation.compositions(), weights / weights.sum(-1, keepdim=True))


def test_words_that_a_text_lacks_have_no_composition() -> None:
    explanation = composed_texts()
    found = explanation.compositions()
    assert torch.equal(found.isfinite().all(-1), explanation.present)
    assert_near(found[:1], explanation[0].compositions())
    summary = explanation.summarize(1, most=3)
    assert summary["text"].to_dict() == {"word 1": "Is ", "word 2": "bad!"}


def test_norms_cosines_and_projections_are_inner_products_of_compositions() -> None:
    explanation = explained(4)[1]
    log_p = explanation.compositions()[0].double().log()
    centred = log_p - log_p.mean(1, keepdim=True)
    inner = centred @ centred.T
    size = inner.diagonal().sqrt()
    assert_near(explanation.norms()[0], size)
    assert_near(explanation.cosines()[0], inner / size / size[:, None], 1e-4)
    faint = replace(explanation, phi=explanation.phi.index_fill(1, torch.tensor([0]), 1e-16))
    assert faint.norms()[0, 0] == 0
    onto = centred @ simplex.clr(simplex.class_compositions(4)).T
    assert_near(explanation.projections()[0], onto)


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


@given(st.integers(2, 4), seeds, trees())
@few
def test_efficiency(players: int, seed: int, tree: Any) -> None:
    """Noé et al. (2024), Theorem 1."""
    log_p, explanation = explained(len(partition_of(tree).classes), seed, players)
    there = explanation.in_basis(tree)
    reached = simplex.ilr_inv(there.base[0], there.basis)
    assert_near(reached, simplex.closure(log_p[0]))
    for part in simplex.ilr_inv(there.phi[0], there.basis):
        reached = simplex.perturb(reached, part)
    assert_near(reached, simplex.closure(log_p[-1]))
    assert_near(reached, simplex.ilr_inv(there.prediction[0], there.basis))
