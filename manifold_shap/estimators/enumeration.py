"""Sums over all coalitions of their values, with weights: of any index that is linear in v."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from manifold_shap import _random
from manifold_shap.estimators.evaluator import Evaluator, diagonal

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
