"""Fits a model to the features of each coalition: a value function of the data, not of a model."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._arrays import row_labels
from manifold_shap._checks import check_rows, to_tensor
from manifold_shap.coalitions import Coalitions, distinct_coalitions
from manifold_shap.models import Model, as_model, check_numbers
from manifold_shap.players import Players, check_same_players
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.tables.rows import elements_of, encoded
from manifold_shap.values.base import Estimate
from manifold_shap.values.model import ModelValue, model_for, reference_outputs, reference_space
from manifold_shap.values.spec import Work

if TYPE_CHECKING:
    from manifold_shap.tables.base import RowAdapter

MAX_MODELS = 2**12
# A call runs one model per coalition: the more rows each gets, the better.
_BATCH_SIZE = 2**20


class RetrainedValue(ModelValue):
    """v(S) = T(g_S(x_S)), with a model g_S fitted to the columns of S (Štrumbelj et al. 2009).

    It explains the information of the features about the label, rather than one model: the game of
    Frye et al. (2021), Eq. (10). Each model is fitted when its coalition is first evaluated, and
    kept; g_∅ predicts the frequencies of the classes, for regression the mean. The rows of a call
    that share a coalition go to its model together: give estimators a large `batch_size`, such as
    `len(x) * 2**len(players)` for `exact_shapley`, and every model is called once.

        >>> from sklearn.linear_model import LinearRegression
        >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 1.0], [4.0, 1.5]])
        >>> value = retrained_value(LinearRegression(), x, x.sum(1), space="identity")
        >>> value(x[:1], torch.tensor([[[True, False]]])).shape, list(value.models)
        (torch.Size([1, 1, 1]), [(0, 1), (0,)])

    Attributes:
        model: g_N, the model of all features, whose output is v(grand coalition).
        models: those fitted so far, by the numbers of the players in the coalition.

    Args:
        fit: takes the columns of a coalition, flattened to `[rows, columns]`, and the targets;
            returns a model.
        x: training rows.
        y: their targets.
        model, players, space, expectation: see `ModelValue`.
        table: the table whose codes the rows are; models then see these encoded.
    """

    def __init__(
        self,
        fit: Callable[[Tensor, Any], Any],
        x: Tensor,
        y: Any,
        model: Model,
        players: Players,
        space: OutputSpace,
        expectation: Tensor,
        table: "RowAdapter | None" = None,
    ) -> None:
        named: Any = {"name": "retrained", "table": table, "work": Work(batch_size=_BATCH_SIZE)}
        super().__init__(model, players, space, expectation, **named)
        self.models: dict[tuple[int, ...], Model] = {tuple(range(len(players))): model}
        self._elements, self._fit = elements_of(players, table), fit
        self._x, self._y = self._encoded(x), y

    def to(self, device: torch.device | str) -> "RetrainedValue":
        """Move the value function; models fitted from now on follow."""
        super().to(device)
        for model in self.models.values():
            model.to(device)
        return self

    def prediction(self, x: Tensor) -> Tensor:
        return super().prediction(self._encoded(x))

    def values(self, x: Tensor, coalitions: Coalitions) -> Estimate:
        rows, mask = self._encoded(x), coalitions.masks()
        distinct, which = distinct_coalitions(mask.flatten(0, 1))
        by_coalition = which.argsort(stable=True).split(which.bincount().tolist())
        values = self.expectation.repeat(len(which), 1)
        for coalition, pairs in zip(distinct, by_coalition, strict=True):
            present = rows[pairs // mask.shape[1]][:, self._columns(coalition)]
            found = self.space(self._model(coalition)(present, scale=self.space.takes))
            values[pairs] = found.to(values.dtype)
        check_numbers(values)
        return Estimate(values.unflatten(0, coalitions.shape))

    def _encoded(self, x: Tensor) -> Tensor:
        """Rows as the models see them."""
        return encoded(x, self.spec.table).flatten(1)

    def _columns(self, coalition: Tensor) -> Tensor:
        return self._elements.expand(coalition).flatten()

    def _model(self, coalition: Tensor) -> Model:
        members = tuple(coalition.nonzero()[:, 0].tolist())
        if members not in self.models:
            # Values are computed without gradients, which a fit may need.
            with torch.inference_mode(False):
                columns = self._x[:, self._columns(coalition).to(self._x.device)]
                fitted = self._fit(columns, self._y)
            model = as_model(fitted, columns[:64], self.model.classes, self.model.returns)
            if model.classes != self.model.classes:
                raise ValueError(
                    f"Expected `fit` to give a model of classes {self.model.classes} for every "
                    f"coalition but for that of {[self.players.names[i] for i in members]} it "
                    f"gave {model.classes}; name the same classes in each."
                )
            self.models[members] = model.to(self.device)
        return self.models[members]


@torch.inference_mode(False)
def retrained_value(
    fit: Any,
    x_train: Any,
    y_train: Any,
    *,
    players: Players | None = None,
    space: str | OutputSpace = "probability",
    max_models: int = MAX_MODELS,
    table: "RowAdapter | None" = None,
) -> RetrainedValue:
    """A value function that fits a model to the features of each coalition, when it is needed.

    It does not explain a single model f: v(grand coalition) is the output of the model of all
    features, and `mean_squared_error` scores against that one. For the true class, and with
    `space="probability"`, the mean of v(S) over labelled rows is the accuracy A(g_S) of labels
    drawn from g_S; the mean of phi for the true class is then the sum of Eq. (10).

    Args:
        fit: a scikit-learn estimator, cloned for every coalition (with `random_state` set, or the
            values depend on the order in which coalitions come), or a callable `fit(x, y) ->
            model` from the columns of the coalition's players, flattened to `[rows, columns]`, to
            anything that `as_model` takes.
        x_train: training rows `[rows, *event]`.
        y_train: their labels, `[rows]`; for regression numbers, `[rows]` or `[rows, outputs]`.
        players: see `Players`; by default pixels of pictures, else every element of a row.
        space: output space: a name in `spaces.SPACES` (`identity` for a regressor), or an
            `OutputSpace`.
        max_models: the largest number of coalitions, 2^players: a model of each is fitted and kept
            in memory if all of them are evaluated, as by `exact_shapley`.
        table: columns of the table that the rows come from; where it is the table whose codes
            the rows are, models see these encoded.

    Raises:
        ValueError: too many players, or players that differ from row to row; a model that gives no
            distribution over the classes of `y_train`.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [3.0, 1.0], [4.0, 1.5]])
    >>> value = retrained_value(GaussianNB(), x, np.array(["no", "no", "yes", "yes"]))
    >>> value(x[:1], torch.tensor([[[False, False]]])).tolist()
    [[[0.5, 0.5]]]
    """
    event = to_tensor(x_train, "x_train").shape[1:]
    players = players or Players.of_columns(x_train, event)
    check_same_players(players, "models of single coalitions")
    if 2 ** len(players) > max_models:
        raise ValueError(
            f"Expected few players, since each of the 2^{len(players)} = {2 ** len(players):,} "
            f"coalitions may need a model of its own, but `max_models` is {max_models:,}; group "
            "features into fewer players, raise `max_models`, or learn the value function of a "
            "single model by `fit_surrogate`."
        )
    x = check_rows(x_train, players, "x_train")
    index, of_labels = row_labels(x_train), row_labels(y_train)
    if None not in (index, of_labels) and index != of_labels:
        raise ValueError(
            "Expected `y_train` with the index of `x_train` but theirs differ; pass "
            "`y_train.loc[x_train.index]`, or an array in the order of the rows."
        )
    # A copy: of a tensor that was made in inference mode no loss has a gradient.
    y_train = y_train.clone() if isinstance(y_train, Tensor) else np.asarray(y_train)
    space, columns = as_space(space), encoded(x, table).flatten(1)
    fit = partial(_fit_copy, fit) if hasattr(fit, "fit") else fit
    model = model_for(fit(columns, y_train), columns, space)
    space = reference_space(model, space, columns)
    # Checks the outputs, and warns of exact zeros.
    outputs = reference_outputs(model, space, columns)
    prior = _without_features(y_train, model)
    base = space(prior.log() if space.takes_logarithms else prior).to(outputs.dtype)
    return RetrainedValue(fit, x, y_train, model, players, space, base, table)


def _fit_copy(estimator: Any, x: Tensor, y: Any) -> Any:
    """A fresh copy of a scikit-learn estimator, fitted."""
    from sklearn.base import clone

    labels = y.cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    return clone(estimator).fit(x.cpu().numpy(), labels)


def _without_features(y: Any, model: Model) -> Float[Tensor, " outputs"]:
    """The frequencies of the classes, or the mean of the targets."""
    labels, classes = np.asarray(y.cpu() if isinstance(y, Tensor) else y), len(model.classes)
    if model.returns == "values":
        found = torch.as_tensor(labels, dtype=torch.float64).reshape(len(labels), -1).mean(0)
    else:
        names, counts = np.unique(labels, return_counts=True)
        numbers = labels.dtype.kind in "iu" and 0 <= names[0] <= names[-1] < classes
        counts = np.bincount(labels, minlength=classes) if numbers else counts
        found = torch.as_tensor(counts / len(labels), dtype=torch.float64)
    if len(found) != classes or (model.returns != "values" and labels.ndim != 1):
        raise ValueError(
            f"Expected `y_train` to hold the {classes} classes of the fitted model, or a number "
            f"for each of its outputs, {model.classes}, but got shape {labels.shape}; "
            "space='identity' is for regression, others for classifiers."
        )
    return found
