"""The classifiers of the command line: trained, written, read back, and refused when foreign."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB

from manifold_shap.data import Data, load
from manifold_shap.training.classifier import (
    ClassifierNetwork,
    NetworkRecipe,
    fit_classifier,
    load_classifier,
    quality,
)

CPU = {"accelerator": "cpu"}


class Foreign(LogisticRegression):
    """A classifier that is not scikit-learn's own."""


@pytest.fixture(scope="module")
def iris() -> Data:
    return load("iris")


def test_a_network_learns_digits(tmp_path: Path) -> None:
    data = load("digits")
    seconds = fit_classifier(NetworkRecipe("mlp", hidden=[64], max_epochs=4), data, tmp_path, CPU)
    with warnings.catch_warnings(action="error"):
        model = load_classifier(tmp_path, data)
    assert (model.returns, seconds > 0) == ("logits", True)
    ((name, share),) = quality(model, data).items()
    assert name == "accuracy"
    assert share > 0.9
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}


def test_scikit_learn_classifiers_come_back_as_they_were(iris: Data, tmp_path: Path) -> None:
    estimator = RandomForestClassifier(n_estimators=5)
    fit_classifier(estimator, iris, tmp_path)
    model = load_classifier(tmp_path, iris)
    expected = torch.from_numpy(estimator.predict_proba(iris.table.encode(iris.x_test).numpy()))
    assert torch.equal(model(iris.x_test, scale="probabilities"), expected)
    assert model.classes == iris.classes


def test_types_of_others_are_not_loaded(iris: Data, tmp_path: Path) -> None:
    fit_classifier(Foreign(), iris, tmp_path)
    with pytest.raises(ValueError, match=r"not scikit-learn's own \(.*Foreign\)"):
        load_classifier(tmp_path, iris)


def test_a_regression_has_a_regressor(tmp_path: Path) -> None:
    data = load("diabetes", seed=1)
    fit_classifier(LinearRegression(), data, tmp_path)
    model = load_classifier(tmp_path, data)
    assert (model.returns, model.classes) == ("values", ("progression",))
    x_train, x_test = (data.table.encode(x).numpy() for x in (data.x_train, data.x_test))
    own = LinearRegression().fit(x_train, data.y_train.numpy())
    ((name, found),) = quality(model, data).items()
    assert name == "r2"
    assert found == pytest.approx(own.score(x_test, data.y_test.numpy()), abs=1e-5)


def test_a_regression_and_its_model_suit_each_other(tmp_path: Path, iris: Data) -> None:
    data = load("diabetes")
    for recipe in (GaussianNB(), NetworkRecipe("mlp")):
        with pytest.raises(TypeError, match=r"regressor for diabetes, .*=random_forest_regr"):
            fit_classifier(recipe, data, tmp_path)
    with pytest.raises(TypeError, match="`predict_proba`, but got LinearRegression"):
        fit_classifier(LinearRegression(), iris, tmp_path)


CONV = {"kind": "conv", "hidden": [4, 8], "activation": "relu"}
TRANSFORMER = {"kind": "transformer", "hidden": [32], "activation": "gelu", "patch": None}


@pytest.mark.parametrize(
    ("settings", "event", "padding"),
    [
        ({"kind": "mlp", "hidden": [8], "activation": "relu", "dropout": 0.0}, (2, 3), None),
        (CONV, (2, 6), -9.0),
        ({**TRANSFORMER, "vocabulary": 5}, (6,), 0.0),
        (TRANSFORMER, (3, 7, 5), None),
    ],
)
def test_rows_of_a_network_do_not_depend_on_each_other(
    settings: dict[str, Any], event: tuple[int, ...], padding: float | None
) -> None:
    x = torch.randint(1, 5, (6, *event), generator=torch.Generator().manual_seed(0)).float()
    if padding is not None:
        x[1, ..., 3:] = padding
    torch.manual_seed(0)
    network = ClassifierNetwork(settings, event, 3, padding).eval()
    network.standardise(x)
    together = network(x)
    assert together.shape == (6, 3)
    apart = torch.cat([network(row[None]) for row in x])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)
    assert (together - together.mean(0)).abs().max() > 1e-3
