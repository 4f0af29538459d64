"""Copies of the model to explain: the layer that gets what is absent, and what it computes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

import manifold_shap as ms
from manifold_shap.surrogate.adapted import AdaptedModel
from manifold_shap.surrogate.game import GameShape
from tests.learned import Reader

PICTURE, SERIES, TOKENS = (2, 6, 6), (3, 8), (7,)


class Twice(nn.Module):
    """Its first layer is as wide as rows, and called again with what it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.inner(x.flatten(1)).tanh())[:, :3]


class SamePadding(nn.Conv2d):
    """Pads what it is given by itself, and on two sides alone."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, (0, 1, 0, 1)))


NUMBERS: dict[str, tuple[tuple[int, ...], Any]] = {
    "one layer twice": (SERIES, Twice),
    "an axis of channels": (
        (8,),
        lambda: reads(nn.Conv1d(1, 4, 3), 4 * 6, nn.Unflatten(1, (1, 8))),
    ),
    "padding of its own": (PICTURE, lambda: reads(SamePadding(2, 4, 3, 2), 4 * 9)),
    "normalised weights": (PICTURE, lambda: reads(weight_norm(nn.Conv2d(2, 4, 3, 2)), 4 * 4)),
}


def reads(first: nn.Module, width: int, *before: nn.Module) -> nn.Module:
    return nn.Sequential(*before, first, nn.ReLU(), nn.Flatten(), nn.Linear(width, 3))


OF_TOKENS: dict[str, tuple[Any, float | None]] = {
    "places first": (Reader, None),
    "padding of players": (lambda: Reader(0), 0.0),
    "padding of the layer": (lambda: Reader(19), None),
    "padding amid the tokens": (lambda: Reader(10), 10.0),
}


def adapted(
    module: nn.Module,
    event: tuple[int, ...],
    padding: float | None = None,
    layer: str | None = None,
) -> AdaptedModel:
    game = GameShape(event, range(torch.Size(event).numel()), 3, True, padding)
    return AdaptedModel(game, module, "logits", ms.spaces.Probability().settings, layer).eval()


def some(event: tuple[int, ...], tokens: bool = False) -> tuple[Tensor, Tensor]:
    """Rows, and one coalition for each."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(5, *event, generator=generator)
    if tokens:
        x = torch.randint(1, 19, (5, *event), generator=generator).float()
    return x, torch.rand(5, 1, torch.Size(event).numel(), generator=generator) < 0.5


@pytest.mark.parametrize("name", NUMBERS)
@torch.no_grad()
def test_the_first_layer_is_told_which_of_its_inputs_are_absent(name: str) -> None:
    """With weights for absence that are its own, absence is something that is added to rows."""
    torch.manual_seed(0)
    event, make = NUMBERS[name]
    module = make()
    network = adapted(module, event)
    x, mask = some(event)
    network.standardise(x, torch.zeros(5, 3))
    layer = network.module.get_submodule(network.layer)
    network.absence.weight.copy_(0.5 * layer.weight)
    absent = 1 - network.present(mask)[:, 0].float()
    filled = torch.where(absent > 0, network.instead.expand(event), x)
    expected = module(filled + 0.5 * absent).softmax(-1)
    torch.testing.assert_close(network(x, mask)[:, 0], expected)
    whole = network(x, torch.ones_like(mask))[:, 0]
    torch.testing.assert_close(whole, module(x).softmax(-1))


@pytest.mark.parametrize("name", OF_TOKENS)
@torch.no_grad()
def test_an_absent_token_is_one_more_token(name: str) -> None:
    """With the vector of a known token, it is that token."""
    torch.manual_seed(0)
    make, padding = OF_TOKENS[name]
    module = make()
    network = adapted(module, TOKENS, padding, layer="tokens")
    x, mask = some(TOKENS, tokens=True)
    if padding is not None:
        x[x == padding] = 1
        x[0, 5:] = padding
    network.absence[0].copy_(module.tokens.weight[7])
    absent = ~network.present(mask)[:, 0] & (network.game.players.owners(x) >= 0)
    expected = module(torch.where(absent, 7, x).long()).softmax(-1)
    torch.testing.assert_close(network(x, mask)[:, 0], expected)
    assert network.instead is None


class Unused(nn.Linear):
    """Has a layer that it does not call."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.other = nn.Linear(inputs, outputs)


@pytest.mark.parametrize(
    ("event", "module", "layer", "words"),
    [
        # Places are embedded before tokens.
        (TOKENS, Reader(), None, "'places' .* to see the rows.*`layer=`.*`network=module`"),
        (
            PICTURE,
            nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(2, 3, 3), nn.Flatten()),
            None,
            r"gets \(",
        ),
        ((8,), Unused(8, 3), "other", "'other' .* is not called"),
        (SERIES, Twice(), "first", "has no 'first' among .*inner"),
        ((3,), nn.Softmax(-1), None, "Softmax has none.*`network=module`"),
    ],
)
@torch.no_grad()
def test_a_layer_that_does_not_see_the_rows_is_refused(
    event: tuple[int, ...], module: nn.Module, layer: str | None, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        adapted(module, event, layer=layer)(*some(event, tokens=event == TOKENS))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fixed", [torch.jit.script, torch.ao.quantization.quantize_dynamic])
def test_modules_whose_weights_are_fixed_are_refused(fixed: Callable[..., nn.Module]) -> None:
    module = fixed(nn.Sequential(nn.Linear(3, 2), nn.Softmax(-1)).eval())
    with pytest.raises(TypeError, match="neither scripted, traced nor quantised"):
        ms.fit_surrogate(module, torch.randn(20, 3), network="model")
