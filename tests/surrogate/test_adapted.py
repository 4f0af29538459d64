"""Copies of the model to explain: the layer that gets what is absent, and what it computes."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

import manifold_shap as ms
from manifold_shap.surrogate.adapted import AdaptedModel
from manifold_shap.surrogate.game import GameShape

PICTURE, SERIES, TOKENS = (2, 6, 6), (3, 8), (7,)


class Square(nn.Module):
    """Its first layer is as wide as rows, and called again with what it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.layer = nn.Linear(4, 24), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        # A layer that sees as many numbers, none of which is of the row.
        bias = self.before(torch.ones(len(x), 6, 4)).sum(1)
        return (self.layer(self.layer(x.flatten(1)).tanh()) + bias)[:, :3]


class SamePadding(nn.Conv2d):
    """Pads what it is given by itself, and on two sides alone."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, (0, 1, 0, 1)))


NUMBERS: dict[str, tuple[tuple[int, ...], Any]] = {
    "one layer twice": (SERIES, Square),
    "in other units": (SERIES, lambda: InOtherUnits()),
    "an axis of channels": (
        (8,),
        lambda: reads(nn.Conv1d(1, 4, 3), 4 * 6, nn.Unflatten(1, (1, 8))),
    ),
    "padding of its own": (PICTURE, lambda: reads(SamePadding(2, 4, 3, 2), 4 * 9)),
    "normalised weights": (PICTURE, lambda: reads(weight_norm(nn.Conv2d(2, 4, 3, 2)), 4 * 4)),
}


# By default the first of a model.
LAYER = {"one layer twice": "layer", "in other units": "inner.layer"}


def reads(first: nn.Module, width: int, *before: nn.Module) -> nn.Module:
    return nn.Sequential(*before, first, nn.ReLU(), nn.Flatten(), nn.Linear(width, 3))


class InOtherUnits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Square()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(2 * x) / 2


class Reader(nn.Module):
    """The mean of embeddings of tokens and of their places, after a layer; padding does not count.

    Places are embedded first, and are as many as tokens.
    """

    def __init__(self, padding: int | None = None) -> None:
        super().__init__()
        self.places, self.last = nn.Embedding(30, 6), nn.Linear(6, 3)
        self.tokens = nn.Embedding(20, 6, padding_idx=padding)
        self.padding = padding

    def forward(self, tokens: Tensor) -> Tensor:
        places = self.places(input=torch.arange(tokens.shape[1]).expand(len(tokens), -1))
        used = torch.ones_like(tokens) if self.padding is None else tokens != self.padding
        summed = ((self.tokens(input=tokens) + places).tanh() * used[..., None]).sum(1)
        return self.last(summed / used.sum(1, keepdim=True).clamp(min=1))


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.other = nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x)[:, 0]


class Bag(nn.Module):
    """A bag of tokens: as a matrix, or as a vector with offsets and weights."""

    def __init__(self, mode: str, flat: bool = False, padding: int | None = None) -> None:
        super().__init__()
        self.bag, self.last = (
            nn.EmbeddingBag(20, 6, mode=mode, padding_idx=padding),
            nn.Linear(6, 3),
        )
        self.flat, self.weighted = flat, mode == "sum"

    def forward(self, tokens: Tensor) -> Tensor:
        weights = torch.arange(1.0, 8).expand(len(tokens), -1) if self.weighted else None
        if not self.flat:
            return self.last(self.bag(tokens, per_sample_weights=weights))
        offsets = 7 * torch.arange(len(tokens))
        own = None if weights is None else weights.flatten()
        return self.last(self.bag(tokens.flatten(), offsets, own))


OF_TOKENS: dict[str, tuple[Any, float | None]] = {
    "places first": (Reader, None),
    "padding of players": (lambda: Reader(0), 0.0),
    "padding of the layer": (lambda: Reader(19), None),
    "padding amid the tokens": (lambda: Reader(10), 10.0),
    "bag, mean": (lambda: Bag("mean"), None),
    "bag, padded": (lambda: Bag("mean", padding=0), 0.0),
    "bag, sum": (lambda: Bag("sum"), None),
    "bag, largest": (lambda: Bag("max"), None),
    "bag, offsets": (lambda: Bag("mean", flat=True), None),
    "bag, offsets and weights": (lambda: Bag("sum", flat=True), None),
}


def adapted(
    module: nn.Module,
    event: tuple[int, ...],
    padding: float | None = None,
    space: ms.OutputSpace | None = None,
    returns: str = "logits",
    classes: str = "abc",
    layer: str | None = None,
) -> AdaptedModel:
    space = space or ms.Probability()
    index = range(torch.Size(event).numel())
    game = GameShape(event, index, len(space.outputs(classes)), space.on_simplex, padding)
    return AdaptedModel(game, module, returns, space.settings, layer).eval()


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
    scale = 2.0 if name == "in other units" else 1.0
    network = adapted(module, event, layer=LAYER.get(name))
    x, mask = some(event)
    network.standardise(x, torch.zeros(5, 3))
    layer = network.module.get_submodule(network.absence.name)
    network.absence.of_absence.weight.copy_(0.5 * layer.weight)
    absent = 1 - network.present(mask)[:, 0].float()
    filled = torch.where(absent > 0, network.instead.expand(event), x)
    expected = module(filled + 0.5 * absent / scale).softmax(-1)
    torch.testing.assert_close(network(x, mask)[:, 0], expected)
    whole = network(x, torch.ones_like(mask))[:, 0]
    torch.testing.assert_close(whole, module(x).softmax(-1))


@torch.no_grad()
def test_rows_may_be_normalised_before_the_first_layer() -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(2)
    module = nn.Sequential(norm, nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    x, mask = some(PICTURE)
    module(5 * x + 2)
    norm.weight.copy_(torch.tensor([0.5, -2.0]))
    module.eval()
    network = adapted(module, PICTURE)
    network.absence.of_absence.weight.copy_(module[1].weight)
    absent = 1 - network.present(mask)[:, 0].float()
    deviation = (norm.running_var + norm.eps).sqrt() / norm.weight
    expected = module((1 - absent) * x + absent * deviation[:, None, None]).softmax(-1)
    torch.testing.assert_close(network(x, mask)[:, 0], expected)


@pytest.mark.parametrize("name", OF_TOKENS)
@torch.no_grad()
def test_an_absent_token_is_one_more_token(name: str) -> None:
    """With the vector of a known token, it is that token."""
    torch.manual_seed(0)
    make, padding = OF_TOKENS[name]
    module = make()
    layer = "bag" if isinstance(module, Bag) else "tokens"
    network = adapted(module, TOKENS, padding, layer=layer)
    x, mask = some(TOKENS, tokens=True)
    if padding is not None:
        x[x == padding] = 1
        x[0, 5:] = padding
    network.absence.vector.copy_(module.get_submodule(layer).weight[7])
    absent = ~network.present(mask)[:, 0] & (network.game.players.owners(x) >= 0)
    expected = module(torch.where(absent, 7, x).long()).softmax(-1)
    torch.testing.assert_close(network(x, mask)[:, 0], expected)
    assert network.instead is None


@pytest.mark.parametrize(
    ("event", "module", "layer", "words"),
    [
        # Places are embedded before tokens.
        (TOKENS, Reader(), None, "'places' .* to see the rows.*`layer=`.*`network=module`"),
        (PICTURE, nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(2, 3, 3), nn.Flatten()), None, "gets"),
        (
            (8, 3),
            nn.Sequential(nn.Flatten(0, 1), nn.Linear(3, 3)),
            None,
            r"gets \(.*\) for rows of shape",
        ),
        (SERIES, Unused(), "other", "'other' .* is not called"),
        (SERIES, Square(), "first", "has no 'first' among .*layer"),
        ((3,), nn.Softmax(-1), None, "Softmax has none.*`network=module`"),
    ],
)
@torch.no_grad()
def test_a_layer_that_does_not_see_the_rows_is_refused(
    event: tuple[int, ...], module: nn.Module, layer: str | None, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        adapted(module, event, layer=layer)(*some(event, tokens=event == TOKENS))


FEW: dict[str, Any] = {
    "max_epochs": 1,
    "trainer": {"accelerator": "cpu", "limit_train_batches": 2},
    "progress": False,
}


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()


class Beside(nn.Module):
    """Takes the rows and the mask."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.layer(torch.cat((x, mask), 1)).softmax(-1)


