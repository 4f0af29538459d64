"""Every network of a surrogate: what it must not see, what it knows, and its derivatives."""

import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.surrogate.adapted import AdaptedModel, OwnNetwork
from manifold_shap.surrogate.convolution import Convolution
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.kinds import warn_if_blind
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.surrogate.transformer import Transformer

PICTURE, SERIES, TOKENS = (2, 9, 7), (3, 11), (10,)
CPU: dict[str, Any] = {"trainer": {"accelerator": "cpu"}, "progress": False}


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
    """A model of tokens: the mean of embeddings of all that are not padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.last = nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        used = (tokens != 0)[..., None]
        return self.last((self.embedding(tokens) * used).sum(1) / used.sum(1).clamp(min=1))


def pixels(event: tuple[int, ...]) -> list[int]:
    """One player for each position, its channels together."""
    positions = torch.arange(torch.Size(event[1:]).numel())
    return positions.expand(event[0], -1).flatten().tolist()


def make(kind: str) -> SurrogateNetwork:
    """A small network of each kind, with random weights."""
    torch.manual_seed(0)
    space = ms.Probability()
    network: SurrogateNetwork = {
        "mlp": lambda: Perceptron(GameShape(PICTURE, pixels(PICTURE), 3, True), [8]),
        "conv": lambda: Convolution(GameShape(PICTURE, pixels(PICTURE), 3, True), [4, 8]),
        "conv of blocks": lambda: Convolution(GameShape(PICTURE, blocks(), 3, True), [4, 8]),
        "conv of channels": lambda: Convolution(GameShape(PICTURE, channels(), 3, True), [4, 8]),
        "conv of series": lambda: Convolution(GameShape(SERIES, pixels(SERIES), 3, True), [4, 8]),
        "patches": lambda: Transformer(GameShape(PICTURE, pixels(PICTURE), 3, True), [32], patch=4),
        "segments": lambda: Transformer(
            GameShape(SERIES, pixels(SERIES), 3, True, 0.0), [32], patch=2
        ),
        "tokens": lambda: Transformer(
            GameShape(TOKENS, list(range(10)), 3, True, 0.0), [32], vocabulary=20
        ),
        "padded mlp": lambda: Perceptron(padded(1), [8]),
        "padded conv": lambda: Convolution(padded(1), [4, 8]),
        "padded conv of segments": lambda: Convolution(padded(2), [4, 8]),
        "padded own": lambda: OwnNetwork(padded(2), Masked(SERIES, 3)),
        "own": lambda: OwnNetwork(GameShape(PICTURE, pixels(PICTURE), 3, True), Masked(PICTURE, 3)),
        "model": lambda: AdaptedModel(
            GameShape(PICTURE, pixels(PICTURE), 3, True), classifier(), "logits", space.settings
        ),
        "model of tokens": lambda: AdaptedModel(
            GameShape(TOKENS, list(range(10)), 3, True, 0.0), Reader(), "logits", space.settings
        ),
    }[kind]()
    with torch.no_grad():
        for parameter in network.parameters():
            # Some weights begin as zero.
            parameter += 0.1 * torch.randn_like(parameter)
    return network.eval()


def padded(length: int, padding: float = 0.0) -> GameShape:
    """Of series of differing length, in segments."""
    return GameShape.of(ms.Players.segments(SERIES, length, padding), 3, True)


def classifier() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 7 * 5, 3))


def blocks() -> list[int]:
    """Players that own 3 x 3 pixels, or fewer at the edge."""
    rows, columns = torch.arange(9)[:, None] // 3, torch.arange(7) // 3
    return (3 * rows + columns).expand(PICTURE).flatten().tolist()


def channels() -> list[int]:
    return torch.arange(2)[:, None].expand(2, 63).flatten().tolist()


def some(network: SurrogateNetwork, rows: int = 4, m: int = 5) -> tuple[Tensor, Tensor]:
    """Rows, of which the first is padded where the network knows padding, and coalitions."""
    generator = torch.Generator().manual_seed(1)
    event = network.x_mean.shape
    if len(event) == 1:
        x = torch.randint(1, 20, (rows, *event), generator=generator).float()
    else:
        x = torch.randn(rows, *event, generator=generator)
    if network.game.padding is not None:
        x[0, ..., 5:] = network.game.padding
    return x, torch.rand(rows, m, network.players, generator=generator) < 0.5


KINDS = [
    "mlp", "conv", "conv of blocks", "conv of channels", "conv of series", "patches", "segments",
    "tokens", "padded mlp", "padded conv", "padded conv of segments", "padded own", "own", "model",
    "model of tokens",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_absent_elements_are_not_seen_and_present_ones_are(kind: str) -> None:
    network = make(kind)
    x, mask = some(network)
    own = network.present(mask)
    other = torch.where(x == 3, 4.0, 3.0) if x.ndim == 2 else x + 1
    if network.game.padding is not None:
        other = torch.where(network.game.players.owners(x) >= 0, other, x)
    for m in range(mask.shape[1]):
        one = mask[:, m : m + 1]
        unseen = torch.where(own[:, m], x, other)
        assert torch.equal(network(x, one), network(unseen, one))
    one = torch.zeros_like(mask[:, :1])
    one[..., 0] = True
    seen = torch.where(network.present(one)[:, 0], other, x)
    assert (network(seen, one) - network(x, one)).abs().amax((1, 2)).min() > 1e-6


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_outputs_are_distributions_whatever_the_batch(kind: str) -> None:
    network = make(kind)
    x, mask = some(network)
    whole = network(x, mask)
    torch.testing.assert_close(whole.sum(-1), torch.ones(4, 5))
    alone = torch.cat([network(x[k : k + 1], mask[k : k + 1]) for k in range(4)])
    torch.testing.assert_close(alone, whole, rtol=0, atol=1e-6)
    by_one = torch.cat([network(x, mask[:, m : m + 1]) for m in range(5)], dim=1)
    torch.testing.assert_close(by_one, whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_values_along_and_around_are_those_of_the_coalitions(kind: str) -> None:
    network = make(kind)
    x, mask = some(network, m=3)
    orders = torch.rand(4, 2, network.players).argsort(-1)
    nested = orders.argsort(-1)[:, :, None] < torch.arange(1, network.players)[:, None]
    expected = network(x, nested.flatten(1, 2)).unflatten(1, (2, -1))
    torch.testing.assert_close(network.along(x, orders, 7), expected, rtol=0, atol=1e-6)
    toggle = torch.cat((torch.zeros(1, network.players), torch.eye(network.players))).bool()
    every = mask[:, :, None] ^ toggle
    expected = network(x, every.flatten(1, 2)).unflatten(1, (3, -1))
    # What it gives for empty and full coalitions is not used.
    proper = (every.any(-1) & ~every.all(-1))[..., None]
    found = network.around(x, mask, 7)
    torch.testing.assert_close(found * proper, expected * proper, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_has_a_gradient(kind: str) -> None:
    """Several processes in a training would wait for the others' for ever."""
    network = make(kind)
    x, mask = some(network)
    network(x, mask).square().sum().backward()
    without = [name for name, own in network.named_parameters() if own.grad is None]
    assert not without


