"""Models and data of the user's own on the command line: tables, pictures, texts and series."""

import re
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

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
from tests.cli.commands import FOREST, ORDERS, SHORT, TINY, TINY_VAE, explain, explained, train
from tests.data.test_pictures import drawn
from tests.data.test_texts import reviews
from tests.data.test_time_series import waves, write_ts

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* are not in the vocabulary"),
    pytest.mark.filterwarnings("ignore:2 of 200 rows lack the target"),
    pytest.mark.filterwarnings("ignore:The model agrees"),  # Networks that nobody has trained.
    pytest.mark.filterwarnings("ignore:.*are exactly zero", "ignore:No row"),
]
EXACT = ["estimator=exact", "instances=2"]
MINE = """
import pandas as pd
def paid(frame):
    return 2 * frame['income']
def named(frame):
    p = 1 / (1 + 2.0 ** (55 - frame['income']))
    return pd.DataFrame({'poor': 1 - p, 'rich': p})
def rich(frame):
    return named(frame).to_numpy()
def poor(frame):
    return rich(frame)[:, ::-1].copy()
"""


def table(rows: int = 200) -> pd.DataFrame:
    """Text, missing cells and dates, and the number of the row."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, rows).astype(float)
    income = np.round(20 + age * 0.7 + rng.normal(size=rows) * 5, 2)
    town = rng.choice(["Bern", "Oslo", "Rome"], rows)
    since = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), "D")
    age[rng.random(rows) < 0.1] = np.nan
    frame = pd.DataFrame({"id": range(rows), "town": town, "age": age, "income": income})
    bought = np.where(income + 10 * (town == "Rome") > 55, "yes", "no")
    return frame.assign(since=since, bought=bought, paid=np.round(income * 2, 2))


class Three(nn.Linear):
    """A network of three numbers."""

    def __init__(self) -> None:
        super().__init__(4, 3)


def pictures(x: torch.Tensor) -> torch.Tensor:
    return 10 * x.flatten(2).mean(2)[:, :2] - 5


texts = nn.Sequential(
    nn.Embedding(99, 2), nn.AdaptiveAvgPool2d((1, 2)), nn.Flatten(), nn.Softmax(1)
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data of each kind, and with models of them."""
    place, frame = tmp_path_factory.mktemp("shop"), table()
    frame.to_csv(place / "shop.csv", index=False)
    bought = frame["bought"].where(frame["id"] % 150 != 4)
    lacking = frame.assign(country="Norway", bought=bought).drop(columns="since")
    lacking.to_csv(place / "gaps.csv", index=False)
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
    (place / "mine.py").write_text(MINE)
    return place


@pytest.fixture(autouse=True)
def _inside(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop)
    monkeypatch.setattr(sys, "path", [*sys.path])


READ = ["data=table", "data.path=shop.csv", "data.left_out=[id]"]
BOUGHT = [*READ, "data.read={parse_dates: [since]}", "data.target=bought", "data.drop=[paid]"]
PAID = ["data=table", "data.path=shop.csv", "data.target=paid", "data.task=regression"]
PIPELINE = ["model=file", "model.path=bought.skops"]


def test_a_pipeline_is_explained_on_its_own_frame_without_a_training(tmp_path: Path) -> None:
    explain(tmp_path, *BOUGHT, *PIPELINE, "value_function=gaussian", *EXACT)
    found = explained(tmp_path, "gaussian", "shop")
    assert found.efficiency_gap < 1e-5
    assert found.data is not None
    assert set(found.data) == {"town", "age", "income", "since"}
    model = skops.io.load("bought.skops", trusted=skops.io.get_untrusted_types(file="bought.skops"))
    rows = table().merge(found.data[["income"]], on="income").drop(columns=["bought", "paid"])
    expected = np.sort(model.predict_proba(rows)[:, 1])
    assert np.sort(found.prediction[:, 1]) == pytest.approx(expected, abs=1e-6)


def test_value_functions_are_trained_for_a_model_of_ones_own(tmp_path: Path) -> None:
    assert train(tmp_path, *BOUGHT, *PIPELINE, *TINY)["model"]["accuracy"] > 0.8
    # Neither the table nor the file of the model need be named again.
    again = ["data=table", "data.name=shop", *EXACT]
    assert explain(tmp_path, *again, "compare=[marginal,copula]")["players"] == 4
    with pytest.raises(ValueError, match=r"'bought.skops' -> 'paid.ubj'"):
        explain(tmp_path, *again, "model=file", "model.path=paid.ubj")
    # Of a file of other rows with the same settings nothing is explained.
    path = tmp_path / "shop.csv"
    table().assign(income=lambda frame: frame["income"] * 2).to_csv(path, index=False)
    with pytest.raises(ValueError, match="rows: '"):
        explain(tmp_path, *again, f"data.path={path}", *PIPELINE)
    # Columns that enter together are another game.
    words = [*BOUGHT, *PIPELINE, *TINY_VAE, "players={money: [age, income]}"]
    train(tmp_path, *words)
    explain(tmp_path, *again, "value_function=vae")
    found = explained(tmp_path, "vae", "shop")
    assert set(found.players.names) == {"money", "town", "since"}
    assert found.data is not None
    assert "income" in found.data["money"].iloc[0]
    with pytest.raises(ValueError, match=r"players.money"):
        explain(tmp_path, *again, "value_function=vae", "players={when: [since, age]}")


