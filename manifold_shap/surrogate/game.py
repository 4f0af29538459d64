"""Describes a game to a network: its rows, who owns their elements, and its outputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from manifold_shap.players import Players


@dataclass(frozen=True)
class GameShape:
    """What a network must know of a game, as plain data.

        >>> players = Players.segments((2, 4), 2, padding=0.0)
        >>> game = GameShape.of(players, outputs=3, on_simplex=True)
        >>> game.event, game.index, game.padding
        ((2, 4), (0, 0, 1, 1, 0, 0, 1, 1), 0.0)

    Attributes:
        event: shape of one input row, as the network sees it.
        index: player that owns each of the flattened input elements.
        outputs: number of outputs of T.
        on_simplex: whether outputs are probabilities of classes.
        padding: the number that rows are padded by at their end; see `Players`.
        center: what outputs of a model in double precision are differences from, see `center_of`.
    """

    event: Sequence[int]
    index: Sequence[int]
    outputs: int
    on_simplex: bool
    padding: float | None = None
    center: Sequence[float] | None = None

    @classmethod
    def of(cls, players: Players, outputs: int, on_simplex: bool) -> "GameShape":
        """The game of these players."""
        index = tuple(players.index.flatten().tolist())
        return cls(players.event, index, outputs, on_simplex, players.padding)

    @cached_property
    def players(self) -> Players:
        """The players, with numbers for names."""
        index = torch.tensor(list(self.index)).reshape(tuple(self.event))
        return Players(range(int(index.max()) + 1), index, self.padding)
