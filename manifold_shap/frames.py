"""Explanations as frames of numbers: a line for each row, with all that is known of it."""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._arrays import label_index
from manifold_shap._checks import check_distinct
from manifold_shap.explanation import Explanation

if TYPE_CHECKING:
    import pandas as pd


def wide_frame(explanation: Explanation) -> "pd.DataFrame":
    """A line per instance, with all that is known of it in columns of numbers (float64).

    Columns are `prediction`, `base`, then `phi_<player>` and `standard_error_<player>` for every
    player and, where it is known, `model_error_<player>`. Several outputs have columns of their
    own: `prediction_<output>`, `base_<output>`, `phi_<output>_<player>` and so on. Players that a
    row lacks have NaN.

    Raises:
        ValueError: names of outputs and players that make the same column twice.

    >>> from manifold_shap import exact_shapley
    >>> def value(x, mask):
    ...     return (x[:, None] * mask).sum(-1, keepdim=True)
    >>> wide_frame(exact_shapley(value, torch.tensor([[1.0, 2.0]]))).loc[0].to_dict()
    {'prediction': 3.0, 'base': 0.0, 'phi_x0': 1.0, 'phi_x1': 2.0, ...}
    """
    import pandas as pd

    known = [] if explanation.model_error is None else ["model_error"]
    columns = wide_columns(explanation.players.names, explanation.outputs, known)
    index = label_index(explanation.instances)
    return pd.DataFrame(_numbers(explanation).numpy(), index, columns)


def wide_columns(
    players: Sequence[str], outputs: Sequence[str], known: Sequence[str] = ()
) -> tuple[str, ...]:
    """Names of the columns of a wide frame, in their order."""
    of = [f"_{output}" for output in outputs] if len(outputs) > 1 else [""]
    ends = [f"{end}{output}" for end in ("prediction", "base") for output in of]
    measures = ("phi", "standard_error", *known)
    own = ["".join(name) for name in product(measures, of, (f"_{name}" for name in players))]
    names = (*ends, *own)
    check_distinct(names, "names of columns, of outputs and players,", "rename some of them")
    return names


def _numbers(explanation: Explanation) -> Float[Tensor, "instances columns"]:
    """All columns of numbers, in double precision."""
    by_player = [explanation.phi, explanation.standard_error]
    if explanation.model_error is not None:
        by_player.append(explanation.model_error)
    own = [each.transpose(1, 2).flatten(1) for each in by_player]
    return torch.cat([explanation.prediction, explanation.base, *own], dim=1).double()