def test_large_rows_come_in_small_batches() -> None:
    """64 megabytes of numbers a call on a CPU, where that is less than usual."""
    large = (3, 224, 224)
    patches = (torch.arange(224)[:, None] // 32 * 7 + torch.arange(224) // 32).expand(large)
    index = patches.flatten().tolist()
    for kind in (Convolution, Transformer):
        network = kind(GameShape(large, index, 10, True))
        assert network.batch_size is not None
        assert 2 <= network.batch_size <= 64
    assert Perceptron(GameShape((784,), range(784), 10, True)).batch_size is None
    assert make("conv").batch_size is None


@torch.no_grad()
def test_masks_of_padded_rows_are_over_the_first_players() -> None:
    index = pixels(SERIES)
    for network in (
        Perceptron(GameShape(SERIES, index, 3, True, 0.0), [8]),
        Convolution(GameShape(SERIES, index, 3, True, 0.0), [4, 8]),
        Transformer(GameShape(SERIES, index, 3, True, 0.0), [32], patch=1),
    ):
        x, mask = some(network.eval(), m=3)
        x[..., 6:] = 0.0
        mask[..., 6:] = False
        mask[..., :2] = torch.tensor([True, False])
        short = mask[..., :6]
        torch.testing.assert_close(network(x, short), network(x, mask))
        few, every = network.around(x, short), network.around(x, mask)
        torch.testing.assert_close(few, every[:, :, :7], rtol=0, atol=1e-6)
        orders = torch.rand(4, 2, 6).argsort(-1)
        nested = orders.argsort(-1)[:, :, None] < torch.arange(1, 6)[:, None]
        expected = network(x, nested.flatten(1, 2)).unflatten(1, (2, -1))
        torch.testing.assert_close(network.along(x, orders), expected, rtol=0, atol=1e-6)


PADDED = ["padded mlp", "padded conv", "padded conv of segments", "padded own", "segments"]


@pytest.mark.parametrize("kind", PADDED)
@torch.no_grad()
def test_the_number_that_pads_does_not_matter(kind: str) -> None:
    found = []
    for padding in (0.0, -1e3):
        network = make(kind)
        network.game = replace(network.game, padding=padding)
        x = torch.randn(6, *SERIES, generator=torch.Generator().manual_seed(1)) + 2
        mask = torch.rand(6, 5, network.players, generator=torch.Generator().manual_seed(2)) < 0.5
        x[0, :, 5:] = x[1, :, 8:] = padding
        network.standardise(x, torch.zeros(6, 3))
        found.append((network(x, mask), network.around(x, mask)))
    torch.testing.assert_close(*found, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [*PADDED, "tokens"])
@torch.no_grad()
def test_all_networks_but_those_of_users_know_how_long_rows_are(kind: str) -> None:
    network = make(kind)
    x, mask = some(network, rows=2)
    nobody = network(x, torch.zeros_like(mask))
    assert torch.allclose(nobody[0], nobody[1]) == (kind == "padded own")


@pytest.mark.parametrize("kind", ["padded mlp", "padded conv of segments", "padded own"])
@torch.no_grad()
def test_padding_within_a_segment_is_no_mean(kind: str) -> None:
    """A segment ends with padding, or with elements that are at the mean of training rows."""
    network = make(kind)
    network.x_mean.fill_(1.0)
    x, mask = some(network, rows=2)
    x[1] = x[0]
    x[1, :, 5] = 1.0
    every = network(x, torch.ones_like(mask))
    assert not torch.allclose(every[0], every[1], atol=1e-4)


@torch.no_grad()
def test_a_copy_of_the_model_begins_as_the_model() -> None:
    model = classifier()
    game = GameShape(PICTURE, pixels(PICTURE), 3, True)
    network = AdaptedModel(game, model, "logits", ms.Probability().settings)
    x, mask = some(network)
    network.standardise(x, torch.zeros(4, 3))
    whole = network.eval()(x, torch.ones_like(mask))[:, 0]
    torch.testing.assert_close(whole, model(x).softmax(-1))
    # Absent pixels are at the mean of their channel at first.
    filled = torch.where(network.present(mask)[:, 0], x, x.mean((0, 2, 3))[:, None, None])
    torch.testing.assert_close(network(x, mask)[:, 0], model(filled).softmax(-1))
    # The model itself is not trained.
    assert all(parameter.grad is None for parameter in model.parameters())


@torch.no_grad()
def test_padding_changes_nothing_for_a_transformer() -> None:
    network = make("tokens")
    x, mask = some(network)
    other = mask.clone()
    other[0, :, 6:] ^= True
    assert torch.equal(network(x, mask), network(x, other))
    # A row of padding alone has a value, too.
    assert network(torch.zeros(1, 10), mask[:1]).isfinite().all()
    with pytest.raises(ValueError, match=r"Expected tokens from 0 to 19, .* got 1.*`vocabulary="):
        network(x + 19, mask)


def test_tokens_of_held_out_rows_are_known() -> None:
    x = torch.randint(1, 8, (40, 5), generator=torch.Generator().manual_seed(0))
    held_out = x[:8].clone()
    held_out[0, 0] = 11

    def fit(**options: Any) -> ms.SurrogateValue:
        return ms.fit_surrogate(
            lambda x: torch.nn.functional.one_hot(x[:, 0].clamp(max=2), 3).float(), x,
            x_validation=held_out, network="transformer", hidden=[32], max_epochs=1, batch_size=8,
            trainer={"accelerator": "cpu", "limit_train_batches": 2}, progress=False, **options,
        )  # fmt: skip

    assert fit().surrogate.stem.embedding.num_embeddings == 12
    # Those of new rows are, where the model's vocabulary is given.
    value = fit(vocabulary=30)
    assert value(torch.full((1, 5), 29), torch.eye(5).bool()[None]).isfinite().all()


def data(rows: int = 300) -> tuple[Tensor, nn.Module]:
    """Pictures with a bright square in one of two corners, and a model that tells them apart."""
    generator = torch.Generator().manual_seed(0)
    x = 0.3 * torch.randn(rows, 1, 8, 8, generator=generator)
    left = torch.rand(rows, generator=generator) < 0.5
    x[left, :, :4, :4] += 1
    x[~left, :, 4:, 4:] += 1
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2, bias=False))
    corner = torch.zeros(8, 8)
    corner[:4, :4], corner[4:, 4:] = 0.5, -0.5
    with torch.no_grad():
        model[1].weight.copy_(torch.stack((corner.flatten(), -corner.flatten())))
    return x, model


