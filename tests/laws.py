"""A discrete law whose conditionals are sums over all of its joint states."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap import _random
from manifold_shap.oracles.base import check_possible


class Enumerated(ms.oracles.ConditionalLaw):
    """Rows and labels by the probability of each joint state.

    Args:
        joint: `[*states of the players, classes]`, up to a factor.
        names: of the players.
    """

    name = "enumerated"
    joint: Tensor
    sizes: tuple[int, ...]

    def __init__(self, joint: Tensor, names: Sequence[str] | None = None) -> None:
        *sizes, classes = joint.shape
        super().__init__(ms.Players.of_elements((len(sizes),), names))
        self.sizes, self.classes = tuple(sizes), tuple("abcdefgh"[:classes])
        self.register_buffer("joint", joint.double() / joint.double().sum())

    def given(self, x: Tensor, mask: Tensor) -> Tensor:
        """P(x', y, x_S), `[batch, m, states, classes]`: zero wherever x' differs from x_S."""
        whole = self.joint.expand(*mask.shape[:2], *self.joint.shape)
        for k, size in enumerate(self.sizes):
            agrees = torch.arange(size, device=x.device) == x[:, k, None, None]
            kept = torch.where(mask[..., k, None], agrees, True)
            others = len(self.sizes) - k
            whole = whole * kept.view(*mask.shape[:2], *[1] * k, size, *[1] * others)
        found = whole.flatten(2, -2)
        check_possible((found.sum((2, 3)) > 0).flatten())
        return found

    def posterior(self, x: Tensor, mask: Tensor) -> Tensor:
        of_classes = self.given(x, mask).sum(2)
        return of_classes / of_classes.sum(-1, keepdim=True)

    def probability(self, x: Tensor) -> Tensor:
        return self.joint.sum(-1)[x.long().unbind(-1)]

    def draw(self, x: Tensor, mask: Tensor, draws: range, keys: Tensor) -> Any:
        upper = self.given(x, mask).flatten(2).cumsum(-1)
        share = _random.uniform(keys, (1,), draws)[..., 0].double() * upper[..., -1:]
        which = torch.searchsorted(upper, share)
        state, label = which // len(self.classes), which % len(self.classes)
        states = []
        for size in reversed(self.sizes):
            states.append(state % size)
            state = state // size
        rows = torch.stack(states[::-1], -1).to(x.dtype)
        return ms.oracles.Drawn(torch.where(mask[:, :, None], x[:, None, None], rows), label)


def random_law(*shape: int, seed: int = 0) -> Enumerated:
    """Any dependence of players on each other and of the label, the last axis, on them."""
    generator = torch.Generator().manual_seed(seed)
    return Enumerated((2 * torch.randn(shape, generator=generator)).exp())


def weather() -> Enumerated:
    """Four players, whose label depends on them."""
    return random_law(3, 2, 3, 2, 3)


def garden() -> Enumerated:
    """A state that never occurs, a copy, and a player that nothing touches; the label is rain."""
    generator = torch.Generator().manual_seed(0)

    def table(*shape: int) -> Tensor:
        numbers = torch.rand(*shape, generator=generator).double() + 0.1
        return numbers / numbers.sum(-1, keepdim=True)

    season, rain, sprinkler, gnome = table(3), table(3, 2), table(3, 3), table(2)
    wet = table(3, 2, 2)
    wet[0, 0] = torch.tensor([0.0, 1.0])
    tables = (season, rain, sprinkler, wet, torch.eye(2).double(), gnome)
    joint = torch.einsum("s,sr,sk,krw,wl,g->lskwgr", *tables)
    law = Enumerated(joint, ["slippery", "season", "sprinkler", "wet", "gnome"])
    law.classes = ("yes", "no")
    return law
