"""Measures what an estimator without standard errors misses, on some of the rows it explains."""

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_number, check_seed, check_whole
from manifold_shap._messages import shown
from manifold_shap.estimators.exact import exact_shapley
from manifold_shap.estimators.permutation import permutation_shapley
from manifold_shap.explanation import Explanation
from manifold_shap.receipt import Receipt
from manifold_shap.tables.rows import codebook_of
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


def audited_shapley(
    value: Any,
    x: Any,
    *,
    estimator: Estimator,
    share: float,
    reference: Estimator | None = None,
    evaluations: int | None = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Shapley values by another estimator, with a receipt: their error, measured on some rows.

        >>> game = lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True)
        >>> audited_shapley(game, torch.ones(50, 3), estimator=exact_shapley, share=0.1).receipt
        Receipt(5 rows by 'exact'; relative error 0 (95 % interval 0 to 0))

    Each row is estimated again with the same probability. For `explain_rows`, whose receipt is of
    all rows: `functools.partial(audited_shapley, estimator=..., share=2000 / len(x))`. The values
    themselves are those of the estimator, the same bits with a receipt as without.

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows to explain, `[instances, *event]`.
        estimator: of all rows; for its settings see `functools.partial`.
        share: of the rows, those that are estimated again.
        reference: see `audit`.
        evaluations: of the estimator; by default, what it takes by itself.
        seed: of the estimator; the rows of the receipt and their estimates have others, made of it.
        batch_size: of the estimator, and of the reference.
        progress: see `permutation_shapley`.

    Returns:
        The explanation, with a `receipt` if a row was chosen.

    Raises:
        TypeError, ValueError: see `audit`; a `share` that is not from 0 to 1.
    """
    check_number("share", share, 0, 1)
    seed = check_seed(seed)
    given = {"evaluations": evaluations, "batch_size": batch_size}
    own = {name: setting for name, setting in given.items() if setting is not None}
    own |= accepted(estimator, {"seed": seed, "progress": progress})
    found = check_explained(estimator(value, x, **own))
    made_by = {**found.made_by, "audited_share": share}
    value = as_value_function(value, x)
    rows = _chosen(len(found.phi), _count(len(found.phi), share, seed), seed)
    if rows:
        few = value.rows(x)[rows]
        settings = {"batch_size": batch_size, "progress": progress}
        made_by["receipt"] = _receipt(found[rows], value, few, reference, seed, settings).to_dict()
    return replace(found, made_by=made_by)


def audit(
    explanation: Explanation,
    value: Any,
    *,
    rows: int = 200,
    reference: Estimator | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Receipt:
    """The error of an explanation, measured on some of its rows.

        >>> game = lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True)
        >>> explanation = exact_shapley(game, torch.ones(50, 3))
        >>> audit(explanation, game, rows=20)
        Receipt(20 rows by 'exact'; relative error 0 (95 % interval 0 to 0))

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
        TypeError: `explanation` is none.
        ValueError: the value function has other players or outputs than the explanation, or gives
            its rows other predictions; a reference with a bias, or with unknown standard errors.
    """
    if not isinstance(explanation, Explanation):
        raise TypeError(
            f"Expected an `Explanation` to audit but got {type(explanation).__name__}; give what "
            "an estimator returned."
        )
    count = min(check_whole("rows", rows), len(explanation.phi))
    few = explanation[_chosen(len(explanation.phi), count, check_seed(seed))]
    codebook = codebook_of(few.schema)
    # The codes of a store are its own.
    x: Any = few.x if codebook is None else codebook.frame(few.x)
    value = as_value_function(value, x)
    return _receipt(few, value, value.rows(x), reference, seed, {"progress": progress})


def check_explained(found: Any, name: str = "estimator") -> Explanation:
    """What an estimator returned; TypeError if it is no explanation."""
    if not isinstance(found, Explanation):
        raise TypeError(
            f"Expected `{name}` to return an `Explanation` but got {type(found).__name__}; "
            "`ms.permutation_shapley` does, and a function of your own may end with a call of it."
        )
    return found


def accepted(estimator: Callable[..., Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Those of the settings that an estimator takes.

    Raises:
        TypeError: it is no function.
        ValueError: a `partial` has given it settings that it does not take.
    """
    if not callable(estimator):
        raise TypeError(
            f"Expected an estimator, such as `ms.permutation_shapley`, but got {estimator!r:.100}."
        )
    try:
        known = inspect.signature(estimator).parameters
    except ValueError as error:
        own = estimator.keywords if isinstance(estimator, partial) else {}
        raise ValueError(
            f"Expected settings that the estimator takes but got {sorted(own)}; "
            "`help(ms.permutation_shapley)` and so on list them."
        ) from error
    every = any(each.kind is each.VAR_KEYWORD for each in known.values())
    return {name: entry for name, entry in settings.items() if every or name in known}


def _chosen(rows: int, count: int, seed: int) -> list[int]:
    """Numbers of so many rows, drawn at random.

    >>> len(_chosen(1000, 100, seed=0)), _chosen(3, 3, seed=0)
    (100, [0, 1, 2])
    """
    keys = _random.fold(_random.fold(torch.tensor(seed), 0), torch.arange(rows))
    return sorted(_random.uniform(keys, ()).argsort()[:count].tolist())


def _count(rows: int, share: float, seed: int) -> int:
    """A share of some rows as a whole number, whose mean over seeds is that share."""
    up = _random.uniform(_random.fold(torch.tensor([seed]), 1), ())[0].item()
    return min(rows, math.floor(rows * share + up))


def usual_reference(value: ValueFunction) -> Estimator:
    """The reference where nobody names one."""
    players = len(value.players)
    if players <= _FEW and not value.sampled:
        return exact_shapley
    low, high = _ORDERS
    orders = min(high, max(low, _EVALUATIONS // max(1, players - 1) // 2 * 2))
    return partial(permutation_shapley, permutations=orders)


def _receipt(
    found: Explanation,
    value: ValueFunction,
    x: Tensor,
    reference: Estimator | None,
    seed: int,
    settings: dict[str, Any],
) -> Receipt:
    """From the explanation of some rows, and these rows."""
    if found.outputs != value.outputs and set(found.outputs) <= set(value.outputs):
        value = value.select(list(found.outputs), x)
    # Errors of the reference have to be independent of those of the estimator.
    other = int(_random.fold(torch.tensor(seed), 2)) & (2**63 - 1)
    reference = reference or usual_reference(value)
    settings = accepted(reference, {"seed": other, **settings})
    again = check_explained(reference(value.in_full_precision(), x, **settings), "reference")
    _check(found, again)
    name = again.made_by["estimator"]
    return Receipt.of(
        found.phi, again.phi, again.standard_error, found.players.names, found.outputs, name
    )


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
    names = ((e.players.names, e.outputs, e.space) for e in (found, again))
    for one, other in zip(*names, strict=True):
        if one != other:
            raise ValueError(
                "Expected the value function that was explained but its players, outputs or output "
                f"space are {shown(other) if isinstance(other, tuple) else other}, not "
                f"{shown(one) if isinstance(one, tuple) else one}; give that one."
            )
    gap = (found.prediction - again.prediction).abs().max()
    if bool(gap > _SAME * found.prediction.abs().max()):
        raise ValueError(
            "Expected the value function that was explained but its predictions of the same rows "
            f"differ by up to {gap:.3g}; give that one, with the model that it was of."
        )