@pytest.mark.parametrize("network", ["conv", "transformer", "model"])
def test_each_network_learns_a_value_function_and_is_loaded_again(
    network: str, tmp_path: Any
) -> None:
    x, model = data()
    players = ms.Players([f"p{k}" for k in range(4)], corners())
    hidden = {"conv": [8, 8], "transformer": [32], "model": None}[network]
    value = ms.fit_surrogate(
        model, x, network=network, hidden=hidden, players=players, max_epochs=2, batch_size=32,
        learning_rate=5e-3, **CPU,
    )  # fmt: skip
    mask = torch.tensor([[[True, False, False, False]]]).expand(20, 1, 4)
    # One corner that is bright tells the class, and one that is not does, too.
    error = (value(x[:20], mask)[:, 0] - value.prediction(x[:20])).abs().mean()
    assert error < 0.1
    # A corner that is never bright tells nothing.
    mask = mask.roll(1, -1)
    assert (value(x[:20], mask)[:, 0] - 0.5).abs().mean() < 0.1
    value.save(tmp_path / "surrogate.ckpt")
    again = ms.load_surrogate(tmp_path / "surrogate.ckpt", model)
    assert torch.equal(again(x[:20], mask), value(x[:20], mask))
    explanation = ms.auto_shapley(again, x[:2])
    assert explanation.efficiency_gap < 1e-5


