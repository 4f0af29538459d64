"""Computes exact Shapley values of naive Bayes classifiers in time linear in the features.

Features are independent given the class: up to closure, log P(y | x) is a sum over them. On a
log-ratio scale T the game v(S) = E[T f(x_S, X_S̄)] over reference rows X is therefore additive:

    phi_m = w_m (T ℓ_m(x_m) - E[T ℓ_m(X_m)]),    ℓ_m(x_m) = log P(x_m | y) for each class y.

T = `log_odds` is Eq. (10) of Lemaire, Clérot & Boullé (2023); T = `ilr` gives the exact Shapley
composition. The weights w_m, between 0 and 1, are those of an averaged classifier (Eq. 1):
P(y | x) ∝ P(y) Π_m P(x_m | y)^w_m.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from manifold_shap._arrays import column_names, read_numbers
from manifold_shap._checks import check_finite, check_known
from manifold_shap._version import __version__
from manifold_shap.explanation import Explanation
from manifold_shap.players import Players, check_same_players
from manifold_shap.spaces import OutputSpace, as_space

__all__ = [
    "multiclass_score",
    "naive_bayes_shapley",
    "weight_of_evidence",
]


def __dir__() -> list[str]:
    return __all__


# Log-likelihoods held at a time: 2 MiB, which fit in a processor's cache.
_MOST_ELEMENTS = 2**18

# A log-likelihood below the negative of this counts as that of zero; float32 ends soon after.
_LARGEST = 1e30

_Scale = Callable[[Tensor], Tensor]


def naive_bayes_shapley(
    model: Any,
    x: Any,
    x_reference: Any,
    space: str | OutputSpace = "log_odds",
    *,
    weights: Any = None,
    players: Players | None = None,
) -> Explanation:
    """Exact Shapley values of naive Bayes: Lemaire et al. (2023), Eq. (10), for any log-ratios.

    They equal `exact_shapley` of `imputed_value(model, MarginalImputer(x_reference), space)` with
    as many draws as reference rows, in one pass over the rows instead of 2^n coalitions of each.

    Args:
        model: a fitted `GaussianNB`, `CategoricalNB`, `BernoulliNB` or `MultinomialNB` of
            scikit-learn.
        x: rows to explain, `[instances, *event]`: a tensor or an array of as many elements per row
            as the model has features, or a data frame, whose columns are matched by name if the
            model has feature names. All computations are in float64.
        x_reference: background data, as `x`; v(∅) is the mean over it.
        space: `"log_odds"` (two classes), `"ilr"` (any number of them), or such an `OutputSpace`.
        weights: w_m of each feature, from 0 to 1; by default all 1, which is the model itself. The
            Shapley value of a feature of weight 0 is exactly 0.
        players: see `Players`; by default every feature is one. The Shapley value of a group of
            features is the sum of theirs.

    Returns:
        An explanation whose standard errors are zero.

    Raises:
        TypeError: `model` is no such classifier, or rows are not numbers.
        ValueError: a model that is not fitted, with fewer than two classes, or with a class of
            prior zero; another `space`, or `log_odds` for other than two classes; no rows, rows of
            another width, or with entries that are NaN, infinite or unknown to the model; a
            likelihood of zero; `weights` out of range, or `weights` or `players` of another shape.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 1.0], [4.0, 1.5]])
    >>> model = GaussianNB().fit(x.numpy(), ["no", "no", "yes", "yes"])
    >>> explanation = naive_bayes_shapley(model, x[:1], x)
    >>> bool(explanation.efficiency_gap < 1e-5)
    True
    """
    space, bayes = as_space(space), _NaiveBayes(model, weights)
    scale = _linear(space, bayes.classes)
    reference = bayes.mean(x_reference, scale)
    return _explanation(bayes, space, scale, x, reference, players, "naive_bayes")


def weight_of_evidence(
    model: Any,
    x: Any,
    space: str | OutputSpace = "log_odds",
    *,
    weights: Any = None,
    players: Players | None = None,
) -> Explanation:
    """The evidence of each feature against the prior: w_m T ℓ_m(x_m), Lemaire et al., Eq. (15).

    These are exact Shapley values, too: of the game in which absent features are removed from the
    model (Eq. 18), v(S) = T P(y | x_S), whose `base` is T of the priors. They sum over players to
    `prediction - base`; centred by their means over background data they are the values of
    `naive_bayes_shapley`.

    Arguments and result are those of `naive_bayes_shapley`, without background data.

    Raises:
        TypeError: `model` is no naive Bayes of scikit-learn, or rows are not numbers.
        ValueError: as `naive_bayes_shapley`: a model, rows, `space`, `weights` or `players` that
            do not fit, or a likelihood of zero.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 1.0], [4.0, 1.5]])
    >>> model = GaussianNB().fit(x.numpy(), ["no", "no", "yes", "yes"])
    >>> bool((weight_of_evidence(model, x).phi[:2] < 0).all())
    True
    """
    space, bayes = as_space(space), _NaiveBayes(model, weights)
    nothing = torch.zeros(len(bayes.features), 1).double()
    scale = _linear(space, bayes.classes)
    return _explanation(bayes, space, scale, x, nothing, players, "weight_of_evidence")


def multiclass_score(
    model: Any,
    x: Any,
    x_reference: Any,
    *,
    weights: Any = None,
    players: Players | None = None,
) -> Float[Tensor, "instances players"]:
    """The importance of each player for all classes together, Lemaire et al. (2023), Section 3.

    The sum over classes of |phi_m|, Eq. (10), with the log-odds of the class against the rest,
    where P(x_m | rest) is the mixture of the other classes in proportion to their priors. For two
    classes it is 2 |phi_m|. A magnitude in nats, it does not add up to a prediction: for values
    that do, use `naive_bayes_shapley` with space="ilr", and `Explanation.norms` for their size.

    Arguments are those of `naive_bayes_shapley`, and so is the order of the players.

    Raises:
        TypeError: `model` is no naive Bayes of scikit-learn, or rows are not numbers.
        ValueError: as `naive_bayes_shapley`: a model, rows, `weights` or `players` that do not fit,
            or a likelihood of zero.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 1.0], [4.0, 1.5]])
    >>> model = GaussianNB().fit(x.numpy(), ["no", "no", "yes", "yes"])
    >>> multiclass_score(model, x, x).shape
    torch.Size([4, 2])
    """
    bayes = _NaiveBayes(model, weights)
    scale = _log_odds_of_rest(bayes.log_prior)
    rows = bayes.rows(x, "x")
    players = _players(bayes, players, rows)
    reference = bayes.mean(x_reference, scale)
    phi = (_by_player(terms - reference, players) for terms in bayes.terms(rows, "x", scale))
    return torch.cat([part.abs().sum(-1).float() for part in phi])


class _NaiveBayes:
    """A fitted classifier: log P(y | x) = log P(y) + Σ_m w_m ℓ_m(x_m), up to closure.

    Attributes:
        likelihood: ℓ_m of rows, `[rows, features, classes]`: NaN where an entry is none that the
            feature may have.
        log_prior: log P(y), `[classes]`, float64.
        classes: names.
        features: names, the model's own or numbered.
        weights: w_m, `[features]`, float64.
    """

    def __init__(self, model: Any, weights: Any) -> None:
        self.likelihood = _likelihood(model)
        self.classes = tuple(map(str, model.classes_))
        prior = getattr(model, "class_prior_", None)  # Of a GaussianNB.
        self.log_prior = (
            _float64(model.class_log_prior_) if prior is None else _float64(prior).log()
        )
        if len(self.classes) < 2 or not bool(self.log_prior.isfinite().all()):
            raise ValueError(
                "Expected a model of at least two classes with priors above zero but got "
                f"{list(self.classes)} with {self.log_prior.exp().tolist()}; fit it on rows of "
                "every class."
            )
        self.named = "feature_names_in_" in vars(model)
        count = model.n_features_in_
        names = model.feature_names_in_ if self.named else (f"x{m}" for m in range(count))
        self.features = tuple(map(str, names))
        self.weights = torch.ones(count).double() if weights is None else _float64(weights)
        inside = bool(((self.weights >= 0) & (self.weights <= 1)).all())
        if self.weights.shape != (count,) or not inside:
            raise ValueError(
                f"Expected `weights` of shape ({count},), one from 0 to 1 per feature, but got "
                f"{weights!r:.100}."
            )

    def rows(self, x: Any, name: str) -> Float[Tensor, "rows *event"]:
        """Checked rows, in float64 unless they are float32 already."""
        if self.named and (columns := column_names(x)) is not None:
            check_known(columns, self.features, f"columns of `{name}`, as the model was fitted,")
        if not isinstance(x, Tensor | np.ndarray):
            x = read_numbers(x, name, self.features if self.named else ())
        rows = torch.as_tensor(x).detach().cpu()
        rows = rows if rows.dtype == torch.float32 else rows.double()
        width = len(self.features)
        if rows.ndim < 2 or math.prod(rows.shape[1:]) != width or len(rows) == 0:
            raise ValueError(
                f"Expected `{name}` of shape (rows, {width}), as the model was fitted, but got "
                f"{tuple(rows.shape)}; one row is `{name}[:1]`."
            )
        return check_finite(rows, name, "impute or drop these rows first")

    def terms(
        self, rows: Float[Tensor, "rows *event"], name: str, scale: _Scale
    ) -> Iterator[Float[Tensor, "some features outputs"]]:
        """w_m T ℓ_m(x_m) of all rows, in parts.

        Raises:
            ValueError: an entry that its feature may not have, or of likelihood zero.
        """
        erased = (self.weights == 0)[:, None]
        step = max(1, _MOST_ELEMENTS // (len(self.weights) * len(self.classes)))
        for start in range(0, len(rows), step):
            some = rows[start : start + step].flatten(1)
            # P(x_m | y)^0 = 1, even of an impossible x_m.
            log_p = self.likelihood(some).masked_fill_(erased, 0.0)
            bad = ~(log_p.abs() <= _LARGEST)
            if bool(bad.any()):
                row, feature, k = bad.nonzero()[0].tolist()
                raise ValueError(
                    f"Expected likelihoods above zero but {some[row, feature]:g}, of feature "
                    f"{self.features[feature]!r} in row {start + row} of `{name}`, has none in "
                    f"class {self.classes[k]!r}; recode or drop such rows, fit the model with a "
                    "larger `alpha` (`var_smoothing` of GaussianNB), or erase the feature by a "
                    "weight of 0."
                )
            yield self.weights[:, None] * scale(log_p)

    def mean(self, x_reference: Any, scale: _Scale) -> Float[Tensor, "features outputs"]:
        """w_m E[T ℓ_m(X_m)]."""
        rows = self.rows(x_reference, "x_reference")
        sums = [terms.sum(0) for terms in self.terms(rows, "x_reference", scale)]
        return torch.stack(sums).sum(0) / len(rows)


def _likelihood(model: Any) -> Callable[[Tensor], Float[Tensor, "rows features classes"]]:
    """ℓ_m(x_m) = log P(x_m | y) for every feature m and class y, in float64.

    Raises:
        TypeError: the model is no naive Bayes of scikit-learn with likelihoods of features.
        sklearn.exceptions.NotFittedError: it is not fitted.
    """
    from sklearn import naive_bayes
    from sklearn.utils.validation import check_is_fitted

    kinds: dict[type, Callable[[Any], Callable[[Tensor], Tensor]]] = {
        naive_bayes.GaussianNB: _normal,
        naive_bayes.CategoricalNB: _categorical,
        naive_bayes.BernoulliNB: _bernoulli,
        naive_bayes.MultinomialNB: _multinomial,
    }
    for kind, likelihood in kinds.items():
        if isinstance(model, kind):
            check_is_fitted(model)
            return likelihood(model)
    raise TypeError(
        "Expected `model` to be a GaussianNB, CategoricalNB, BernoulliNB or MultinomialNB of "
        f"scikit-learn but got {type(model).__name__}; explain classifiers without likelihoods of "
        "features, such as ComplementNB, by `permutation_shapley`."
    )


def _normal(model: Any) -> Callable[[Tensor], Tensor]:
    mean, variance = _float64(model.theta_).T, _float64(model.var_).T
    constant = (2 * math.pi * variance).log()
    return lambda x: -0.5 * ((x.double()[..., None] - mean).square() / variance + constant)


def _categorical(model: Any) -> Callable[[Tensor], Tensor]:
    tables = [_float64(table).T for table in model.feature_log_prob_]
    count = torch.tensor([len(table) for table in tables])
    # A single table: one look-up for all features.
    table, first = torch.cat(tables), count.cumsum(0) - count

    def likelihood(x: Tensor) -> Tensor:
        valid = (x >= 0) & (x < count) & (x == x.trunc())
        found = F.embedding(x.where(valid, 0).long() + first, table)
        return found.masked_fill_(~valid[..., None], torch.nan)

    return likelihood


def _bernoulli(model: Any) -> Callable[[Tensor], Tensor]:
    present, threshold = _float64(model.feature_log_prob_).T, model.binarize
    absent = torch.log1p(-present.exp())

    def likelihood(x: Tensor) -> Tensor:
        # In the precision of the rows, as scikit-learn compares them.
        bit = x == 1 if threshold is None else x > threshold
        invalid = (threshold is None) & (x != 0) & (x != 1)
        return torch.where(bit[..., None], present, absent).masked_fill_(
            invalid[..., None], torch.nan
        )

    return likelihood


def _multinomial(model: Any) -> Callable[[Tensor], Tensor]:
    log_p = _float64(model.feature_log_prob_).T

    def likelihood(x: Tensor) -> Tensor:
        count = x.double()[..., None]
        # A count of zero has likelihood one, even where the probability is zero.
        found = torch.where(count > 0, count * log_p, 0.0)
        return found.masked_fill_(count < 0, torch.nan)

    return likelihood


def _linear(space: OutputSpace, classes: tuple[str, ...]) -> _Scale:
    """T, from log-likelihoods `[*batch, classes]` to outputs `[*batch, outputs]`."""
    if not space.takes_logarithms:
        raise ValueError(
            "Expected `space` to be 'log_odds' or 'ilr', on which naive Bayes is a sum over its "
            f"features, but got {space.name!r}; for others use `exact_shapley` or "
            "`permutation_shapley` of an `imputed_value`."
        )
    space.outputs(classes)  # Refuses more classes than T is defined for.
    # Linear in logarithms: its images of the unit vectors are its matrix.
    matrix = space(torch.eye(len(classes), dtype=torch.float64))
    return lambda log_p: log_p @ matrix


def _log_odds_of_rest(log_prior: Float[Tensor, " classes"]) -> _Scale:
    """log P(x_m | y) / P(x_m | not y) for each class y."""
    others = ~torch.eye(len(log_prior), dtype=torch.bool)

    def scale(log_p: Tensor) -> Tensor:
        joint = log_p + log_prior
        rest = [joint[..., o].logsumexp(-1) - log_prior[o].logsumexp(-1) for o in others]
        return log_p - torch.stack(rest, dim=-1)

    return scale


def _explanation(
    bayes: _NaiveBayes,
    space: OutputSpace,
    scale: _Scale,
    x: Any,
    reference: Float[Tensor, "features outputs"],
    players: Players | None,
    value_function: str,
) -> Explanation:
    """The Shapley values of rows, given the terms of v(∅)."""
    rows = bayes.rows(x, "x")
    players = _players(bayes, players, rows)
    prior = scale(bayes.log_prior)
    parts = [
        (_by_player(terms - reference, players).float(), (prior + terms.sum(1)).float())
        for terms in bayes.terms(rows, "x", scale)
    ]
    phi, prediction = (torch.cat(part) for part in zip(*parts, strict=True))
    made_by = {"version": __version__, "estimator": "naive_bayes", "value_function": value_function}
    weighted = bool((bayes.weights != 1).any())
    return Explanation(
        phi=phi,
        standard_error=torch.zeros_like(phi),
        base=(prior + reference.sum(0)).float().repeat(len(phi), 1),
        prediction=prediction,
        x=rows.to(torch.float32, copy=True),
        players=players,
        outputs=space.outputs(bayes.classes),
        space=space,
        partition=space.partition(bayes.classes),
        made_by={**made_by, "weights": bayes.weights.tolist()} if weighted else made_by,
    )


def _by_player(
    terms: Float[Tensor, "some features outputs"], players: Players
) -> Float[Tensor, "some players outputs"]:
    total = terms.new_zeros(len(terms), len(players), terms.shape[-1])
    return total.index_add_(1, players.index.flatten().cpu(), terms)


def _players(
    bayes: _NaiveBayes, players: Players | None, rows: Float[Tensor, "rows *event"]
) -> Players:
    if players is None:
        return Players.of_elements(rows.shape[1:], bayes.features)
    return check_same_players(players, "naive Bayes")


def _float64(array: Any) -> Tensor:
    """A copy of an array of numbers in double precision."""
    return torch.tensor(np.asarray(array, dtype=np.float64))
