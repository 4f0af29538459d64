"""Surrogates made of networks that there are already: the user's own, or the model to explain."""

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor, nn

from manifold_shap.models import Model
from manifold_shap.models.outputs import as_outputs, converted
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork

# A probability below it, or as close to 1, has no finite log-odds in single precision.
_CERTAIN = 1e-7
_LAYERS = (nn.Conv1d, nn.Conv2d, nn.Linear, nn.Embedding)


class _OfOutputs(SurrogateNetwork):
    """A network whose log-odds are known by its outputs alone."""

    def scores(self, raw: Tensor, chosen: Int64[Tensor, " chosen"] | None) -> Tensor:
        if chosen is None:
            return raw
        found = self.finished(raw)[..., chosen]
        return found.logit(_CERTAIN) if self.game.on_simplex else found

    def of_scores(self, scores: Tensor, chosen: Int64[Tensor, " chosen"] | None) -> Tensor:
        if chosen is None:
            return self.finished(scores)
        return scores.sigmoid() if self.game.on_simplex else scores


class OwnNetwork(_OfOutputs):
    """Any module of the user's that gives outputs of T for `(x ⊙ mask, mask)`.

    Args:
        game: see `SurrogateNetwork`.
        module: takes rows whose absent elements are 0, and the mask, both numbers of one type and
            `[rows, *event]`; gives `[rows, outputs]`. Padding is absent. A copy of it is trained.
    """

    def __init__(self, game: GameShape, module: nn.Module) -> None:
        super().__init__(game)
        self.module = copy.deepcopy(module)

    @classmethod
    def module_behind(cls, network: Any, model: Any) -> nn.Module:
        if isinstance(network, nn.Module):
            return network
        raise TypeError(
            "Expected `network` to be the torch module that the surrogate was made of but got "
            f"{type(network).__name__}; pass such a module, whatever its weights."
        )

    def raw(
        self, x: Float[Tensor, "batch *event"], mask: Shaped[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m outputs"]:
        present = self.present(mask).to(x.dtype)
        found = self.module((x[:, None] * present).flatten(0, 1), present.flatten(0, 1))
        expected = (mask.shape[0] * mask.shape[1], len(self.target_mean))
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        if got != expected:
            raise ValueError(
                f"Expected `network` to return {expected[1]} outputs for each of {expected[0]} "
                f"rows, a tensor of shape {expected}, but got {got}."
            )
        return found.unflatten(0, mask.shape[:2])

    def finished(self, raw: Float[Tensor, "*batch outputs"]) -> Float[Tensor, "*batch outputs"]:
        return raw


class AdaptedModel(_OfOutputs):
    """A copy of the model to explain, told what is absent (Covert et al. 2023, ViT Shapley).

    Absent numbers are replaced by learned ones, one for each channel or column, and absent tokens
    by a learned vector. Besides, the first layer gets a weight for the absence of each of its
    inputs, zero at first: the copy begins as the model itself, for the grand coalition exactly.

    Args:
        game: see `SurrogateNetwork`.
        module: the model.
        returns: what it returns, see `Model`.
        space: settings of T, see `as_space`.
    """

    def __init__(
        self, game: GameShape, module: nn.Module, returns: str, space: Mapping[str, Any]
    ) -> None:
        super().__init__(game)
        self.space, self.returns, event = as_space(**space), returns, game.event
        self.module = copy.deepcopy(module).requires_grad_()
        own = event if len(event) == 1 else (event[0], *(1 for _ in event[1:]))
        self.instead = nn.Parameter(torch.zeros(own))
        name = _first_layer(self.module, event)
        self.told: _Told = _Told()  # Of a model without such a layer rows are changed alone.
        if name:
            layer: Any = self.module.get_submodule(name)
            told = _ToldEmbedding if isinstance(layer, nn.Embedding) else _ToldLayer
            self.told = told(layer)
            self.module.set_submodule(name, self.told)

    @classmethod
    def settings_for(
        cls, rows: Sequence[Tensor], model: Model, space: OutputSpace
    ) -> dict[str, Any]:
        return {"returns": model.returns, "space": space.settings}

    @classmethod
    def module_behind(cls, network: Any, model: Any) -> nn.Module:
        found = model.predictor.model if isinstance(model, Model) else model
        if isinstance(found, nn.Module):
            return found
        raise TypeError(
            "Expected a torch module for network='model', which fine-tunes a copy of it, but got "
            f"{type(found).__name__}; choose another network."
        )

    def raw(
        self, x: Float[Tensor, "batch *event"], mask: Shaped[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m outputs"]:
        rows = x.repeat_interleave(mask.shape[1], 0)
        used = self.game.players.owners(rows) >= 0
        absent = used * (1 - self.present(mask).to(x.dtype).flatten(0, 1))
        self.told.absent = absent
        if isinstance(self.told, _ToldEmbedding):
            # What is absent must not be seen by other layers either: any token stands for it.
            rows = torch.where(absent > 0, self.told.any_token, rows).long()
        else:
            rows = (1 - absent) * rows + absent * self.instead
        try:
            found, _ = as_outputs(self.module(rows))
        finally:
            del self.told.absent  # With its graph it could not be copied.
        return found.reshape(len(rows), -1).unflatten(0, mask.shape[:2])

    def finished(self, raw: Float[Tensor, "*batch outputs"]) -> Float[Tensor, "*batch outputs"]:
        flat = converted(raw.flatten(0, -2), self.returns, self.space.takes)
        return self.space(flat).unflatten(0, raw.shape[:-1])

    @torch.no_grad()
    def standardise(
        self, x: Float[Tensor, "rows *event"], target: Float[Tensor, "rows outputs"]
    ) -> None:
        super().standardise(x, target)
        axes = tuple(range(2, x.ndim))
        self.instead.copy_(x.mean((0, *axes)).reshape(self.instead.shape))


class _Told(nn.Module):
    """Knows which elements are absent.

    Attributes:
        absent: 1 for those, `[rows, *event]`.
    """

    absent: Tensor


class _ToldLayer(_Told):
    """A linear layer or a convolution with further weights, for the absence of its inputs."""

    def __init__(self, layer: nn.Conv1d | nn.Conv2d | nn.Linear) -> None:
        super().__init__()
        self.layer, self.of_absence = layer, copy.deepcopy(layer)
        self.of_absence.bias = None
        nn.init.zeros_(self.of_absence.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.of_absence(self.absent.reshape(x.shape).to(x.dtype))


class _ToldEmbedding(_Told):
    """An embedding that has a learned vector for absent tokens."""

    def __init__(self, layer: nn.Embedding) -> None:
        super().__init__()
        self.layer = layer
        self.vector = nn.Parameter(layer.weight.detach().mean(0))
        # Models take a token for padding.
        self.any_token = layer.num_embeddings - 1

    def forward(self, tokens: Tensor) -> Tensor:
        found = self.layer(tokens)
        absent = self.absent[..., None].to(found.dtype)
        return found + absent * (self.vector - found)


@torch.no_grad()
def _first_layer(module: nn.Module, event: Sequence[int]) -> str:
    """Name of the layer that sees whole rows first; empty where none does."""
    met: list[str] = []

    def hook(name: str, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if inputs[0].numel() == torch.Size(event).numel():
            met.append(name)

    layers = {name: part for name, part in module.named_modules() if isinstance(part, _LAYERS)}
    hooks = [part.register_forward_pre_hook(partial(hook, name)) for name, part in layers.items()]
    probe = next((part.weight for part in layers.values()), torch.zeros(1))
    rows = torch.zeros(1, *event, device=probe.device, dtype=probe.dtype)
    embeds = any(isinstance(part, nn.Embedding) for part in layers.values())
    try:
        module.eval()(rows.long() if embeds else rows)
    finally:
        for each in hooks:
            each.remove()
    return met[0] if met else ""
