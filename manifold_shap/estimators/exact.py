"""Computes exact Shapley values by enumeration of all coalitions that an ordering allows."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from manifold_shap import _random
from manifold_shap.coalitions import all_coalitions
from manifold_shap.estimators.evaluator import Evaluator, diagonal
from manifold_shap.estimators.ragged import by_player_count
from manifold_shap.explanation import Explanation
from manifold_shap.ordering import Ordering
from manifold_shap.values.selected import Outputs

MAX_PLAYERS = 16


@by_player_count
def exact_shapley(
    value: Any,
    x: Any,
    *,
    evaluations: int | None = None,
    ordering: Ordering | Sequence[Sequence[str]] | None = None,
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
    one. This takes 2^k coalitions for a component of k players.

    A sampled value function has draws of its own for each coalition. As φ is a weighted sum of
    independent values of v, its error follows from theirs: Var φ = Σ w(S)² Var v(S), where each
    coalition is drawn for at least twice.

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows to explain, `[instances, *event]`.
        evaluations: the most values of v per row; by default as many as it takes. A sampled value
            function is evaluated at every coalition as often as they allow, each time with new
            draws.
        ordering: names of the players, component after component, as in `[["a", "b"], ["c"]]`:
            only orders in which earlier components come first count. By default all do.
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
            does not name every player once.
        TypeError: an `ordering` that is no list of lists.
    """
    game = Evaluator(value, x, batch_size, progress)
    order = Ordering.of(ordering, game.players)
    needed = order.coalitions_count - 2
    if evaluations is not None and needed > evaluations:
        raise ValueError(
            f"Expected `evaluations` of at least {needed}, which all coalitions take, but got "
            f"{evaluations}; `ms.auto_shapley` chooses an estimator that suits a budget."
        )
    if order.largest > MAX_PLAYERS:
        where = " in one component of `ordering`" if len(order) > 1 else ""
        raise ValueError(
            f"Expected at most {MAX_PLAYERS} players for exact enumeration (2^n coalitions per "
            f"row) but got {order.largest}{where}; use `coalition_shapley`, or "
            "`permutation_shapley` with an ordering, or group features into fewer players."
        )
    # The empty and the grand coalition, first and last, are known anchors.
    masks = order.coalitions()[1:-1].to(game.device)
    weights = [_weights(all_coalitions(len(members))).to(game.device) for members in order.members]
    repeats = evaluations // needed if game.sampled and evaluations and needed else 1
    numbers = torch.arange(repeats * needed)
    keys = game.keys(seed)[:, None]
    if game.sampled:
        keys = _random.fold(keys, numbers)

    def coalitions(start: int, stop: int) -> Tensor:
        return masks[numbers[start:stop] % needed]

    phi, variance, freedom = [], [], []
    with game.bar(len(game.x), "exact", "row") as bar:
        for rows in torch.arange(len(game.x)).split(game.rows_per_batch(len(numbers) + 2)):
            values = game.evaluate(rows, coalitions, len(numbers), keys[rows]).double()
            values = values.unflatten(1, (repeats, needed))
            base, prediction = (end.double()[:, None] for end in game.ends(rows))
            every = torch.cat((base, values.mean(1), prediction), dim=1)
            phi.append(_by_component(every, order, weights))
            if repeats > 1:
                errors = _errors(values, order, weights, game.crossed)
                variance.append(errors[0])
                freedom.append(errors[1])
            bar.update(len(rows))
    made_by = {"estimator": "exact", **order.provenance}
    if repeats == 1:
        return game.explanation(torch.cat(phi), made_by)
    made_by |= {"repeats": repeats, "seed": seed}
    return game.explanation(torch.cat(phi), made_by, torch.cat(variance), torch.cat(freedom))


def _errors(
    values: Float[Tensor, "rows repeats coalitions outputs"],
    order: Ordering,
    weights: list[Tensor],
    crossed: bool,
) -> tuple[Float[Tensor, "rows players *errors"], Float[Tensor, " rows"]]:
    """Covariances of each player's outputs, or their diagonal, and the degrees of freedom.

    Those are of Welch (1949): Satterthwaite's formula, corrected for squares of estimates, which
    are too large. The least of a row's values counts.
    """
    repeats = values.shape[1]
    apart = values - values.mean(1, keepdim=True)
    pattern = "brso,brsq->bsoq" if crossed else "brso,brso->bso"
    products = torch.einsum(pattern, apart, apart) / (repeats * (repeats - 1))
    # Nothing is drawn for the empty and the grand coalition.
    products = pad(products, (0, 0) * (products.ndim - 2) + (1, 1))
    squared = [weight.square() for weight in weights]
    variance = _by_component(products.flatten(2), order, squared).unflatten(2, products.shape[2:])
    squares = products.diagonal(dim1=2, dim2=3) if crossed else products
    fourth = _by_component(squares.square(), order, [weight.square() for weight in squared])
    freedom = (repeats + 1) * diagonal(variance).square() / fourth - 2
    return variance, freedom.nan_to_num(nan=torch.inf).amin((1, 2)).cpu()


def _by_component(
    values: Float[Tensor, "rows coalitions outputs"], order: Ordering, weights: list[Tensor]
) -> Float[Tensor, "rows players outputs"]:
    """Sums of what coalitions have, weighted for each player, component after component."""
    phi = values.new_empty(len(values), len(order.players), values.shape[2])
    first = 0
    for members, weight in zip(order.members, weights, strict=True):
        own = values[:, first : first + len(weight)]
        phi[:, members] = torch.einsum("bso,sn->bno", own, weight)
        first += len(weight) - 1
    return phi


def _weights(masks: Tensor) -> Float[Tensor, "coalitions players"]:
    # Weight of v(S) for player i: |S-i|!|N-S|!/n! with i inside, -|S|!(n-|S|-1)!/n! without.
    players = masks.shape[1]
    orders = math.factorial(players)
    share = torch.tensor(
        [math.factorial(s) * math.factorial(players - s - 1) / orders for s in range(players)],
        dtype=torch.float64,
        device=masks.device,
    )
    size = masks.sum(1, keepdim=True)
    joined, without = share[(size - 1).clamp(min=0)], share[size.clamp(max=players - 1)]
    return torch.where(masks, joined, -without)
