"""Surrogates made of networks that there are already: the user's own, or the model to explain."""

import copy
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manifold_shap.models import Model, predictor_of
from manifold_shap.models.outputs import as_outputs, converted
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.surrogate.first_layer import AbsenceWeights, find_first_layer
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.training.rows import without_padding


class OwnNetwork(SurrogateNetwork):
    """Any module of the user's that gives outputs of T for `(x ⊙ mask, mask)`.

    Of a model in double precision it learns differences from one of its outputs, which are added
    later in that precision.

    Args:
        game: see `SurrogateNetwork`.
        module: takes rows whose absent elements are 0, and the mask, both numbers of one type and
            `[rows, *event]`; gives `[rows, outputs]`. Padding is absent. A copy of it is trained.
    """

    def __init__(self, game: GameShape, module: nn.Module) -> None:
        super().__init__(game)
        self.module = copy.deepcopy(module).cpu().float()
        of_tokens = any(isinstance(layer, nn.Embedding) for layer in self.module.modules())
        self.of_tokens = of_tokens and len(game.event) == 1

    @classmethod
    def module_behind(cls, network: Any, model: Any) -> nn.Module:
        if isinstance(network, nn.Module):
            return _checked(network, "network=module")
        raise TypeError(
            "Expected `network` to be the torch module that the surrogate was made of but got "
            f"{type(network).__name__}; pass such a module, whatever its weights."
        )

    def raw(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m outputs"]:
        present = self.known(x, mask)
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


class AdaptedModel(SurrogateNetwork):
    """A copy of the model to explain that knows what is absent (Covert et al. 2023, ViT Shapley).

    Absent numbers are replaced by learned ones, one for each channel or column, and absent tokens
    by a learned vector. Besides, the first layer gets a weight for the absence of each of its
    inputs, zero at first: the copy begins as the model itself, for the grand coalition exactly. Of
    a model in double precision it computes in that, up to differences from the center.

    Args:
        game: see `SurrogateNetwork`.
        module: the model.
        returns: what it returns, see `Model`.
        space: settings of T, see `as_space`.

    Raises:
        ValueError: no layer of the model sees the elements of rows first, see `find_first_layer`.
    """

    instead: nn.Parameter | None

    def __init__(
        self, game: GameShape, module: nn.Module, returns: str, space: Mapping[str, Any]
    ) -> None:
        super().__init__(game)
        self.space, self.returns, event = as_space(**space), returns, game.event
        dtype = torch.float32 if game.center is None else torch.float64
        self.module = copy.deepcopy(module).cpu().to(dtype).requires_grad_()
        first, self.of_tokens = find_first_layer(self.module, event, game.padding)
        layer: Any = self.module.get_submodule(first.layer)
        self.absence, self.instead = AbsenceWeights(layer, first), None
        if self.of_tokens:
            # What is absent must not be seen by other layers either: this token stands for it,
            # one from amid the others, where none begins or pads rows.
            size = layer.num_embeddings
            known = [k for k in range(size) if k not in (game.padding, layer.padding_idx)]
            self.any_token = known[len(known) // 2]
        else:
            own = event if len(event) == 1 else (event[0], *(1 for _ in event[1:]))
            self.instead = nn.Parameter(torch.zeros(own, dtype=dtype))

    @classmethod
    def settings_for(
        cls, rows: Sequence[Tensor], model: Model, space: OutputSpace
    ) -> dict[str, Any]:
        return {"returns": model.returns, "space": space.settings}

    @classmethod
    def module_behind(cls, network: Any, model: Any) -> nn.Module:
        found = model.predictor if isinstance(model, Model) else model
        if not isinstance(found, str | os.PathLike):
            found = predictor_of(found).model
        if isinstance(found, nn.Module):
            return _checked(found, "network='model'")
        raise TypeError(
            "Expected a torch module for network='model', which fine-tunes a copy of it, but got "
            f"{type(found).__name__}; choose another network."
        )

    def raw(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m raw"]:
        rows = x[:, None].expand(-1, mask.shape[1], *x.shape[1:]).flatten(0, 1)
        absent = (self.used(x)[:, None] * (1 - self.present(mask).to(x.dtype))).flatten(0, 1)
        if self.instead is None:
            rows = torch.where(absent > 0, self.any_token, rows).long()
        else:
            rows = (1 - absent) * rows + absent * self.instead
        with self.absence.of(absent):
            found, _ = as_outputs(self.module(rows))
        return found.reshape(rows.shape[0], -1).unflatten(0, mask.shape[:2])

    def finished(self, raw: Float[Tensor, "*batch raw"]) -> Float[Tensor, "*batch outputs"]:
        flat = converted(raw.flatten(0, -2), self.returns, self.space.takes)
        found, center = self.space(flat), self.game.center
        found = found if center is None else found - found.new_tensor(center)
        return found.unflatten(0, raw.shape[:-1])

    @torch.no_grad()
    def standardise(
        self, x: Float[Tensor, "rows *event"], target: Float[Tensor, "rows outputs"]
    ) -> None:
        super().standardise(x, target)
        if self.instead is not None:
            axes = tuple(range(2, x.ndim))
            there = without_padding(x, self.game.players)
            self.instead.copy_(there.mean((0, *axes)).reshape(self.instead.shape))


def _checked(module: nn.Module, what: str) -> nn.Module:
    """The module, where its weights can be trained.

    Raises:
        TypeError: it is scripted, traced, exported or quantised.
    """
    made = "a scripted or traced" if isinstance(module, torch.jit.ScriptModule) else ""
    if isinstance(module, torch.fx.GraphModule):
        made = "an exported"
    if any(not isinstance(w, Tensor) or w.is_quantized for w in module.state_dict().values()):
        made = "a quantised"
    if made:
        raise TypeError(
            f"Expected a torch module that can be trained for {what} but got {made} one "
            f"({type(module).__name__}); pass the module that it was made of, or choose another "
            "network, such as 'mlp' or 'conv'."
        )
    return module
