"""Global Shapley values: what each player adds to the accuracy of a model.

    Φ(i) = E_{(x, y)}[ φ_i of the output y at x ]             (Frye et al. 2021, Eq. 4)
    Σ_i Φ(i) = E[f_y(x)] - E_x' E_y[f_y(x')]                  (Eq. 5)

They are means over labelled rows of the Shapley values for the *true* class. In the space of
probabilities the first term of their sum is the accuracy of labels drawn from the model's
distribution. Where rows are many, one pair of orders for each is enough.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap.explanation import Explanation

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class GlobalValues:
    """Global Shapley values, which sum to `accuracy - offset`.

    Attributes:
        phi: `[players]`, in units of the output space.
        standard_error: of `phi`, over rows, `[players]`; NaN for a single row.
        accuracy: mean output v(N) for the true class, E[f_y(x)].
        offset: mean output v(∅) for the classes of the rows, E_x' E_y[f_y(x')].
        players: their names.
        rows: how many the means are over.
        made_by: as of the explanation.

    >>> phi = torch.tensor([0.25, 0.125])
    >>> values = GlobalValues(phi, torch.zeros(2), 0.875, 0.5, ("age", "income"), rows=100)
    >>> values.to_dataframe()["phi"].to_dict()
    {'age': 0.25, 'income': 0.125}
    """

    phi: Float[Tensor, " players"]
    standard_error: Float[Tensor, " players"]
    accuracy: float
    offset: float
    players: tuple[str, ...]
    rows: int
    made_by: Mapping[str, Any] = field(default_factory=dict)

    @property
    def efficiency_gap(self) -> float:
        """|Σ phi - (accuracy - offset)|, relative to the larger of the two (Eq. 5)."""
        gap = abs(self.phi.sum().item() - (self.accuracy - self.offset))
        return gap / max(abs(self.accuracy), abs(self.offset), torch.finfo(torch.float32).tiny)

    def to_dataframe(self) -> "pd.DataFrame":
        """One line per player: `phi`, `standard_error`."""
        import pandas as pd

        columns = {"phi": self.phi.numpy(), "standard_error": self.standard_error.numpy()}
        return pd.DataFrame(columns, index=pd.Index(self.players, name="player"))


def global_values(explanation: Explanation, y: Sequence[Any] | np.ndarray | Tensor) -> GlobalValues:
    """Global Shapley values from an explanation of labelled rows.

        >>> from manifold_shap import MarginalImputer, exact_shapley, imputed_value
        >>> x = torch.tensor([[1.0, 0.0], [-1.0, 0.5], [2.0, 0.5], [-2.0, 0.0]])
        >>> def logits(x):
        ...     return torch.stack((x[:, 0], -x[:, 0]), -1)
        >>> explanation = exact_shapley(imputed_value(logits, MarginalImputer(x)), x)
        >>> global_values(explanation, [0, 1, 0, 1]).to_dataframe()["phi"].abs().round(2).tolist()
        [0.43, 0.0]

    Args:
        explanation: of the rows, by any estimator, with one output per class.
        y: the true class of each row: names of outputs, also as numbers, or their positions where
            no name is a number.

    Raises:
        ValueError: another number of labels than of rows, a class that is no output, or an output
            space other than `probability`.
    """
    if not explanation.space.on_simplex:
        raise ValueError(
            f"Expected the probabilities of classes but this explanation is in the space "
            f"{explanation.space.name!r}; explain with output='probability'."
        )
    true = _positions(y, explanation.outputs)
    if len(true) != len(explanation.phi):
        raise ValueError(
            f"Expected one label per row, {len(explanation.phi)} of them, but got {len(true)}."
        )
    rows = torch.arange(len(true))
    phi = explanation.phi.double()[rows, :, true]
    return GlobalValues(
        phi=phi.mean(0),
        standard_error=phi.std(0) / len(true) ** 0.5 if len(true) > 1 else phi[0] * torch.nan,
        accuracy=explanation.prediction.double()[rows, true].mean().item(),
        offset=explanation.base.double()[rows, true].mean().item(),
        players=explanation.players.names,
        rows=len(true),
        made_by=explanation.made_by,
    )


def _positions(y: Any, outputs: tuple[str, ...]) -> Int64[Tensor, " rows"]:
    """Of the outputs that labels name."""
    labels = np.asarray(y.cpu() if isinstance(y, Tensor) else y)
    if labels.ndim != 1:
        raise ValueError(f"Expected labels of shape (rows,) but got {labels.shape}.")
    # Classes 1, 2, 3 of a classifier are outputs "1", "2", "3", and no positions.
    numbered = any(name.lstrip("-").isdigit() for name in outputs)
    by_position = labels.dtype.kind in "iu" and not numbered
    position = {i if by_position else name: i for i, name in enumerate(outputs)}
    given = labels.tolist() if by_position else [str(label) for label in labels.tolist()]
    unknown = sorted(set(given) - set(position))
    if unknown:
        raise ValueError(
            f"Expected labels to be among the outputs {outputs}, or to be their positions where no "
            f"output is named by a number, but got {unknown[:5]}."
        )
    return torch.tensor([position[label] for label in given], dtype=torch.int64)
