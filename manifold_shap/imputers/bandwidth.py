"""The bandwidth of a kernel by the corrected Akaike information criterion."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manifold_shap.coalitions import distinct_coalitions
from manifold_shap.imputers.covariance import Moments
from manifold_shap.imputers.mahalanobis import Mahalanobis
from manifold_shap.players import Players

_GRID = torch.logspace(-1.5, 0.5, 25, dtype=torch.float64)
_ROWS = 400  # Squares of these many rows are held, for each coalition.
_COALITIONS = 6
_SIZES = 16


def choose_bandwidths(
    rows: Float[Tensor, "rows elements"],
    moments: Moments,
    players: Players,
    targets: Float[Tensor, "rows outputs"] | None = None,
) -> Float[Tensor, " sizes"]:
    """A bandwidth for each number of present players, 0 to all: `[players + 1]`.

    For a size the criterion is averaged over a few random coalitions, on a bounded number of rows;
    where there are many sizes, those between are interpolated.

    Args:
        rows: of the data distribution.
        moments: of the rows.
        players: who plays.
        targets: what to predict; by default the absent elements, in standard deviations.
    """
    generator = torch.Generator().manual_seed(0)
    count = len(players)
    some = torch.randperm(len(rows), generator=generator)[:_ROWS].to(rows.device)
    distance = Mahalanobis(rows[some], moments)
    wanted = distance.standard.float() if targets is None else targets[some]
    sizes = torch.linspace(1, max(1, count - 1), _SIZES).round().unique()
    chosen = []
    for size in sizes.tolist():
        arrival = torch.rand(_COALITIONS, count, generator=generator).argsort(-1)
        mask = distinct_coalitions(arrival < size)[0].to(rows.device)
        present = players.expand(mask).flatten(1)
        squared = _among(distance, rows[some], present)
        # By default only what is absent has to be predicted.
        absent = wanted * ~present[:, None] if targets is None else wanted.expand(len(mask), -1, -1)
        score = torch.stack([corrected_akaike(squared, absent, float(s)).mean() for s in _GRID])
        chosen.append(float(_GRID[int(score.argmin())]))
    between = np.interp(np.arange(count + 1), sizes.numpy(), np.log(chosen))
    return torch.from_numpy(np.exp(between)).float()


def _among(
    distance: Mahalanobis,
    rows: Float[Tensor, "rows elements"],
    present: Bool[Tensor, "coalitions elements"],
) -> Float[Tensor, "coalitions rows rows"]:
    """Squared distances among the rows, for each coalition."""
    which = torch.arange(len(present), device=rows.device).repeat_interleave(len(rows))
    parts = distance.parts(rows.repeat(len(present), 1), present, which)
    order, squared = zip(*parts, strict=True)
    back = torch.cat(order).argsort()
    return torch.cat(squared).float()[back].unflatten(0, (len(present), len(rows)))


def corrected_akaike(
    squared: Float[Tensor, "coalitions rows rows"],
    targets: Float[Tensor, "coalitions rows outputs"],
    bandwidth: float,
) -> Float[Tensor, " coalitions"]:
    """log σ̂² + 1 + 2 (tr H + 1) / (n - tr H - 2) of the kernel regression with smoother H.

    Hurvich, Simonoff & Tsai (1998), Eq. 5; σ̂² is the mean squared residual over rows and targets.
    Infinite where H has as many degrees of freedom as there are rows.

    Args:
        squared: distances of every row from every row.
        targets: what is regressed.
        bandwidth: of the Gaussian kernel.
    """
    smoother = (squared / (-2 * bandwidth**2)).softmax(-1)
    residual = (targets - smoother @ targets).square().mean((1, 2))
    freedom = smoother.diagonal(dim1=1, dim2=2).sum(-1)
    left = squared.shape[-1] - freedom - 2
    criterion = residual.log() + 1 + 2 * (freedom + 1) / left
    return criterion.masked_fill(left <= 0, torch.inf)
