"""Closed forms of naive Bayes against enumeration, scikit-learn, scipy and the axioms."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.base import clone
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from torch import Tensor

import manifold_shap as ms
from manifold_shap.naive_bayes import multiclass_score, naive_bayes_shapley, weight_of_evidence

FEATURES = 4
ROWS, REFERENCE = slice(0, 3), slice(3, 11)

KINDS: dict[str, Any] = {
    "gaussian": GaussianNB(),
    "categorical": CategoricalNB(),
    "bernoulli": BernoulliNB(binarize=0.05),
    "bits": BernoulliNB(binarize=None),
    "multinomial": MultinomialNB(fit_prior=False),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
both_spaces = pytest.mark.parametrize(("output", "classes"), [("log_odds", 2), ("ilr", 3)])
WEIGHTS = [1.0, 0.25, 0.0, 0.7]


def table(kind: str, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Rows that float32 holds exactly, and classes that depend on them, the first the likeliest."""
    generator = np.random.default_rng(0)
    y = np.maximum(np.arange(60) % (classes + 2) - 2, 0)
    x = generator.normal(y[:, None] * [0.5, 1, -0.7, 0], 1, (60, FEATURES)).round(1)
    if kind == "categorical":
        x = np.clip(np.floor(x + 2), 0, [5, 3, 4, 2])
    if kind == "bits":
        x = (x > 0).astype(float)
    if kind == "multinomial":
        x = np.floor(np.abs(2 * x))
    return x.astype(np.float32).astype(np.float64), y


def fitted(kind: str, classes: int = 2) -> tuple[Any, np.ndarray, np.ndarray]:
    """A model, rows to explain, and reference rows."""
    x, y = table(kind, classes)
    return clone(KINDS[kind]).fit(x, y), x[ROWS], x[REFERENCE]


def log_likelihoods(model: Any, x: np.ndarray) -> np.ndarray:
    """log P(x_m | y) `[*batch, features, classes]` by scipy and by loops."""
    if isinstance(model, GaussianNB):
        return stats.norm.logpdf(x[..., None], model.theta_.T, model.var_.T**0.5)
    if isinstance(model, BernoulliNB):
        bit = x if model.binarize is None else x > model.binarize
        return stats.bernoulli.logpmf(bit[..., None], np.exp(model.feature_log_prob_).T)
    if isinstance(model, MultinomialNB):
        return x[..., None] * model.feature_log_prob_.T
    tables, codes = model.feature_log_prob_, np.moveaxis(x.astype(int), -1, 0)
    return np.stack([t.T[code] for t, code in zip(tables, codes, strict=True)], axis=-2)


def log_prior(model: Any) -> np.ndarray:
    gaussian = isinstance(model, GaussianNB)
    return np.log(model.class_prior_) if gaussian else model.class_log_prior_


def joint(model: Any, x: np.ndarray, weights: list[float] | None) -> np.ndarray:
    """Eq. (1) up to closure, `[*batch, classes]`; without weights by scikit-learn."""
    if weights is None:
        flat = model.predict_joint_log_proba(x.reshape(-1, FEATURES))
        return flat.reshape(*x.shape[:-1], -1)
    return log_prior(model) + np.einsum("...mk,m->...k", log_likelihoods(model, x), weights)


def in_space(log_p: np.ndarray, output: str) -> np.ndarray:
    if output == "log_odds":
        return log_p[..., 1:] - log_p[..., :1]
    return ms.simplex.ilr(torch.from_numpy(np.ascontiguousarray(log_p))).numpy()


