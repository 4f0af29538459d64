"""Lets estimators explain rows that have players of their own, those of equal count together."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._checks import check_rows
from manifold_shap.explanation import Explanation
from manifold_shap.players import Players
from manifold_shap.values.wrapped import as_value_function

Settings = ParamSpec("Settings")


def by_player_count(
    estimator: Callable[Concatenate[Any, Any, Settings], Explanation],
) -> Callable[Concatenate[Any, Any, Settings], Explanation]:
    """Lets an estimator take rows with players of their own: rows of equal count go together.

    The players that a row lacks are never asked for, and are NaN in the explanation.
    """

    @functools.wraps(estimator)
    def explain(
        value: Any, x: Any, *args: Settings.args, **settings: Settings.kwargs
    ) -> Explanation:
        value = as_value_function(value, x)
        if not value.players.by_row:
            return estimator(value, x, *args, **settings)
        rows = check_rows(x, value.players)
        counts = value.counts(rows.to(value.device)).cpu()
        groups = [(counts == count).nonzero()[:, 0] for count in counts.unique()]
        parts = [estimator(value, rows[group], *args, **settings) for group in groups]
        return _joined(parts, torch.cat(groups).argsort(), value.players)

    return explain


def _joined(
    parts: Sequence[Explanation], order: Int64[Tensor, " instances"], players: Players
) -> Explanation:
    """One explanation from those of the rows with 1, 2, ... players.

    Args:
        parts: in the order of their counts.
        order: the place, among the rows of all parts, of each row of the result.
        players: of a row with the most players that there can be.
    """

    def rows(tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(tensors))[order]

    def padded(tensors: Sequence[Tensor]) -> Tensor:
        return rows([_padded(tensor, len(players)) for tensor in tensors])

    covariances = [part.covariance for part in parts if part.covariance is not None]
    freedom = [p.degrees_of_freedom for p in parts if p.degrees_of_freedom is not None]
    made_by = {
        key: entry
        if all(part.made_by.get(key) == entry for part in parts)
        else {str(len(part.players)): part.made_by.get(key) for part in parts}
        for key, entry in parts[0].made_by.items()
    }
    made_by["evaluations"] = sum(part.made_by["evaluations"] for part in parts)
    return replace(
        parts[0],
        phi=padded([part.phi for part in parts]),
        standard_error=padded([part.standard_error for part in parts]),
        covariance=padded(covariances) if len(covariances) == len(parts) else None,
        base=rows([part.base for part in parts]),
        prediction=rows([part.prediction for part in parts]),
        x=rows([part.x for part in parts]),
        degrees_of_freedom=None if len(freedom) < len(parts) else rows(freedom),
        owners=rows([part.owners for part in parts if part.owners is not None]),
        players=players,
        instances=(),
        made_by=made_by,
    )


def _padded(tensor: Float[Tensor, "rows some *errors"], players: int) -> Tensor:
    """NaN for the players that rows lack."""
    shape = (len(tensor), players - tensor.shape[1], *tensor.shape[2:])
    return torch.cat((tensor, tensor.new_full(shape, torch.nan)), dim=1)
