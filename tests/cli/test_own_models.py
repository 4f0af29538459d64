"""Models of the user's own on the command line, tables with missing cells, groups of columns."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
import xgboost
from omegaconf.errors import MissingMandatoryValue
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from tests.cli.commands import TINY, TINY_VAE, explain, explained, train

EXACT = ["estimator=exact", "instances=2"]
ALONE = [*EXACT, "compare=[]"]


def table(rows: int = 200) -> pd.DataFrame:
    """Text, missing cells and dates, and the number of the row."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, rows).astype(float)
    income = np.round(20 + age * 0.7 + rng.normal(size=rows) * 5, 2)
    town = rng.choice(["Bern", "Oslo", "Rome"], rows)
    age[rng.random(rows) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "id": range(rows),
            "town": town,
            "age": age,
            "income": income,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), "D"),
            "bought": np.where(income + 10 * (town == "Rome") > 55, "yes", "no"),
            "paid": np.round(income * 2, 2),
        }
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, and with models that were trained on its frame."""
    place, frame = tmp_path_factory.mktemp("shop"), table()
    frame.to_csv(place / "shop.csv", index=False)
    encoder = make_column_transformer(
        (OneHotEncoder(), ["town"]), (SimpleImputer(), ["age", "income"])
    )
    features = frame.drop(columns=["bought", "paid"])
    pipeline = make_pipeline(encoder, LogisticRegression(max_iter=1000))
    skops.io.dump(pipeline.fit(features, frame["bought"]), place / "bought.skops")
    booster = xgboost.XGBRegressor(n_estimators=5, max_depth=2)
    booster.fit(frame[["age", "income"]], frame["paid"]).save_model(place / "paid.ubj")
    (place / "mine.py").write_text(
        "def paid(frame):\n    return 2 * frame['income'] + frame['age'].fillna(40) / 10\n"
    )
    return place


@pytest.fixture(autouse=True)
def _inside(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop)
    monkeypatch.syspath_prepend(shop)


READ = [
    "data=table",
    "data.path=shop.csv",
    "data.read={parse_dates: [since]}",
    "data.left_out=[id]",
]
BOUGHT = [*READ, "data.target=bought", "data.drop=[paid]"]
PAID = ["data=table", "data.path=shop.csv", "data.target=paid", "data.task=regression"]
NUMBERS = "data.drop=[id,town,since,bought]"
PIPELINE = ["model=file", "model.path=bought.skops"]


def test_a_pipeline_is_explained_on_its_own_frame_without_a_training(tmp_path: Path) -> None:
    summary = explain(tmp_path, *BOUGHT, *PIPELINE, "value_function=gaussian", *ALONE)
    assert summary["players"] == 4
    found = explained(tmp_path, "gaussian", "shop")
    assert found.efficiency_gap < 1e-5
    features = found.data
    assert features is not None
    assert set(features) == {"town", "age", "income", "since"}
    model = skops.io.load("bought.skops", trusted=skops.io.get_untrusted_types(file="bought.skops"))
    frame = table()
    rows = frame.merge(features[["income"]], on="income")
    expected = model.predict_proba(rows.drop(columns=["bought", "paid"]))
    assert np.sort(found.prediction[:, 1]) == pytest.approx(np.sort(expected[:, 1]), abs=1e-6)


def test_value_functions_are_trained_for_a_model_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = train(tmp_path, *BOUGHT, *PIPELINE, *TINY)
    assert metrics["classifier_accuracy"] > 0.8
    assert "model: bought.skops, outputs ['no', 'yes'], test accuracy" in capsys.readouterr().out
    # The table need not be named again, the model must be.
    again = ["data=table", "data.name=shop"]
    compare = "compare=[marginal,copula]"
    summary = explain(tmp_path, *again, *PIPELINE, *EXACT, compare)
    assert summary["players"] == 4
    with pytest.raises(ValueError, match=r"'bought.skops'.* but got no `model`"):
        explain(tmp_path, *again, *ALONE)
    with pytest.raises(ValueError, match=r"'bought.skops'.* but got paid.ubj"):
        explain(tmp_path, *again, "model=file", "model.path=paid.ubj", *ALONE)
    with pytest.raises(ValueError, match=r"classifier for which surrogate .*bought.skops"):
        train(tmp_path, *BOUGHT, "model=python", "model.call=mine:paid", "value_function=marginal")
    train(tmp_path, *BOUGHT, *PIPELINE, *TINY_VAE)
    assert explain(tmp_path, *BOUGHT, *PIPELINE, "value_function=vae", *ALONE)["players"] == 4


@pytest.mark.parametrize(
    "model", [["model=file", "model.path=paid.ubj"], ["model=python", "model.call=mine:paid"]]
)
def test_a_regression_is_explained_in_its_own_unit(tmp_path: Path, model: list[str]) -> None:
    explain(tmp_path, *PAID, NUMBERS, *model, "value_function=empirical", *ALONE)
    found = explained(tmp_path, "empirical", "shop")
    assert (found.space.name, found.outputs) == ("identity", ("paid",))
    assert 40 < found.base.mean() < 180


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (["model=file", "model.path=model.pkl"], "Refused to load model.pkl: reading it can run"),
        (["model=python", "model.call=mine:nothing"], "no attribute 'nothing'"),
        (["model=file"], r"model.path"),
    ],
)
def test_models_that_are_none(tmp_path: Path, model: list[str], error: str) -> None:
    errors = (ValueError, ImportError, AttributeError, MissingMandatoryValue)
    with pytest.raises(errors, match=error):
        train(tmp_path, *BOUGHT, *model, "value_function=marginal")


@pytest.mark.parametrize("model", [PIPELINE, ["classifier=naive_bayes"]])
def test_groups_of_columns_enter_together(tmp_path: Path, model: list[str]) -> None:
    groups = "players={money: [age, income]}"
    train(tmp_path, *BOUGHT, *model, groups, *TINY)
    own = model if model == PIPELINE else []
    explain(tmp_path, "data=table", "data.name=shop", *own, *EXACT)
    found = explained(tmp_path, data="shop")
    assert set(found.players.names) == {"money", "town", "since"}
    features = found.data
    assert features is not None
    assert "income" in features["money"].iloc[0]
    with pytest.raises(ValueError, match=r"the players that .* was trained with, {'money'"):
        explain(tmp_path, *BOUGHT, *own, "players={when: [since, age]}", *ALONE)


def test_a_regression_is_explained_as_it_is_by_default(tmp_path: Path) -> None:
    train(tmp_path, "data=diabetes", "classifier.n_estimators=3", *TINY)
    words = ["estimator=permutation", "estimator.permutations=2", "instances=2"]
    explain(tmp_path, "data=diabetes", *words, "compare=[marginal]")
    assert explained(tmp_path, data="diabetes").space.name == "identity"
    explain(tmp_path, "data=diabetes", "value_function=marginal", *words, "compare=[]")
