"""Removes tokens from texts: by a mask token, by padding, or by deletion."""

from typing import Any

import torch
from torch import Tensor

from manifold_shap._checks import check_whole
from manifold_shap.imputers.base import Completions, Keys, Mask, Rows
from manifold_shap.imputers.marginal import BaselineImputer
from manifold_shap.players import Players


class MaskTokenImputer(BaselineImputer):
    """Absent tokens become a mask token, such as the `[MASK]` of a masked language model.

    v(∅) is the model's output at a text of mask tokens that is as long as the row. A single draw is
    exact.

    Args:
        token: id of the mask token.
        players: see `Players.tokens`.

    Raises:
        TypeError, ValueError: `token` is no whole number of at least 0, or `players` own
            rows of more than one axis.

    >>> imputer = MaskTokenImputer(9, Players.tokens(4, padding=0))
    >>> x, mask = torch.tensor([[5.0, 6, 7, 0]]), torch.tensor([[[True, False, True, False]]])
    >>> imputer.impute(x, mask, range(1), keys=torch.tensor([[0]])).rows
    tensor([[[[5., 9., 7., 0.]]]])
    """

    name, dtype = "mask_token", torch.int64

    def __init__(self, token: int, players: Players) -> None:
        token = check_whole("token", token, 0)
        super().__init__(_text_of(token, players), players)
        self.token = token

    @property
    def provenance(self) -> dict[str, Any]:
        return {"token": self.token}


class PaddingImputer(BaselineImputer):
    """Absent tokens become padding, and the others stay where they are.

    v(∅) is the model's output at padding alone. A single draw is exact.

    Args:
        players: see `Players.tokens`.
        padding: id of the padding token; by default that of the players.

    Raises:
        TypeError, ValueError: `padding` is no whole number of at least 0, or `players` own
            rows of more than one axis.

    >>> imputer = PaddingImputer(Players.tokens(4, padding=0))
    >>> x, mask = torch.tensor([[5.0, 6, 7, 0]]), torch.tensor([[[True, False, True, False]]])
    >>> imputer.impute(x, mask, range(1), keys=torch.tensor([[0]])).rows
    tensor([[[[5., 0., 7., 0.]]]])
    """

    name, dtype = "padding", torch.int64

    def __init__(self, players: Players, padding: int | None = None) -> None:
        padding = _padding(players, padding)
        super().__init__(_text_of(padding, players), players)
        self.padding = padding

    @property
    def provenance(self) -> dict[str, Any]:
        return {"padding": self.padding}


class DeletionImputer(PaddingImputer):
    """Absent tokens are deleted: the others move up, and padding fills the end.

    Unlike with other imputers, a present token may therefore change its place. v(∅) is the model's
    output at padding alone. A single draw is exact.

    Args:
        players: see `Players.tokens`.
        padding: id of the padding token; by default that of the players.

    Raises:
        TypeError, ValueError: `padding` is no whole number of at least 0, or `players` own
            rows of more than one axis.

    >>> imputer = DeletionImputer(Players.tokens(4, padding=0))
    >>> x, mask = torch.tensor([[5.0, 6, 7, 0]]), torch.tensor([[[True, False, True, False]]])
    >>> imputer.impute(x, mask, range(1), keys=torch.tensor([[0]])).rows
    tensor([[[[5., 7., 0., 0.]]]])
    """

    name = "deletion"

    def impute(self, x: Rows, mask: Mask, draws: range, keys: Keys) -> Completions:
        """Delete the absent tokens of each coalition, the same in all draws."""
        kept = self.players.expand(mask)
        if self.players.padding is not None:
            kept = kept & (self.players.owners(x) >= 0)[:, None]
        order = (~kept).argsort(dim=-1, stable=True)
        moved = x[:, None].expand(kept.shape).gather(-1, order)
        place = torch.arange(kept.shape[-1], device=x.device)
        rows = torch.where(place < kept.sum(-1, keepdim=True), moved, self.reference)
        return Completions(rows[:, :, None].expand(-1, -1, len(draws), -1))


def _text_of(token: int, players: Players) -> Tensor:
    """A text of this token alone."""
    if len(players.event) != 1:
        raise ValueError(
            "Expected `players` of token ids, rows of shape (length,), but got some of rows of "
            f"shape {players.event}; `ms.Players.tokens(length, padding)` makes them."
        )
    return torch.full(players.event, float(token))


def _padding(players: Players, padding: int | None) -> int:
    """The id given, or else that of the players."""
    if padding is None and players.padding is not None:
        padding = int(players.padding)
    return check_whole("padding", padding, 0, fix="give the id of the padding token")
