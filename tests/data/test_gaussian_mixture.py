"""Rows of a Gaussian mixture whose law is known."""

from pathlib import Path

import torch

from manifold_shap.data import GaussianMixture
from tests.cli.commands import TINY, explain, explained, train


def test_rows_of_a_mixture_are_those_of_its_law() -> None:
    data = GaussianMixture(rows=500, elements=4, components=2, law=3, seed=1)
    data.setup()
    assert data.players.names == ("x0", "x1", "x2", "x3")
    assert data.table is None
    drawn = data.law.sample(500, seed=1)
    rows = torch.cat((data.x_train, data.x_validation, data.x_test))
    assert torch.equal(rows[rows[:, 0].argsort()], drawn.x[drawn.x[:, 0].argsort()])
    other = GaussianMixture(rows=500, elements=4, components=2, law=4)
    assert not torch.equal(other.law.means, data.law.means)


def test_the_commands_explain_rows_of_a_mixture(tmp_path: Path) -> None:
    words = ["data=gaussian_mixture", "data.rows=300", "data.elements=4"]
    assert train(tmp_path, *words, *TINY)["mse"] > 0
    explain(tmp_path, *words, "instances=2", "compare=[]")
    assert explained(tmp_path, data="gaussian_mixture").phi.shape == (2, 4, 3)
