"""A transformer as surrogate: of tokens, of patches of a picture, or of segments of a series."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manifold_shap._checks import check_whole
from manifold_shap.convolutions import check_positions, layer
from manifold_shap.models import Model
from manifold_shap.nn import make_activation
from manifold_shap.spaces import OutputSpace
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork

_HEAD = 32
# Most patches or segments of a row where `patch` is not given.
_MOST_POSITIONS = 64


class Transformer(SurrogateNetwork):
    """Attention over tokens, patches or segments, each known to be present or absent.

    The vector of an absent token is a learned one. A patch is embedded together with its mask, so
    that the vector of a wholly absent one is learned, too. Padding is not attended to.

    Args:
        game: see `SurrogateNetwork`; of rows `(length,)` of tokens, `(channels, height, width)` or
            `(channels, time)`.
        hidden: width of each layer, for all the same multiple of 32.
        activation: one of `nn.ACTIVATIONS`.
        patch: side of a patch, or length of a segment; by default such that there are at most 64.
        vocabulary: how many tokens there are, numbered from 0.

    Raises:
        ValueError: rows of another shape, tokens without a `vocabulary`, widths that differ.
    """

    def __init__(
        self,
        game: GameShape,
        hidden: Sequence[int] | None = None,
        activation: str = "gelu",
        patch: int | None = None,
        vocabulary: int | None = None,
    ) -> None:
        super().__init__(game)
        hidden = (128, 128, 128) if hidden is None else hidden
        width, event = hidden[0], game.event
        self.settings: dict[str, Any] = {
            "hidden": list(hidden),
            "activation": activation,
            "vocabulary": vocabulary,
        }
        if len(set(hidden)) > 1 or width % _HEAD:
            raise ValueError(
                f"Expected `hidden` of a transformer to be one multiple of {_HEAD} for all layers, "
                f"such as [128, 128, 128], but got {list(hidden)}."
            )
        self.stem: _Tokens | _Patches
        self.of_tokens = len(event) == 1
        if self.of_tokens:
            self.stem = _Tokens(check_whole("vocabulary", vocabulary), width)
            self.span, count = 1, event[0]
        else:
            size = check_positions(event, game.index)
            self.span = _usual_patch(size) if patch is None else check_whole("patch", patch)
            self.settings["patch"] = self.span
            self.stem = _Patches(self.channels, len(size), self.span, width)
            count = math.prod(-(-length // self.span) for length in size)
        self.position = nn.Parameter(0.02 * torch.randn(count, width))
        # Attends to all others and is read out; it is there even in a row of padding alone.
        self.reader = nn.Parameter(0.02 * torch.randn(width))
        self.layers = nn.ModuleList(_Layer(width, activation) for _ in hidden)
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, game.outputs))

    @classmethod
    def settings_for(
        cls, rows: Sequence[Tensor], model: Model, space: OutputSpace, drawn: bool
    ) -> dict[str, Any]:
        return {"vocabulary": max(map(tokens_in, rows))} if rows[0].ndim == 2 else {}

    def raw(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m outputs"]:
        return self.last(self.read(x, mask, self.reader)[:, 0]).unflatten(0, mask.shape[:2])

    def read(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        reader: Float[Tensor, "*pairs width"],
    ) -> Float[Tensor, "pairs places width"]:
        """Vectors of a reader and, behind it, of the positions that are used in some row.

        Args:
            x, mask: see `raw`.
            reader: what it begins as, for all pairs of a row and a coalition or for each of them.
        """
        h = self.stem(self, x, mask) + self.position
        attended = None
        if self.game.padding is not None:
            # What is padding in all rows takes no time.
            used = -(-self.game.players.lengths(x) // self.span)
            if not torch.compiler.is_exporting():
                h = h[:, : int(used.max())]
            place = torch.arange(-1, h.shape[1], device=x.device)
            own = (place < used[:, None])[:, None].expand(-1, mask.shape[1], -1)
            attended = own.flatten(0, 1)[:, None, None]
        first = reader.to(h.dtype).expand(h.shape[0], -1)[:, None]
        h = torch.cat((first, h), dim=1)
        for block in self.layers:
            h = block(h, attended)
        return h

    @property
    def numbers(self) -> int:
        count, width = self.position.shape
        return 16 * count * width + 4 * self.x_mean.numel()


class _Tokens(nn.Module):
    """Embeds tokens; absent ones by one learned vector."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.embedding = nn.Embedding(vocabulary, width)
        self.absent = nn.Parameter(torch.randn(width))

    def forward(
        self, network: Transformer, x: Float[Tensor, "batch length"], mask: Tensor
    ) -> Float[Tensor, "pairs length width"]:
        known = self.vocabulary
        # One question, for which the host waits once; a graph asks none.
        if not torch.compiler.is_exporting() and bool(
            ((x < 0) | (x >= known) | (x != x.round())).any()
        ):
            raise ValueError(
                f"Expected tokens from 0 to {known - 1}, whole numbers, but got "
                f"{x.amin().item():g} to {x.amax().item():g}; train the surrogate with as many "
                "tokens as the model has, `vocabulary=30522`, or give those that were in no "
                "training row a number that stands for unknown ones."
            )
        present = network.present(mask)[..., None].to(self.absent.dtype)
        token = self.embedding(x.long())[:, None]
        return (self.absent + present * (token - self.absent)).flatten(0, 1)


