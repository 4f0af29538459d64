"""Estimates some rows of an explanation again, without bias, to measure its error."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from manifold_shap import _random
from manifold_shap._checks import check_seed, check_whole
from manifold_shap.audits import Audit
from manifold_shap.estimators.exact import exact_shapley
from manifold_shap.estimators.permutation import permutation_shapley
from manifold_shap.explanation import Explanation
from manifold_shap.values.base import ValueFunction
from manifold_shap.values.wrapped import as_value_function

Estimator = Callable[..., Explanation]
# Estimators whose mean is the Shapley value, and whose squared standard error has their variance as
# its mean: those of `coalition_shapley` are wider.
_UNBIASED = ("exact", "permutation")
# Players whose coalitions are all evaluated; of more, orders, as many as these evaluations are for.
_FEW, _EVALUATIONS, _ORDERS = 8, 8192, (16, 64)
# What values of the same network may differ by, relative to the largest, as precisions differ.
_SAME = 1e-3


def audit(
    explanation: Explanation,
    value: Any,
    *,
    rows: int = 200,
    reference: Estimator | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Audit:
    """The error of an explanation, measured on some of its rows.

        >>> game = lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True)
        >>> explanation = exact_shapley(game, torch.ones(50, 3))
        >>> audit(explanation, game, rows=20)
        Audit(20 rows by 'exact'; relative error 0 (95 % interval 0 to 0))

    Args:
        explanation: of the value function; of an estimator that draws, by another seed.
        value: what was explained. A surrogate of half precision is asked in full.
        rows: how many are estimated again; all if there are fewer.
        reference: an estimator that has no bias, with its settings: `exact_shapley`, by default of
            up to 8 players where nothing is drawn; or `permutation_shapley`, by default with 16 to
            64 orders, the fewer the more players. Its own error is taken off; it needs two pairs.
        seed: of the choice of rows, and of the reference.
        progress: see `permutation_shapley`.

    Raises:
        ValueError: the value function has other players or outputs than the explanation, or gives
            its rows other predictions; a reference with a bias, or with unknown standard errors.
    """
    count = min(check_whole("rows", rows), len(explanation.phi))
    few = explanation[chosen_rows(len(explanation.phi), count, check_seed(seed))]
    table = getattr(value, "table", None)
    x = few.x if table is None else table.rows(few.x)
    return audit_of(few, value, x, reference, seed, progress)


def audit_of(
    found: Explanation,
    value: Any,
    x: Any,
    reference: Estimator | None,
    seed: int,
    progress: bool | None,
) -> Audit:
    """The same, on all rows of an explanation, which the value function takes as `x`."""
    value = as_value_function(value, x)
    if found.outputs != value.outputs and set(found.outputs) <= set(value.outputs):
        value = value.select(list(found.outputs), x)
    order = found.made_by.get("ordering")
    if reference is None:
        reference = partial(_usual_reference(value), ordering=order)
    # Errors of the reference have to be independent of those of the estimator.
    other = int(_random.fold(torch.tensor(seed), 2)) & (2**63 - 1)
    settings = accepted(reference, {"seed": other, "progress": progress})
    again = check_explained(reference(value.in_precision("32-true"), x, **settings), "reference")
    if found.partition != again.partition and None not in (found.partition, again.partition):
        again = again.in_basis(found.partition)
    _check(found, again)
    name = again.made_by["estimator"]
    return Audit.of(
        found.phi, again.phi, again.standard_error, found.players.names, found.outputs, name
    )


def check_explained(found: Any, name: str = "estimator") -> Explanation:
    """What an estimator returned; TypeError if it is no explanation."""
    if not isinstance(found, Explanation):
        raise TypeError(
            f"Expected `{name}` to return an `Explanation` but got {type(found).__name__}; "
            "`ms.permutation_shapley` does, and a function of your own may end with a call of it."
        )
    return found


def accepted(estimator: Callable[..., Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Those of the settings that an estimator takes."""
    known = inspect.signature(estimator).parameters
    every = any(each.kind is each.VAR_KEYWORD for each in known.values())
    return {name: entry for name, entry in settings.items() if every or name in known}


def chosen_rows(rows: int, count: int, seed: int) -> list[int]:
    """Numbers of so many rows, drawn at random.

    >>> len(chosen_rows(1000, 100, seed=0)), chosen_rows(3, 3, seed=0)
    (100, [0, 1, 2])
    """
    keys = _random.fold(_random.fold(torch.tensor(seed), 0), torch.arange(rows))
    return sorted(_random.uniform(keys, ()).argsort()[:count].tolist())


def _usual_reference(value: ValueFunction) -> Estimator:
    """The reference where nobody names one."""
    players = len(value.players)
    if players <= _FEW:
        # Drawn values are drawn again and again; a few players have fewer orders than are needed.
        return partial(exact_shapley, evaluations=_EVALUATIONS if value.spec.work.sampled else None)
    low, high = _ORDERS
    orders = min(high, max(low, _EVALUATIONS // max(1, players - 1) // 2 * 2))
    return partial(permutation_shapley, permutations=orders)


def _check(found: Explanation, again: Explanation) -> None:
    """Raise ValueError unless estimates are unbiased, with known errors, and of the same game."""
    name = again.made_by.get("estimator")
    if name not in _UNBIASED:
        raise ValueError(
            f"Expected a `reference` without bias but got {name!r}, whose own error would be taken "
            "for that of the explanation; use `permutation_shapley` or, of few players, "
            "`exact_shapley`."
        )
    if bool(again.standard_error[again.present].isnan().any()):
        raise ValueError(
            "Expected a `reference` with known standard errors but some are unknown (NaN), as of a "
            "single pair of orders; give it more `permutations`."
        )
    order, other = (each.made_by.get("ordering") for each in (found, again))
    if order != other:
        raise ValueError(
            f"Expected a `reference` with the ordering of the explanation, {order}, but got "
            f"{other}; give it `ordering`."
        )
    for what in ("players", "outputs", "space"):
        one, two = (getattr(vars(each)[what], "names", vars(each)[what]) for each in (found, again))
        if one != two:
            raise ValueError(
                f"Expected the value function that was explained but its {what} are "
                f"{two!s:.200}, not {one!s:.200}; give that one."
            )
    gap = (found.prediction - again.prediction).abs().max()
    if bool(gap > _SAME * found.prediction.abs().max()):
        raise ValueError(
            "Expected the value function that was explained but its predictions of the same rows "
            f"differ by up to {gap:.3g}; give that one, with the model that it was of."
        )
