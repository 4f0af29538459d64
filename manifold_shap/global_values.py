"""Global Shapley values: what each player adds to the accuracy of a model.

Of a classifier:

    Φ(i) = E_{(x, y)}[ φ_i of the output y at x ]             (Frye et al. 2021, Eq. 4)
    Σ_i Φ(i) = E[f_y(x)] - E_x' E_y[f_y(x')]                  (Eq. 5)

They are means over labelled rows of the Shapley values for the *true* class. In the space of
probabilities the first term of their sum is the accuracy of labels drawn from the model's
distribution. Where rows are many, one pair of orders for each is enough.

Of a regression, where no class is true, rows count by how far their target is from the mean:

    Φ(i) = E[ (y - E[y]) φ_i(x) ] / Var(y)
    Σ_i Φ(i) = Cov(y, f(x)) / Var(y)          where all rows have one base

The sum is the slope of predictions on targets: the share of a difference between targets that the
model predicts, 1 where it is right and 0 where it knows nothing. A plain mean of the φ_i would say
nothing, since they sum to 0 over the rows of the background data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._arrays import Label, row_labels
from manifold_shap._checks import check_number
from manifold_shap._messages import Instead, shown
from manifold_shap.explanation import Explanation, check_explanation
from manifold_shap.values.selected import output_position

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class GlobalValues(Instead):
    """Global Shapley values, which sum to `accuracy - offset`.

    Attributes:
        phi: `[players]`, in units of the output space; for a regression shares, without a unit.
        standard_error: of `phi`, over rows, `[players]`; NaN for a single row.
        accuracy: mean output v(N) for the true class, E[f_y(x)]; for a regression
            Cov(y, f(x)) / Var(y).
        offset: mean output v(∅) for the classes of the rows, E_x' E_y[f_y(x')]; for a regression
            Cov(y, base) / Var(y), which is 0 where all rows have one base.
        players: their names.
        rows: how many the means are over.
        made_by: as of the explanation.
        regression: whether they are of a regression.

    >>> phi = torch.tensor([0.25, 0.125])
    >>> values = GlobalValues(phi, torch.zeros(2), 0.875, 0.5, ("age", "income"), rows=100)
    >>> values
    GlobalValues(mean probability of the true class 0.875 = that by class balance 0.5 + values of \
2 players, 100 rows)
              phi  standard_error
    player
    age     0.250             0.0
    income  0.125             0.0
    >>> values.to_frame()["phi"].to_dict()
    {'age': 0.25, 'income': 0.125}
    """

    phi: Float[Tensor, " players"]
    standard_error: Float[Tensor, " players"]
    accuracy: float
    offset: float
    players: tuple[str, ...]
    rows: int
    made_by: Mapping[str, Any] = field(default_factory=dict)
    regression: bool = False

    def __repr__(self) -> str:
        return f"{self._title}\n{self.to_frame().to_string(max_rows=20)}"

    def _repr_html_(self) -> str:
        return f"<div><p>{self._title}</p>{self.to_frame().to_html(max_rows=20)}</div>"

    @property
    def _title(self) -> str:
        if self.regression:
            gain, start = "Cov(y, f(x))/Var(y)", "offset"
        else:
            gain, start = "mean probability of the true class", "that by class balance"
        players = f"values of {len(self.players)} players"
        offset = f"{start} {self.offset:.3g} + " * (not self._starts_at_zero)
        return f"GlobalValues({gain} {self.accuracy:.3g} = {offset}{players}, {self.rows} rows)"

    @property
    def _starts_at_zero(self) -> bool:
        return abs(self.offset) < 1e-9 * abs(self.accuracy)

    def interval(
        self, level: float = 0.95
    ) -> tuple[Float[Tensor, " players"], Float[Tensor, " players"]]:
        """Ends of intervals that hold the values with this probability (Student's t).

        They hold the error of rows and of sampled coalitions; that of a learned value function,
        too, where they are from `corrected_global_values`.

        >>> values = GlobalValues(torch.zeros(1), torch.ones(1), 0.0, 0.0, ("age",), rows=100)
        >>> [end.item() for end in values.interval(0.95)]  # doctest: +ELLIPSIS
        [-1.9842..., 1.9842...]

        Raises:
            ValueError: a level outside of (0, 1).
        """
        from scipy import stats

        level = check_number("level", level, above=0, below=1)
        reach = stats.t.ppf((1 + level) / 2, max(1, self.rows - 1)) * self.standard_error
        return self.phi - reach, self.phi + reach

    @property
    def efficiency_gap(self) -> float:
        """|Σ phi - (accuracy - offset)|, relative to the larger of the two (Eq. 5)."""
        gap = abs(self.phi.sum().item() - (self.accuracy - self.offset))
        return gap / max(abs(self.accuracy), abs(self.offset), torch.finfo(torch.float32).tiny)

    def to_frame(self) -> "pd.DataFrame":
        """One line per player: `phi`, `standard_error`."""
        import pandas as pd

        columns = {"phi": self.phi.numpy(), "standard_error": self.standard_error.numpy()}
        return pd.DataFrame(columns, index=pd.Index(self.players, name="player"))


def global_values(
    explanation: Explanation, y: Any, output: str | int | None = None
) -> GlobalValues:
    """Global Shapley values from an explanation of labelled rows.

        >>> from manifold_shap import exact_shapley, imputed_value
        >>> from manifold_shap.imputers import MarginalImputer
        >>> x = torch.tensor([[1.0, 0.0], [-1.0, 0.5], [2.0, 0.5], [-2.0, 0.0]])
        >>> def logits(x):
        ...     return torch.stack((x[:, 0], -x[:, 0]), -1)
        >>> explanation = exact_shapley(imputed_value(logits, MarginalImputer(x)), x)
        >>> global_values(explanation, [0, 1, 0, 1]).to_frame()["phi"].abs().round(2).tolist()
        [0.43, 0.0]

    Args:
        explanation: of the rows, by any estimator, of the probabilities of classes or of a
            regression.
        y: of each row the true class or, for a regression, the true number. Classes are names of
            outputs, also as numbers, or their positions where no name is a number. A column of
            pandas has the labels of the explained rows, if these have some.
        output: of a regression with several outputs, the one that `y` measures, by name or
            position.

    Raises:
        TypeError: something else than an explanation.
        ValueError: another number of labels than of rows, or labels of other rows, a class that is
            no output, numbers that are not finite or all the same; log-ratios, or rows with players
            of their own.
    """
    check_explanation(explanation)
    if explanation.players.by_row:
        raise ValueError(
            "Expected players that all rows have but these differ from row to row, so that a mean "
            "over rows is of nothing in particular; explain with the same players for every row."
        )
    if not (explanation.space.on_simplex or explanation.space.regression):
        raise ValueError(
            f"Expected the probabilities of classes, or a regression, but this explanation is in "
            f"the space {explanation.space.name!r}; explain with space='probability'."
        )
    instances = tuple(explanation.instances)
    numbered = instances == tuple(range(len(instances)))
    y = labels_of(y, len(instances), None if numbered else instances)
    if explanation.space.regression:
        return _of_regression(explanation, y, output)
    true = class_positions(y, explanation.outputs, explanation.selected)
    rows = torch.arange(len(true))
    return means_of_rows(
        explanation.phi.double()[rows, :, true],
        accuracy=explanation.prediction.double()[rows, true].mean().item(),
        offset=explanation.base.double()[rows, true].mean().item(),
        players=explanation.players.names,
        made_by=explanation.made_by,
    )


def labels_of(y: Any, count: int, instances: tuple[Label, ...] | None) -> np.ndarray:
    """Labels of rows as an array.

    Raises:
        ValueError: another number of labels, or an index that is not that of the rows.
    """
    known = row_labels(y)
    y = np.asarray(y.cpu() if isinstance(y, Tensor) else y)
    if y.shape != (count,):
        raise ValueError(
            f"Expected `y` of shape ({count},), one label for each of the rows, but got {y.shape}."
        )
    if None not in (known, instances) and known != instances:
        raise ValueError(
            f"Expected `y` of the explained rows, {shown(instances or (), 3)}, but its index has "
            f"{shown(known or (), 3)}; pass `y.loc[...]`, or an array in the order of the rows."
        )
    return y


def means_of_rows(phi: Float[Tensor, "rows players"], **others: Any) -> GlobalValues:
    """Global values that are means over rows, with their standard errors.

    Args:
        phi: of the true class of each row.
        others: the other attributes.
    """
    count = len(phi)
    error = phi.std(0) / count**0.5 if count > 1 else phi[0] * torch.nan
    return GlobalValues(phi.mean(0), error, rows=count, **others)


def _of_regression(
    explanation: Explanation, y: np.ndarray, output: str | int | None
) -> GlobalValues:
    if output is None and len(explanation.outputs) > 1:
        raise ValueError(
            f"Expected the `output` that `y` measures, one of {explanation.outputs}, since there "
            "are several."
        )
    k = 0 if output is None else output_position("output", output, explanation.outputs)
    if not (y.dtype.kind in "biuf" and np.isfinite(y).all() and np.ptp(y) > 0):
        raise ValueError(
            f"Expected finite targets `y` that differ between rows but got {y.dtype}, or some are "
            "NaN or infinite, or all are alike; drop such rows, or cast numbers."
        )
    apart = torch.from_numpy(y.astype(np.float64) - y.mean(dtype=np.float64))
    # (y - mean) / (rows Var(y)), by population formulas: products with them are slopes on y.
    weights, phi = apart / apart.square().sum(), explanation.phi.double()[..., k]
    slopes = weights @ phi
    # The weights are estimated, too: errors are those of slopes of a regression on y, whose
    # variance may differ by row.
    residual = phi - phi.mean(0) - slopes * apart[:, None]
    return GlobalValues(
        phi=slopes,
        standard_error=(weights[:, None] * residual).square().sum(0).sqrt(),
        accuracy=(weights @ explanation.prediction.double()[:, k]).item(),
        offset=(weights @ explanation.base.double()[:, k]).item(),
        players=explanation.players.names,
        rows=len(y),
        made_by=explanation.made_by,
        regression=True,
    )


def class_positions(
    labels: Any, outputs: Sequence[str], selected: bool = False
) -> Int64[Tensor, " rows"]:
    """Of the outputs that labels name.

    Args:
        labels: names of outputs, also as numbers, or their positions where no name is a number.
        outputs: their names.
        selected: whether they are some outputs of more: positions would be other ones.

    Raises:
        ValueError: a label that is no output.
    """
    labels = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
    # Classes 1, 2, 3 of a classifier are outputs "1", "2", "3", and no positions.
    numbered = selected or any(name.lstrip("-").isdigit() for name in outputs)
    by_position = labels.dtype.kind in "iu" and not numbered
    position = {i if by_position else name: i for i, name in enumerate(outputs)}
    given = labels.tolist() if by_position else [str(label) for label in labels.tolist()]
    unknown = sorted(set(given) - set(position))
    if unknown:
        raise ValueError(
            f"Expected labels to be among the outputs {tuple(outputs)}, or to be their positions "
            f"where no output is named by a number, but got {unknown[:5]}."
        )
    return torch.tensor([position[label] for label in given], dtype=torch.int64)
