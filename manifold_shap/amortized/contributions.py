"""Noisy estimates of Shapley values from single coalitions, as labels of a training."""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap.coalitions import Toggled, sample_stratified_pairs, stratum_weights
from manifold_shap.surrogate.perceptron import Perceptron

_STRATA = 8
# One row in 16 also has exact contributions, which correct the linearized ones.
_EXACT_EVERY = 16
# Hidden activations that fit a cache, and how many a player has.
_CACHED, _WIDTH = 2**21, 512


@torch.no_grad()
def contributions(
    surrogate: Perceptron,
    x: Float[Tensor, "batch *event"],
    generator: torch.Generator,
    chosen: Int64[Tensor, " chosen"] | None = None,
) -> Float[Tensor, "batch players chosen"]:
    """An estimate of all Shapley values of each row, from one pair of coalitions.

    These are linearized contributions, see `Perceptron.linearized`, which the exact ones of a few
    random rows correct: the estimate is unbiased (a two-level estimator). Eight rows share the
    strata of `sample_stratified_pairs`.

    Args:
        surrogate: the network that is explained.
        x: rows, as it sees them.
        generator: of coalitions.
        chosen: numbers of the outputs; by default all.
    """
    mask, weight = _pairs(surrogate, len(x), generator)
    found = _by_parts(surrogate, x, mask, chosen, linearized=True)
    count = -(-len(x) // _EXACT_EVERY)
    few = torch.randperm(len(x), generator=generator, device=generator.device)[:count]
    exact = _by_parts(surrogate, x[few], mask[few], chosen, linearized=False)
    found[few] += (exact - found[few]) * (len(x) / count)
    return found * weight[:, None, None]


def _pairs(
    surrogate: Perceptron, count: int, generator: torch.Generator
) -> tuple[Bool[Tensor, "batch 2 players"], Float[Tensor, " batch"]]:
    """A pair of coalitions for each row, and its weight: strata in turn from a random one."""
    first = int(torch.randint(_STRATA, (), generator=generator, device=generator.device))
    rows = slice(first, first + count)
    groups = -(-(first + count) // _STRATA)
    pairs = sample_stratified_pairs((groups,), surrogate.players, _STRATA, generator)
    weights = _STRATA * stratum_weights(_STRATA).to(pairs.device).repeat(groups)
    return pairs.flatten(0, 1)[rows], weights[rows]


def _by_parts(
    surrogate: Perceptron,
    x: Tensor,
    mask: Bool[Tensor, "batch 2 players"],
    chosen: Tensor | None,
    linearized: bool,
) -> Float[Tensor, "batch players chosen"]:
    found = []
    step = max(_STRATA, _CACHED // (2 * mask.shape[-1] * _WIDTH))
    for rows, pairs in zip(x.split(step), mask.split(step), strict=True):
        if linearized:
            values = surrogate.linearized(rows, pairs, chosen)
        else:
            keys = torch.zeros_like(pairs[..., 0], dtype=torch.int64)
            values = surrogate.values(rows, Toggled(pairs, keys))
            values = values.unflatten(1, (-1, pairs.shape[2] + 1))
            values = values if chosen is None else values[..., chosen]
        change = values[:, :, 1:] - values[:, :, :1]
        found.append(torch.where(pairs[..., None], -change, change).mean(1))
    return torch.cat(found).float()
