"""Computes exact Shapley values by enumeration of all coalitions that an ordering allows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from manifold_shap import _random
from manifold_shap.estimators.evaluator import Evaluator, diagonal
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
        raise ValueError(
            f"Expected at most {2**MAX_PLAYERS} coalitions, those of {MAX_PLAYERS} players, in one "
            f"part of `ordering` for exact enumeration but got {order.largest}, of "
            f"{len(game.players)} players; use `auto_shapley` or `permutation_shapley`, or group "
            "features into fewer players."
        )
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


Weighted = Callable[[Tensor, int], Tensor]


class Sums(NamedTuple):
    """Weighted sums of values, and the errors that draws leave in them.

    Attributes:
        sums: in double precision, `[instances, sums, outputs]`.
        variance: covariances of each sum's outputs, or their diagonal; None where each coalition
            was evaluated once.
        degrees_of_freedom: of the variances, `[instances]`; None with them.
        repeats: how often each coalition was evaluated.
    """

    sums: Tensor
    variance: Tensor | None
    degrees_of_freedom: Tensor | None
    repeats: int


def enumerated_sums(
    game: Evaluator,
    masks: Bool[Tensor, "coalitions players"],
    weighted: Weighted,
    evaluations: int | None,
    seed: int,
) -> Sums:
    """Σ w(S) v(S) over these coalitions, for every row and output.

    A sampled value function has draws of its own for each coalition, each time. As sums are of
    independent values of v, their errors follow from those: Var Σ w v = Σ w² Var v.

    Args:
        game: the evaluator.
        masks: coalitions; the first is empty and the last is full, and no other is.
        weighted: gives such sums `[rows, sums, outputs]` of numbers `[rows, coalitions, outputs]`,
            with w to this power.
        evaluations: the most values of v per row, which a sampled value function uses up by
            repeating all coalitions; by default each is evaluated once.
        seed: of the draws of a sampled value function.
    """
    masks = masks[1:-1].to(game.device)
    needed = len(masks)
    repeats = evaluations // needed if game.sampled and evaluations and needed else 1
    numbers = torch.arange(repeats * needed)
    keys = game.keys(seed)[:, None]
    if game.sampled:
        keys = _random.fold(keys, numbers)

    def coalitions(start: int, stop: int) -> Tensor:
        return masks[numbers[start:stop] % needed]

    sums, variance, freedom = [], [], []
    with game.bar(len(game.x), "exact", "row") as bar:
        for rows in torch.arange(len(game.x)).split(game.rows_per_batch(len(numbers) + 2)):
            values = game.evaluate(rows, coalitions, len(numbers), keys[rows]).double()
            values = values.unflatten(1, (repeats, needed))
            base, prediction = (end.double()[:, None] for end in game.ends(rows))
            sums.append(weighted(torch.cat((base, values.mean(1), prediction), dim=1), 1))
            if repeats > 1:
                errors = _errors(values, weighted, game.crossed)
                variance.append(errors[0])
                freedom.append(errors[1])
            bar.update(len(rows))
    if repeats == 1:
        return Sums(torch.cat(sums), None, None, 1)
    return Sums(torch.cat(sums), torch.cat(variance), torch.cat(freedom), repeats)


def _errors(
    values: Float[Tensor, "rows repeats coalitions outputs"],
    weighted: Weighted,
    crossed: bool,
) -> tuple[Float[Tensor, "rows sums *errors"], Float[Tensor, " rows"]]:
    """Covariances of each sum's outputs, or their diagonal, and the degrees of freedom.

    Those are of Welch (1949): Satterthwaite's formula, corrected for squares of estimates, which
    are too large. The least of a row's values counts.
    """
    repeats = values.shape[1]
    apart = values - values.mean(1, keepdim=True)
    pattern = "brso,brsq->bsoq" if crossed else "brso,brso->bso"
    products = torch.einsum(pattern, apart, apart) / (repeats * (repeats - 1))
    # Nothing is drawn for the empty and the grand coalition.
    products = pad(products, (0, 0) * (products.ndim - 2) + (1, 1))
    variance = weighted(products.flatten(2), 2).unflatten(2, products.shape[2:])
    squares = products.diagonal(dim1=2, dim2=3) if crossed else products
    fourth = weighted(squares.square(), 4)
    freedom = (repeats + 1) * diagonal(variance).square() / fourth - 2
    return variance, freedom.nan_to_num(nan=torch.inf).amin((1, 2)).cpu()
