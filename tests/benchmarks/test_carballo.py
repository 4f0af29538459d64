"""TreeSHAP, several models, and associations: the thesis' experiments in small, and oracles."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from scipy import stats

from benchmarks.papers import several_models, tree_shap
from benchmarks.support import associations, bike, patients, tree_values
from manifold_shap.data import sources
from manifold_shap.plots import style
from tests.benchmarks.conftest import Run

needs_bikes = pytest.mark.skipif(
    sources.find(None, "bike/day.csv") is None,
    reason=f"no bicycles in a folder named by {sources.VARIABLE}",
)


@needs_bikes
def test_tree_shap_in_small(run: Run) -> None:
    pytest.importorskip("shap", reason="needs manifold_shap[shap]")
    found = run("papers/tree_shap", trees=3, draws=4, days=3)
    assert list(found["ensembles"]) == [
        tree_values.FOREST, tree_values.BOOSTED, tree_values.BLIND
    ]  # fmt: skip
    for one in found["ensembles"].values():
        phi = tree_values.values(one)
        totals = torch.tensor(one["prediction"]).double() - one["base"][tree_values.MARGINAL]
        for way, own in phi.items():
            if way != tree_values.PATH:
                torch.testing.assert_close(own.sum(1), totals, rtol=1e-4, atol=1e-1)
        np.testing.assert_allclose(
            phi[tree_values.INTERVENTIONAL], phi[tree_values.MARGINAL], rtol=1e-5, atol=1e-3
        )
        # Another game, or the check could not fail.
        assert (phi[tree_values.PATH] - phi[tree_values.MARGINAL]).abs().max() > 1
    blind = tree_values.values(found["ensembles"][tree_values.BLIND])
    shares = {way: tree_values.of_season(own) for way, own in blind.items()}
    assert shares[tree_values.PATH] == 0
    assert shares[tree_values.MARGINAL] < 1e-9 < min(shares[way] for way in tree_values.CONDITIONAL)
    left, right = tree_shap.figures(found)[""].axes
    assert len(left.get_yticklabels()) == 5
    assert right.get_xscale() == "log"


def test_the_position_is_along_the_way_from_marginal_to_conditional() -> None:
    marginal = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    law = marginal + torch.tensor([[0.0, 4.0], [0.0, 0.0]])
    # A quarter of the way, and a step aside.
    path = marginal + torch.tensor([[2.0, 1.0], [0.0, 3.0]])
    phi = {tree_values.MARGINAL: marginal, tree_values.PATH: path, "law": law}
    assert tree_values.position(phi, "law") == pytest.approx(0.25)


@needs_bikes
def test_thresholds_of_the_trees_are_exact_in_single_precision() -> None:
    data = tree_values.days_of(0, 5)
    assert len(data.x_test) == 5
    assert (data.x_train - bike.split(0).x_train).abs().max() <= 1 / 1024
    assert thresholds_are_exact(data)
    assert not thresholds_are_exact(bike.split(0, 5))


def thresholds_are_exact(data: bike.Rentals) -> bool:
    forest = tree_values.fitted(tree_values.FOREST, data, 2, 0)
    found = np.concatenate([tree.tree_.threshold for tree in forest.estimators_])
    return bool((found == found.astype(np.float32)).all())


@pytest.mark.parametrize(
    ("module", "changes", "message"),
    [
        (tree_shap, {"days": 1}, "Expected 2 or more `days` but got 1"),
        (several_models, {"splits": 1}, "Expected 2 or more `splits` but got 1"),
    ],
)
def test_one_of_what_errors_are_known_by_is_refused(
    module: Any, changes: dict[str, int], message: str
) -> None:
    pytest.importorskip("shap", reason="needs manifold_shap[shap]")
    with pytest.raises(ValueError, match=message):
        module.run(**changes)


def test_several_models_in_small(run: Run, tmp_path: Path) -> None:
    found = run("papers/several_models", splits=2, rows=12, draws=2)
    names = ("several_models", "several_models_ways", "several_models_associations")
    assert {f"{name}.png" for name in names} < {path.name for path in tmp_path.iterdir()}
    first, second = found["splits"]
    assert first != second
    for phi in found["first"]["phi"].values():
        assert torch.tensor(phi).shape == (12, 7, len(patients.MODELS))
    drawn = several_models.figures(found)
    for name, titles in (("", patients.MODELS), ("ways", patients.OF_THESIS)):
        assert [axes.get_title("left") for axes in drawn[name].axes[:4]] == list(titles)


def test_one_imputer_serves_every_model() -> None:
    split = patients.Split(seed=0, rows=3, draws=4)
    for one in split.ways().values():
        assert one.outputs == patients.MODELS
        assert one.efficiency_gap < 1e-5
        torch.testing.assert_close(one.prediction, split.models(split.x))
    assert all(0.6 < accuracy < 0.9 for accuracy in split.accuracy.values())


def test_what_is_read_from_sina_plots() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 7, generator=generator)
    x[:, patients.SEX] = torch.arange(40) % 2 + 1.0
    # All of one sex have one value, and others follow the feature, one of them downwards.
    phi = x.double().clone()
    phi[:, 0] *= -0.5
    found = patients.described_model(x, phi)
    assert found[patients.RELATED] == pytest.approx(1)
    assert found[patients.APART] == 1
    assert found[patients.WITHIN] == pytest.approx(0, abs=1e-9)
    expected = x[:, patients.CONTINUOUS].double().std(0)
    expected[0] /= 2
    assert found[patients.SPREAD] == pytest.approx(expected.mean().item())
    noise = torch.randn(40, 7, generator=generator, dtype=torch.float64)
    found = patients.described_model(x, noise)
    assert found[patients.RELATED] < 0.4
    assert 0.5 <= found[patients.APART] < 0.8
    assert found[patients.WITHIN] > 1


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


def test_neighbours_on_the_circle_are_the_most_associated() -> None:
    matrix = np.eye(5)
    for a, b in ((0, 3), (3, 1), (1, 4), (4, 2)):
        matrix[a, b] = matrix[b, a] = -0.9
    order = associations.around(matrix.tolist())
    assert order in ([0, 3, 1, 4, 2], [0, 2, 4, 1, 3])
    axes = Figure().subplots()
    associations.network(axes, "abcde", matrix.tolist(), unsigned="e")
    lines = [line for line in axes.lines if len(line.get_xdata()) == 2]
    assert [line.get_color() for line in lines].count(style.LOWERS) == 2
    assert [line.get_color() for line in lines].count(style.NEUTRAL) == 2
    assert {text.get_text() for text in axes.texts} == {*"abcde", style.number(-0.9)}
