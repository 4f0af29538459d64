"""Networks of the classifiers that the commands train: from rows to logits."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from manifold_shap.nn import MLP
from manifold_shap.players import Players
from manifold_shap.surrogate.convolution import Convolution
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.transformer import Transformer


class WholeConvolution(Convolution):
    """The convolutional network of surrogates, without the mask as further channels."""

    def masked(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "pairs channels *size"]:
        return (self.standardised(x)[:, None] * self.known(x, mask)).flatten(0, 1)

    @property
    def channels(self) -> int:
        return len(self.x_mean)


# The kinds of networks by name.
KINDS: dict[str, type[nn.Module]] = {
    "mlp": MLP,
    "conv": WholeConvolution,
    "transformer": Transformer,
}


class ClassifierNetwork(nn.Module):
    """A network from rows `[batch, *event]` to logits `[batch, classes]`.

    An `MLP` sees rows as they are, padding like any other number. The others are those of
    surrogates, on rows of which nothing is absent but their padding.

    >>> network = ClassifierNetwork({"kind": "conv", "hidden": [4]}, (3, 8, 6), 2, None)
    >>> network(torch.zeros(5, 3, 8, 6)).shape
    torch.Size([5, 2])

    Args:
        settings: the `kind`, one of `KINDS`, and its arguments: `hidden`, `activation` and so on.
        event: shape of a row.
        classes: how many.
        padding: see `Players`.

    Raises:
        ValueError: rows of another shape, tokens without a `vocabulary`, widths that differ.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        event: Sequence[int],
        classes: int,
        padding: float | None,
    ) -> None:
        super().__init__()
        options = {name: own for name, own in settings.items() if name != "kind"}
        self.classes, self.is_mlp = classes, settings["kind"] == "mlp"
        if self.is_mlp:
            options = {"hidden": [512], **options}
            self.layers: Any = MLP(math.prod(event), outputs=classes, **options)
        else:
            self.positions = _positions(event, padding)
            game = GameShape.of(self.positions, classes, on_simplex=False)
            self.layers = KINDS[settings["kind"]](game, **options)

    @torch.no_grad()
    def standardise(self, x: Float[Tensor, "rows *event"]) -> None:
        """Take means and scales from training rows; an MLP has none."""
        if not self.is_mlp:
            self.layers.standardise(x, torch.zeros(len(x), self.classes))

    def forward(self, x: Shaped[Tensor, "batch *event"]) -> Float[Tensor, "batch classes"]:
        if self.is_mlp:
            return self.layers(x)
        x = x.float()
        return self.layers.raw(x, self.positions.owned(x)[:, None])[:, 0]


def _positions(event: Sequence[int], padding: float | None) -> Players:
    """A player for each token, time point or pixel of a row, with its channels."""
    if len(event) == 1:
        return Players.tokens(event[0], padding)
    return Players.segments(event, 1, padding) if len(event) == 2 else Players.pixels(event)