@pytest.mark.parametrize(
    "model", [["model=file", "model.path=paid.ubj"], ["model=python", "model.call=mine:paid"]]
)
def test_a_regression_is_explained_in_its_own_unit(
    tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*PAID, "data.drop=[id,town,since,bought]", "value_function=empirical", *EXACT]
    explain(tmp_path, *words, *model, "unit='thousand EUR'")
    told = capsys.readouterr().out
    assert re.search(r"explains \d+ % of the variance of the target", told)
    assert "compare=[marginal]" in told
    found = explained(tmp_path, "empirical", "shop")
    assert (found.space.name, found.outputs) == ("identity", ("paid",))
    assert found.unit == "thousand EUR"
    assert 40 < found.base.mean() < 180


@pytest.mark.parametrize(
    ("call", "names", "said"),
    [
        ("rich", ("no", "yes"), None),
        ("poor", ("no", "yes"), "labels of .* test rows, less than by chance"),
        ("named", ("poor", "rich"), None),
    ],
)
def test_outputs_without_names_are_called_like_classes_whose_wrong_order_is_noticed(
    tmp_path: Path, call: str, names: tuple[str, ...], said: str | None
) -> None:
    words = [*BOUGHT, "model=python", f"model.call=mine:{call}", "value_function=marginal", *EXACT]
    with pytest.warns(UserWarning, match=said) if said else nullcontext():
        explain(tmp_path, *words)
    assert explained(tmp_path, "marginal", "shop").outputs == names


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
    assert found.data is not None
    rows = torch.tensor(found.data.to_numpy(dtype=np.float32))
    assert torch.allclose(found.prediction.float(), network(rows).softmax(1), atol=1e-5)


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (["model=file", "model.path=model.pkl"], "Refused to load model.pkl: reading it can run"),
        (["model=file", "model.path=model.ckpt"], "model=python"),
        (["model=python", "model.call=bought.skops"], "model=file"),
        (["model=python", "model.call=mine:nothing"], "no attribute 'nothing'"),
        (["model=file"], r"model.path"),
        (["data.name=shoop", "data.path=???"], r"Expected a run in .*shoop .* are \['shop'\]"),
    ],
)
def test_models_that_are_none(tmp_path: Path, model: list[str], error: str) -> None:
    (tmp_path / "shop").mkdir()
    with pytest.raises(Exception, match=error):
        explain(tmp_path, *BOUGHT, *model, "value_function=marginal", *EXACT)


# Tables with a model that is trained on them: rows are codes, as of any frame.

GAPS = ["data=table", "data.path=gaps.csv"]


def test_the_command_line_explains_rows_of_the_file_as_the_steps_by_hand_do(
    tmp_path: Path,
) -> None:
    gaussian = ["value_function=gaussian"]
    train(tmp_path, *GAPS, "data.target=bought", "data.drop=[id,paid]", *FOREST, *gaussian)
    words = ["data=table", "data.name=gaps", "estimator=exact", *gaussian]
    with warnings.catch_warnings(action="error"):  # The training has given them.
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
    with pytest.raises(ValueError, match=r"that have a target, .* from 0 to 199, but got \[4\]"):
        explain(tmp_path, *words, "instances=[4]")


def test_a_regression_needs_a_regressor(tmp_path: Path) -> None:
    words = [*GAPS, "data.target=income", "data.task=regression", "data.drop=[id,paid,bought]"]
    words += ["value_function=marginal", *EXACT]
    with pytest.raises(TypeError, match="classifier=random_forest_regressor"):
        explain(tmp_path / "mlp", *words)
    explain(tmp_path, *words, "classifier=random_forest_regressor")
    found = explained(tmp_path, "marginal", "gaps")
    assert (found.space.name, found.outputs) == ("identity", ("income",))
    assert found.made_by["model"]["name"] == "RandomForestRegressor"


# Pictures, texts and series.

SHAPES = ["data=image_folder", "data.path=shapes"]
REVIEWS = ["data=text", "data.path=reviews.csv", "data.vocabulary=99"]
WAVES = ["data=series", "data.path=waves.ts", "data.segment=3"]
CONV = [*SHORT, "classifier.hidden=[4,8]", "classifier.max_epochs=1"]
NETWORKS = {
    "conv": ["value_function.network=conv", "value_function.hidden=[4,8]"],
    "transformer": ["value_function.network=transformer", "value_function.hidden=[32]"],
    "model": ["value_function.network=model"],
}
ONCE = "value_function.max_epochs=1"


