"""Models and data of the user's own on the command line: tables, pictures, texts and series."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
import torch
import xgboost
from safetensors.torch import save_file
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from torch import nn

import manifold_shap as ms
from manifold_shap import data as data_sets
from manifold_shap.training.classifier import load_classifier
from tests.cli.commands import FOREST, SHORT, TINY, TINY_VAE, explain, explained, train
from tests.data.test_pictures import drawn
from tests.data.test_texts import reviews
from tests.data.test_time_series import waves, write_ts

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* are not in the vocabulary"),
    pytest.mark.filterwarnings("ignore:2 of 200 rows lack the target"),
    pytest.mark.filterwarnings("ignore:.*are exactly zero", "ignore:No row"),
]
EXACT = ["estimator=exact", "instances=2"]
ORDERS = ["estimator=permutation", "estimator.permutations=2", "instances=2"]


def table(rows: int = 200) -> pd.DataFrame:
    """Text, missing cells and dates, a constant column, and the number of the row."""
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


class Three(nn.Module):
    """A network of three numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data of each kind, and with models of them."""
    place, frame = tmp_path_factory.mktemp("shop"), table()
    frame.to_csv(place / "shop.csv", index=False)
    lacking = frame.assign(country="Norway", bought=frame["bought"].where(frame["id"] % 150 != 4))
    lacking.drop(columns="since").to_csv(place / "gaps.csv", index=False)
    encoder = make_column_transformer(
        (OneHotEncoder(), ["town"]), (SimpleImputer(), ["age", "income"])
    )
    features = frame.drop(columns=["bought", "paid"])
    pipeline = make_pipeline(encoder, LogisticRegression(max_iter=1000))
    skops.io.dump(pipeline.fit(features, frame["bought"]), place / "bought.skops")
    booster = xgboost.XGBRegressor(n_estimators=5, max_depth=2)
    booster.fit(frame[["age", "income"]], frame["paid"]).save_model(place / "paid.ubj")
    drawn(place / "shapes")
    reviews(place / "reviews.csv")
    write_ts(place / "waves.ts", *waves(40))
    (place / "mine.py").write_text(
        "from torch import nn\n"
        "def paid(frame):\n    return 2 * frame['income'] + frame['age'].fillna(40) / 10\n"
        "def pictures(x):\n    return 10 * x.flatten(2).mean(2)[:, :2] - 5\n"
        "pool = nn.AdaptiveAvgPool2d((1, 2))\n"
        "texts = nn.Sequential(nn.Embedding(99, 2), pool, nn.Flatten(), nn.Softmax(1))\n"
        "def series(x):\n    return x.clamp(min=-1).mean(2)\n"
    )
    return place


@pytest.fixture(autouse=True)
def _inside(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop)
    monkeypatch.syspath_prepend(shop)


READ = ["data=table", "data.path=shop.csv", "data.left_out=[id]"]
BOUGHT = [*READ, "data.read={parse_dates: [since]}", "data.target=bought", "data.drop=[paid]"]
PAID = ["data=table", "data.path=shop.csv", "data.target=paid", "data.task=regression"]
NUMBERS = "data.drop=[id,town,since,bought]"
PIPELINE = ["model=file", "model.path=bought.skops"]


def test_a_pipeline_is_explained_on_its_own_frame_without_a_training(tmp_path: Path) -> None:
    summary = explain(tmp_path, *BOUGHT, *PIPELINE, "value_function=gaussian", *EXACT)
    assert summary["players"] == 4
    found = explained(tmp_path, "gaussian", "shop")
    assert found.efficiency_gap < 1e-5
    features = found.data
    assert features is not None
    assert set(features) == {"town", "age", "income", "since"}
    model = skops.io.load("bought.skops", trusted=skops.io.get_untrusted_types(file="bought.skops"))
    rows = table().merge(features[["income"]], on="income")
    expected = model.predict_proba(rows.drop(columns=["bought", "paid"]))
    assert np.sort(found.prediction[:, 1]) == pytest.approx(np.sort(expected[:, 1]), abs=1e-6)


def test_value_functions_are_trained_for_a_model_of_ones_own(tmp_path: Path) -> None:
    assert train(tmp_path, *BOUGHT, *PIPELINE, *TINY)["model"]["accuracy"] > 0.8
    # Neither the table nor the file of the model need be named again.
    again = ["data=table", "data.name=shop", *EXACT]
    assert explain(tmp_path, *again, "compare=[marginal,copula]")["players"] == 4
    with pytest.raises(ValueError, match=r"'bought.skops' -> 'paid.ubj'"):
        explain(tmp_path, *again, "model=file", "model.path=paid.ubj")
    train(tmp_path, *BOUGHT, *PIPELINE, *TINY_VAE)
    assert explain(tmp_path, *again, "value_function=vae")["players"] == 4
    # Of a file of other rows with the same settings nothing is explained.
    path = tmp_path / "shop.csv"
    table().assign(income=lambda frame: frame["income"] * 2).to_csv(path, index=False)
    with pytest.raises(ValueError, match="rows: '"):
        explain(tmp_path, *again, f"data.path={path}", *PIPELINE)


@pytest.mark.parametrize(
    "model", [["model=file", "model.path=paid.ubj"], ["model=python", "model.call=mine:paid"]]
)
def test_a_regression_is_explained_in_its_own_unit(tmp_path: Path, model: list[str]) -> None:
    explain(tmp_path, *PAID, NUMBERS, *model, "value_function=empirical", *EXACT)
    found = explained(tmp_path, "empirical", "shop")
    assert (found.space.name, found.outputs) == ("identity", ("paid",))
    assert 40 < found.base.mean() < 180


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".ckpt"])
def test_weights_are_read_into_a_network_that_is_named(tmp_path: Path, suffix: str) -> None:
    network, path = Three(), tmp_path / f"x{suffix}"
    state = network.state_dict()
    if suffix == ".safetensors":
        save_file(state, path)
    elif suffix == ".pt":
        torch.save(state, path)
    else:  # As Lightning's modules have them.
        torch.save({"state_dict": {f"net.{name}": each for name, each in state.items()}}, path)
    own = ["model=python", f"model.call={__name__}:Three", f"model.weights={path}"]
    explain(tmp_path, "data=iris", *own, "model.returns=logits", "value_function=marginal", *EXACT)
    found = explained(tmp_path, "marginal", "iris")
    rows = data_sets.load("iris")
    frame = torch.from_numpy(rows.table.frame(rows.x_test[:2]).to_numpy()).float()  # type: ignore[union-attr]
    assert torch.allclose(found.prediction.float(), network(frame).softmax(1), atol=1e-5)


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (["model=file", "model.path=model.pkl"], "Refused to load model.pkl: reading it can run"),
        (["model=file", "model.path=model.ckpt"], "model=python"),
        (["model=python", "model.call=bought.skops"], "model=file"),
        (["model=python", "model.call=mine:nothing"], "no attribute 'nothing'"),
        (["model=file"], r"model.path"),
    ],
)
def test_models_that_are_none(tmp_path: Path, model: list[str], error: str) -> None:
    with pytest.raises(Exception, match=error):
        explain(tmp_path, *BOUGHT, *model, "value_function=marginal", *EXACT)


@pytest.mark.parametrize("model", [PIPELINE, ["classifier=naive_bayes"]])
def test_groups_of_columns_enter_together(tmp_path: Path, model: list[str]) -> None:
    train(tmp_path, *BOUGHT, *model, "players={money: [age, income]}", *TINY)
    explain(tmp_path, "data=table", "data.name=shop", *EXACT)
    found = explained(tmp_path, data="shop")
    assert set(found.players.names) == {"money", "town", "since"}
    features = found.data
    assert features is not None
    assert "income" in features["money"].iloc[0]
    with pytest.raises(ValueError, match=r"players.money"):
        explain(tmp_path, "data=table", "data.name=shop", "players={when: [since, age]}", *EXACT)


# Tables with a model that is trained on them: rows are codes, as of any frame.

GAPS = ["data=table", "data.path=gaps.csv", "data.target=bought", "data.drop=[id,paid]"]


@pytest.mark.parametrize("block", ["block=9", "block=2"])
def test_a_constant_column_has_a_share_of_exactly_0(tmp_path: Path, block: str) -> None:
    train(tmp_path, *GAPS, "classifier=naive_bayes", "value_function=gaussian")
    words = ["value_function=gaussian", "estimator=exact", "instances=3", block]
    assert explain(tmp_path, *GAPS, *words)["players"] == 4
    found = explained(tmp_path, "gaussian", "gaps")
    assert found.players.names == ("town", "age", "income", "country")
    assert (found.phi[:, -1] == 0).all()
    assert found.efficiency_gap < 1e-5


def test_the_command_line_explains_rows_of_the_file_as_the_steps_by_hand_do(
    tmp_path: Path,
) -> None:
    train(tmp_path, *GAPS, *FOREST, "value_function=gaussian")
    words = ["data=table", "data.name=gaps", "value_function=gaussian", "estimator=exact"]
    explain(tmp_path, *words, "instances=[7,199,0]")
    stored = explained(tmp_path, "gaussian", "gaps")
    assert stored.instances == (7, 199, 0)
    data = data_sets.load("table", path="gaps.csv", target="bought", drop=["id", "paid"])
    (place,) = (tmp_path / "gaps" / "classifiers").glob("*/model.skops")
    model = load_classifier(place.parent, data)
    imputer = ms.imputers.table_imputer(ms.imputers.GaussianImputer, data.table, data.x_train)
    value = ms.imputed_value(model, imputer, draws=32)
    frame = pd.read_csv("gaps.csv", usecols=list(data.table.header)).iloc[[7, 199, 0]]
    explanation = ms.exact_shapley(value, frame)
    assert torch.equal(explanation.phi, stored.phi)
    assert torch.equal(explanation.prediction, stored.prediction)
    with pytest.raises(ValueError, match=r"those with a target, .* from 0 to 199, but got \[4\]"):
        explain(tmp_path, *words, "instances=[4]")


def test_value_functions_of_a_model_that_is_trained_here(tmp_path: Path) -> None:
    train(tmp_path, *GAPS, *FOREST, "value_function=contrastive", "value_function.rows=[0,199]")
    compare = "compare=[marginal,baseline,empirical,copula,exact_match,retrained]"
    summary = explain(tmp_path, *GAPS, "value_function=contrastive", compare, *EXACT)
    assert len(summary["compared"]) == 7


def test_a_regression_needs_a_regressor(tmp_path: Path) -> None:
    words = ["data=table", "data.path=gaps.csv", "data.target=income", "data.task=regression"]
    words += ["data.drop=[id,paid,bought]", "value_function=marginal"]
    with pytest.raises(TypeError, match="classifier=random_forest_regressor"):
        train(tmp_path / "mlp", *words)
    train(tmp_path, *words, "classifier=random_forest_regressor")
    explain(tmp_path, *words, *EXACT)
    found = explained(tmp_path, "marginal", "gaps")
    assert (found.space.name, found.outputs) == ("identity", ("income",))
    assert found.made_by["model"]["name"] == "RandomForestRegressor"


# Pictures, texts and series.

SHAPES = ["data=image_folder", "data.path=shapes", "data.patch=8"]
REVIEWS = ["data=text", "data.path=reviews.csv", "data.vocabulary=99"]
WAVES = ["data=series", "data.path=waves.ts", "data.segment=3"]
FEW = [*SHORT, "classifier.max_epochs=1", "value_function.max_epochs=1"]
CONV, TRANSFORMER = "classifier.hidden=[4,8]", "classifier.hidden=[32]"
NETWORKS = {
    "conv": ["value_function.network=conv", "value_function.hidden=[4,8]"],
    "transformer": ["value_function.network=transformer", "value_function.hidden=[32]"],
    "model": ["value_function.network=model"],
}


def one_of(first: str, *others: str) -> pytest.MarkDecorator:
    """Networks, of which the first is trained by default."""
    slow = (pytest.param(name, marks=pytest.mark.slow) for name in others)
    return pytest.mark.parametrize("network", [first, *slow])


@one_of("conv", "transformer", "model")
def test_pictures_are_explained_by_maps(network: str, tmp_path: Path) -> None:
    assert train(tmp_path, *SHAPES, CONV, *FEW, *NETWORKS[network])["mse"] > 0
    summary = explain(tmp_path, "data=image_folder", "data.name=shapes", *EXACT)
    assert (summary["players"], summary["figures"]) == (4, ["pixel_maps.png"])
    found = explained(tmp_path, data="shapes")
    assert found.efficiency_gap < 1e-5
    assert found.x.shape == (2, 3, 16, 16)


def test_pictures_on_disk_are_explained_as_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*SHAPES, "value_function=baseline"]
    expected = train(tmp_path / "kept", *words, CONV, *FEW[:-1])
    monkeypatch.setattr("manifold_shap.data.pictures.IN_MEMORY", 0)
    monkeypatch.setattr("manifold_shap.data.pictures.READERS", 0)  # Quicker for so few.
    metrics = train(tmp_path, *words, CONV, *FEW[:-1])
    assert metrics["mse"] == pytest.approx(expected["mse"], rel=1e-3)
    assert explain(tmp_path, *words, EXACT[0], "instances=all", "block=2")["instances"] == 4
    assert explained(tmp_path, "baseline", "shapes").efficiency_gap < 1e-5


def test_superpixels_are_players_of_a_picture(tmp_path: Path) -> None:
    words = ["data=image_folder", "data.path=shapes", "value_function=baseline"]
    own = ["model=python", "model.call=mine:pictures"]
    summary = explain(tmp_path, *words, *own, *ORDERS, "groups=superpixels")
    assert (summary["players"], explained(tmp_path, "baseline", "shapes").players.by_row) == (50, 1)
    with pytest.raises(ValueError, match=r"`groups` to be one of \['superpixels'\]"):
        explain(tmp_path, *words, *own, *ORDERS, "groups=words")


@pytest.mark.usefixtures("drawn_figures")
@one_of("transformer", "model")
def test_texts_are_explained_by_coloured_words(network: str, tmp_path: Path) -> None:
    assert train(tmp_path, *REVIEWS, TRANSFORMER, *FEW, *NETWORKS[network])["mse_off_manifold"] > 0
    # Row 4 is of the file: a lovely film number 4. See it!
    summary = explain(tmp_path, *REVIEWS, *ORDERS, "instances=[13,4]", "compare=[marginal]")
    assert summary["figures"] == ["text.html"]
    page = (tmp_path / "reviews" / "surrogate" / "plots" / "text.html").read_text()
    assert "good" in page
    found = explained(tmp_path, data="reviews")
    assert found.counts.tolist() == [9, 9]
    assert found.phi[~found.present].isnan().all()
    for groups, counts in {"sentences": [2, 2], "words": [7, 7]}.items():
        explain(tmp_path, *REVIEWS, *ORDERS, "instances=[13,4]", f"groups={groups}")
        assert explained(tmp_path, data="reviews").counts.tolist() == counts


def test_tokens_are_masked_padded_and_deleted(tmp_path: Path) -> None:
    own = ["model=python", "model.call=mine:texts"]
    bases = []
    for name in ("mask_token", "padding", "deletion"):
        words = [*REVIEWS, *own, f"value_function={name}"]
        assert train(tmp_path, *words)["draws"] == 1
        explain(tmp_path, *words, *ORDERS, "instances=[13,4]")
        found = explained(tmp_path, name, "reviews")
        assert found.efficiency_gap < 1e-5
        bases.append(found.base[0])
    masked, padded, deleted = bases
    assert torch.equal(padded, deleted)  # Of no token padding is left.
    assert not torch.equal(masked, padded)


@one_of("conv", "transformer", "model")
def test_series_are_explained_by_curves(network: str, tmp_path: Path) -> None:
    words = [*WAVES, "classifier=conv", CONV, *FEW, *NETWORKS[network]]
    amortized = ["amortized=default", "amortized.max_epochs=1", "amortized.hidden=[32]"]
    metrics = train(tmp_path, *words, *amortized)
    summary = explain(tmp_path, *WAVES, *EXACT)
    assert [name.rpartition("_")[0] for name in summary["figures"]] == ["series", "series"]
    assert (summary["players"], summary["efficiency_gap"] < 1e-5) == (3, True)
    explain(tmp_path, *WAVES, "estimator=amortized", "instances=2")
    found = explained(tmp_path, data="waves").made_by["relative_error"]
    assert found == metrics["amortized"]["relative_error"]


@pytest.mark.parametrize(
    ("words", "call"), [(SHAPES, "pictures"), (REVIEWS, "texts"), (WAVES, "series")]
)
def test_models_of_ones_own_get_rows_of_the_source(
    words: list[str], call: str, tmp_path: Path
) -> None:
    own: Any = ["model=python", f"model.call=mine:{call}", "value_function=marginal"]
    explain(tmp_path, *words, *own, *ORDERS)
    (home,) = tmp_path.iterdir()
    found = explained(tmp_path, "marginal", home.name)
    assert found.efficiency_gap < 1e-5
    assert found.phi[found.present].abs().max() > 0
