"""Sums values of positions over the elements that each player owns."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


class PlayerSums(nn.Module):
    """From channels on a coarse grid to Shapley values of players, of every output.

    A window of `step` positions along each axis has one place on the grid, which has a value for
    each of its positions. A player has the mean of those that it owns.

        >>> sums = PlayerSums((1, 4), [0, 0, 1, 1], outputs=3, step=2)
        >>> sums.channels, sums(torch.ones(5, 6, 2)).shape
        (6, torch.Size([5, 2, 3]))

    Args:
        event: shape of a row: channels, then positions.
        index: player that owns each of the flattened input elements.
        outputs: how many there are.
        step: positions from one place of the grid to the next.

    Attributes:
        channels: of the grid.
    """

    index: Tensor
    order: Tensor
    share: Tensor

    def __init__(self, event: Sequence[int], index: Sequence[int], outputs: int, step: int) -> None:
        super().__init__()
        self.size, self.outputs, self.step = tuple(event[1:]), outputs, step
        owners = torch.tensor(list(index)).reshape(event[0], -1)
        # Channels that come and go together have one value.
        self.maps = 1 if bool((owners == owners[:1]).all()) else event[0]
        self.channels = outputs * self.maps * step ** len(self.size)
        self.register_buffer("index", owners[: self.maps].flatten(), persistent=False)
        self.register_buffer("order", self.index.argsort(), persistent=False)
        self.register_buffer("share", 1 / self.index.bincount()[:, None], persistent=False)

    def forward(
        self, found: Float[Tensor, "batch channels *grid"]
    ) -> Float[Tensor, "batch players outputs"]:
        values = self._by_position(found)
        if len(self.share) == len(self.index):
            return values[:, self.order]
        sums = values.new_zeros(values.shape[0], len(self.share), self.outputs)
        return sums.index_add(1, self.index, values) * self.share

    def _by_position(
        self, found: Float[Tensor, "batch channels *grid"]
    ) -> Float[Tensor, "batch positions outputs"]:
        axes = len(self.size)
        parts = found.unflatten(1, (self.maps, self.outputs, *(self.step,) * axes))
        # Behind batch, maps and outputs come steps within windows, then windows.
        order = [3 + side + axes * outer for side in range(axes) for outer in (1, 0)]
        whole = parts.permute(0, 1, *order, 2)
        for side in range(axes):
            whole = whole.flatten(2 + side, 3 + side)
        inside = (slice(length) for length in self.size)
        return whole[(..., *inside, slice(None))].flatten(1, -2)
