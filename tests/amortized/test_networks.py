"""Networks of amortised explainers: what they minimise, and what all of them keep to."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.amortized.contributions import contributions
from manifold_shap.amortized.network import AmortizedNetwork
from manifold_shap.amortized.transformer import AmortizedTransformer
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.surrogate.transformer import Transformer
from tests.learned import NETWORKS, PATCHES, TEXT, network_of
from tests.learned import rows_of as rows

CPU: dict[str, Any] = {"trainer": {"accelerator": "cpu"}, "progress": False}


def made(kind: str) -> ms.SurrogateValue:
    """The game of a network with random weights, whose grand coalition is the model's own."""
    (players, _), network = NETWORKS[kind], network_of(kind)

    @torch.no_grad()
    def of_all(x: Tensor, present: bool = True) -> Tensor:
        return network(x, torch.full((len(x), 1, network.players), present))[:, 0]

    x, on_simplex = rows(players, 3), network.game.on_simplex
    space = ms.spaces.Probability() if on_simplex else ms.spaces.Identity()
    model = ms.as_model(of_all, x, returns="probabilities" if on_simplex else "values")
    return ms.SurrogateValue(network, model, players, space, of_all(x[:1], False)[0])


PADDED = ["text", "padded mlp", "padded conv", "padded segments", "padded own"]
KINDS = ["mlp", "conv", "conv of channels", "conv of series", "patches", "own", *PADDED]


def started(value: ms.SurrogateValue) -> ms.AmortizedExplainer:
    """An explainer of random weights, hardly trained."""
    few = {"accelerator": "cpu", "limit_train_batches": 2, "limit_val_batches": 1}
    brief: Any = {"max_epochs": 1, "batch_size": 8, "trainer": few, "progress": False}
    explainer = ms.fit_amortized(value, rows(value.players, 40), hidden=[32], **brief)
    with torch.no_grad():
        for parameter in explainer.network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return explainer


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_efficient_in_any_batch(kind: str) -> None:
    value = made(kind)
    explainer, x = started(value), rows(value.players, 7, seed=1)
    phi = explainer(x)
    torch.testing.assert_close(phi.sum(1), value.prediction(x) - value.base(x))
    assert phi.std(1).min() > 0
    alone = torch.cat([explainer(x[k : k + 1]) for k in range(7)])
    torch.testing.assert_close(alone, phi, rtol=1e-4, atol=1e-5)
    found = ms.amortized_shapley(value, x, explainer=explainer, batch_size=3)
    assert found.efficiency_gap < 1e-4
    torch.testing.assert_close(found.phi.nan_to_num(), phi)
    half = ms.AmortizedExplainer(value.in_precision("bf16-mixed"), explainer.network)(x)
    assert (half - phi).abs().max() < 0.05 * phi.abs().max()


@pytest.mark.parametrize("kind", PADDED)
def test_players_that_a_row_lacks_have_no_values(kind: str) -> None:
    value = made(kind)
    explainer, x = started(value), rows(value.players, 9, seed=1)
    lacks = torch.arange(len(value.players)) >= value.counts(x)[:, None]
    assert lacks.any()
    assert (explainer(x)[lacks] == 0).all()
    found = ms.amortized_shapley(value, x, explainer=explainer)
    assert torch.equal(found.phi.isnan().all(2), lacks)
    assert 0 < explainer.measure(ms.exact_shapley(value, x)) < 100


@pytest.mark.parametrize(
    ("kind", "most"), [("text", 0.2), pytest.param("patches", 0.4, marks=pytest.mark.slow)]
)
def test_shapley_values_of_new_rows_are_learned(kind: str, most: float) -> None:
    value = made(kind)
    words: dict[str, Any] = {**CPU, "hidden": [32], "batch_size": 32, "max_epochs": 2}
    explainer = ms.fit_amortized(value, rows(value.players, 2000), learning_rate=6e-3, **words)
    exact = ms.exact_shapley(value, rows(value.players, 60, seed=2))
    assert explainer.measure(exact) < most


