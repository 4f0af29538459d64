"""Defines network layers: an MLP, and a first layer whose input may be partly absent."""

import copy
import inspect
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from itertools import chain, pairwise
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from manifold_shap._checks import check_known
from manifold_shap._messages import check_choice

# A network by its name, as a torch module, or as a function of the shapes of one row, in and out,
# that makes one.
Network: TypeAlias = str | nn.Module | Callable[[tuple[int, ...], tuple[int, ...]], nn.Module]

# In place where gradients allow it: the output of the layer before is not read again.
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": partial(nn.ReLU, inplace=True),
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "elu": nn.ELU,
}

# No element is further from its mean than so many units, see `units`: shares of the rows between
# which is their middle, and how many times as far as that is wide numbers may lie outside of it.
MOST_UNITS = 10.0
_MIDDLE, _REACH = (0.05, 0.95), 3.0

# Modules that are in evaluation mode for as long as calls last, and how many calls these are.
_PAUSED: Counter[nn.Module] = Counter()
_PAUSING = Lock()

# Fewest coalitions per row for which one weight matrix per row is cheaper than one input per
# coalition.
_FOLD_FROM = 32


@contextmanager
def evaluated(module: nn.Module) -> Iterator[None]:
    """Keep a module in evaluation mode inside the context; each part has its own mode back after.

    What is asked in training mode would drop units, mix the rows of a call and move the running
    means of the user's module. Threads may ask the same module at a time.

    >>> dropout = nn.Dropout()
    >>> with evaluated(dropout):
    ...     assert not dropout.training
    >>> dropout.training
    True
    """
    with _PAUSING:
        parts = [part for part in module.modules() if part.training or part in _PAUSED]
        for part in parts:
            _PAUSED[part] += 1
            part.training = False
    try:
        yield
    finally:
        with _PAUSING:
            _PAUSED.subtract(parts)
            for part in parts:
                if not _PAUSED[part]:
                    del _PAUSED[part]
                    part.training = True


def precision(module: nn.Module, otherwise: torch.dtype) -> torch.dtype:
    """That of the module's numbers; where it has none, another.

    >>> precision(nn.Linear(2, 1).double(), torch.float32)
    torch.float64
    """
    number = first_number(module)
    return otherwise if number is None else number.dtype


def first_number(module: nn.Module) -> Tensor | None:
    """A tensor that shows where a module computes, and how precisely; None where it has none."""
    tensors = chain(module.parameters(), module.buffers())
    return next((each for each in tensors if each.is_floating_point()), None)


