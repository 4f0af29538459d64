"""Negative global values off the manifold (Frye et al. 2021, Fig. 4), and claims about them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

import manifold_shap as ms
from benchmarks.papers import negative, report
from tests.benchmarks.test_reproduce import Small, check_sums, save, values_of


def test_values_of_the_tree_are_those_of_the_table_by_hand() -> None:
    x, y = negative.patients(seed=3)
    table = np.zeros((2, 2, 2))
    np.add.at(table, (*x.long().numpy().T, y.numpy()), 1 / len(x))
    p = table.sum(2)
    chance = table / p[..., None]  # f_y(x): a tree that is grown in full.
    on = {
        (): (p[..., None] * chance).sum((0, 1)) + 0 * chance,
        (0,): (table.sum(1) / p.sum(1)[:, None])[:, None] + 0 * chance,
        (1,): (table.sum(0) / p.sum(0)[:, None])[None] + 0 * chance,
        (0, 1): chance,
    }
    off = on | {
        (0,): np.einsum("b,aby->ay", p.sum(0), chance)[:, None] + 0 * chance,
        (1,): np.einsum("a,aby->by", p.sum(1), chance)[None] + 0 * chance,
    }
    found = negative.synthetic(seed=3)
    for name, v in {"on manifold": on, "off manifold": off}.items():
        mean = {coalition: (table * values).sum() for coalition, values in v.items()}
        nobody, zero, one, both = mean[()], mean[0,], mean[1,], mean[0, 1]
        expected = [(zero - nobody + both - one) / 2, (one - nobody + both - zero) / 2]
        # Means of 10,000 numbers in single precision.
        np.testing.assert_allclose(found[name].phi, expected, atol=5e-5)
        assert found[name].efficiency_gap < 1e-6
    # What Fig. 4(b) shows; of all tables with the same chances, not of this sample alone.
    assert negative.negative(found["off manifold"]) == ["x1"]
    assert not negative.negative(found["on manifold"])


def test_only_what_is_surely_below_zero_is_negative() -> None:
    assert negative.negative(values_of([0.1, -0.02, -0.04])) == ["x2"]
    assert negative.negative(values_of([0.1, -0.02], error=float("nan"))) == ["x1"]


def of_paper() -> tuple[dict[str, ms.GlobalValues], dict[str, ms.GlobalValues]]:
    """Of the tree and of abalone."""
    off, on = values_of([0.16, -0.04]), values_of([0.1, 0.04])
    return {"off manifold": off, "on manifold": on}, {
        "off manifold": off,
        "surrogate": on,
        "VAE": on,
    }


def test_what_the_paper_says_holds_of_figures_like_its_own() -> None:
    told = negative.claims(*of_paper())
    assert [claim.holds for claim in told] == [True] * 4


@pytest.mark.parametrize(
    ("model", "method", "phi", "fails"),
    [
        (0, "off manifold", [-0.04, 0.16], 0),
        (0, "off manifold", [0.16, -0.02], 0),
        (0, "on manifold", [-0.04, 0.16], 1),
        (1, "off manifold", [0.16, -0.02], 2),
        (1, "surrogate", [0.1, -0.04], 3),
        (1, "VAE", [-0.04, 0.1], 3),
    ],
)
def test_every_claim_may_fail(model: int, method: str, phi: list[float], fails: int) -> None:
    found = of_paper()
    found[model][method] = values_of(phi)
    told = negative.claims(*found)
    assert [number for number, claim in enumerate(told) if not claim.holds] == [fails]


def test_the_experiment_runs_on_small_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Small] = []

    def trained(*words: Any) -> Small:
        made.append(Small(*words))
        return made[-1]

    monkeypatch.setattr(negative, "Trained", trained)
    found = negative.run(samples=300, draws=4, epochs=1, seed=0)
    # App. B.3.
    assert isinstance(made[0].fitted, MLPClassifier)
    assert made[0].fitted.hidden_layer_sizes == (100,)
    assert [table.columns[0] for table in found.tables] == ["decision tree", "abalone"]
    assert [len(table.rows) for table in found.tables] == [2, 4]
    assert any("straight from the model" in line.what for line in found.lines)
    check_sums(found)
    save(tmp_path, "some", found)
    assert f"## {negative.TITLE}" in report.page(tmp_path, ["some"])
