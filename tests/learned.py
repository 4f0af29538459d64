"""A small game that networks learn in a moment, small networks of each kind, and Ctrl-C."""

import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.coalitions import all_coalitions
from manifold_shap.surrogate.adapted import AdaptedModel, OwnNetwork
from manifold_shap.surrogate.convolution import Convolution
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.surrogate.transformer import Transformer

MASKS = all_coalitions(3)
ROWS = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)))
# Rows out of 100 with each value of three binary features; the first two go together.
COUNTS = torch.tensor([22, 18, 4, 6, 5, 5, 10, 30])
TABLE = ROWS.repeat_interleave(COUNTS, dim=0)
# A few steps, and some hundred: enough for the tiny table.
FEW: dict[str, Any] = {
    "x_validation": TABLE[::7], "hidden": [8], "max_epochs": 3, "batch_size": 16,
    "trainer": {"accelerator": "cpu", "limit_train_batches": 10},
}  # fmt: skip
LONGER: dict[str, Any] = {
    "x_validation": TABLE, "hidden": [32], "max_epochs": 4, "batch_size": 512,
    "learning_rate": 0.02, "weight_averaging": 0.95,
    "trainer": {"accelerator": "cpu", "limit_train_batches": 50},
}  # fmt: skip


# On how many pairs tempers and candidates are chosen by default.
PAIRS = {name: import_module(f"manifold_shap.{name}")._PAIRS for name in ("vae.fit", "candidates")}


@contextmanager
def few_pairs(most: float = 256) -> Iterator[None]:
    """Tempers and candidates are chosen on so many pairs at most."""
    with ExitStack() as stack:
        for name, pairs in PAIRS.items():
            stack.enter_context(patch(f"manifold_shap.{name}._PAIRS", min(pairs, most)))
        yield


def classifier(x: Tensor) -> Tensor:
    """Probabilities of two classes, with an interaction."""
    p = torch.sigmoid(2 * x[:, 0] - 3 * x[:, 1] * x[:, 2] + x[:, 2])
    return torch.stack((1 - p, p), dim=-1)


def of_three(x: Tensor) -> Tensor:
    """The same, with the second class in two parts."""
    first, second = classifier(x).unbind(-1)
    return torch.stack((first, 0.2 * second, 0.8 * second), dim=-1)


def exact_values(space: str = "probability", model: Callable = classifier) -> Tensor:
    """E[T(f(X)) | x_S] under the joint table, for all 8 rows and 8 coalitions."""
    p = model(ROWS)
    outputs = ms.spaces.as_space(space)(p.log() if space in ("log_odds", "ilr") else p)
    agrees = ((ROWS[:, None, None] == ROWS) | ~MASKS[:, None]).all(-1)
    weight = agrees * COUNTS
    return weight / weight.sum(-1, keepdim=True) @ outputs


def fit(model: Any = classifier, x: Any = TABLE, **settings: Any) -> ms.SurrogateValue:
    """A surrogate trained for moments, unless `settings` say otherwise."""
    return ms.fit_surrogate(model, x, **{**FEW, **settings})


def weights(value: ms.SurrogateValue) -> Tensor:
    """All that its network has learned, one after another."""
    return torch.cat([own.flatten() for own in value.surrogate.state_dict().values()])


class CtrlC(Callback):
    """Interrupts a training in the given step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            signal.raise_signal(signal.SIGINT)


def interrupted(step: int) -> dict[str, Any]:
    """Arguments of a `Trainer` whose training of ten steps an epoch ends in this one."""
    return {**FEW["trainer"], "callbacks": CtrlC(step)}


class Masked(nn.Module):
    """A module of a user's: a linear layer on rows and masks."""

    def __init__(self, event: tuple[int, ...], outputs: int, softmax: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * torch.Size(event).numel(), outputs)
        self.softmax = softmax

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        raw = self.linear(torch.cat((x.flatten(1), mask.flatten(1)), dim=1))
        return raw.softmax(-1) if self.softmax else raw


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


PICTURE, SERIES = (2, 8, 6), (2, 9)
PATCHES, CHANNELS = ms.Players.patches(PICTURE, 4), ms.Players.channels(PICTURE)
SEGMENTS, PADDED_SEGMENTS = ms.Players.segments(SERIES, 3), ms.Players.segments(SERIES, 2, -9.0)
TEXT, COLUMNS = ms.Players.tokens(6), ms.Players.of_elements((5,))


def _adapted(module: nn.Module, players: ms.Players, layer: str) -> AdaptedModel:
    game = GameShape.of(players, 3, True)
    return AdaptedModel(game, module, "logits", ms.spaces.Probability().settings, layer)


# Networks of surrogates, and their players.
NETWORKS: dict[str, tuple[ms.Players, Callable[[GameShape], SurrogateNetwork]]] = {
    "mlp": (PATCHES, lambda game: Perceptron(game, [8])),
    "conv": (PATCHES, lambda game: Convolution(game, [4, 8])),
    "conv of channels": (CHANNELS, lambda game: Convolution(game, [4, 8])),
    "conv of series": (SEGMENTS, lambda game: Convolution(game, [4, 8])),
    "patches": (PATCHES, lambda game: Transformer(game, [32], patch=3)),
    "text": (TEXT, lambda game: Transformer(game, [32], vocabulary=20)),
    "own": (COLUMNS, lambda game: OwnNetwork(game, Masked((5,), 3))),
    "model": (
        PATCHES,
        lambda _: _adapted(
            nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(96, 3)),
            PATCHES,
            "0",
        ),
    ),
    "model of text": (TEXT, lambda _: _adapted(Reader(0), TEXT, "tokens")),
    "padded mlp": (PADDED_SEGMENTS, lambda game: Perceptron(game, [16, 8])),
    "padded conv": (PADDED_SEGMENTS, lambda game: Convolution(game, [4, 8])),
    "padded segments": (PADDED_SEGMENTS, lambda game: Transformer(game, [32], patch=2)),
    "padded own": (
        PADDED_SEGMENTS,
        lambda game: OwnNetwork(game, Masked(SERIES, 3, game.on_simplex)),
    ),
}


def network_of(kind: str) -> SurrogateNetwork:
    """A small network with random weights; of padded series for a regression."""
    torch.manual_seed(0)
    players, make = NETWORKS[kind]
    network = make(GameShape.of(players, 3, on_simplex=players is not PADDED_SEGMENTS))
    with torch.no_grad():
        for parameter in network.parameters():  # Some weights begin as zero.
            parameter += 0.1 * torch.randn_like(parameter)
    return network.eval()


def rows_of(players: ms.Players, count: int = 400, seed: int = 0) -> Tensor:
    """Tokens or normal numbers; the first padded row has 5 positions, others 3 or more."""
    generator = torch.Generator().manual_seed(seed)
    if players is TEXT:
        x = torch.randint(1, 9, (count, 6), generator=generator).float()
    else:
        x = torch.randn(count, *players.event, generator=generator)
    if players.padding is None:
        return x
    lengths = torch.randint(3, players.event[-1] + 1, (count, 1), generator=generator)
    lengths[0] = 5
    inside = torch.arange(players.event[-1]) < lengths
    return x.where(inside if x.ndim == 2 else inside[:, None], players.padding)
