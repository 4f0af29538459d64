"""Compositions by the commands, on irises and digits."""

from pathlib import Path

import pytest
import torch

from tests.cli.commands import explain, explained, read, train

# A classifier of a second, smooth: no probability of exactly zero. Not the support vector machine
# of the experiments: the newest scikit-learn announces its end.
BAYES = ["classifier=naive_bayes"]


@pytest.mark.usefixtures("drawn_figures")
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("iris", []),
        pytest.param("digits", [], marks=pytest.mark.slow),
        pytest.param("digits", ["data.digits=[0,1,2,3]"], marks=pytest.mark.slow),
    ],
)
def test_the_experiments_of_the_paper_draw_compositions_of_their_rows_alone(
    name: str, more: list[str], tmp_path: Path
) -> None:
    words = [f"experiment=compositions_{name}", *BAYES, *more]
    train(tmp_path, *words, "value_function.draws=20")
    plane = "ilr_plane" if name == "iris" else "ilr_space"
    for row in (0, 5):
        explain(tmp_path, *words, "estimator=adaptive", f"instances=[{row}]")
        run = tmp_path / f"compositions_{name}" / "marginal"
        assert read(run, "summary.json")["efficiency_gap"] < 1e-5
        files = {path.name for path in (run / "plots").iterdir()}
        kinds = ("compositions", "cumulative", "parallel_coordinates", plane)
        assert {"bifurcation_tree.png", *(f"{kind}_{row}.png" for kind in kinds)} <= files
    assert f"{plane}_0.png" not in files


def test_another_basis_is_a_rotation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data=iris", "value_function=marginal"]
    train(tmp_path, *words, "space=ilr", *BAYES)
    found = []
    for basis in ("null", "[[versicolor,virginica],setosa]", "dendrogram"):
        explain(tmp_path, *words, "estimator=exact", "instances=2", f"basis={basis}")
        found.append(explained(tmp_path, "marginal", "iris"))
    usual, turned, clustered = found
    assert usual.compositions().shape == (2, 4, 3)
    assert turned.outputs == ("versicolor : virginica", "versicolor+virginica : setosa")
    torch.testing.assert_close(turned.compositions(), usual.compositions())
    assert set(clustered.outputs[0].split(" : ")) == {"versicolor", "virginica"}
    assert str(clustered.partition) in capsys.readouterr().out
