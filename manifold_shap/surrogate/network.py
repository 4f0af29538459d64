"""The supervised surrogate g(x_S) ≈ E[T(f(X)) | X_S = x_S] (Frye et al. 2021, Section 4.1).

The mean of T(f(X)) given x_S is what minimises squared error, so a network that sees x_S alone
and is trained by

    L = E_x E_{S~Shapley} mean_y |T_y(f(x)) - g_y(x_S)|²                          (Eq. 17)

learns the on-manifold value function. No labels enter: any rows of the data distribution serve.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manifold_shap.coalitions import Coalitions
from manifold_shap.models import Model
from manifold_shap.nn import MOST_UNITS, units
from manifold_shap.spaces import OutputSpace
from manifold_shap.surrogate.game import GameShape
from manifold_shap.training.rows import without_padding

_SHORT = 64
# Numbers in memory during one call, 4 bytes each, and rows that are no fewer than usual. On a CPU
# half of the time would go into fresh memory for layers that no cache holds.
_NUMBERS, _NUMBERS_CPU, _MANY_ROWS = 2**27, 2**24, 4096


class SurrogateNetwork(nn.Module, ABC):
    """A network g(x_S), which is never shown an absent element.

    A subclass defines `raw`, and overrides what its structure makes cheaper. Inputs and outputs
    are standardised inside, so that learning rates mean the same for any unit. It knows how long a
    padded row is, unless it is a module of the user's: v(∅), its own value, is that of such rows.

    Attributes:
        blocks: usual share of blocks among the coalitions in training, see `laws_for`.
        of_tokens: whether rows are tokens, whose numbers have no order.

    Args:
        game: what it is a value function of. On the simplex a softmax ends the network.
    """

    blocks: ClassVar[float] = 0.5
    of_tokens: bool = False
    index: Tensor
    x_mean: Tensor
    x_scale: Tensor
    target_mean: Tensor
    target_scale: Tensor

    def __init__(self, game: GameShape) -> None:
        super().__init__()
        self.game, owners = game, game.players.index
        self.register_buffer("x_mean", torch.zeros(owners.shape))
        self.register_buffer("x_scale", torch.ones(owners.shape))
        self.register_buffer("index", owners.to(self.x_mean.device), persistent=False)
        self.players = len(game.players)
        by_channel = owners.flatten(1) if owners.ndim > 1 else owners[:, None]
        # Channels that come and go together share one channel of the mask.
        together = bool((by_channel == by_channel[:1]).all())
        self.mask_channels = 1 if together else len(owners)
        self.register_buffer("target_mean", torch.zeros(game.outputs))
        self.register_buffer("target_scale", torch.ones(game.outputs))

    # -- must be defined --------------------------------------------------------------------

    @abstractmethod
    def raw(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m outputs"]:
        """What `finished` makes outputs of.

        Args:
            x: rows, as they come.
            mask: coalitions.
        """

    # -- may be overridden ------------------------------------------------------------------

    def finished(self, raw: Float[Tensor, "*batch outputs"]) -> Float[Tensor, "*batch outputs"]:
        """Outputs of T: a softmax of the raw ones or, off the simplex, these in T's own units."""
        if self.game.on_simplex:
            # Along a short last axis a CPU takes several times as long.
            if raw.shape[-1] < _SHORT and raw.device.type == "cpu":
                return raw.movedim(-1, 0).softmax(0).movedim(0, -1)
            return raw.softmax(-1)
        return self.target_mean + self.target_scale * raw

    @torch.no_grad()
    def standardise(
        self, x: Float[Tensor, "rows *event"], target: Float[Tensor, "rows outputs"]
    ) -> None:
        """Take means and scales from training rows, padding apart, and from their targets."""
        mean, unit = units(without_padding(x, self.game.players))
        self.x_mean.copy_(mean)
        self.x_scale.copy_(unit)
        self.target_mean.copy_(target.mean(0))
        deviation = target.std(0, correction=0)
        self.target_scale.copy_(torch.where(deviation > 0, deviation, 1.0))

    @classmethod
    def settings_for(
        cls, rows: Sequence[Tensor], model: Model, space: OutputSpace, drawn: bool
    ) -> dict[str, Any]:
        """Arguments, besides the game and the user's options, as plain data.

        Args:
            rows: those of the training and of the validation, as the network sees them.
            model: the model to explain.
            space: T.
            drawn: whether new rows are drawn for the training, like these.

        Raises:
            ValueError: rows that this kind of network does not take.
        """
        return {}

    @classmethod
    def module_behind(cls, network: Any, model: Any) -> Any:
        """The argument `module`; None where the network is made of no other one.

        Args:
            network: that of `fit_surrogate`.
            model: the model to explain.

        Raises:
            TypeError: what should be a torch module is none.
        """
        return None

    # -- overridden for speed ---------------------------------------------------------------

    def values(
        self, x: Float[Tensor, "batch *event"], coalitions: Coalitions
    ) -> Float[Tensor, "batch m outputs"]:
        """Outputs for coalitions, of which a structure may be made use of.

        Args:
            x: rows.
            coalitions: of each row.
        """
        return self(x, coalitions.masks())

    @property
    def numbers(self) -> int:
        """How many numbers one row takes in memory on its way through, about."""
        return 64 * self.x_mean.numel()

    # -- final ------------------------------------------------------------------------------

    def forward(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m outputs"]:
        return self.finished(self.raw(x, mask))

    @property
    def batch_size(self) -> int | None:
        """Rows per call that suit the memory of the device; None where these are many."""
        numbers = _NUMBERS_CPU if self.x_mean.device.type == "cpu" else _NUMBERS
        rows = max(1, numbers // self.numbers)
        return None if rows >= _MANY_ROWS else rows

    def standardised(self, x: Float[Tensor, "batch *event"]) -> Float[Tensor, "batch *event"]:
        """Rows in units of the training rows, around their mean; 0 for padding.

        What is further away than any training row but extremes is seen at that distance.
        """
        found = ((x - self.x_mean) / self.x_scale).clamp(-MOST_UNITS, MOST_UNITS)
        return found * self.used(x)

    def present(self, mask: Bool[Tensor, "batch m players"]) -> Bool[Tensor, "batch m *event"]:
        """Masks over players as masks over the elements of rows."""
        return mask[..., self.index]

    def used(self, x: Float[Tensor, "batch *event"]) -> Bool[Tensor, "batch *event"]:
        """Which elements of rows are none of their padding."""
        if self.game.padding is None:
            return torch.ones_like(x, dtype=torch.bool)
        return self.game.players.owners(x) >= 0

    def known(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m *event"]:
        """1 for the elements of present players, padding apart."""
        return self.present(mask).to(x.dtype) * self.used(x)[:, None]

    def masked(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "pairs channels *size"]:
        """Pictures or series, standardised, of every pair of a row and a coalition.

        Absent elements and padding are 0. Further channels are the mask, `mask_channels`, and for
        padded rows one that is 1 before their padding: how long a row is, is always known.
        """
        known = self.known(x, mask)
        parts = [self.standardised(x)[:, None] * known, known[:, :, : self.mask_channels]]
        if self.game.padding is not None:
            parts.append(self.used(x)[:, None, :1].to(x.dtype).expand_as(known[:, :, :1]))
        return torch.cat(parts, dim=2).flatten(0, 1)

    @property
    def channels(self) -> int:
        """How many of them `masked` gives."""
        return len(self.x_mean) + self.mask_channels + (self.game.padding is not None)
