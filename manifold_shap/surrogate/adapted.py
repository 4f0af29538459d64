"""Surrogates made of networks that there are already: the user's own, or the model to explain."""

import copy
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from manifold_shap._messages import shown
from manifold_shap.models import Model, predictor_of
from manifold_shap.models.outputs import as_outputs, converted
from manifold_shap.nn import of_shape, own_network, passed_again
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.tables.rows import EncodedRows
from manifold_shap.training.rows import without_padding

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Embedding)
_INSTEAD = (
    "Name another layer, `layer=`, or give a module of your own instead, `network=module`, that "
    "is called as `network(x * mask, mask)`; the model may be a part of it."
)


class OwnNetwork(SurrogateNetwork):
    """Any module of the user's that gives outputs of T for `(x ⊙ mask, mask)`.

    Of a model in double precision it learns differences from one of its outputs, which are added
    later in that precision.

    Args:
        game: see `SurrogateNetwork`.
        module: takes rows whose absent elements are 0, and the mask, both numbers of one type and
            `[rows, *event]`; gives `[rows, outputs]`. Padding is absent. A copy of it is trained.
            Or a function that makes one, see `own_network`.
    """

    def __init__(self, game: GameShape, module: Any) -> None:
        super().__init__(game)
        self.module = own_network(module, game.event, (game.outputs,))
        of_tokens = any(isinstance(layer, nn.Embedding) for layer in self.module.modules())
        self.of_tokens = of_tokens and len(game.event) == 1

    @classmethod
    def module_behind(cls, network: Any, model: Any) -> Any:
        return passed_again("own", network)

    def raw(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m outputs"]:
        present = self.known(x, mask)
        found = self.module((x[:, None] * present).flatten(0, 1), present.flatten(0, 1))
        found = of_shape(found, (mask.shape[0] * mask.shape[1], self.game.outputs))
        return found.unflatten(0, mask.shape[:2])

    def finished(self, raw: Float[Tensor, "*batch outputs"]) -> Float[Tensor, "*batch outputs"]:
        return raw


class AdaptedModel(SurrogateNetwork):
    """A copy of the model to explain that knows what is absent (Covert et al. 2023, ViT Shapley).

    Absent numbers are replaced by learned ones, one for each channel or column, and absent tokens
    by a learned vector. Besides, the layer that sees rows first gets a weight for the absence of
    each of its inputs, zero at first: the copy begins as the model itself, for the grand coalition
    exactly. The layer stays in its place, where the rest of the model may ask for its weights. Of a
    model in double precision it computes in that, up to differences from the center.

    Attributes:
        absence: weights of that layer for what is absent, or the vector of absent tokens.
        instead: of absent numbers.

    Args:
        game: see `SurrogateNetwork`.
        module: the model.
        returns: what it returns, see `Model`.
        space: settings of T, see `as_space`.
        layer: name of the layer that sees rows as they are, or flattened, in its first call: a
            Linear, Conv1d, Conv2d or Embedding; by default the first of the model.

    Raises:
        ValueError: the model has no such layer.
    """

    instead: nn.Parameter | None

    def __init__(
        self,
        game: GameShape,
        module: nn.Module,
        returns: str,
        space: Mapping[str, Any],
        layer: str | None = None,
    ) -> None:
        super().__init__(game)
        self.space, self.returns, event = as_space(**space), returns, game.event
        dtype = torch.float32 if game.center is None else torch.float64
        self.module = copy.deepcopy(module).cpu().to(dtype).requires_grad_()
        self.layer, first = _first_layer(self.module, layer)
        self.of_tokens = isinstance(first, nn.Embedding)
        self.absence, self.instead = _absence(first), None
        if self.of_tokens:
            # What is absent must not be seen by other layers either: this token stands for it,
            # one from amid the others, where none begins or pads rows.
            size = first.num_embeddings
            known = [k for k in range(size) if k not in (game.padding, first.padding_idx)]
            self.any_token = known[len(known) // 2]
        else:
            own = event if len(event) == 1 else (event[0], *(1 for _ in event[1:]))
            self.instead = nn.Parameter(torch.zeros(own, dtype=dtype))

    @classmethod
    def settings_for(
        cls, rows: Sequence[Tensor], model: Model, space: OutputSpace, drawn: bool
    ) -> dict[str, Any]:
        if model.table is not None and not isinstance(model.table, EncodedRows):
            raise ValueError(
                "Expected rows as the model takes them for network='model' but got a frame or "
                "texts, of which networks see numbers; use network='mlp'."
            )
        return {"returns": model.returns, "space": space.settings}

    @classmethod
    def module_behind(cls, network: Any, model: Any) -> nn.Module:
        found = model.predictor if isinstance(model, Model) else model
        if not isinstance(found, str | os.PathLike):
            found = predictor_of(found).model
        fixed = isinstance(found, torch.jit.ScriptModule) or (
            isinstance(found, nn.Module)
            and any("quantized" in type(each).__module__ for each in found.modules())
        )
        if isinstance(found, nn.Module) and not fixed:
            return found
        raise TypeError(
            "Expected a torch module, neither scripted, traced nor quantised, for "
            f"network='model', which fine-tunes a copy of it, but got {type(found).__name__}; "
            "choose another network."
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
        calls: list[Any] = []

        def first_call(layer: Any, args: Any, kwargs: dict[str, Any], found: Tensor) -> Any:
            calls.append(layer)
            inputs = args[0] if args else kwargs["input"]
            return self._told(layer, inputs, rows, absent, found) if len(calls) == 1 else None

        layer = self.module.get_submodule(self.layer)
        hook = layer.register_forward_hook(first_call, with_kwargs=True)
        try:
            found, _ = as_outputs(self.module(rows))
        finally:
            hook.remove()
        if not calls:
            raise ValueError(self._unseen("is not called"))
        return found.reshape(rows.shape[0], -1).unflatten(0, mask.shape[:2])

    def _told(
        self, layer: Any, inputs: Tensor, rows: Tensor, absent: Tensor, found: Tensor
    ) -> Tensor:
        """What the layer gives in the first call for rows that lack these elements (1)."""
        sees = _sees(inputs, rows)
        if sees and self.of_tokens and not torch.compiler.is_exporting():
            sees = torch.equal(inputs.flatten(), rows.flatten())
        if not sees:
            what = f"gets {tuple(inputs.shape)} for rows of shape {tuple(rows.shape)}"
            raise ValueError(self._unseen(what))
        absent = absent.reshape(inputs.shape).to(found.dtype)
        if self.of_tokens:
            return found + absent[..., None] * (self.absence[0] - found)
        # Without the hooks that a user's layer may have.
        return found + self.absence.forward(absent)

    def _unseen(self, what: str) -> str:
        return (
            f"Expected the layer {self.layer!r} of the model for network='model' to see the rows "
            f"as they are, or flattened, to give it weights for absent elements, but it {what}. "
            f"{_INSTEAD}"
        )

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


def _first_layer(module: nn.Module, name: str | None) -> tuple[str, Any]:
    """The layer of this name, or the first that may see rows."""
    layers = {own: each for own, each in module.named_modules() if isinstance(each, _LAYERS)}
    name = next(iter(layers), None) if name is None else name
    if name is None or name not in layers:
        what = f"has no {name!r} among {shown(layers)}" if layers else "has none"
        raise ValueError(
            "Expected a model for network='model' with a Linear, Conv1d, Conv2d or Embedding, "
            f"to give it weights for absent elements, but {type(module).__name__} "
            f"{what}. {_INSTEAD}"
        )
    return name, layers[name]


def _sees(inputs: Tensor, rows: Tensor) -> bool:
    """Whether these may be the rows, but for axes of length 1."""
    event, flat = ([n for n in x.shape[1:] if n > 1] for x in (rows, rows.flatten(1)))
    return len(inputs) == len(rows) and [n for n in inputs.shape[1:] if n > 1] in (event, flat)


def _absence(layer: Any) -> Any:
    """A layer of the same shape, with the same padding, that gives zeros; of tokens a vector."""
    if isinstance(layer, nn.Embedding):
        return nn.ParameterList([layer.weight.detach().mean(0)])
    other = copy.deepcopy(layer)
    if parametrize.is_parametrized(layer):
        # To remove parametrizations from a copy removes them from the layer, too.
        other.__class__ = parametrize.type_before_parametrizations(layer)
        del other.parametrizations
    other.weight = nn.Parameter(torch.zeros_like(layer.weight))
    other.register_parameter("bias", None)
    return other