def one_of(first: str, *others: str) -> pytest.MarkDecorator:
    """Networks, of which the first is trained by default."""
    slow = (pytest.param(name, marks=pytest.mark.slow) for name in others)
    return pytest.mark.parametrize("network", [first, *slow])


@pytest.mark.usefixtures("drawn_figures")
@one_of("conv", "transformer", "model")
def test_pictures_are_explained_by_maps(network: str, tmp_path: Path) -> None:
    assert train(tmp_path, *SHAPES, "data.patch=8", *CONV, ONCE, *NETWORKS[network])["mse"] > 0
    summary = explain(tmp_path, "data=image_folder", "data.name=shapes", *EXACT)
    assert (summary["players"], summary["figures"]) == (4, ["pixel_maps.png"])
    found = explained(tmp_path, data="shapes")
    assert found.efficiency_gap < 1e-5
    assert found.x.shape == (2, 3, 16, 16)


def test_pictures_on_disk_are_explained_as_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*SHAPES, "data.patch=8", "value_function=baseline", *CONV]
    expected = train(tmp_path / "kept", *words)
    monkeypatch.setattr("manifold_shap.data.pictures.IN_MEMORY", 0)
    monkeypatch.setattr("manifold_shap.data.pictures.READERS", 0)  # Quicker for so few.
    assert train(tmp_path, *words)["mse"] == pytest.approx(expected["mse"], rel=1e-3)
    words = ["data=image_folder", "data.name=shapes", "value_function=baseline", "estimator=exact"]
    assert explain(tmp_path, *words, "instances=all", "block=2")["instances"] == 4
    assert explained(tmp_path, "baseline", "shapes").efficiency_gap < 1e-5


def test_superpixels_are_players_of_a_picture(tmp_path: Path) -> None:
    own = ["value_function=baseline", "model=python", f"model.call={__name__}:pictures", *ORDERS]
    summary = explain(tmp_path, *SHAPES, *own, "groups=superpixels")
    assert (summary["players"], explained(tmp_path, "baseline", "shapes").players.by_row) == (50, 1)
    with pytest.raises(ValueError, match=r"`groups` to be one of \['superpixels'\]"):
        explain(tmp_path, *SHAPES, *own, "groups=words")


@pytest.mark.usefixtures("drawn_figures")
@one_of("transformer", "model")
def test_texts_are_explained_by_coloured_words(network: str, tmp_path: Path) -> None:
    words = [*SHORT, "classifier.hidden=[32]", "classifier.max_epochs=1", ONCE]
    assert train(tmp_path, *REVIEWS, *words, *NETWORKS[network])["mse_off_manifold"] > 0
    # Row 4 is of the file: a lovely film number 4. See it!
    rows = [*REVIEWS, *ORDERS, "instances=[13,4]"]
    assert explain(tmp_path, *rows, "compare=[marginal]")["figures"] == ["text.html"]
    page = (tmp_path / "reviews" / "surrogate" / "plots" / "text.html").read_text()
    assert "good" in page
    found = explained(tmp_path, data="reviews")
    assert found.counts.tolist() == [9, 9]
    assert found.phi[~found.present].isnan().all()
    for groups, counts in {"sentences": [2, 2], "words": [7, 7]}.items():
        explain(tmp_path, *rows, f"groups={groups}")
        assert explained(tmp_path, data="reviews").counts.tolist() == counts


def test_tokens_are_masked_padded_and_deleted(tmp_path: Path) -> None:
    words = [*REVIEWS, "model=python", f"model.call={__name__}:texts", *ORDERS]
    bases = []
    for name in ("mask_token", "padding", "deletion"):
        explain(tmp_path, *words, f"value_function={name}", "instances=[13,4]")
        found = explained(tmp_path, name, "reviews")
        assert found.efficiency_gap < 1e-5
        bases.append(found.base[0])
    masked, padded, deleted = bases
    assert torch.equal(padded, deleted)  # Of no token padding is left.
    assert not torch.equal(masked, padded)


@pytest.mark.usefixtures("drawn_figures")
@one_of("conv", "transformer", "model")
def test_series_are_explained_by_curves(network: str, tmp_path: Path) -> None:
    words = [*WAVES, "classifier=conv", *CONV, ONCE, *NETWORKS[network]]
    amortized = ["amortized=default", "amortized.max_epochs=1", "amortized.hidden=[32]"]
    metrics = train(tmp_path, *words, *amortized)
    summary = explain(tmp_path, *WAVES, *EXACT)
    assert [name.rpartition("_")[0] for name in summary["figures"]] == ["series", "series"]
    assert (summary["players"], summary["efficiency_gap"] < 1e-5) == (3, True)
    explain(tmp_path, *WAVES, "estimator=amortized", "instances=2")
    found = explained(tmp_path, data="waves").made_by["relative_error"]
    assert found == metrics["amortized"]["relative_error"]
