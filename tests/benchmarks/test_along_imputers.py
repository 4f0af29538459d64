"""The benchmark of imputers along orders compares the same values."""

import pytest
import torch

import manifold_shap as ms
from benchmarks import along_imputers


@pytest.mark.parametrize("make", [ms.GaussianImputer, ms.CopulaImputer, ms.EmpiricalImputer])
def test_the_benchmark_compares_the_same_values(make: type[ms.Imputer]) -> None:
    x = torch.randn(52, 9, generator=torch.Generator().manual_seed(0))
    found = along_imputers.measure(make(x[2:]), x[:2], draws=2, orders=3, repeats=1)
    assert found["largest_difference"] < 1e-4
    assert found["ratio"] == pytest.approx(found["plain"] / found["along"])
