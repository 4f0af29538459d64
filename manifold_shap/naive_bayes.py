"""Computes exact Shapley values of naive Bayes classifiers in time linear in the features.

Features are independent given the class: up to closure, log P(y | x) is a sum over them. On a
log-ratio scale T the game v(S) = E[T f(x_S, X_S̄)] over reference rows X is therefore additive:

    phi_m = w_m (T ℓ_m(x_m) - E[T ℓ_m(X_m)]),    ℓ_m(x_m) = log P(x_m | y) for each class y.

T = `log_odds` is Eq. (10) of Lemaire, Clérot & Boullé (2023); T = `ilr` gives the exact Shapley
composition. The weights w_m, between 0 and 1, are those of an averaged classifier (Eq. 1):
P(y | x) ∝ P(y) Π_m P(x_m | y)^w_m.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._version import __version__
from manifold_shap.explanation import Explanation
from manifold_shap.naive_bayes_models import NaiveBayes, float64, read_model
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
    space = as_space(space)
    game = _Additive.of(model, weights, space)
    return _explanation(game, space, x, game.mean(x_reference), players, "naive_bayes")


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
    space = as_space(space)
    game = _Additive.of(model, weights, space)
    return _explanation(game, space, x, game.nothing(), players, "weight_of_evidence")


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
    game = _Additive.of(model, weights)
    rows = game.bayes.rows(x, "x")
    players = _players(game.bayes, players, rows)
    reference = game.mean(x_reference)
    phi = (_by_player(terms - reference, players) for terms in game.terms(rows, "x"))
    return torch.cat([part.abs().sum(-1).float() for part in phi])


@dataclass(frozen=True)
class _Additive:
    """A game that is a sum over features.

    Attributes:
        bayes: the classifier.
        weights: w_m, `[features]`, float64.
        scale: T, from log-likelihoods `[*batch, classes]` to outputs `[*batch, outputs]`.
        outputs: names.
    """

    bayes: NaiveBayes
    weights: Tensor
    scale: Callable[[Tensor], Tensor]
    outputs: tuple[str, ...]

    @classmethod
    def of(cls, model: Any, weights: Any, space: OutputSpace | None = None) -> "_Additive":
        """On the scale of a space; without one, the log-odds of each class against the rest."""
        bayes = read_model(model)
        checked = _checked_weights(weights, bayes)
        if space is None:
            return cls(bayes, checked, _log_odds_of_rest(bayes.log_prior), bayes.classes)
        scale = _scale(space, len(bayes.classes))
        return cls(bayes, checked, scale, space.outputs(bayes.classes))

    def terms(
        self, rows: Float[Tensor, "rows *event"], name: str
    ) -> Iterator[Float[Tensor, "some features outputs"]]:
        """w_m T ℓ_m(x_m) of all rows, in parts."""
        erased = (self.weights == 0)[:, None]
        step = max(1, _MOST_ELEMENTS // (len(self.weights) * len(self.bayes.classes)))
        for start in range(0, len(rows), step):
            log_p = self.bayes.likelihood(rows[start : start + step].flatten(1))
            # P(x_m | y)^0 = 1, even of an impossible x_m.
            log_p = log_p.masked_fill_(erased, 0.0)
            _check_possible(log_p, start, name, self.bayes)
            yield self.weights[:, None] * self.scale(log_p)

    def mean(self, x_reference: Any) -> Float[Tensor, "features outputs"]:
        """w_m E[T ℓ_m(X_m)]."""
        rows = self.bayes.rows(x_reference, "x_reference")
        sums = [terms.sum(0) for terms in self.terms(rows, "x_reference")]
        return torch.stack(sums).sum(0) / len(rows)

    def nothing(self) -> Float[Tensor, "features outputs"]:
        """T of features that are equally likely in all classes."""
        return self.scale(torch.zeros(len(self.weights), len(self.bayes.classes)).double())


def _scale(space: OutputSpace, classes: int) -> Callable[[Tensor], Tensor]:
    if not space.takes_logarithms:
        raise ValueError(
            "Expected `space` to be 'log_odds' or 'ilr', on which naive Bayes is a sum over its "
            f"features, but got {space.name!r}; for others use `exact_shapley` or "
            "`permutation_shapley` of an `imputed_value`."
        )
    # Linear in logarithms: its images of the unit vectors are its matrix.
    matrix = space(torch.eye(classes, dtype=torch.float64))
    return lambda log_p: log_p @ matrix


def _log_odds_of_rest(log_prior: Float[Tensor, " classes"]) -> Callable[[Tensor], Tensor]:
    """log P(x_m | y) / P(x_m | not y) for each class y."""
    others = ~torch.eye(len(log_prior), dtype=torch.bool)

    def scale(log_p: Tensor) -> Tensor:
        joint = log_p + log_prior
        rest = [joint[..., o].logsumexp(-1) - log_prior[o].logsumexp(-1) for o in others]
        return log_p - torch.stack(rest, dim=-1)

    return scale


def _check_possible(
    log_p: Float[Tensor, "some features classes"], start: int, name: str, bayes: NaiveBayes
) -> None:
    bad = ~(log_p.abs() <= _LARGEST)
    if bool(bad.any()):
        row, feature, k = bad.nonzero()[0].tolist()
        raise ValueError(
            f"Expected likelihoods above zero but feature {bayes.features[feature]!r} of row "
            f"{start + row} of `{name}` has none in class {bayes.classes[k]!r}; fit the model with "
            "a larger `alpha` (`var_smoothing` of GaussianNB), or erase the feature by a weight "
            "of 0."
        )


def _checked_weights(weights: Any, bayes: NaiveBayes) -> Float[Tensor, " features"]:
    features = len(bayes.features)
    result = torch.ones(features).double() if weights is None else float64(weights)
    inside = bool(((result >= 0) & (result <= 1)).all())
    if result.shape != (features,) or not inside:
        raise ValueError(
            f"Expected `weights` of shape ({features},), one from 0 to 1 per feature, but got "
            f"{tuple(result.shape)}{'' if inside else ' and others'}."
        )
    return result


def _explanation(
    game: _Additive,
    space: OutputSpace,
    x: Any,
    reference: Float[Tensor, "features outputs"],
    players: Players | None,
    value_function: str,
) -> Explanation:
    """The Shapley values of rows, given the terms of v(∅)."""
    rows = game.bayes.rows(x, "x")
    players = _players(game.bayes, players, rows)
    prior = game.scale(game.bayes.log_prior)
    parts = [
        (_by_player(terms - reference, players).float(), (prior + terms.sum(1)).float())
        for terms in game.terms(rows, "x")
    ]
    phi, prediction = (torch.cat(part) for part in zip(*parts, strict=True))
    made_by = {"version": __version__, "estimator": "naive_bayes", "value_function": value_function}
    weighted = bool((game.weights != 1).any())
    return Explanation(
        phi=phi,
        standard_error=torch.zeros_like(phi),
        base=(prior + reference.sum(0)).float().repeat(len(phi), 1),
        prediction=prediction,
        x=rows.to(torch.float32, copy=True),
        players=players,
        outputs=game.outputs,
        space=space,
        partition=space.partition(game.bayes.classes),
        made_by={**made_by, "weights": game.weights.tolist()} if weighted else made_by,
    )


def _by_player(
    terms: Float[Tensor, "some features outputs"], players: Players
) -> Float[Tensor, "some players outputs"]:
    total = terms.new_zeros(len(terms), len(players), terms.shape[-1])
    return total.index_add_(1, players.index.flatten().cpu(), terms)


def _players(
    bayes: NaiveBayes, players: Players | None, rows: Float[Tensor, "rows *event"]
) -> Players:
    event = tuple(rows.shape[1:])
    if players is None:
        return Players.of_elements(event, bayes.features)
    check_same_players(players, "naive Bayes")
    return players
