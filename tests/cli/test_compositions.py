"""Compositions by the commands, on irises and digits."""

from pathlib import Path

import pytest
import torch

import manifold_shap as ms
from tests.cli.commands import explain, explained, read, train

# A classifier of a second, smooth: no probability of exactly zero.
BAYES = ["classifier=naive_bayes"]
MARGINAL = ["data=iris", "value_function=marginal"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs directory with a classifier of irises, and the marginal game of its log-ratios."""
    place = tmp_path_factory.mktemp("runs")
    train(place, *MARGINAL, "space=ilr", *BAYES)
    return place


def compositions(place: Path, *words: str) -> tuple[ms.Explanation, set[str]]:
    explain(place, *MARGINAL, "estimator=exact", *words)
    files = {path.name for path in (place / "iris" / "marginal" / "plots").iterdir()}
    return explained(place, "marginal", "iris"), files


@pytest.mark.usefixtures("drawn_figures")
def test_a_run_in_log_ratios_draws_compositions_of_its_rows_alone(runs: Path) -> None:
    explanation, files = compositions(runs, "instances=[0]")
    assert explanation.compositions().shape == (1, 4, 3)
    kinds = ("compositions", "cumulative", "parallel_coordinates", "ilr_plane")
    assert {"bifurcation_tree.png", *(f"{kind}_0.png" for kind in kinds)} <= files
    _, files = compositions(runs, "instances=[5]")
    assert "ilr_plane_5.png" in files
    assert "ilr_plane_0.png" not in files


def test_another_basis_is_a_rotation(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usual, _ = compositions(runs, "instances=2")
    turned, _ = compositions(runs, "instances=2", "basis=[[versicolor,virginica],setosa]")
    assert turned.outputs == ("versicolor : virginica", "versicolor+virginica : setosa")
    torch.testing.assert_close(turned.compositions(), usual.compositions())
    found, _ = compositions(runs, "instances=2", "basis=dendrogram")
    assert set(found.outputs[0].split(" : ")) == {"versicolor", "virginica"}
    assert str(found.partition) in capsys.readouterr().out


@pytest.mark.parametrize(
    "name", ["iris", *(pytest.param(f"digits{k}", marks=pytest.mark.slow) for k in ("", "_0_to_3"))]
)
def test_the_experiments_of_the_paper_run(name: str, tmp_path: Path) -> None:
    # Not the support vector machine itself: the newest scikit-learn announces its end.
    words = [f"experiment=compositions_{name}", *BAYES]
    train(tmp_path, *words, "value_function.draws=20")
    explain(tmp_path, *words, "estimator=adaptive", "instances=1")
    directory = tmp_path / f"compositions_{name}" / "marginal"
    assert read(directory, "summary.json")["efficiency_gap"] < 1e-5
    figure = "ilr_plane_0.png" if name == "iris" else "ilr_space_0.png"
    assert (directory / "plots" / figure).exists()
