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
from manifold_shap.amortized.sums import PlayerSums
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
    def suits(cls, surrogate: SurrogateNetwork) -> bool:
        return isinstance(surrogate, Transformer) or surrogate.x_mean.ndim == 1

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
        # Places that no row here uses were left out.
        found = F.pad(found, (0, 0, 0, math.prod(self.grid) - found.shape[1]))
        return self.sums(found.mT.unflatten(2, self.grid)) * (self.scale / math.sqrt(self.players))
