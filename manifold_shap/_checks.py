"""The door for rows: tensors and arrays of finite numbers, in the shape that the players own."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from manifold_shap.players import Players


def to_tensor(x: Any, name: str = "x") -> Tensor:
    """A tensor or an array of numbers as a float32 tensor; `name` is what an error calls it.

    Raises:
        TypeError: `x` is something else, such as a table.
    """
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        # A copy: torch warns of the read-only arrays of pandas, and refuses reversed ones.
        x = torch.from_numpy(x.astype(np.float32, order="C"))
    if not isinstance(x, Tensor):
        kind = f"an array of {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__
        raise TypeError(
            f"Expected `{name}` to be a tensor or an array of numbers but got {kind}; a table "
            "becomes one by `Schema.fit(frame).encode(frame)` or, where every column is a number, "
            "by `frame.to_numpy(dtype='float32')`."
        )
    return x.detach().float()


def check_rows(x: Any, players: "Players", name: str = "x") -> Tensor:
    """Rows as a float32 tensor, or an error.

    Raises:
        TypeError: `x` is no tensor or array of numbers.
        ValueError: no row, another shape than `[rows, *event]`, or NaN or infinite entries.
    """
    rows = to_tensor(x, name)
    if tuple(rows.shape[1:]) != players.event or rows.ndim < 2:
        raise ValueError(
            f"Expected `{name}` of shape (rows, {', '.join(map(str, players.event)) or '*event'}) "
            f"but got {tuple(rows.shape)}; pass rows of the shape that `players` own, and one row "
            f"as `{name}[:1]`."
        )
    if len(rows) == 0:
        raise ValueError(f"Expected at least one row in `{name}` but got none.")
    _check_finite(rows, name)
    return rows


def check_pairs(x: Any, mask: Tensor, players: "Players") -> tuple[Tensor, Tensor]:
    """Rows, and m coalitions for each of them, or an error.

    Raises:
        TypeError, ValueError: as `check_rows` and `check_mask`, or not `[rows, m, players]`.
    """
    rows = check_rows(x, players)
    check_mask(mask, len(players))
    if mask.ndim != 3 or len(mask) != len(rows):
        raise ValueError(
            f"Expected `mask` of shape ({len(rows)}, m, {len(players)}), m coalitions for each "
            f"row, but got {tuple(mask.shape)}; one per row is `mask[:, None]`."
        )
    return rows, mask


def _check_finite(rows: Tensor, name: str) -> None:
    bad = ~rows.isfinite()
    if bool(bad.any()):
        row = int(bad.flatten(1).any(1).nonzero()[0])
        element = int(bad[row].flatten().nonzero()[0])
        raise ValueError(
            f"Expected finite features but {int(bad.sum())} entries of `{name}` are NaN or "
            f"infinite, the first in row {row}, element {element}; impute or drop these rows first."
        )


def check_mask(mask: Tensor, players: int) -> None:
    """Raise unless `mask` is a bool tensor whose last axis has one entry per player.

    Raises:
        TypeError: `mask` is not a bool tensor.
        ValueError: its last axis has another length.
    """
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(
            f"Expected `mask` to be a bool tensor (True = in the coalition) but got {kind}; "
            "compare a number with a threshold, as in `mask > 0`."
        )
    if mask.ndim == 0 or mask.shape[-1] != players:
        raise ValueError(
            f"Expected `mask` with {players} players on its last axis but got shape "
            f"{tuple(mask.shape)}; a mask has one entry per player, not per input element."
        )
