"""Finds out whether a value function looks at players that are absent."""

from typing import Any

import torch

from manifold_shap import _random
from manifold_shap._checks import check_coalitions, check_seed
from manifold_shap.players import check_same_players
from manifold_shap.values.wrapped import as_value_function

# (row, coalition) pairs in one call.
_AT_ONCE = 1024


@torch.no_grad()
def leakage(value: Any, x: Any, mask: Any, seed: int = 0) -> float:
    """Mean squared change of v(S) where absent players get the values of another row; 0 if sound.

    A value function that reads what absent players hold may be as close to the model as one likes,
    and `mean_squared_error` praises it for that: v(S) = f(x) has an error of 0. This needs no truth
    to tell.

        >>> import manifold_shap as ms
        >>> x = torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 5.0]])
        >>> mask = ms.metrics.shapley_pairs(rows=3, players=2, least=30)
        >>> imputer = ms.imputers.MarginalImputer(x)
        >>> sound = ms.imputed_value(lambda x: x.sum(1, True), imputer, "identity")
        >>> leakage(sound, x, mask)
        0.0
        >>> sees_all = lambda x, mask: x.sum(1)[:, None, None].expand(-1, mask.shape[1], 1)
        >>> leakage(sees_all, x, mask) > 0
        True

    Args:
        value: a value function, or a callable; see `as_value_function`.
        x: two rows or more, or a frame of them where `value` has a table.
        mask: bool `[rows, m, players]`, coalitions of each row, e.g. from `shapley_pairs`.
        seed: of the rows that absent values are taken from.

    Raises:
        TypeError, ValueError: as of `mean_squared_error`; fewer than two rows, or players that
            differ from row to row.
    """
    value = as_value_function(value, x)
    check_same_players(value.players, "leakage")
    rows = value.rows(x)
    mask = check_coalitions(mask, len(rows), value.players).cpu()
    if len(rows) < 2:
        raise ValueError(f"Expected at least 2 rows, to take values from, but got {len(rows)}.")
    pairs = torch.arange(mask.shape[0] * mask.shape[1])
    keys = _random.fold(torch.full_like(pairs, check_seed(seed)), pairs)
    row = pairs // mask.shape[1]
    other = (row + 1 + (_random.uniform(keys, ()) * (len(rows) - 1)).long()) % len(rows)
    total = 0.0
    for some in pairs.split(_AT_ONCE):
        own, coalitions = rows[row[some]], mask.flatten(0, 1)[some, None]
        changed = torch.where(value.players.expand(coalitions[:, 0]), own, rows[other[some]])
        before, after = (value(each, coalitions, keys[some, None]) for each in (own, changed))
        total += (before - after).square().mean(-1).sum().item()
    return total / len(pairs)