class _Patches(nn.Module):
    """Embeds patches of a picture, or segments of a series, together with their mask."""

    def __init__(self, channels: int, axes: int, span: int, width: int) -> None:
        super().__init__()
        self.embedding = layer("Conv", axes)(channels, width, span, span)
        self.span = span

    def forward(
        self, network: Transformer, x: Float[Tensor, "batch *event"], mask: Tensor
    ) -> Float[Tensor, "pairs positions width"]:
        inputs = network.masked(x, mask)
        # Patches at the end of a side may be cut off by it.
        missing = [n for side in reversed(inputs.shape[2:]) for n in (0, -side % self.span)]
        return self.embedding(F.pad(inputs, missing)).flatten(2).mT


class _Layer(nn.Module):
    """Attention, then two linear layers, each beside a shortcut and behind a normalisation."""

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.heads = width // _HEAD
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.outputs = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.each = nn.Sequential(
            nn.Linear(width, 2 * width), make_activation(activation), nn.Linear(2 * width, width)
        )

    def forward(
        self,
        h: Float[Tensor, "pairs positions width"],
        attended: Bool[Tensor, "pairs 1 1 positions"] | None,
    ) -> Float[Tensor, "pairs positions width"]:
        parts = self.inputs(self.first(h)).unflatten(-1, (3, self.heads, _HEAD)).movedim(1, 3)
        query, key, value = parts.unbind(1)
        met = F.scaled_dot_product_attention(query, key, value, attended)
        h = h + self.outputs(met.transpose(1, 2).flatten(2))
        return h + self.each(self.second(h))


def _usual_patch(size: Sequence[int]) -> int:
    """The side of patches of which a row has at most 64.

    >>> _usual_patch((64, 64)), _usual_patch((224, 224)), _usual_patch((29,))
    (8, 28, 1)
    """
    span = 1
    while math.prod(-(-length // span) for length in size) > _MOST_POSITIONS:
        span += 1
    return span


def tokens_in(x: Tensor) -> int:
    """How many tokens there are in rows of tokens, numbered from 0.

    >>> tokens_in(torch.tensor([[3.0, 1.0], [0.0, 2.0]]))
    4

    Raises:
        ValueError: rows of other numbers.
    """
    if bool((x < 0).any()) or bool((x != x.round()).any()):
        raise ValueError(
            "Expected rows of tokens (whole numbers from 0 on), pictures or series for the network "
            "'transformer' but got rows of a table; use network='mlp'."
        )
    return int(x.max()) + 1
