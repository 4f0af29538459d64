"""Computes exact Shapley values by enumeration of all coalitions that an ordering allows."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap.estimators.enumeration import enumerated_sums
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.ragged import by_player_count
from manifold_shap.explanation import Explanation
from manifold_shap.ordering import Ordering, Relations
from manifold_shap.values.selected import Outputs

MAX_PLAYERS = 16


@by_player_count
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
    independent values of v, its error follows from theirs: Var φ = Σ w(S)² Var v(S), where each
    coalition is drawn for at least twice.

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
        outputs: those to explain: names or positions, or how many of those with the largest mean
            predictions; by default all. See `ValueFunction.select`.
        seed: of the draws of a sampled value function. Same seed, same answer.
        batch_size: model rows per call; changes memory and time, not the numbers.
        progress: show a bar on work of more than two seconds; by default where a person looks.

    Returns:
        An explanation whose standard errors are zero or, of a sampled value function, those of its
        draws; NaN (unknown) where each coalition was drawn for but once.

    Raises:
        ValueError: more coalitions than `evaluations`; more than `MAX_PLAYERS` = 16 players (65,536
            coalitions per row) in all or, with an ordering, in one component; an `ordering` that
            `Ordering` refuses.
        TypeError: an `ordering` that is no list of lists, mapping or `Ordering`.
    """
    game = Evaluator(value, x, batch_size, progress)
    order = Ordering.of(ordering, game.players)
    needed = order.coalitions_count - 2
    if evaluations is not None and needed > evaluations:
        raise ValueError(
            f"Expected `evaluations` of at least {needed}, which all coalitions take, but got "
            f"{evaluations}; `ms.auto_shapley` chooses an estimator that suits a budget."
        )
    if order.largest > 2**MAX_PLAYERS:
        raise ValueError(_too_many(order))
    weights = [part.weights().to(game.device) for part in order.parts]

    def weighted(values: Tensor, power: int) -> Tensor:
        return _by_component(values, order, [each**power for each in weights])

    found = enumerated_sums(game, order.coalitions(), weighted, evaluations, seed)
    made_by = {"estimator": "exact", **order.provenance}
    if found.repeats > 1:
        made_by |= {"repeats": found.repeats, "seed": seed}
    return game.explanation(found.sums, made_by, found.variance, found.degrees_of_freedom)


def _by_component(
    values: Float[Tensor, "rows coalitions outputs"], order: Ordering, weights: list[Tensor]
) -> Float[Tensor, "rows players outputs"]:
    """Sums of what coalitions have, weighted for each player, component after component."""
    phi = values.new_empty(len(values), len(order.players), values.shape[2])
    first = 0
    for part, weight in zip(order.parts, weights, strict=True):
        own = values[:, first : first + len(weight)]
        phi[:, part.members] = torch.einsum("bso,sn->bno", own, weight)
        first += len(weight) - 1
    return phi


def _too_many(order: Ordering) -> str:
    if order.component is None:
        return (
            f"Expected an `ordering` with at most {2**MAX_PLAYERS} coalitions along its orders for "
            "exact enumeration but this one has more; use `permutation_shapley`, or group features "
            "into fewer players."
        )
    size = int(order.component.bincount().max())
    where = " in one component of `ordering`" if len(order) > 1 else ""
    return (
        f"Expected at most {MAX_PLAYERS} players for exact enumeration (2^n coalitions per row) "
        f"but got {size}{where}; use `auto_shapley`, or group features into fewer players."
    )
