"""Aitchison geometry: its definitions, published numbers and the laws of a vector space."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from manifold_shap import simplex

DTYPES = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-10)]
)
CLASSES = pytest.mark.parametrize("classes", [2, 5, 20])


def random_logits(classes: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(6, classes, generator=generator, dtype=torch.float64).to(dtype)


def assert_near(actual: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, check_dtype=False)


@DTYPES
@CLASSES
def test_functions_are_those_of_their_definitions(
    classes: int, dtype: torch.dtype, tolerance: float
) -> None:
    y, z = random_logits(classes, dtype), random_logits(classes, dtype, seed=1)
    p, q = y.double().exp().numpy(), z.double().exp().numpy()

    def closed(p: np.ndarray) -> np.ndarray:
        return p / p.sum(1, keepdims=True)

    def ratios(p: np.ndarray) -> np.ndarray:
        return np.log(p[:, :, None] / p[:, None])

    centred = np.log(p / p.prod(1, keepdims=True) ** (1 / classes))
    inner = (ratios(p) * ratios(q)).sum((1, 2)) / (2 * classes)
    norm = np.sqrt((ratios(p) ** 2).sum((1, 2)) / (2 * classes))
    distance = np.sqrt((ratios(p / q) ** 2).sum((1, 2)) / (2 * classes))
    for ours, theirs in [
        (simplex.closure(y).exp(), closed(p)),
        (simplex.power(y, 1.7).exp(), closed(p**1.7)),
        (simplex.power(y, -1.0).exp(), closed(1 / p)),
        (simplex.perturb(y, z).exp(), closed(p * q)),
        (simplex.clr(y), centred),
        (simplex.ilr(y), centred @ simplex.gram_schmidt_basis(classes).numpy().T),
        (simplex.ilr_inv(simplex.ilr(y)).exp(), closed(p)),
        (simplex.inner(y, z), inner),
        (simplex.norm(y), norm),
        (simplex.distance(y, z), distance),
    ]:
        assert ours.dtype == dtype
        # Sums of products of up to 20 logits cancel.
        assert_near(ours, torch.from_numpy(theirs), 5 * tolerance)


def test_zeros_are_replaced_and_the_others_shrink() -> None:
    p = torch.tensor([[0.0, 0.2, 0.8], [0.0, 0.0, 1.0], [0.5, 0.3, 0.2]], dtype=torch.float64)
    expected = torch.tensor([[0.01, 0.198, 0.792], [0.01, 0.01, 0.98], [0.5, 0.3, 0.2]])
    assert_near(simplex.replace_zeros(p, 0.01), expected.double(), 1e-7)
    assert_near(simplex.from_probabilities(p, 0.01).exp(), expected.double(), 1e-7)


@given(st.integers(2, 8), st.floats(-5, 5), st.integers(0, 10_000))
@settings(max_examples=20)
def test_ilr_is_linear_and_an_isometry_in_any_basis(
    classes: int, exponent: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    turn = torch.randn(classes - 1, classes - 1, generator=generator, dtype=torch.float64)
    # Any orthonormal rows that sum to zero, of a partition or not.
    basis = torch.linalg.qr(turn).Q @ simplex.gram_schmidt_basis(classes)
    p, q = random_logits(classes, seed=seed)[:2]
    a, b = simplex.ilr(p, basis), simplex.ilr(q, basis)
    assert_near(simplex.ilr(simplex.perturb(p, q), basis), a + b)
    assert_near(simplex.ilr(simplex.power(p, exponent), basis), exponent * a)
    assert_near(simplex.inner(p, q), a @ b, 1e-8)
    assert_near(simplex.norm(p), a.norm())
    assert_near(simplex.distance(p, q), (a - b).norm())


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([-0.2, 0.7, 0.5], r"not negative .* \[-0.2"),
        ([0.2, math.nan, 0.8], "sum to one"),
        ([0.2, 0.8, 0.0], "no logarithm; give `zero_replacement`"),
    ],
)
def test_what_is_no_composition_is_refused(row: list[float], words: str) -> None:
    p = torch.tensor([[0.25, 0.5, 0.25], row], dtype=torch.float64)
    with pytest.raises(ValueError, match=words):
        simplex.from_probabilities(p)
    with pytest.raises(ValueError, match="`zero_replacement` to be between 0 and 1/3"):
        simplex.from_probabilities(p[:1], 1 / 3)
    with pytest.raises(ValueError, match="`log_p` are NaN or infinite"):
        simplex.ilr(torch.tensor([[0.0, -math.inf, 1.0]]))