def corners() -> Tensor:
    rows = torch.arange(8)[:, None] // 4
    return (2 * rows + torch.arange(8) // 4)[None]


def test_a_module_of_ones_own_is_trained_and_passed_back_in(tmp_path: Any) -> None:
    x, model = data()
    module = Masked((1, 8, 8), 2)
    before = [parameter.clone() for parameter in module.parameters()]
    value = ms.fit_surrogate(model, x, network=module, max_epochs=2, batch_size=32, blocks=0, **CPU)
    assert value.training_record["validation"] < 0.1
    # It is a copy that was trained.
    assert all(map(torch.equal, before, module.parameters()))
    path = tmp_path / "own.ckpt"
    value.save(path)
    mask = torch.rand(4, 3, 64) < 0.5
    again = ms.load_surrogate(path, model, network=Masked((1, 8, 8), 2))
    assert torch.equal(again(x[:4], mask), value(x[:4], mask))
    with pytest.raises(
        TypeError,
        match="Expected `network` to be the torch module that the surrogate was made of",
    ):
        ms.load_surrogate(path, model)


class Blind(Masked):
    """Does not look at the mask, nor at rows."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().forward(torch.ones_like(x), torch.ones_like(mask))


class Half(Masked):
    """Sees absent elements as 0, and not that they are absent."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().forward(x, torch.ones_like(mask))


def test_zero_that_is_padding_is_no_element_of_a_player() -> None:
    x = torch.tensor([[3.0, 1.0, 2.0, 0.0], [5.0, 4.0, 0.0, 0.0]])
    for padding in (None, 0.0):
        network = OwnNetwork(GameShape((4,), range(4), 2, True, padding), Half((4,), 2))
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warn_if_blind(network, x, target=x)
        assert len(given) == (padding is None)


def test_the_network_of_a_constant_model_is_not_blamed() -> None:
    x, _ = data(60)
    quick: dict[str, Any] = {"max_epochs": 1, "network": Blind((1, 8, 8), 2), **CPU}
    value = ms.fit_surrogate(lambda x: torch.full((len(x), 2), 0.5), x, **quick)
    torch.testing.assert_close(value.expectation, torch.tensor([0.5, 0.5]))


class Short(Masked):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().forward(x, mask)[:1]


class Undefined(Masked):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().forward(x, mask) * torch.nan


@pytest.mark.usefixtures("any_type")
def test_bad_networks_are_named() -> None:
    x, model = data(60)
    quick: dict[str, Any] = {"max_epochs": 1, "batch_size": 8, **CPU}
    quick["trainer"] = {"accelerator": "cpu", "limit_train_batches": 2}
    event = (1, 8, 8)
    with pytest.raises(ValueError, match=r"`network` to return 2 outputs for each of \d+ rows"):
        ms.fit_surrogate(model, x, network=Short(event, 2), **quick)
    with pytest.raises(ValueError, match=r"`network` to return 2 outputs .* got \(\d+, 3\)"):
        ms.fit_surrogate(model, x, network=Masked(event, 3), **quick)
    with pytest.raises(ValueError, match=r"`network` to return a distribution over the classes"):
        ms.fit_surrogate(model, x, network=Masked(event, 2, softmax=False), **quick)
    with pytest.raises(ValueError, match=r"finite numbers but .* of `network\(x, mask\)` are NaN"):
        ms.fit_surrogate(model, x, network=Undefined(event, 2), **quick)
    with pytest.warns(UserWarning, match=r"does not depend on the mask"):
        ms.fit_surrogate(model, x, network=Blind(event, 2), **quick)
    with pytest.warns(UserWarning, match=r"cannot tell an absent element .* by at most 0, on 6 ro"):
        ms.fit_surrogate(model, x, network=Half(event, 2), **quick)
    with pytest.raises(ValueError, match="Expected `network` to be one of"):
        ms.fit_surrogate(model, x, network="cnn", **quick)
    with pytest.raises(ValueError, match="but got 3; or pass a torch module of rows and masks"):
        ms.fit_surrogate(model, x, network=3, **quick)
    with pytest.raises(ValueError, match=r"options of the network 'conv' .*'patch'"):
        ms.fit_surrogate(model, x, network="conv", patch=2, **quick)
    with pytest.raises(ValueError, match=r"Expected rows \(channels, height, width\)"):
        ms.fit_surrogate(lambda x: x.softmax(-1), x.flatten(1)[:, :5], network="conv", **quick)
    table = x.flatten(1)[:, :5]
    with pytest.raises(ValueError, match=r"Expected rows of tokens"):
        ms.fit_surrogate(lambda x: x.softmax(-1), table, network="transformer", **quick)
    with pytest.raises(ValueError, match=r"one multiple of 32 for all layers"):
        ms.fit_surrogate(model, x, network="transformer", hidden=[32, 64], **quick)
    with pytest.raises(TypeError, match="Expected a torch module for network='model'"):
        ms.fit_surrogate(lambda x: model(x), x, network="model", **quick)
