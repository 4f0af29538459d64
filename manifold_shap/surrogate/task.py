"""Defines what a surrogate learns: its loss, the options of its network, and what it records."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from manifold_shap._stored import StoredRows, with_extremes
from manifold_shap.laws import laws_for
from manifold_shap.spaces import as_space
from manifold_shap.surrogate.distillation import TeacherTargets
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.kinds import make_network
from manifold_shap.training.task import Task, TrainingOptions, squared_error
from manifold_shap.values.seen import Seen

# Training rows that are stored, to recognise the model of the training: half of them spread over
# all rows, half where the model is closest to its mean, since there trained models differ most.
_PROBE_ROWS = 32
# Share of padded rows that meet the empty coalition in a step.
_EMPTY_SHARE = 1 / 16


class SurrogateOptions(TrainingOptions, total=False):
    """Options of a surrogate's network, and of its training.

    Attributes:
        hidden: widths of the layers of a perceptron, by default 512 and 512; channels of the layers
            of a convolutional network, see `Convolution`; widths of those of a transformer, by
            default 128, 128 and 128.
        activation: `relu`, `gelu`, `silu` or `elu`; by default `gelu` for transformers, else
            `relu`.
        patch: of a transformer, the side of a patch or the length of a segment; by default such
            that a row has at most 64.
        vocabulary: how many tokens there are for a transformer of tokens, numbered from 0; by
            default those up to the largest in the rows of the training. Rows with others are
            refused, so give that of the model.
        layer: of network="model", the name of the layer that sees rows as they are, see
            `AdaptedModel`; by default the first Linear, Conv1d, Conv2d, Embedding or EmbeddingBag.
        blocks: share of the coalitions in training that are blocks of neighbours, rather than
            scattered players, see `laws_for`: for superpixels, words and other groups of the
            players. By default a half where players have neighbours, and none for a perceptron.
    """

    hidden: Sequence[int] | None
    activation: str | None
    patch: int | None
    vocabulary: int | None
    layer: str | None
    blocks: float | None


class SurrogateTask(Task):
    """A surrogate g(x_S), by squared error over coalitions of the Shapley sum (Eq. 17).

    Batches are `(x, T(f(x)))`, with x as the network sees it. Every row meets an antithetic pair of
    coalitions per step, see `laws_for`. Off the simplex errors are in standard deviations of the
    target, the root mean square of those of its outputs.

    Settings: `event`, the shape of one input row; `index`, the player that owns each of its
    flattened elements; `elements`, that of each element of a row of codes once it is encoded, or
    None; the names of `players` and `outputs`; `space`, the settings of the output space, see
    `as_space`; `dtype`, that of the model's rows where these are whole numbers, or None; the
    `schema` of the rows, as plain data, or None; `network`, see `make_network`; the share of
    `blocks` among the coalitions, None for the network's usual one; `padding`, that of the players;
    `center`, what was subtracted from the targets, see `center_of`; `teacher`, None or the `share`
    of a batch that it teaches and what else tells it from others;
    and the options of the training.

    Attributes:
        surrogate: the network.
        teacher_targets: values of a teacher that take the place of a share of every training batch.

    Args:
        settings: those.
        module: what the network is made of, where it is the user's own or the model itself.
    """

    kind = "surrogate"
    base: Tensor
    probe: Tensor
    probe_outputs: Tensor
    extent: Tensor

    def __init__(self, settings: Mapping[str, Any], module: nn.Module | None = None) -> None:
        super().__init__(settings)
        own, outputs = self.settings, len(self.settings["outputs"])
        on_simplex = as_space(**own["space"]).on_simplex
        game = GameShape(*self.inputs, outputs, on_simplex, own["padding"], own.get("center"))
        self.surrogate = make_network(own["network"], game, module)
        self.register_buffer("base", torch.zeros(outputs))
        self.register_buffer("probe", torch.zeros(_PROBE_ROWS, *own["event"]))
        self.register_buffer("probe_outputs", torch.zeros(_PROBE_ROWS, outputs))
        self.register_buffer("extent", torch.zeros(2, *game.event))
        share = self.surrogate.blocks if own["blocks"] is None else own["blocks"]
        self.law = laws_for(self.players, blocks=share)
        self.teacher_targets: TeacherTargets | None = None

    @torch.no_grad()
    def describe(self, x: Tensor | StoredRows, seen: Tensor | StoredRows, target: Tensor) -> None:
        """Take scales, v(∅) and rows to recognise the model by from training rows and targets.

        Args:
            x: rows, of which those in a file are described by some that stand for all.
            seen: the same, as the network sees them.
            target: T(f(x)).
        """
        self.surrogate.standardise(with_extremes(seen), target)
        self.base.copy_(target.mean(0))
        if (known := Seen.of(seen)) is not None:
            self.extent.copy_(torch.stack(known))
        half = _PROBE_ROWS // 2
        spread = torch.arange(half) * len(x) // half
        undecided = (target - target.mean(0)).square().sum(1).argsort()
        rows = torch.cat((spread, undecided[torch.arange(half) % len(x)]))
        self.probe.copy_(x[rows])
        self.probe_outputs.copy_(target[rows])

    def loss(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        x, target = batch
        known = self.teacher_targets if self.training else None
        count = round(self.settings["teacher"]["share"] * len(x)) if known else 0
        sampled = known.sample(count, generator) if known else None
        x, targets = x[count:], target[count:, None].expand(-1, 2, -1)
        mask = self.law.sample_antithetic((len(x),), generator, self._counts(x))
        if self.settings["padding"] is not None:
            # v(∅) of padded rows, which depends on their length, is learned, too.
            number = torch.rand((len(x), 1), generator=generator, device=mask.device)
            mask[:, 0] &= number > _EMPTY_SHARE
        if sampled is not None:
            x, mask, targets = map(torch.cat, zip(sampled, (x, mask, targets), strict=True))
        scale = None if self.surrogate.game.on_simplex else self.surrogate.target_scale
        return squared_error(self.surrogate(x, mask), targets, scale).mean((1, 2))

    def _counts(self, x: Float[Tensor, "rows *event"]) -> Int64[Tensor, " rows"] | None:
        """How many players each row has, where they differ in that."""
        if self.settings["padding"] is None:
            return None
        return self.surrogate.game.players.owned(x).sum(1)
