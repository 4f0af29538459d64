"""Computes exact Shapley values by enumeration of all coalitions that an ordering allows."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from manifold_shap import _random
from manifold_shap.coalitions import Listed
from manifold_shap.estimators.evaluator import Evaluator, diagonal
from manifold_shap.estimators.runner import Asking, Result, explain
from manifold_shap.explanation import Explanation
from manifold_shap.ordering import Relations
from manifold_shap.values.selected import Outputs

MAX_PLAYERS = 16


def exact_shapley(
    value: Any,
    x: Any,
    *,
    evaluations: int | None = None,
    ordering: Relations = None,
    outputs: Outputs = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Shapley values by the sum of Frye et al. (2021), Eq. (1), over all 2^n coalitions.

        >>> game = lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True)
        >>> exact_shapley(game, torch.tensor([[1.0, 2.0, 3.0]])).phi.flatten()
        tensor([1., 2., 3.])

    With an ordering the values are asymmetric (Frye, Rowat & Feige 2020): those of the game that
    each component plays among its own players, with all earlier components present and no later
    one. This takes 2^k coalitions for a component of k players. Of a causal graph, these are the
    coalitions that hold all causes of their players, each weighted by the orders through it.

    A sampled value function has draws of its own for each coalition. As φ is a weighted sum of
    independent values of v, its error follows from theirs: Var φ = Σ w(S)² Var v(S). By default
    each coalition is drawn for once and errors are unknown (NaN); `evaluations` of twice as many
    coalitions or more estimate them.

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows to explain, `[instances, *event]`.
        evaluations: the most values of v per row; by default as many as it takes. A sampled value
            function is evaluated at every coalition as often as they allow, each time with new
            draws.
        ordering: names of the players, component after component, as in `[["a", "b"], ["c"]]`, or
            the causes of each player, as in `{"c": ["a"]}`: only orders in which earlier components
            or causes come first count. Or an `Ordering`, such as that of groups that stay together,
            for Owen values (`Ordering.of_groups`). By default all orders count.
        outputs: those to explain: names or positions, one or a list; by default all. See
            `ValueFunction.select`.
        seed: of the draws of a sampled value function. Same seed, same answer.
        batch_size: model rows per call; changes memory and time, not the numbers.
        progress: show a bar on work of more than two seconds; by default where a person looks.

    Returns:
        An explanation whose standard errors are zero or, of a sampled value function, those of its
        draws; NaN (unknown) where each coalition was drawn for but once.

    Raises:
        ValueError: more coalitions than `evaluations`, or than the 65,536 of `MAX_PLAYERS` = 16
            players; an `ordering` that `Ordering` refuses.
        TypeError: an `ordering` that is no list of lists, mapping or `Ordering`.
    """
    return explain(estimator=exact, **locals())


def exact(game: Evaluator, evaluations: int | None = None, seed: int = 0) -> Asking[Result]:
    """The estimator of `exact_shapley`."""
    order = game.order
    needed = order.allowed.coalitions - 2
    if evaluations is not None and needed > evaluations:
        raise ValueError(
            f"Expected `evaluations` of at least {needed}, which all coalitions take, but got "
            f"{evaluations}; `ms.auto_shapley` chooses an estimator that suits a budget."
        )
    if needed > 2**MAX_PLAYERS:
        raise ValueError(
            f"Expected at most {2**MAX_PLAYERS} coalitions, those of {MAX_PLAYERS} players, for "
            f"exact enumeration but got {needed + 2}, of {len(game.players)} players; use "
            "`auto_shapley` or `permutation_shapley`, or group features into fewer players."
        )
    return (yield from enumerated(game, *order.allowed.weighted_coalitions(), evaluations, seed))


def enumerated(
    game: Evaluator,
    masks: Bool[Tensor, "coalitions players"],
    weights: Float[Tensor, "coalitions sums"],
    evaluations: int | None,
    seed: int,
) -> Asking[Result]:
    """Σ w(S) v(S) over these coalitions, for every row and output, in double precision.

    A sampled value function has draws of its own for each coalition, each time. As sums are of
    independent values of v, their errors follow from those: Var Σ w v = Σ w² Var v.

    Args:
        game: the evaluator.
        masks: coalitions; the first is empty and the last is full, and no other is.
        weights: w of each sum.
        evaluations: the most values of v per row, which a sampled value function uses up by
            repeating all coalitions; by default each is evaluated once.
        seed: of the draws of a sampled value function.
    """
    masks, weights = masks[1:-1].to(game.device), weights.to(game.device)
    needed = len(masks)
    repeats = evaluations // needed if game.sampled and evaluations and needed else 1
    count = repeats * needed
    every, keys = masks.repeat(repeats, 1)[None], game.keys(seed)[:, None]
    if game.sampled:
        keys = _random.fold(keys, torch.arange(count))
    game.batches.bar.total = len(game.x) * count
    parts: list[tuple[Tensor, ...]] = []
    for rows in game.blocks(count + 2):
        values = (yield rows, Listed(every, keys[rows])).double().unflatten(1, (repeats, needed))
        base, prediction = (end.double()[:, None] for end in game.ends(rows))
        sums = _weighted(torch.cat((base, values.mean(1), prediction), dim=1), weights)
        errors = _errors(values, weights, game.full_covariance) if repeats > 1 else ()
        parts.append((sums, *errors))
    made_by = {"estimator": "exact"} | ({"repeats": repeats, "seed": seed} if repeats > 1 else {})
    phi, *rest = (torch.cat(part) for part in zip(*parts, strict=True))
    return Result(phi, made_by, *rest)


def _errors(
    values: Float[Tensor, "rows repeats coalitions outputs"],
    weights: Float[Tensor, "every sums"],
    full_covariance: bool,
) -> tuple[Float[Tensor, "rows sums *errors"], Float[Tensor, " rows"]]:
    """Covariances of each sum's outputs, or their diagonal, and the degrees of freedom.

    Those are of Welch (1949): Satterthwaite's formula, corrected for squares of estimates, which
    are too large. The least of a row's values counts.
    """
    repeats = values.shape[1]
    apart = values - values.mean(1, keepdim=True)
    pattern = "brso,brsq->bsoq" if full_covariance else "brso,brso->bso"
    products = torch.einsum(pattern, apart, apart) / (repeats * (repeats - 1))
    # Nothing is drawn for the empty and the grand coalition.
    products = pad(products, (0, 0) * (products.ndim - 2) + (1, 1))
    variance = _weighted(products, weights.square())
    fourth = _weighted(diagonal(products).square(), weights**4)
    freedom = (repeats + 1) * diagonal(variance).square() / fourth - 2
    return variance, freedom.nan_to_num(nan=torch.inf).amin((1, 2)).cpu()


def _weighted(
    numbers: Float[Tensor, "rows coalitions *outputs"], weights: Float[Tensor, "coalitions sums"]
) -> Float[Tensor, "rows sums *outputs"]:
    return torch.einsum("bs...,sn->bn...", numbers, weights)