@pytest.mark.parametrize("kind", ["conv", "patches"])
def test_some_of_the_outputs_are_learned_alone(kind: str) -> None:
    value = made(kind)
    x, names = rows(value.players, 5, seed=1), value.outputs
    few = {"accelerator": "cpu", "limit_train_batches": 2, "limit_val_batches": 1}
    brief: Any = {"max_epochs": 1, "batch_size": 8, "trainer": few, "hidden": [32]}
    explainer = ms.fit_amortized(value, rows(value.players, 40), outputs=[names[2]], **brief)
    change = value.prediction(x) - value.expectation
    torch.testing.assert_close(explainer(x).sum(1), change[:, 2:])
    assert ms.amortized_shapley(explainer.game, x, explainer=explainer).outputs == (names[2],)
    every, one = (ms.exact_shapley(value, x, outputs=own) for own in (None, [names[2]]))
    assert explainer.measure(every) == explainer.measure(one)
    with pytest.raises(ValueError, match="Expected `outputs` to be"):
        ms.amortized_shapley(explainer.game, x, explainer=explainer, outputs=[names[0]])
    coarse = value.grouped(torch.zeros(value.players.event, dtype=torch.int64))
    with pytest.raises(ValueError, match="Expected an explanation of the players"):
        explainer.measure(ms.exact_shapley(coarse, x))


class Fixed(AmortizedNetwork):
    """The same values for every row."""

    def __init__(self, phi: Tensor) -> None:
        players, outputs = phi.shape
        super().__init__(GameShape((players,), range(players), outputs, True))
        self.phi = nn.Parameter(phi)

    def raw(self, surrogate: SurrogateNetwork, x: Tensor, change: Tensor) -> Tensor:
        return self.phi.expand(len(x), -1, -1).clone()


@pytest.mark.parametrize("batch", [1, 64])
def test_shapley_values_are_where_the_loss_has_no_slope(batch: int) -> None:
    """Means of hundreds of gradients, of 36 numbers: beyond 4.5 errors once in 4,000 times."""
    value = made("conv")
    x = rows(value.players, 1)
    exact = ms.exact_shapley(value, x)
    change, base = (end.expand(batch, -1) for end in (exact.phi[0].sum(0), value.expectation))
    generator = torch.Generator().manual_seed(1)

    def slopes(phi: Tensor) -> Tensor:
        network, found = Fixed(phi), []
        many = x.expand(batch, -1, -1, -1)
        for _ in range(max(100, 700 // batch)):
            loss = network.loss(value.surrogate, many, change, base, generator).mean()
            found.append(torch.autograd.grad(loss, network.phi)[0])
        each = torch.stack(found)
        return each.mean(0) / (each.std(0) / len(each) ** 0.5)

    assert (slopes(exact.phi[0]).abs() < 4.5).all()
    if batch == 64:
        other = exact.phi[0] + 0.2 * torch.randn(4, 3, generator=generator)
        assert slopes(other).abs().max() > 10


def test_of_many_players_labels_are_contributions_where_these_are_cheap() -> None:
    torch.manual_seed(0)
    players = ms.Players.pixels((1, 8, 8))
    surrogate, network = Perceptron(GameShape.of(players, 3, True), [16]), Fixed(torch.randn(64, 3))
    x, change = rows(players, 5), torch.randn(5, 3)
    seed = torch.Generator().manual_seed
    found = network.loss(surrogate, x, change, torch.zeros(5, 3), seed(3))
    missed = network(surrogate, x, change) - contributions(surrogate, x, seed(3))
    torch.testing.assert_close(found, missed.square().sum(1).mean(1))


def test_a_transformer_begins_with_the_weights_of_the_surrogate() -> None:
    surrogate = made("text").surrogate
    assert isinstance(surrogate, Transformer)
    network = AmortizedTransformer(surrogate.game, [32], vocabulary=20)
    network.start(surrogate, torch.ones(4, 3))
    x, change = rows(TEXT, 5), torch.randn(5, 3)
    own = network.game.players.owned(x)
    torch.testing.assert_close(network.body.reader, surrogate.reader)
    read = surrogate.read(x, own[:, None], surrogate.reader)
    torch.testing.assert_close(network.body.read(x, own[:, None], network.body.reader), read)
    phi = network(surrogate, x, change)
    torch.testing.assert_close(phi, own[..., None] * (change / own.sum(1, True))[:, None])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": "conv"}, "Expected `network` to be one of"),
        ({"network": "mlp"}, "a surrogate of network='mlp' .* but got Convolution"),
        ({"shares": 3}, "options of the network 'transformer' among"),
        ({"hidden": [20]}, "one multiple of 32"),
    ],
)
def test_errors_of_networks_and_options(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ms.fit_amortized(made("conv"), rows(PATCHES, 20), **settings)
