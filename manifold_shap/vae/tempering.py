"""How sharp the weights of a VAE imputer should be: the power τ, chosen on held-out rows.

p(x_S|z) is a product over elements and, with hundreds of them, over-confident; τ < 1 tempers it.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manifold_shap.coalitions import SizeUniform
from manifold_shap.spaces import OutputSpace
from manifold_shap.vae.imputer import VAEImputer
from manifold_shap.values import ImputedValue, imputed_value

TEMPERS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)

_MOST_ROWS = 512
_PAIRS = 2048
_ROWS_AT_A_TIME = 64


def choose_temper(
    imputer: VAEImputer,
    x: Tensor,
    model: Any = None,
    output: str | OutputSpace = "probability",
    seed: int = 0,
) -> float:
    """The largest power whose error on these rows is not known to be worse than the least.

    With a model, the error is that of its imputed outputs (Frye et al. 2021, Eq. 16). Without, it
    is the same for a model that returns its input: that of the mean of the absent elements, in
    units of their spread. Within one standard error of the best (over rows, of the difference) the
    weights closest to those of the posterior are taken, τ = 1: few rows must not decide by chance.
    """
    rows = x[:_MOST_ROWS]
    coalitions = -(-_PAIRS // len(rows))
    generator = torch.Generator().manual_seed(seed)
    mask = SizeUniform(len(imputer.players)).sample((len(rows), coalitions), generator)
    value = None if model is None else imputed_value(model, imputer, output, seed=seed)
    errors = []
    for temper in TEMPERS:
        imputer.temper = temper
        parts = torch.arange(len(rows)).split(_ROWS_AT_A_TIME)
        errors.append(torch.cat([_errors(imputer, value, rows, mask, part) for part in parts]))
    return largest_good(torch.stack(errors))


def largest_good(errors: Float[Tensor, "tempers rows"]) -> float:
    """The largest of `TEMPERS` within one standard error of the one with the least mean error."""
    worse = errors - errors[errors.mean(1).argmin()]
    uncertain = worse.std(1) / worse.shape[1] ** 0.5 if worse.shape[1] > 1 else worse.new_zeros(1)
    good = (worse.mean(1) <= uncertain).nonzero()
    return TEMPERS[int(good.max())]


def spread(x: Float[Tensor, "rows *event"]) -> Float[Tensor, "*event"]:
    """The unit in which an element's error counts: its standard deviation, 1 for a constant."""
    # Axes of an image share a unit; its borders, which hardly vary, must not count for more.
    axes = 0 if x.ndim == 2 else tuple(range(x.ndim))
    deviation = x.std(axes, correction=0).maximum(0.1 * (x.amax(axes) - x.amin(axes)))
    return torch.where(deviation > 0, deviation, 1.0).expand(x.shape[1:])


def _errors(
    imputer: VAEImputer,
    value: ImputedValue | None,
    x: Float[Tensor, "all *event"],
    mask: Bool[Tensor, "all m players"],
    rows: Tensor,
) -> Float[Tensor, " rows"]:
    """Squared errors of some rows, the mean over their coalitions."""
    keys = (rows[:, None] * mask.shape[1] + torch.arange(mask.shape[1])).to(imputer.device)
    some, coalitions = x[rows].to(imputer.device), mask[rows].to(imputer.device)
    if value is not None:
        gap = value(some, coalitions, keys) - value.prediction(some)[:, None]
        return gap.square().mean((1, 2)).cpu()
    gap = (imputer.mean(some, coalitions, keys) - some[:, None]) / spread(imputer.reference)
    return (gap.square() * ~imputer.players.expand(coalitions)).flatten(1).mean(1).cpu()
