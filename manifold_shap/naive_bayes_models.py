"""Reads naive Bayes classifiers of scikit-learn as log-likelihoods of their features."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from manifold_shap._arrays import column_names, read_numbers
from manifold_shap._messages import shown

_UNFITTED = "Expected a fitted model but this %(name)s is not; call `fit`."


class Likelihood(ABC):
    """ℓ_m(x_m) = log P(x_m | y) for every feature m and class y, in float64."""

    @abstractmethod
    def __call__(
        self, rows: Float[Tensor, "rows features"]
    ) -> Float[Tensor, "rows features classes"]: ...

    def invalid(self, rows: Float[Tensor, "rows features"]) -> Bool[Tensor, "rows features"]:
        """True where the entries of finite rows are not `expected`."""
        return torch.zeros_like(rows, dtype=torch.bool)

    def expected(self, feature: int) -> str:
        """The valid entries of a feature, in words for an error."""
        return "a number"


class GaussianLikelihood(Likelihood):
    """Normal densities, with a mean and a variance for each class."""

    def __init__(self, model: Any) -> None:
        self.mean, self.variance = float64(model.theta_).T, float64(model.var_).T

    def __call__(
        self, rows: Float[Tensor, "rows features"]
    ) -> Float[Tensor, "rows features classes"]:
        squares = (rows.double()[..., None] - self.mean).square() / self.variance
        return -0.5 * (squares + (2 * math.pi * self.variance).log())


class CategoricalLikelihood(Likelihood):
    """Categories: a table of probabilities for each feature, indexed by its entries."""

    def __init__(self, model: Any) -> None:
        tables = [float64(table).T for table in model.feature_log_prob_]
        self.categories = torch.tensor([len(table) for table in tables])
        # A single table: one look-up for all features.
        self.table = torch.cat(tables)
        self.first = self.categories.cumsum(0) - self.categories

    def __call__(
        self, rows: Float[Tensor, "rows features"]
    ) -> Float[Tensor, "rows features classes"]:
        return F.embedding(rows.long() + self.first, self.table)

    def invalid(self, rows: Float[Tensor, "rows features"]) -> Bool[Tensor, "rows features"]:
        return (rows < 0) | (rows >= self.categories) | (rows != rows.trunc())

    def expected(self, feature: int) -> str:
        last = int(self.categories[feature]) - 1
        return f"a category that the model was fitted with, a whole number from 0 to {last},"


class BernoulliLikelihood(Likelihood):
    """Binary features: above the model's threshold or not."""

    def __init__(self, model: Any) -> None:
        self.present = float64(model.feature_log_prob_).T
        self.absent = torch.log1p(-self.present.exp())
        self.threshold = model.binarize

    def __call__(
        self, rows: Float[Tensor, "rows features"]
    ) -> Float[Tensor, "rows features classes"]:
        # In the precision of the rows, as scikit-learn compares them.
        bit = rows == 1 if self.threshold is None else rows > self.threshold
        return torch.where(bit[..., None], self.present, self.absent)

    def invalid(self, rows: Float[Tensor, "rows features"]) -> Bool[Tensor, "rows features"]:
        return (rows != 0) & (rows != 1) & (self.threshold is None)

    def expected(self, feature: int) -> str:
        return "0 or 1 (the model's `binarize` is None)"


class MultinomialLikelihood(Likelihood):
    """Counts: x_m of a feature has log-likelihood x_m log p_m, up to a constant of the row."""

    def __init__(self, model: Any) -> None:
        self.log_p = float64(model.feature_log_prob_).T

    def __call__(
        self, rows: Float[Tensor, "rows features"]
    ) -> Float[Tensor, "rows features classes"]:
        count = rows.double()[..., None]
        # A count of zero has likelihood one, even where the probability is zero.
        return torch.where(count > 0, count * self.log_p, 0.0)

    def invalid(self, rows: Float[Tensor, "rows features"]) -> Bool[Tensor, "rows features"]:
        return rows < 0

    def expected(self, feature: int) -> str:
        return "a count of zero or more"


