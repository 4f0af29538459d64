"""Tables of one's own with a model that is trained on them: rows are codes, as of any frame."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import manifold_shap as ms
from manifold_shap.data import TableFile
from manifold_shap.training.classifier import load_classifier, load_estimator
from tests.cli.commands import FOREST, explain, explained, read, train

pytestmark = pytest.mark.filterwarnings("ignore:2 of 160 rows lack the target")

BAYES = "classifier=naive_bayes"
ALONE = ["estimator=exact", "compare=[]"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with text, missing cells, a constant column, and the number of the row."""
    rng = np.random.default_rng(1)
    age = rng.integers(18, 80, 160)
    income = np.round(20 + age * 0.7 + rng.normal(size=160) * 5, 2)
    frame = pd.DataFrame(
        {
            "row": np.arange(1000, 1160),
            "town": rng.choice(["Bern", "Oslo", "Rome"], 160),
            "age": np.where(rng.random(160) < 0.1, np.nan, age),
            "country": "Norway",
            "income": income,
            "bought": np.where(income + rng.normal(size=160) > 55, "yes", "no"),
        }
    )
    frame.loc[[4, 30], "bought"] = None
    path = tmp_path_factory.mktemp("own") / "shop.csv"
    frame.to_csv(path, index=False)
    (path.parent / "theirs.py").write_text(
        "def by_number(frame):\n    return frame['income'] + frame['row'] % 7\n"
    )
    return path


def bought(shop: Path) -> list[str]:
    named = ["data=table", f"data.path={shop}", "data.target=bought"]
    return [*named, "data.drop=[row]"]


@pytest.mark.parametrize("block", ["block=9", "block=2"])
def test_a_constant_column_has_a_share_of_exactly_0(shop: Path, tmp_path: Path, block: str) -> None:
    train(tmp_path, *bought(shop), BAYES, "value_function=gaussian")
    words = ["value_function=gaussian", *ALONE, "instances=3", block]
    summary = explain(tmp_path, *bought(shop), *words)
    assert summary["players"] == 4
    found = explained(tmp_path, "gaussian", "shop")
    assert found.players.names == ("town", "age", "income", "country")
    assert (found.phi[:, -1] == 0).all()
    assert (found.standard_error[:, -1] == 0).all()
    assert found.data["country"].tolist() == ["Norway"] * 3
    assert found.efficiency_gap < 1e-5


def test_rows_are_those_of_the_file(shop: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(shop)
    train(tmp_path, *bought(shop), *FOREST, "value_function=marginal")
    words = ["data=table", "data.name=shop", "value_function=marginal", *ALONE]
    explain(tmp_path, *words, "instances=3")
    first = explained(tmp_path, "marginal", "shop")
    explain(tmp_path, *words, f"instances=[{first.instances[2]},159,0]")
    found = explained(tmp_path, "marginal", "shop")
    assert found.instances == (first.instances[2], 159, 0)
    assert torch.equal(found.prediction[0], first.prediction[2])
    names = ["town", "age", "income"]
    expected = frame.loc[list(found.instances), names]
    pd.testing.assert_frame_equal(found.data[names], expected, check_dtype=False)
    plots = {path.name for path in (tmp_path / "shop" / "marginal" / "plots").iterdir()}
    assert {"waterfall_159.png", "waterfall_0.png"} <= plots
    with pytest.raises(ValueError, match=r"that have a target, .* from 0 to 159 but got \[4\]"):
        explain(tmp_path, *words, "instances=[4]")


def test_the_command_line_explains_as_the_steps_by_hand_do(shop: Path, tmp_path: Path) -> None:
    train(tmp_path, *bought(shop), *FOREST, "value_function=gaussian")
    explain(tmp_path, *bought(shop), "value_function=gaussian", *ALONE, "instances=2")
    stored = explained(tmp_path, "gaussian", "shop")
    data = TableFile(path=str(shop), target="bought", drop=["row"])
    data.setup()
    place = tmp_path / "shop" / "classifier"
    expected = load_estimator(place).predict_proba(data.schema.encode(data.x_test).numpy())
    model = load_classifier(place, data)
    assert np.array_equal(model(data.x_test, scale="probabilities").numpy(), expected)
    imputer = ms.imputers.table_imputer(ms.imputers.GaussianImputer, data.schema, data.x_train)
    value = ms.imputed_value(model, imputer, draws=32)
    frame = pd.read_csv(shop, usecols=list(data.schema.columns)).iloc[data.test_numbers[:2]]
    explanation = ms.exact_shapley(value, frame)
    assert torch.equal(explanation.phi, stored.phi)
    assert torch.equal(explanation.prediction, torch.from_numpy(expected[:2]))
    assert explanation.instances == stored.instances == tuple(data.test_numbers[:2])


@pytest.mark.filterwarnings("ignore:.*are exactly zero", "ignore:No row")
def test_value_functions_of_a_model_that_is_trained_here(shop: Path, tmp_path: Path) -> None:
    own = ["value_function.against=null", "value_function.rows=[0,159]"]
    train(tmp_path, *bought(shop), *FOREST, "value_function=contrastive", *own)
    compare = "compare=[marginal,baseline,empirical,copula,exact_match,retrained]"
    words = ["value_function=contrastive", "estimator=exact", "instances=2", compare]
    summary = explain(tmp_path, *bought(shop), *words)
    assert len(summary["compared"]) == 7
    found = explained(tmp_path, "contrastive", "shop")
    frame = pd.read_csv(shop)
    data = TableFile(path=str(shop), target="bought", drop=["row"])
    data.setup()
    model = load_classifier(tmp_path / "shop" / "classifier", data)
    references = data.schema.rows(frame.loc[[0, 159], list(data.schema.columns)])
    expected = model(references, scale="probabilities").mean(0)
    assert torch.allclose(found.base[0].double(), expected.double())


def test_another_table_of_the_same_ranks_is_another_run(shop: Path, tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text(shop.read_text())
    train(tmp_path, *bought(path), BAYES, "value_function=marginal")
    frame = pd.read_csv(path)
    frame.assign(income=frame["income"] * 2).to_csv(path, index=False)
    with pytest.raises(ValueError, match="training rows are others now"):
        explain(tmp_path, *bought(path), "value_function=marginal", *ALONE)


def test_a_regression_has_a_model_by_its_task(shop: Path, tmp_path: Path) -> None:
    words = ["data=table", f"data.path={shop}", "data.target=income", "data.task=regression"]
    words.append("data.drop=[row]")
    train(tmp_path, *words, "value_function=marginal")
    recorded = read(tmp_path, "shop", "classifier", "config.json")["classifier"]["_target_"]
    assert recorded == "sklearn.ensemble.RandomForestRegressor"
    explain(tmp_path, *words, "value_function=marginal", *ALONE, "instances=2")
    found = explained(tmp_path, "marginal", "shop")
    assert (found.space.name, found.outputs) == ("identity", ("income",))
    with pytest.raises(TypeError, match="classifier=random_forest_regressor"):
        train(tmp_path / "mlp", *words, "classifier=mlp", "value_function=marginal")
