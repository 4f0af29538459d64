"""Players: who plays, and which elements of an input row each of them owns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Players:
    """Who plays: names, and which player owns each element of one input row.

    Elements of one player (a one-hot block, the channels of a pixel, a superpixel) enter and
    leave a coalition together.

    Attributes:
        names: one per player.
        index: int64, shaped as one input row (`*event`): the player that owns each element.
    """

    names: tuple[str, ...]
    index: Tensor

    def __post_init__(self) -> None:
        check_names(self.names)
        owners = torch.unique(self.index)
        if self.index.is_floating_point() or not torch.equal(
            owners.cpu(), torch.arange(len(self.names))
        ):
            raise ValueError(
                f"Expected `index` to hold every integer from 0 to {len(self.names) - 1}, one per "
                f"name in `names`, but got {owners.tolist()[:20]} for {len(self.names)} names."
            )

    @classmethod
    def of_elements(cls, event: Sequence[int], names: Sequence[str] | None = None) -> "Players":
        """One player per element of an input row of shape `event`."""
        count = math.prod(event)
        names = tuple(names) if names is not None else tuple(f"x{i}" for i in range(count))
        return cls(names, torch.arange(count).reshape(tuple(event)))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def event(self) -> tuple[int, ...]:
        """Shape of one input row."""
        return tuple(self.index.shape)

    def expand(self, mask: Tensor) -> Tensor:
        """A mask over players `[..., players]` as a mask over input elements `[..., *event]`."""
        return mask[..., self.index.to(mask.device)]


def check_names(names: Sequence[Any]) -> None:
    """Raise unless every player has a name of its own.

    Raises:
        TypeError: a name is no string.
        ValueError: a name occurs more than once.
    """
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"Expected the names of players to be strings but got {name!r}; convert it with "
                "`str`."
            )
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(
            f"Expected every player to have a name of its own but {twice[:10]} occur more than "
            "once; number them, or let one player own their elements."
        )