ROWS = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
FIXED: dict[str, Any] = {
    "scripted": lambda module: torch.jit.script(module),
    "traced": lambda module: torch.jit.trace(module, ROWS),
    "exported": lambda module: torch.export.export(module, (ROWS,)).module(),
    "quantised": lambda module: torch.ao.quantization.quantize_dynamic(module, {nn.Linear}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made", FIXED)
def test_a_module_whose_weights_cannot_be_trained_is_refused(made: str) -> None:
    fixed = FIXED[made](small())
    with pytest.raises(TypeError, match=r"can be trained for network='model' but .* made of"):
        ms.fit_surrogate(fixed, ROWS, network="model", **FEW)
    if made in ("scripted", "quantised"):
        own = FIXED[made](Beside())
        with pytest.raises(TypeError, match=r"can be trained for network=module but .* made of"):
            ms.fit_surrogate(small(), ROWS, network=own, **FEW)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_copies_are_trained_in_single_precision(dtype: torch.dtype) -> None:
    model, own = small().to(dtype), Beside().to(dtype)
    for network in ("model", own):
        value = ms.fit_surrogate(model, ROWS, network=network, **FEW)
        assert {each.dtype for each in value.surrogate.parameters()} == {torch.float32}
    assert {each.dtype for each in (*model.parameters(), *own.parameters())} == {dtype}


def test_a_copy_is_made_of_the_module_behind_its_method() -> None:
    model = small()
    value = ms.fit_surrogate(model.forward, ROWS, network="model", **FEW)
    torch.testing.assert_close(value.prediction(ROWS), model(ROWS).softmax(-1).detach())
    with pytest.raises(TypeError, match="a torch module for network='model'"):
        ms.fit_surrogate(lambda x: model(x), ROWS, network="model", **FEW)