@dataclass(frozen=True)
class NaiveBayes:
    """A fitted classifier: log P(y | x) = log P(y) + Σ_m ℓ_m(x_m), up to closure.

    Attributes:
        likelihood: ℓ_m.
        log_prior: log P(y), `[classes]`, float64.
        classes: names.
        features: names, the model's own or numbered.
        named: whether the names are the model's own.
    """

    likelihood: Likelihood
    log_prior: Tensor
    classes: tuple[str, ...]
    features: tuple[str, ...]
    named: bool

    def rows(self, x: Any, name: str) -> Float[Tensor, "rows *event"]:
        """Checked rows, in float64 unless they are float32 already.

        Args:
            x: a data frame, whose columns are matched by name if the model has feature names, or
                an array or a tensor of as many elements per row as there are features.
            name: of the argument, for errors.

        Raises:
            TypeError: entries that are not numbers.
            ValueError: another width, no row, or an entry that is not finite or not `expected`.
        """
        rows = self._tensor(x, name)
        width = len(self.features)
        if rows.ndim < 2 or math.prod(rows.shape[1:]) != width or len(rows) == 0:
            raise ValueError(
                f"Expected `{name}` of shape (rows, {width}), as the model was fitted, but got "
                f"{tuple(rows.shape)}; one row is `{name}[:1]`."
            )
        flat = rows.flatten(1)
        self._refuse(~flat.isfinite(), flat, name, lambda feature: "a finite number")
        self._refuse(self.likelihood.invalid(flat), flat, name, self.likelihood.expected)
        return rows

    def _refuse(
        self,
        bad: Bool[Tensor, "rows features"],
        rows: Float[Tensor, "rows features"],
        name: str,
        expected: Callable[[int], str],
    ) -> None:
        if bool(bad.any()):
            row, feature = bad.nonzero()[0].tolist()
            raise ValueError(
                f"Expected {expected(feature)} but row {row} of `{name}` has "
                f"{rows[row, feature]:g} for feature {self.features[feature]!r}; recode or drop "
                f"such rows ({int(bad.any(1).sum())} of {len(rows)})."
            )

    def _tensor(self, x: Any, name: str) -> Float[Tensor, "rows *event"]:
        columns = column_names(x)
        if self.named and columns is not None and set(columns) != set(self.features):
            raise ValueError(
                f"Expected `{name}` to have the columns that the model was fitted on, "
                f"{shown(self.features, 10)}, but got {shown(columns, 10)}."
            )
        if not isinstance(x, Tensor | np.ndarray):
            x = read_numbers(x, name, self.features if self.named else ())
        if isinstance(x, np.ndarray):
            x = torch.from_numpy(x.astype(np.float32 if x.dtype == np.float32 else np.float64))
        x = x.detach().cpu()
        return x if x.dtype == torch.float32 else x.double()


def read_model(model: Any) -> NaiveBayes:
    """Read a classifier of scikit-learn.

    Raises:
        TypeError: it is no naive Bayes classifier.
        ValueError: it is not fitted, has fewer than two classes, or a class of prior zero.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> read_model(GaussianNB().fit([[0.0], [1.0], [2.0]], ["a", "b", "b"])).log_prior.exp()
    tensor([0.3333, 0.6667], dtype=torch.float64)
    """
    likelihood = _kind(model)(model)
    classes = tuple(str(name) for name in model.classes_)
    if len(classes) < 2:
        raise ValueError(f"Expected a model of at least two classes but got {list(classes)}.")
    gaussian = isinstance(likelihood, GaussianLikelihood)
    log_prior = float64(model.class_prior_).log() if gaussian else float64(model.class_log_prior_)
    without = [classes[k] for k in (~log_prior.isfinite()).nonzero()[:, 0].tolist()]
    if without:
        raise ValueError(
            f"Expected a prior above zero for every class but {without} have none; fit the model "
            "on rows of every class."
        )
    own = vars(model).get("feature_names_in_")
    names = [f"x{m}" for m in range(model.n_features_in_)] if own is None else map(str, own)
    return NaiveBayes(likelihood, log_prior, classes, tuple(names), own is not None)


def _kind(model: Any) -> Callable[[Any], Likelihood]:
    from sklearn import naive_bayes, utils

    kinds: dict[type, Callable[[Any], Likelihood]] = {
        naive_bayes.GaussianNB: GaussianLikelihood,
        naive_bayes.CategoricalNB: CategoricalLikelihood,
        naive_bayes.BernoulliNB: BernoulliLikelihood,
        naive_bayes.MultinomialNB: MultinomialLikelihood,
    }
    for kind, likelihood in kinds.items():
        if isinstance(model, kind):
            utils.validation.check_is_fitted(model, "classes_", msg=_UNFITTED)
            return likelihood
    raise TypeError(
        "Expected `model` to be a GaussianNB, CategoricalNB, BernoulliNB or MultinomialNB of "
        f"scikit-learn but got {type(model).__name__}; explain classifiers without likelihoods of "
        "features, such as ComplementNB, by `permutation_shapley`."
    )


def float64(array: Any) -> Tensor:
    """A copy of an array of numbers in double precision."""
    return torch.tensor(np.asarray(array, dtype=np.float64))