def options_given(
    network: Callable[..., Any], name: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The options that are not None, all of which what makes a network takes.

    >>> options_given(nn.Linear, "linear", {"bias": True, "patch": None})
    {'bias': True}

    Args:
        network: a class, or a function.
        name: of the network, for errors.
        options: those that some network takes.

    Raises:
        ValueError: an option that this one does not take.
    """
    given = {option: value for option, value in options.items() if value is not None}
    taken = set(inspect.signature(network).parameters)
    check_known(given, sorted(taken & set(options)), f"options of the network {name!r}")
    return given


def kind_of(network: Any, names: Collection[str]) -> str:
    """The kind of network that is asked for: a name, or "own" for one of the user's.

    Args:
        network: see `Network`.
        names: of the kinds that there are.

    Raises:
        ValueError: neither.
    """
    if isinstance(network, nn.Module) or callable(network):
        return "own"
    return check_choice("network", network, names, "or pass a torch module, or what makes one")


def own_network(network: Any, inputs: Sequence[int], outputs: Sequence[int]) -> nn.Module:
    """A network of the user's: a copy of a module, or what a function makes for these shapes.

    >>> own_network(lambda inputs, outputs: nn.Linear(*inputs, *outputs), (3,), (2,))
    Linear(in_features=3, out_features=2, bias=True)

    Args:
        network: see `Network`.
        inputs, outputs: the shapes of one row, in and out.

    Raises:
        TypeError: the function makes something else.
    """
    is_made = isinstance(network, nn.Module)
    made = network if is_made else network(tuple(inputs), tuple(outputs))
    if not isinstance(made, nn.Module):
        raise TypeError(
            "Expected `network` to be a torch module, or a function of the shapes of a row in and "
            f"out that makes one, but it made {type(made).__name__} of {tuple(inputs)} and "
            f"{tuple(outputs)}."
        )
    return copy.deepcopy(made).cpu().float()


def passed_again(kind: str, network: Any) -> Any:
    """The user's network from which one of this kind is loaded; None where it is not the user's.

    Raises:
        TypeError: it is the user's, and is missing.
    """
    if kind == "own" and network is None:
        raise TypeError(
            "Expected `network` to be the torch module that was trained, or the function that made "
            "it, but got None; pass it, whatever its weights."
        )
    return network if kind == "own" else None


def of_shape(found: Any, shape: Sequence[int]) -> Tensor:
    """What a network of the user's has returned.

    Raises:
        ValueError: it is no tensor of this shape.
    """
    got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if got != tuple(shape):
        raise ValueError(
            f"Expected `network` to return a tensor of shape {tuple(shape)}, the first axis that "
            f"of rows, but got {got}."
        )
    return found


def make_activation(name: str) -> nn.Module:
    """The activation of this name.

    Raises:
        ValueError: the name is not known.
    """
    return ACTIVATIONS[check_choice("activation", name, tuple(ACTIVATIONS))]()


class MLP(nn.Sequential):
    """A fully connected network on flattened inputs.

    Args:
        inputs: elements of one input row.
        hidden: width of each hidden layer.
        outputs: width of the result.
        activation: one of `ACTIVATIONS`.
        dropout: share of hidden units dropped in training.

    >>> MLP(4, [8, 8], outputs=2)(torch.zeros(5, 4)).shape
    torch.Size([5, 2])
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        first = nn.Linear(inputs, [*hidden, outputs][0])
        super().__init__(nn.Flatten(), first, *layers_behind(hidden, outputs, activation, dropout))


def layers_behind(
    hidden: Sequence[int], outputs: int, activation: str, dropout: float = 0.0
) -> nn.Sequential:
    """The layers behind a first linear one of width `hidden[0]`, beginning with its activation.

    >>> layers_behind([4, 8], 2, "relu")(torch.zeros(5, 4)).shape
    torch.Size([5, 2])
    """
    layers: list[nn.Module] = []
    for before, after in pairwise([*hidden, outputs]):
        layers += [make_activation(activation), *([nn.Dropout(dropout)] if dropout else [])]
        layers.append(nn.Linear(before, after))
    return nn.Sequential(*layers)


def units(x: Float[Tensor, "rows *event"]) -> tuple[Tensor, Tensor]:
    """The mean and the unit of each element, of an image those of all pixels.

    A unit is the standard deviation. An element that hardly varies, such as an indicator that is
    almost always 0, has a tenth of its range; a constant has 1. Of columns of a table numbers far
    outside of the middle nine tenths count as less far ones: one mistyped cell decides nothing.

    >>> units(torch.tensor([[0.0, 5.0], [2.0, 5.0]]))
    (tensor([1., 5.]), tensor([1., 1.]))
    """
    axes = 0 if x.ndim == 2 else tuple(range(x.ndim))
    if x.ndim == 2:
        low, high = (x.kthvalue(1 + round(share * (len(x) - 1)), 0).values for share in _MIDDLE)
        reach = torch.where(high > low, _REACH * (high - low), torch.inf)
        x = x.clamp(low - reach, high + reach)
    deviation = x.std(axes, correction=0).maximum((x.amax(axes) - x.amin(axes)) / MOST_UNITS)
    unit = torch.where(deviation > 0, deviation, 1.0)
    return x.mean(axes).expand(x.shape[1:]), unit.expand(x.shape[1:])


class MaskedLinear(nn.Module):
    """A linear layer on `(x ⊙ mask, mask)`: an absent player is never mistaken for a value.

    Its output is a bias plus one term per present player, `Σ_{i∈S} (W_i x_i + u_i)`. With many
    coalitions of one row these terms are computed once for the row.

    Args:
        index: player that owns each of the flattened input elements.
        players: number of players.
        outputs: width of the result.

    >>> layer = MaskedLinear([0, 0, 1], players=2, outputs=8)
    >>> layer(torch.zeros(5, 3), torch.ones(5, 6, 2, dtype=torch.bool)).shape
    torch.Size([5, 6, 8])
    """

    index: Tensor
    _order: Tensor

    def __init__(self, index: Sequence[int], players: int, outputs: int) -> None:
        super().__init__()
        self.players = players
        self.register_buffer("index", torch.tensor(list(index)), persistent=False)
        self._one_element_each = list(index) == list(range(players))
        # Elements player by player, and how many each player has.
        order = sorted(range(len(index)), key=list(index).__getitem__)
        self.register_buffer("_order", torch.tensor(order, dtype=torch.long), persistent=False)
        self._sizes = np.bincount(list(index), minlength=players).tolist()
        linear = nn.Linear(len(index) + players, outputs)
        self.weight, self.bias = linear.weight, linear.bias

    def forward(
        self, x: Float[Tensor, "batch elements"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m outputs"]:
        # A graph has one way for any number of coalitions: that with a row's memory for each.
        if torch.compiler.is_exporting() or mask.shape[1] < _FOLD_FROM:
            # In the precision of the product from the start, and each array made once: in training
            # this would take as long as the product otherwise.
            x = x.to(product_dtype(x))
            present = mask.to(x.dtype)
            inputs = torch.cat((x[:, None] * present[..., self.index], present), dim=-1)
            return F.linear(inputs, self.weight, self.bias)
        return self.of_terms(self.terms(x), mask)

    def of_terms(
        self,
        terms: Float[Tensor, "batch every outputs"],
        mask: Bool[Tensor, "batch m players"],
    ) -> Float[Tensor, "batch m outputs"]:
        """The layer's output from the terms of the players, or of the first of them."""
        terms = terms[:, : mask.shape[2]]
        return torch.baddbmm(self.bias.to(terms.dtype), mask.to(terms.dtype), terms)

    def along(
        self, x: Float[Tensor, "batch elements"], orders: Int64[Tensor, "batch orders players"]
    ) -> Float[Tensor, "batch orders sizes outputs"]:
        """The layer's output for the nested coalitions of 1, 2, ... n-1 players along orders.

        It is a running sum of their terms: n additions instead of n²/2.
        """
        dtype = product_dtype(x)
        with torch.autocast(x.device.type, enabled=False):
            # Contiguous, to be gathered row by row. Half precision is enough: the next layer takes
            # its inputs in it, and products with ones, which make the sums, add in single.
            terms = self.terms(x).to(dtype).contiguous()
            number = torch.arange(len(x), device=x.device)[:, None, None]
            place = orders[..., :-1] + self.players * number
            steps = F.embedding(place, terms.flatten(0, 1))
            return prefix_sums(steps, self.bias.to(dtype))

    def sum_of_terms(self, x: Float[Tensor, "batch elements"]) -> Float[Tensor, "batch outputs"]:
        """The sum of the terms of all players."""
        elements = len(self.index)
        return x @ self.weight[:, :elements].T + self.weight[:, elements:].sum(1)

    def sum_of_squared_terms(
        self, x: Float[Tensor, "batch elements"]
    ) -> Float[Tensor, "batch outputs"]:
        """The sum over players of their squared terms."""
        value, presence = self.weight.split([len(self.index), self.players], dim=1)
        if not self._one_element_each:
            return reduce(torch.add, (term.square() for term in self._each_term(x)))
        squared = F.linear(x.square(), value.square()) + 2 * F.linear(x, value * presence)
        return squared + presence.square().sum(1)

    def terms(self, x: Float[Tensor, "batch elements"]) -> Float[Tensor, "batch players outputs"]:
        """The term that each player adds to the layer's output when it joins a coalition."""
        if not self._one_element_each:
            return torch.stack(list(self._each_term(x)), 1)
        weight, presence = self.weight.split([len(self.index), self.players], dim=1)
        by_element = x[..., None] * weight.T.contiguous()
        return by_element + presence.T.to(by_element.dtype)

    def _each_term(
        self, x: Float[Tensor, "batch elements"]
    ) -> Iterator[Float[Tensor, "batch outputs"]]:
        """The terms, player by player: those of all elements at once take a hundred times longer.

        They would not stay in the processor's cache.
        """
        weight, presence = self.weight.split([len(self.index), self.players], dim=1)
        parts = (each[:, self._order].split(self._sizes, 1) for each in (x, weight))
        return map(F.linear, *parts, presence.unbind(1))


def product_dtype(x: Tensor) -> torch.dtype:
    """The dtype that products with a tensor are computed in, which autocast may change."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def prefix_sums(
    steps: Float[Tensor, "*batch steps width"], start: Float[Tensor, " width"]
) -> Float[Tensor, "*batch steps width"]:
    """`start` plus the sums of the first 1, 2, ... steps.

    The sums within blocks, and of the blocks before, are products with triangles of ones. On a CPU
    this takes a third of the time of `cumsum`, which adds along one column after the other.

    >>> prefix_sums(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([10.0])).flatten()
    tensor([11., 13., 16.])
    """
    count = steps.shape[-2]
    size = max(1, math.isqrt(count))
    blocks = F.pad(steps, (0, 0, 0, -count % size)).unflatten(-2, (-1, size))
    inside = steps.new_ones(size, size).tril() @ blocks
    number = blocks.shape[-3]
    before = start + steps.new_ones(number, number).tril(-1) @ inside[..., -1, :]
    return inside.add_(before[..., None, :]).flatten(-3, -2)[..., :count, :]


def value_and_slope(
    layers: nn.Sequential, x: Float[Tensor, "*batch inputs"]
) -> tuple[Float[Tensor, "*batch outputs"], Float[Tensor, "*batch outputs inputs"]]:
    """Outputs of linear and elementwise layers, and their derivatives by the inputs.

    Derivatives of all outputs are computed at once, without a graph, by a few products.
    """
    steps: list[tuple[bool, Tensor]] = []
    for layer in layers:
        if isinstance(layer, nn.Linear):
            steps.append((True, layer.weight))
            x = layer(x)
        else:
            x, own = _elementwise(layer, x)
            steps.append((False, own[..., None, :]))
    slope = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    for linear, step in reversed(steps):
        slope = slope @ step if linear else slope * step
    return x, slope.expand(*x.shape, -1)


def _elementwise(layer: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """An activation's outputs, and its derivatives."""
    # Gradients are needed even if the caller is in inference mode.
    with torch.inference_mode(False), torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        # Some activations work in place.
        out = layer(leaf.clone())
        (slope,) = torch.autograd.grad(out.sum(), leaf)
    return out.detach(), slope
