"""Aitchison geometry against its definitions and the published basis."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from manifold_shap.simplex import gram_schmidt_basis, ilr, ilr_inv, replace_zeros

few = settings(deadline=None, max_examples=30)


@st.composite
def logits(draw: st.DrawFn, rows: int = 2) -> Tensor:
    """Two rows of logits of 2 to 8 classes, in float64."""
    classes = draw(st.integers(2, 8))
    number = st.floats(-20, 20)
    row = st.lists(number, min_size=classes, max_size=classes)
    return torch.tensor([draw(row) for _ in range(rows)], dtype=torch.float64)


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_basis_rows_are_orthonormal_contrasts(classes: int) -> None:
    basis = gram_schmidt_basis(classes)
    assert basis.shape == (classes - 1, classes)
    torch.testing.assert_close(basis @ basis.T, torch.eye(classes - 1, dtype=torch.float64))
    torch.testing.assert_close(basis.sum(1), torch.zeros(classes - 1, dtype=torch.float64))


def test_basis_of_three_classes_is_that_of_egozcue() -> None:
    half, sixth = 1 / math.sqrt(2), 1 / math.sqrt(6)
    expected = torch.tensor([[half, -half, 0], [sixth, sixth, -2 * sixth]], dtype=torch.float64)
    torch.testing.assert_close(gram_schmidt_basis(3), expected)


def test_a_basis_needs_two_classes() -> None:
    with pytest.raises(ValueError, match="Expected at least 2 classes for log-ratios but got 1"):
        gram_schmidt_basis(1)


@given(logits())
@few
def test_ilr_is_an_isometry_of_the_aitchison_inner_product(z: Tensor) -> None:
    a, b = ilr(z)
    ratio_a, ratio_b = (row[:, None] - row for row in z)
    expected = (ratio_a * ratio_b).sum() / (2 * z.shape[1])
    torch.testing.assert_close(a @ b, expected, rtol=1e-9, atol=1e-9)


@given(logits())
@few
def test_ilr_has_the_norm_of_the_centred_log_ratio(z: Tensor) -> None:
    centred = z - z.mean(1, keepdim=True)
    torch.testing.assert_close(ilr(z).norm(dim=1), centred.norm(dim=1), rtol=1e-9, atol=1e-9)


@given(logits())
@few
def test_ilr_inv_takes_coordinates_back(z: Tensor) -> None:
    p = z.softmax(-1)
    torch.testing.assert_close(ilr_inv(ilr(p.log())), p, rtol=1e-9, atol=1e-15)
    torch.testing.assert_close(ilr(ilr_inv(ilr(z)).log()), ilr(z), rtol=1e-6, atol=1e-9)


def test_another_basis_serves_both_ways() -> None:
    basis = gram_schmidt_basis(4).flip(0)
    p = torch.rand(5, 4, dtype=torch.float64).softmax(-1)
    torch.testing.assert_close(ilr(p.log(), basis), ilr(p.log()).flip(1))
    torch.testing.assert_close(ilr_inv(ilr(p.log(), basis), basis), p)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-12)])
def test_ilr_is_stable_at_extreme_logits(dtype: torch.dtype, tolerance: float) -> None:
    z = torch.tensor([[100, -100, 0], [-100, -100, 100], [100, 100, -100]], dtype=dtype)
    exact = torch.tensor(
        [
            [200 / math.sqrt(2), 0 / math.sqrt(6)],
            [0, -400 / math.sqrt(6)],
            [0, 400 / math.sqrt(6)],
        ],
        dtype=dtype,
    )
    torch.testing.assert_close(ilr(z), exact, rtol=0, atol=tolerance)
    torch.testing.assert_close(ilr(z.log_softmax(-1)), exact, rtol=0, atol=tolerance)


def test_replacement_keeps_ratios_and_sums_to_one() -> None:
    p = torch.tensor([[0.0, 0.2, 0.8], [0.0, 0.0, 1.0], [0.5, 0.3, 0.2]], dtype=torch.float64)
    replaced = replace_zeros(p, 0.01)
    torch.testing.assert_close(replaced.sum(1), torch.ones(3, dtype=torch.float64))
    assert replaced[0, 2] / replaced[0, 1] == pytest.approx(4)
    assert replaced[0, 0] == 0.01
    assert replaced[1].tolist() == [0.01, 0.01, pytest.approx(0.98)]
    assert torch.equal(replaced[2], p[2])
