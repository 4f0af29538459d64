"""Draws curves of series, and behind them the values of their segments as colours, for a page."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import to_tensor
from manifold_shap.explanation import Explanation
from manifold_shap.plots import selection, style
from manifold_shap.report.pictures import map_url

# Points of a curve, and of a small one. Of more, the ends of short stretches are drawn.
_POINTS, _FEW = 240, 48
# Channels of a row: those of the largest values.
_CHANNELS = 8
# Units of a drawing, from left to right and of a channel from top to bottom. Maps have at most a
# pixel for each unit from left to right.
_ACROSS, _HIGH = 1000, 100


def are_series(explanation: Explanation, given: Any) -> bool:
    """Whether rows are series: (channels, time) of such players, or anything with `series`.

    Each player has all channels of its time points, or all time points of its channels.
    """
    if given is not None:
        return True
    players = explanation.players
    differ = players.by_row and players.padding is None
    if not isinstance(explanation.x, Tensor) or differ or len(players.event) != 2:
        return False
    index = players.index
    return bool((index == index[:1]).all() or (index == index[:, :1]).all())


def channels_of(explanation: Explanation, given: Any) -> dict[str, Float[Tensor, "rows time"]]:
    """The curves of all rows, by the names of their channels; a single one needs no name."""
    x = explanation.x
    if isinstance(given, Mapping):
        found = {str(name): to_tensor(own, "series") for name, own in given.items()}
    else:
        own = x if given is None else to_tensor(given, "series")
        if own.ndim in (2, 3):
            count = math.prod(own.shape[1:-1])
            own = own.reshape(len(own), count, own.shape[-1])
            found = {f"channel {k}" if count > 1 else "": own[:, k] for k in range(count)}
        else:
            found = {"": own}
    wanted = (math.prod(x.shape[1:-1]), len(x), x.shape[-1])
    if x.ndim not in (2, 3) or any((len(found), *own.shape) != wanted for own in found.values()):
        raise ValueError(
            "Expected `series` as the rows, [rows, time] or [rows, channels, time], or by names "
            f"{wanted[0]} channels of shape {wanted[1:]}, but got "
            f"{[tuple(own.shape) for own in found.values()]!s:.100} for rows of shape "
            f"{tuple(x.shape[1:])}; they are what the explanation's rows are drawn as."
        )
    if not all(bool(own.isfinite().all()) for own in found.values()):
        raise ValueError("Expected `series` without NaN or infinity; fill what is missing.")
    return found


def of_rows(
    explanation: Explanation,
    rows: Sequence[int],
    outputs: Sequence[Sequence[int]],
    channels: Mapping[str, Tensor],
) -> tuple[list[dict[str, Any]], float]:
    """Of rows, by position, what is drawn of them, and the end of the colours' scale.

    `lines` are the points of curves, `maps` the colours behind them as a `data:` URL for each
    output, with a line of pixels for each channel.
    """
    owners = selection.owners(explanation).reshape(len(explanation.x), len(channels), -1)
    found, values = [], []
    for row, own in zip(rows, outputs, strict=True):
        length = 1 + int((owners[row] >= 0).any(0).nonzero().max())  # without padding at its end
        count = min(length, _ACROSS)
        at = ((torch.arange(count, dtype=torch.float64) + 0.5) * (length / count)).long()
        values.append(_values(explanation.phi[row][:, list(own)], owners[row][:, at]))
        size = np.abs(values[-1]).mean((0, 2))
        shown = sorted(np.argsort(-size, kind="stable")[:_CHANNELS].tolist())
        curves = {name: each[row, :length].numpy() for name, each in channels.items()}
        names = [list(curves)[k] for k in shown]
        values[-1] = values[-1][:, shown]
        found.append(
            {
                "names": names,
                "ends": [_ends(curves[name]) for name in names],
                "lines": [_line(curves[name], _POINTS) for name in names],
                "time": length,
                "others": len(curves) - len(names),
                "small": _line(curves[list(curves)[int(size.argmax())]], _FEW),
            }
        )
    size = np.abs(np.concatenate([each.ravel() for each in values]))
    limit = float(np.quantile(size, 0.995)) or float(size.max()) or 1.0
    for drawn, each in zip(found, values, strict=True):
        drawn["maps"] = [map_url(own / limit, each.shape[-1]) for own in each]
    return found, limit


def _values(
    phi: Float[Tensor, "players outputs"], owners: Tensor
) -> Float[np.ndarray, "outputs channels time"]:
    """The value of whom each time point belongs to, 0 where that is nobody or not known."""
    known = torch.cat((phi, torch.zeros_like(phi[:1]))).nan_to_num(0.0, 0.0, 0.0)
    return known[owners].permute(2, 0, 1).float().numpy()


def _ends(curve: Float[np.ndarray, " time"]) -> list[str]:
    return [style.number(float(end)) for end in (curve.min(), curve.max())]


def _line(curve: Float[np.ndarray, " time"], points: int) -> str:
    """The points of a curve, from its lowest at the bottom to its highest at the top."""
    at, length = np.arange(len(curve)), len(curve)
    if length > points:
        parts = np.array_split(at, points // 2)
        # The lowest and the highest of each stretch, so that no peak is lost.
        ends = [part[pick(curve[part])] for part in parts for pick in (np.argmin, np.argmax)]
        at = np.unique([0, *ends, length - 1])
    low, high = float(curve.min()), float(curve.max())
    share = (curve[at] - low) / (high - low) if high > low else np.full(len(at), 0.5)
    across, down = (at + 0.5) / length * _ACROSS, _HIGH * (0.92 - 0.84 * share)
    return " ".join(f"{x:.0f},{y:.0f}" for x, y in zip(across, down, strict=True))