def assert_close(actual: Tensor, expected: Any, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(
        actual.double(), torch.as_tensor(expected).double(), rtol=tolerance, atol=tolerance
    )


@every_kind
@both_spaces
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_values_are_those_of_enumeration(
    kind: str, output: str, classes: int, weights: list[float] | None
) -> None:
    model, x, reference = fitted(kind, classes)

    def marginal(x: Tensor, mask: Tensor) -> Tensor:
        completed = torch.where(mask[:, :, None], x[:, None, None], torch.from_numpy(reference))
        values = in_space(joint(model, completed.numpy(), weights), output)
        return torch.from_numpy(values.mean(2))

    explanation = naive_bayes_shapley(model, x, reference, output, weights=weights)
    expected = ms.exact_shapley(marginal, torch.from_numpy(x))
    assert explanation.phi.shape == (3, FEATURES, classes - 1)
    for name in ("phi", "base", "prediction"):
        assert_close(getattr(explanation, name), getattr(expected, name))
    assert (explanation.standard_error == 0).all()
    assert explanation.made_by.get("weights") == weights


@every_kind
@both_spaces
def test_evidence_less_its_mean_is_the_shapley_value(kind: str, output: str, classes: int) -> None:
    model, x, reference = fitted(kind, classes)
    evidence = weight_of_evidence(model, x, output, weights=WEIGHTS)
    mean = weight_of_evidence(model, reference, output, weights=WEIGHTS).phi.mean(0)
    shapley = naive_bayes_shapley(model, x, reference, output, weights=WEIGHTS)
    assert_close(evidence.phi - mean, shapley.phi, 2e-6)
    assert torch.equal(evidence.prediction, shapley.prediction)
    assert_close(evidence.base, np.tile(in_space(log_prior(model), output), (len(x), 1)))
    assert_close(evidence.base + evidence.phi.sum(1), evidence.prediction, 2e-6)


@pytest.mark.parametrize("kind", ["categorical", "bernoulli", "bits"])
def test_evidence_is_the_change_in_odds_without_the_feature(kind: str) -> None:
    # Eq. (13): the other parameters of these models do not depend on the feature.
    x, y = table(kind)
    model, rows = clone(KINDS[kind]).fit(x, y), x[ROWS]
    evidence = weight_of_evidence(model, rows)
    for m in range(FEATURES):
        less = clone(model).fit(np.delete(x, m, 1), y)
        odds = in_space(model.predict_log_proba(rows), "log_odds")
        without = in_space(less.predict_log_proba(np.delete(rows, m, 1)), "log_odds")
        assert_close(evidence.phi[:, m], odds - without)


@every_kind
def test_the_score_of_three_classes_is_that_of_three_mixtures(kind: str) -> None:
    model, x, reference = fitted(kind, 3)
    prior = np.exp(log_prior(model))
    terms = []
    for rows in (x, reference):
        p = np.exp(log_likelihoods(model, rows))
        mixture = (p * prior).sum(-1, keepdims=True) - p * prior
        terms.append(np.log(p / (mixture / (prior.sum() - prior))))
    expected = np.abs(terms[0] - terms[1].mean(0)).sum(-1) * np.array(WEIGHTS)
    assert_close(multiclass_score(model, x, reference, weights=WEIGHTS), expected)


@every_kind
def test_a_group_gets_the_sum_of_its_features(kind: str) -> None:
    model, x, reference = fitted(kind, 3)
    players = ms.Players(("ends", "middle"), torch.tensor([0, 1, 1, 0]))
    single = naive_bayes_shapley(model, x, reference, "ilr")
    grouped = naive_bayes_shapley(model, x, reference, "ilr", players=players)
    assert grouped.players is players
    assert_close(grouped.phi[:, 0], single.phi[:, [0, 3]].sum(1))
    assert_close(grouped.phi[:, 1], single.phi[:, [1, 2]].sum(1))
    assert torch.equal(grouped.prediction, single.prediction)


def test_rows_are_not_rounded_to_single_precision() -> None:
    # Around 100 million float32 counts by eights.
    x, y = table("gaussian")
    near, far = (GaussianNB().fit(rows, y) for rows in (x, x + 1e8))
    expected = naive_bayes_shapley(near, x[ROWS], x[REFERENCE])
    shifted = naive_bayes_shapley(far, x[ROWS] + 1e8, x[REFERENCE] + 1e8)
    assert_close(shifted.phi, expected.phi, 1e-5)


def test_columns_of_a_frame_are_found_by_name() -> None:
    x, y = table("categorical")
    frame = pd.DataFrame(x, columns=list("abcd"), dtype="Int64")
    model = CategoricalNB().fit(frame, y)
    expected = naive_bayes_shapley(model, x[ROWS], x[REFERENCE])
    shuffled = frame[list("cadb")]
    found = naive_bayes_shapley(model, shuffled[ROWS], shuffled[REFERENCE])
    assert torch.equal(found.phi, expected.phi)
    assert found.players.names == ("a", "b", "c", "d")


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_what_never_occurs_tells_nothing() -> None:
    # A word without any occurrence in one class, and none in these rows.
    x, y = np.array([[3, 1, 0], [2, 2, 0], [1, 4, 2], [1, 3, 1]]), [0, 0, 1, 1]
    model = MultinomialNB(alpha=0).fit(x, y)
    explanation = naive_bayes_shapley(model, x[:2], x[:2])
    assert (explanation.phi[:, 2] == 0).all()
    assert explanation.phi.isfinite().all()
    # A weight of zero erases an impossible feature.
    erased = naive_bayes_shapley(model, x, x, weights=[1, 1, 0])
    assert (erased.phi[:, 2] == 0).all()


X, Y = table("gaussian")
GAUSSIAN = GaussianNB().fit(X, Y)


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        (ComplementNB().fit(abs(X), Y), {}, "got ComplementNB; .* without likelihoods"),
        (BernoulliNB().fit(X, 0 * Y), {}, "at least two classes"),
        (GaussianNB(priors=[1, 0]).fit(X, Y), {}, "priors above zero"),
        (GAUSSIAN, {"space": "probability"}, "be 'log_odds' or 'ilr', .* but got 'probability'"),
        (GAUSSIAN, {"x": X[:, :3]}, r"`x` of shape \(rows, 4\), as the model was fitted"),
        (GAUSSIAN, {"x_reference": X * np.nan}, "`x_reference` are NaN"),
        (GAUSSIAN, {"weights": [1, 1, 1, math.nan]}, "one from 0 to 1 per feature"),
    ],
)
def test_models_and_rows_that_are_refused(model: Any, changes: dict, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        naive_bayes_shapley(**{"model": model, "x": X, "x_reference": X, **changes})


@pytest.mark.parametrize(
    ("kind", "value"),
    [("categorical", 4), ("categorical", 0.5), ("bits", 0.5), ("multinomial", -1)],
)
def test_features_without_a_likelihood_are_refused(kind: str, value: float) -> None:
    model, x, reference = fitted(kind)
    bad = x.copy()
    bad[2, 1] = value
    with pytest.raises(ValueError, match=f"{value}, of feature 'x1' in row 2 of `x`, has none"):
        naive_bayes_shapley(model, bad, reference)
    assert naive_bayes_shapley(model, bad, reference, weights=[1, 0, 1, 1])
