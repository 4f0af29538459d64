"""An amortised explainer by attention: a value for each token, patch or segment of a row.

Its layers are those of `surrogate.Transformer`, everything being present. Where that is the
surrogate, training begins with its weights (Covert et al. 2023, ViT Shapley).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from manifold_shap.amortized.network import AmortizedNetwork
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.transformer import Transformer, tokens_in


class AmortizedTransformer(AmortizedNetwork):
    """phi(x) by attention over tokens, patches, segments or the columns of a table.

    Args:
        game, chosen: see `AmortizedNetwork`.
        hidden, activation, patch: see `Transformer`.
        vocabulary: how many tokens there are; None for rows `(elements,)` of other numbers.
    """

    def __init__(
        self,
        game: GameShape,
        hidden: Sequence[int] | None = None,
        activation: str = "gelu",
        patch: int | None = None,
        vocabulary: int | None = None,
        chosen: Sequence[int] | None = None,
    ) -> None:
        super().__init__(game, chosen)
        # Rows of a table are series of one channel, in segments of one element.
        self.table = len(game.event) == 1 and vocabulary is None
        series = game.event if len(game.event) > 1 else (1, *game.event)
        seen, patch = (replace(game, event=series), 1) if self.table else (game, patch)
        body = Transformer(seen, hidden, activation, patch, vocabulary)
        self.sums = PlayerSums(series, game.index, self.outputs, body.span)
        self.grid = [-(-length // body.span) for length in self.sums.size]
        width = len(body.reader)
        self.informed = nn.Linear(self.outputs, width)
        body.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, self.sums.channels))
        self.body: Any = body

    @classmethod
    def settings_for(
        cls, surrogate: SurrogateNetwork, x: Float[Tensor, "rows *event"]
    ) -> dict[str, Any]:
        """The layers of a surrogate that is a transformer, too."""
        if isinstance(surrogate, Transformer):
            return dict(surrogate.settings)
        # A module of the user's that embeds a column may have other columns of any numbers.
        tokens = surrogate.of_tokens and bool(((x >= 0) & (x == x.round())).all())
        return {"vocabulary": tokens_in(x)} if tokens else {}

    @torch.no_grad()
    def start(self, surrogate: SurrogateNetwork, change: Float[Tensor, "rows outputs"]) -> None:
        """Take scales, and all weights of the same name and shape, from the surrogate."""
        super().start(surrogate, change)
        own, theirs = self.body.state_dict(), surrogate.state_dict()
        same = {name: theirs[name] for name in own.keys() & theirs.keys()}
        same = {name: given for name, given in same.items() if given.shape == own[name].shape}
        self.body.load_state_dict(same, strict=False)
        self.body.x_mean.copy_(surrogate.x_mean.reshape(self.body.x_mean.shape))
        self.body.x_scale.copy_(surrogate.x_scale.reshape(self.body.x_scale.shape))
        for weights in (self.informed, self.body.last[-1]):
            nn.init.zeros_(weights.weight)
            nn.init.zeros_(weights.bias)

    def raw(
        self,
        surrogate: SurrogateNetwork,
        x: Float[Tensor, "batch *event"],
        change: Float[Tensor, "batch outputs"],
    ) -> Float[Tensor, "batch players outputs"]:
        """Shapley values, whatever their sum; see `AmortizedNetwork.raw`."""
        own = self.game.players.owned(x)[:, None]
        reader = self.body.reader + self.informed(change / self.scale)
        found = self.body.last(self.body.read(x[:, None] if self.table else x, own, reader))[:, 1:]
        if self.game.padding is not None:
            # What is read at padding hangs on how long the other rows are.
            used = -(-self.game.players.lengths(x) // self.body.span)
            place = torch.arange(found.shape[1], device=x.device)
            found = found * (place < used[:, None])[..., None]
        # Places that no row here uses were left out.
        found = F.pad(found, (0, 0, 0, math.prod(self.grid) - found.shape[1]))
        return self.sums(found.mT.unflatten(2, self.grid)) * (self.scale / math.sqrt(self.players))


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
    share: Tensor

    def __init__(self, event: Sequence[int], index: Sequence[int], outputs: int, step: int) -> None:
        super().__init__()
        self.size, self.outputs, self.step = tuple(event[1:]), outputs, step
        owners = torch.tensor(list(index)).reshape(event[0], -1)
        # Channels that come and go together have one value.
        self.maps = 1 if bool((owners == owners[:1]).all()) else event[0]
        self.channels = outputs * self.maps * step ** len(self.size)
        self.register_buffer("index", owners[: self.maps].flatten(), persistent=False)
        self.register_buffer("share", 1 / self.index.bincount()[:, None], persistent=False)

    def forward(
        self, found: Float[Tensor, "batch channels *grid"]
    ) -> Float[Tensor, "batch players outputs"]:
        values = self._by_position(found)
        sums = values.new_zeros(values.shape[0], len(self.share), self.outputs)
        return sums.index_add(1, self.index, values) * self.share

    def _by_position(
        self, found: Float[Tensor, "batch channels *grid"]
    ) -> Float[Tensor, "batch positions outputs"]:
        if len(self.size) == 2:
            whole = F.pixel_shuffle(found, self.step)
        else:
            whole = found.unflatten(1, (-1, self.step)).mT.flatten(2)
        inside: Any = (..., *(slice(length) for length in self.size))
        return whole[inside].unflatten(1, (self.maps, self.outputs)).movedim(2, -1).flatten(1, -2)
