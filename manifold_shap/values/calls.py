"""Values along orders and around coalitions, from any function that gives values of coalitions."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap.coalitions import nested, toggled

# Gives the values `[batch, m, outputs]` of coalitions: `values(x, mask, keys)`.
Values = Callable[[Tensor, Tensor, Tensor], Tensor]


def along(
    values: Values,
    x: Float[Tensor, "batch *event"],
    orders: Int64[Tensor, "batch orders players"],
    keys: Int64[Tensor, "batch orders"],
    most: int | None = None,
) -> Float[Tensor, "batch orders sizes outputs"]:
    """Values of the nested coalitions of the first 1, 2, ..., n-1 players of each order.

    Args:
        values: asked for at most `most` coalitions of each row in a call.
        x: rows.
        orders: players as they arrive.
        keys: one per order, which its coalitions share.
        most: by default all at once; changes memory, not the numbers.

    >>> x, order = torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[[2, 0, 1]]])
    >>> game = lambda x, mask, keys: (x[:, None] * mask).sum(-1, keepdim=True)
    >>> along(game, x, order, torch.zeros(1, 1, dtype=torch.long)).flatten()
    tensor([4., 5.])
    """
    rank, sizes = orders.argsort(-1), orders.shape[2] - 1
    # Narrow integers make the memory-bound comparison cheaper.
    rank = rank.to(torch.int16) if sizes < 2**15 else rank
    own = keys.repeat_interleave(sizes, 1)
    return _in_calls(values, x, partial(nested, rank), own, most).unflatten(1, (-1, sizes))


def around(
    values: Values,
    x: Float[Tensor, "batch *event"],
    mask: Bool[Tensor, "batch m players"],
    keys: Int64[Tensor, "batch m"],
    most: int | None = None,
) -> Float[Tensor, "batch m places outputs"]:
    """Values of coalitions, then of each with player 0, 1, ... toggled: n+1 of them.

    Values of empty and full coalitions among these may be anything. Arguments as for `along`.

    >>> x, mask = torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[[True, False, False]]])
    >>> game = lambda x, mask, keys: (x[:, None] * mask).sum(-1, keepdim=True)
    >>> around(game, x, mask, torch.zeros(1, 1, dtype=torch.long)).flatten()[[0, 2, 3]]
    tensor([1., 3., 5.])
    """
    places, players = toggled(mask), mask.shape[2]
    size = places.sum(-1)
    # The caller knows these values, and any proper coalition may stand in.
    first = torch.arange(players, device=mask.device) == 0
    places = torch.where((size % players == 0)[..., None], first, places)
    flat, own = places.flatten(1, 2), keys.repeat_interleave(players + 1, 1)
    found = _in_calls(values, x, lambda start, stop: flat[:, start:stop], own, most)
    return found.unflatten(1, (-1, players + 1))


def _in_calls(
    values: Values,
    x: Tensor,
    coalitions: Callable[[int, int], Tensor],
    keys: Int64[Tensor, "batch m"],
    most: int | None,
) -> Float[Tensor, "batch m outputs"]:
    """Values of coalitions, which are built from number to number, as they are asked for."""
    count = keys.shape[1]
    step = most or max(1, count)
    parts = [
        values(x, coalitions(start, min(start + step, count)), keys[:, start:][:, :step])
        for start in range(0, count, step)
    ]
    return torch.cat(parts, dim=1)
