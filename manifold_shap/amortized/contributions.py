"""Noisy unbiased estimates of Shapley values, as labels of a training, where they are cheap."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manifold_shap.coalitions import sample_stratified_pairs, stratum_weights
from manifold_shap.surrogate.perceptron import Perceptron

_STRATA = 8
# One row in 16 also has exact contributions, which correct the linearized ones.
_EXACT_EVERY = 16
# Hidden activations that fit a cache.
_CACHED = 2**21


@torch.no_grad()
def contributions(
    surrogate: Perceptron, x: Tensor, generator: torch.Generator
) -> Float[Tensor, "batch players outputs"]:
    """An unbiased estimate of all Shapley values of each row, from one pair of coalitions.

    A two-level estimator: linearized contributions of all rows, see `Perceptron.linearized`, plus a
    correction by the exact contributions of a few random rows. Eight rows share the strata of
    `sample_stratified_pairs`.
    """
    mask, weight = _pairs(surrogate, len(x), generator)
    found = _by_parts(surrogate, x, mask, linearized=True)
    count = -(-len(x) // _EXACT_EVERY)
    few = torch.randperm(len(x), generator=generator, device=generator.device)[:count]
    missed = _by_parts(surrogate, x[few], mask[few], linearized=False) - found[few]
    found[few] += missed * (len(x) / count)
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
    surrogate: Perceptron, x: Tensor, mask: Bool[Tensor, "batch 2 players"], linearized: bool
) -> Float[Tensor, "batch players outputs"]:
    found = []
    # Rows whose coalitions' hidden activations fit a cache.
    step = max(_STRATA, _CACHED // (2 * mask.shape[-1] * len(surrogate.first.bias)))
    for rows, pairs in zip(x.split(step), mask.split(step), strict=True):
        values = (surrogate.linearized if linearized else surrogate.around)(rows, pairs)
        change = values[:, :, 1:] - values[:, :, :1]
        found.append(torch.where(pairs[..., None], -change, change).mean(1))
    return torch.cat(found).float()
