"""TreeSHAP, several models, and associations: the thesis' experiments in small, and oracles."""

import numpy as np
import pytest
import torch
from scipy import stats

from benchmarks.support import associations, tree_values


def test_the_position_is_along_the_way_from_marginal_to_conditional() -> None:
    marginal = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    law = marginal + torch.tensor([[0.0, 4.0], [0.0, 0.0]])
    # A quarter of the way, and a step aside.
    path = marginal + torch.tensor([[2.0, 1.0], [0.0, 3.0]])
    phi = {tree_values.MARGINAL: marginal, tree_values.PATH: path, "law": law}
    assert tree_values.position(phi, "law") == pytest.approx(0.25)


def test_associations_are_those_of_the_thesis() -> None:
    generator = np.random.default_rng(0)
    kinds = generator.integers(0, 3, 300)
    a = generator.normal(size=300)
    columns = {
        "a": a, "b": generator.normal(size=300) - a, "kinds": kinds, "copy": (kinds + 1) % 3,
        "shifted": kinds**2 + 0.1 * a,
    }  # fmt: skip
    found = np.array(associations.associations(columns, ("kinds", "copy")))
    np.testing.assert_array_equal(found, found.T)
    assert (found.diagonal() == 1).all()
    assert found[0, 1] == pytest.approx(stats.pearsonr(a, columns["b"]).statistic)
    assert found[0, 1] < -0.5
    assert found[2, 3] == pytest.approx(1)
    means = np.array([columns["shifted"][kinds == one].mean() for one in kinds])
    assert found[2, 4] == pytest.approx((means.var() / columns["shifted"].var()) ** 0.5)
    assert found[0, 2] < 0.2
