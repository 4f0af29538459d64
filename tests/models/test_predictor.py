"""What every adapter does: errors of models, of the rows for them and of their outputs."""

from collections.abc import Callable
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier

import manifold_shap as ms
from manifold_shap.models import as_model, predictor_of

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["a", "b c", "d"])
LABEL = (FRAME["a"] > 0).to_numpy().astype(int)
TREES: dict[str, Any] = {"n_estimators": 3, "n_jobs": 1}
CATBOOST = {"iterations": 3, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
CODEBOOK = ms.Table.fit(FRAME)
CODES = CODEBOOK.rows(FRAME)


def fitted() -> dict[str, Any]:
    booster = xgboost.train({"nthread": 1}, xgboost.DMatrix(FRAME, LABEL), 2)
    boosted = lightgbm.LGBMClassifier(verbose=-1, **TREES).fit(FRAME, LABEL)
    return {
        "sklearn": LogisticRegression().fit(FRAME, LABEL),
        "xgboost": xgboost.XGBClassifier(**TREES).fit(FRAME, LABEL),
        "xgboost booster": booster,
        "lightgbm": boosted,
        "lightgbm booster": boosted.booster_,
        "catboost": catboost.CatBoostClassifier(**CATBOOST).fit(FRAME, LABEL),
    }


FITTED = fitted()
every_kind = pytest.mark.parametrize("kind", FITTED)


@every_kind
def test_columns_that_the_model_does_not_know(kind: str) -> None:
    model = predictor_of(FITTED[kind])
    with pytest.raises(ValueError, match=r"the columns that \w+ was fitted to .* \['y'\] b"):
        model(FRAME.assign(y=LABEL))
    with pytest.raises(ValueError, match=r"it has \['bc'\] besides and has no \['b.c'\]; drop"):
        model(FRAME.rename(columns={"b c": "bc"}))


@every_kind
def test_an_array_has_the_columns_of_the_training_in_their_order(kind: str) -> None:
    model = predictor_of(FITTED[kind])
    found = model(FRAME.to_numpy())
    assert torch.equal(found, model(FRAME))
    # A tensor in single precision, as value functions without a table have it.
    x = torch.tensor(FRAME.to_numpy())
    assert torch.equal(model(x), found)
    assert torch.equal(model(FRAME.to_numpy().tolist()), found)


def test_a_classifier_is_no_regression_and_the_other_way_round() -> None:
    imputer = ms.imputers.MarginalImputer(torch.tensor(FRAME.to_numpy("float32")))
    for kind in ("sklearn", "xgboost", "lightgbm", "catboost"):
        with pytest.raises(ValueError, match=r"returns='probabilities' for \w+ but"):
            ms.imputed_value(FITTED[kind], imputer, "identity")
    regressor = LinearRegression().fit(FRAME, LABEL)
    for model in (regressor, FITTED["xgboost booster"]):
        with pytest.raises(ValueError, match=r"a classifier for space=.probability. but"):
            ms.imputed_value(model, imputer)
    with pytest.raises(ValueError, match=r"Expected returns='probabilities' for Booster"):
        as_model(FITTED["lightgbm booster"], CODEBOOK, returns="values")


def test_an_error_of_the_model_is_the_cause_of_ours() -> None:
    def model(frame: pd.DataFrame) -> np.ndarray:
        if (frame["a"] == FRAME["a"].max()).any():
            raise KeyError("too large")
        return frame["a"].to_numpy()

    wrapped = as_model(model, CODEBOOK, returns="values")
    low = CODEBOOK.rows(FRAME[FRAME["a"] < 1])
    assert len(wrapped(low)) == len(low)
    says = (
        r"a pandas.DataFrame of 40 rows but the function 'model' failed with KeyError: 'too large'"
    )
    with pytest.raises(RuntimeError, match=says) as caught:
        wrapped(CODES)
    assert isinstance(caught.value.__cause__, KeyError)


SEVERAL = np.stack((LABEL, (FRAME["d"] > 0.2).to_numpy().astype(int)), 1)
LABELLED: dict[str, Callable[[], Any]] = {
    "lists": lambda: MultiOutputClassifier(LogisticRegression()),
    "one for each": lambda: OneVsRestClassifier(LogisticRegression()),
    "xgboost": lambda: xgboost.XGBClassifier(**TREES),
    "catboost": lambda: catboost.CatBoostClassifier(loss_function="MultiLogloss", **CATBOOST),
}


@pytest.mark.filterwarnings("ignore:The probabilities of .* do not sum to one")
@pytest.mark.parametrize("name", LABELLED)
def test_each_of_several_labels_is_an_output(name: str) -> None:
    classifier = LABELLED[name]().fit(FRAME, SEVERAL)
    found = classifier.predict_proba(FRAME)
    expected = np.stack([p[:, 1] for p in found], 1) if isinstance(found, list) else found
    for given in (classifier, classifier.predict_proba):
        for returns in (None, "values"):
            model = as_model(given, CODEBOOK, returns=returns)
            assert (model.returns, model.classes) == ("values", ("0", "1"))
            np.testing.assert_allclose(model(CODES), expected, atol=1e-6)


@pytest.mark.parametrize("objective", ["estimator", "booster"])
def test_probabilities_that_do_not_sum_to_one_are_values(objective: str) -> None:
    own = {"objective": "multiclassova", "min_child_samples": 2, "verbose": -1}
    model = lightgbm.LGBMClassifier(**own, **TREES)
    model = model.fit(FRAME, LABEL + (FRAME["d"] > 1))
    with pytest.warns(UserWarning, match=r"do not sum to one.*returns='values'"):
        found = as_model(model if objective == "estimator" else model.booster_, CODEBOOK)
    np.testing.assert_allclose(found(CODES), model.predict_proba(FRAME))
    with pytest.raises(ValueError, match="Expected the model to return a distribution"):
        as_model(model, CODEBOOK, returns="probabilities")


def test_a_classifier_that_does_not_say_its_classes() -> None:
    inner = FITTED["sklearn"]

    class Wrapper:
        """As of AutoGluon: fitted, and without `classes_`."""

        def predict_proba(self, rows: pd.DataFrame) -> Any:
            return pd.DataFrame(inner.predict_proba(rows), rows.index, ["no", "yes"])

    model = as_model(Wrapper(), CODEBOOK)
    assert model.classes == ("no", "yes")
    expected = torch.from_numpy(inner.predict_proba(FRAME))
    torch.testing.assert_close(model(CODES, scale="probabilities"), expected)


def test_an_estimator_of_ones_own_gets_the_frame_as_it_is() -> None:
    class Own(BaseEstimator):
        def fit(self, frame: pd.DataFrame) -> "Own":
            self.n_features_in_ = frame.shape[1]
            return self

        def predict(self, frame: pd.DataFrame) -> Any:
            return frame["a"] * 2

    found = as_model(Own().fit(FRAME), CODEBOOK)(CODES)
    np.testing.assert_array_equal(found[:, 0], FRAME["a"] * 2)
    # scikit-learn itself, fitted to an array, would warn of the names of a frame.
    plain = LinearRegression().fit(FRAME.to_numpy(), LABEL)
    own = torch.from_numpy(plain.predict(FRAME.to_numpy()))
    torch.testing.assert_close(predictor_of(plain)(FRAME), own, rtol=1e-12, atol=1e-12)


def test_probabilities_reach_the_value_function_exactly() -> None:
    """At the grand coalition, in double precision; no logarithm in between."""
    for kind in ("sklearn", "xgboost", "lightgbm", "catboost"):
        expected = torch.from_numpy(FITTED[kind].predict_proba(FRAME).copy())
        model = as_model(FITTED[kind], CODEBOOK)
        value = ms.imputed_value(model, ms.imputers.MarginalImputer(CODES), draws=4)
        explanation = ms.exact_shapley(value, CODES[:5])
        assert torch.equal(explanation.prediction, expected[:5]), kind
        assert explanation.phi.dtype == expected.dtype
        total = explanation.base + explanation.phi.sum(1)
        precision = torch.finfo(expected.dtype).eps
        torch.testing.assert_close(total, expected[:5], rtol=0, atol=8 * precision)
