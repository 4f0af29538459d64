"""Global Shapley values that do not lean on how well value functions were learned.

The global values of Frye et al. (2021, Eqs. 4-5) are the Shapley values of the game

    ν(S) = E[m_Y(X_S)] = E[h(X_S) · m(X_S)],

with m(x_S) = E[f(X) | x_S], which a surrogate learns, and h(x_S) = P(Y | x_S). A mean of a learned
m has the error of its training, of first order. The influence function of ν(S) at a row (x, y) is

    h(x_S) · f(x) + m_y(x_S) - h(x_S) · m(x_S) - ν(S),

so that the mean over rows of

    u(x, y, S) = m_y(x_S) + h(x_S) · (f(x) - m(x_S)),

with both functions learned on other rows, has the bias -E[(h' - h) · (m' - m)] of the learned h'
and m', a product of two errors. Where both shrink faster than the fourth root of the number of
rows, it is asymptotically normal around ν(S), with the standard error of a mean (one-step
estimation with cross-fitting, as Williamson & Feng 2020 for the importance of features in
predictions).

u is the output y of a game that all classes share, w(x, S) = m(x_S) + 1 [h(x_S) · (f(x) - m(x_S))].
Shapley values are linear in the game, so the mean over rows of those of w are those of ν.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._arrays import row_labels
from manifold_shap._checks import check_whole
from manifold_shap.coalitions import Coalitions
from manifold_shap.estimators import exact_shapley, permutation_shapley
from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues, class_positions, labels_of, means_of_rows
from manifold_shap.players import Players
from manifold_shap.spaces import Identity, Probability
from manifold_shap.surrogate.fit import fit_label_surrogate, fit_surrogate
from manifold_shap.training.rows import TrainingRows, training_rows
from manifold_shap.values import ValueFunction, model_for
from manifold_shap.values.base import Estimate
from manifold_shap.values.mapped import MappedValue

if TYPE_CHECKING:
    from manifold_shap.tables.base import RowAdapter

# From labelled rows to m and h.
Learner = Callable[[TrainingRows, Int64[Tensor, " rows"]], tuple[ValueFunction, ValueFunction]]
# Players whose coalitions are all evaluated.
_FEW = 10
# Estimators without bias for a row, or hardly any, which draw coalitions of their own for each: a
# bias, or coalitions that all rows share, would leave an error that the scatter of rows lacks.
_ROW_BY_ROW = ("exact", "permutation")


class CorrectedValue(MappedValue):
    """w(x, S): values of a model's surrogate, moved by what one of the labels says is missed.

    Its outputs are no distribution: those of one row are all moved alike.

    Attributes:
        labels: h, of the same players and outputs.

    Args:
        value: m.
        labels: h.
        mean: of the model's outputs over the rows that are scored, m of nobody.
        share: of each class among them, h of nobody.
    """

    def __init__(
        self,
        value: ValueFunction,
        labels: ValueFunction,
        mean: Float[Tensor, " outputs"],
        share: Float[Tensor, " outputs"],
    ) -> None:
        super().__init__(value, space=Identity(), work=value.spec.work + labels.spec.work)
        self.labels, self.mean, self.share = labels, mean, share

    def values(self, x: Float[Tensor, "batch *event"], coalitions: Coalitions) -> Estimate:
        m, h = (each.values(x, coalitions).values for each in (self.value, self.labels))
        moved = _moved(m, h, self.prediction(x)[:, None])
        return Estimate(
            moved, torch.full_like(moved, torch.nan) if self.spec.work.sampled else None
        )

    def linearized(self, chosen: Int64[Tensor, " chosen"] | None = None) -> None:
        """None: there is an approximation of neither."""

    def base(self, x: Float[Tensor, "batch *event"]) -> Float[Tensor, "batch outputs"]:
        return _moved(self.mean, self.share, self.prediction(x))

    def of_another(self, change: Callable[[ValueFunction], ValueFunction]) -> "CorrectedValue":
        return CorrectedValue(change(self.value), change(self.labels), self.mean, self.share)

    def to(self, device: torch.device | str) -> "CorrectedValue":
        super().to(device)
        self.labels.to(device)
        self.mean, self.share = self.mean.to(device), self.share.to(device)
        return self


def _moved(m: Tensor, h: Tensor, prediction: Tensor) -> Tensor:
    return m + (h * (prediction - m)).sum(-1, keepdim=True)


def corrected_global_values(
    model: Any,
    x: Any,
    y: Any,
    *,
    folds: int = 5,
    estimator: Callable[..., Explanation] | None = None,
    learn: Learner | None = None,
    players: Players | Mapping[str, Any] | None = None,
    table: "RowAdapter | None" = None,
    training: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> GlobalValues:
    """Global Shapley values of a classifier, with standard errors that hold the learning error.

    `global_values` of a learned value function are off by what its training has missed, which its
    standard errors do not tell. Here two surrogates are learned on all folds but one, of the
    model's outputs and of the labels, and together take the error of first order off the values of
    the rows in that fold. The rows have to be others than the model was trained on. Of a player
    that tells nothing of the label, standard errors are too small.

    Args:
        model: a classifier; see `as_model`.
        x: labelled rows, `[rows, *event]`, or a frame.
        y: their classes: names, or positions where no name is a number.
        folds: parts of the rows. Each is explained by what was learned on all others.
        estimator: of Shapley values, called as `estimator(value, x, seed=...)`, unbiased for each
            row and with coalitions of each row's own: `exact_shapley`, the usual one of up to 10
            players; or `permutation_shapley`, that of more, with a pair of orders for each row.
        learn: from rows and positions of their classes to value functions of the model and of the
            labels; by default two perceptrons, see `fit_surrogate`.
        players, table: see `fit_surrogate`.
        training: arguments of `fit_surrogate`, for both networks: `{"hidden": [16]}`. A
            `directory` has a folder for each fold.
        seed: of the folds, the trainings and the estimator.

    Raises:
        TypeError, ValueError: see `fit_surrogate`; labels that are none, no classes of the model,
            or not as many as rows; a regression; more folds than rows; another estimator.

    >>> x = torch.randn(90, 2, generator=torch.Generator().manual_seed(0))
    >>> trainer = {"accelerator": "cpu", "limit_train_batches": 5}
    >>> few = {"max_epochs": 1, "hidden": [8], "trainer": trainer}
    >>> model = lambda x: torch.stack((x[:, 0], -x[:, 0]), dim=1)
    >>> y = (x[:, 0] < 0).long()
    >>> values = corrected_global_values(model, x, y, folds=2, training=few)
    >>> values.players, values.efficiency_gap < 1e-5
    (('x0', 'x1'), True)
    """
    given = {"seed": seed, **(training or {})}
    rows = training_rows(x, x, seed, players, table)
    wrapped = model_for(model, rows.train[:64], Probability(), rows.table)
    true = class_positions(labels_of(y, len(rows.train), row_labels(x)), wrapped.classes)
    folds = check_whole("folds", folds, 2, len(true))

    def usual(rows: TrainingRows, labels: Tensor, fold: int) -> tuple[ValueFunction, ValueFunction]:
        whole = given.get("directory")

        def own(name: str) -> dict[str, Any]:
            return {**given, "directory": whole and Path(whole, f"fold_{fold}", name)}

        of_rows: Any = {"players": rows.players, "table": rows.table}
        value = fit_surrogate(wrapped, rows.train, **of_rows, **own("model"))
        return value, fit_label_surrogate(rows, labels, wrapped.classes, **own("labels"))

    prediction = wrapped(rows.train, scale="probabilities")
    mean = prediction.mean(0)
    share = F.one_hot(true, len(wrapped.classes)).to(mean.dtype).mean(0)
    parts = folds_of(len(true), folds, seed)
    found: list[Tensor] = []
    made_by: list[Mapping[str, Any]] = []
    for k, part in enumerate(parts):
        others = torch.cat([*parts[:k], *parts[k + 1 :]])
        learned_from = rows._replace(train=rows.train[others]), true[others]
        value, labels = learn(*learned_from) if learn else usual(*learned_from, fold=k)
        game = CorrectedValue(value, labels, mean, share)
        few = len(rows.players) <= _FEW
        usual_one = exact_shapley if few else partial(permutation_shapley, permutations=2)
        explained = (estimator or usual_one)(game, rows.train[part], seed=seed + k)
        name = explained.made_by.get("estimator")
        if name not in _ROW_BY_ROW:
            raise ValueError(
                "Expected an `estimator` without bias for a single row, which draws coalitions of "
                f"its own for each, but got {name!r}; its error would not show in how rows "
                "scatter, so that standard errors would be too small. Use `permutation_shapley` or "
                "`exact_shapley`."
            )
        found.append(explained.phi.double()[torch.arange(len(part)), :, true[part]])
        made_by.append(explained.made_by)
    return means_of_rows(
        torch.cat(found),
        accuracy=prediction[torch.arange(len(true)), true].double().mean().item(),
        offset=(mean.double() @ share.double()).item(),
        players=rows.players.names,
        made_by={**_common(made_by), "learned": False, "seed": seed, "folds": folds},
    )


def folds_of(rows: int, folds: int, seed: int) -> tuple[Int64[Tensor, " part"], ...]:
    """Numbers of the rows in each fold, which are drawn at random.

    >>> [len(part) for part in folds_of(10, 3, seed=0)]
    [4, 3, 3]
    """
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    return order.tensor_split(folds)


def _common(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How one result of several was made: what they say alike, and their evaluations together.

    >>> one = {"estimator": "exact", "evaluations": 6, "seed": 1}
    >>> _common([one, {**one, "seed": 2}])
    {'estimator': 'exact', 'evaluations': 12}
    """
    found = dict(records[0])
    for record in records[1:]:
        found = {name: entry for name, entry in found.items() if record.get(name) == entry}
    return {**found, "evaluations": sum(record["evaluations"] for record in records)}
