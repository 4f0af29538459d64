"""Every network of a surrogate: what it must not see, what it knows, and its derivatives."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.coalitions import Nested, Toggled, is_proper, toggled
from manifold_shap.surrogate.network import SurrogateNetwork
from tests.learned import NETWORKS, SERIES, network_of, rows_of

CPU: dict[str, Any] = {"trainer": {"accelerator": "cpu"}, "progress": False}
QUICK: dict[str, Any] = {
    "max_epochs": 1,
    "batch_size": 8,
    "trainer": {"accelerator": "cpu", "limit_train_batches": 2},
}
every = pytest.mark.parametrize("kind", NETWORKS)
PADDED = ["padded mlp", "padded conv", "padded segments"]
close = {"rtol": 0, "atol": 1e-6}


def some(kind: str, rows: int = 4, m: int = 5) -> tuple[SurrogateNetwork, Tensor, Tensor]:
    """A network, rows and coalitions."""
    network = network_of(kind)
    x, generator = rows_of(NETWORKS[kind][0], rows), torch.Generator().manual_seed(1)
    return network, x, torch.rand(rows, m, network.players, generator=generator) < 0.5


@every
@torch.no_grad()
def test_absent_elements_are_not_seen_and_present_ones_are(kind: str) -> None:
    network, x, mask = some(kind)
    own = network.present(mask)
    other = torch.where(x == 3, 4.0, 3.0) if "text" in kind else x + 1
    other = torch.where(network.game.players.owners(x) >= 0, other, x)
    for m in range(mask.shape[1]):
        one = mask[:, m : m + 1]
        unseen = torch.where(own[:, m], x, other)
        assert torch.equal(network(x, one), network(unseen, one))
    one = torch.arange(network.players).expand(4, 1, -1) == 0
    seen = torch.where(network.present(one)[:, 0], other, x)
    assert (network(seen, one) - network(x, one)).abs().amax((1, 2)).min() > 1e-6


@every
@torch.no_grad()
def test_outputs_do_not_depend_on_the_batch(kind: str) -> None:
    network, x, mask = some(kind)
    whole = network(x, mask)
    if network.game.on_simplex:
        torch.testing.assert_close(whole.sum(-1), torch.ones(4, 5))
    alone = torch.cat([network(x[k : k + 1], mask[k : k + 1]) for k in range(4)])
    torch.testing.assert_close(alone, whole, **close)
    by_one = torch.cat([network(x, mask[:, m : m + 1]) for m in range(5)], dim=1)
    torch.testing.assert_close(by_one, whole, **close)


@pytest.mark.parametrize(
    ("kind", "lacking"), [*((kind, 0) for kind in NETWORKS), *((kind, 2) for kind in PADDED)]
)
@torch.no_grad()
def test_values_of_related_coalitions_are_those_of_single_ones(kind: str, lacking: int) -> None:
    network, x, mask = some(kind, m=3)
    if lacking:
        x[..., 6:] = network.game.padding
        unread = torch.arange(network.players) >= network.players - lacking
        torch.testing.assert_close(network(x, mask), network(x, mask ^ unread), **close)
        mask = mask[..., :-lacking]
    orders = torch.rand(4, 3, mask.shape[2]).argsort(-1)
    keys = torch.zeros(4, 3, dtype=torch.int64)
    for asked in (Nested(orders, keys, lacking=lacking), Toggled(mask, keys, lacking=lacking)):
        found, expected = network.values(x, asked), network(x, asked.masks())
        proper: Any = slice(None)
        if isinstance(asked, Toggled):  # What it gives for empty and full ones is not used.
            proper = is_proper(toggled(mask).flatten(1, 2))
        torch.testing.assert_close(found[proper], expected[proper], **close)


@every
def test_every_parameter_has_a_gradient(kind: str) -> None:
    """Several processes in a training would wait for the others' for ever."""
    network, x, mask = some(kind)
    network(x, mask).square().sum().backward()
    without = [name for name, own in network.named_parameters() if own.grad is None]
    assert not without


@pytest.mark.parametrize("kind", [*PADDED, "padded own"])
@torch.no_grad()
def test_the_number_that_pads_does_not_matter(kind: str) -> None:
    found = []
    for padding in (0.0, -1e3):
        network, _, mask = some(kind, rows=6)
        network.game = replace(network.game, padding=padding)
        x = torch.randn(6, *SERIES, generator=torch.Generator().manual_seed(1)) + 2
        x[0, :, 5:] = x[1, :, 8:] = padding
        network.standardise(x, torch.zeros(6, 3))
        keys = torch.zeros(mask.shape[:2], dtype=torch.int64)
        found.append((network(x, mask), network.values(x, Toggled(mask, keys))))
    torch.testing.assert_close(*found, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [*PADDED, "padded own", "text"])
@torch.no_grad()
def test_all_networks_but_those_of_users_know_how_long_rows_are(kind: str) -> None:
    network, x, mask = some(kind, rows=2)
    x[1] = rows_of(NETWORKS[kind][0], 1, seed=1)[0]
    x[1, ..., 3:] = network.game.padding
    nobody = network(x, torch.zeros_like(mask))
    assert torch.allclose(nobody[0], nobody[1]) == (kind == "padded own")


@torch.no_grad()
def test_padding_changes_nothing_for_a_transformer() -> None:
    network, x, mask = some("text")
    other = mask.clone()
    other[0, :, 5:] ^= True
    assert torch.equal(network(x, mask), network(x, other))
    # A row of padding alone has a value, too.
    assert network(torch.zeros(1, 6), mask[:1]).isfinite().all()
    with pytest.raises(ValueError, match=r"Expected tokens from 0 to 19, .* got 1.*`vocabulary="):
        network(x + 19, mask)


def test_tokens_of_held_out_rows_are_known() -> None:
    x = torch.randint(1, 8, (40, 5), generator=torch.Generator().manual_seed(0))
    held_out = x[:8].clone()
    held_out[0, 0] = 11
    value = ms.fit_surrogate(
        lambda x: nn.functional.one_hot(x[:, 0].clamp(max=2), 3).float(), x,
        x_validation=held_out, network="transformer", hidden=[32], **QUICK,
    )  # fmt: skip
    assert value.surrogate.stem.embedding.num_embeddings == 12


def data(rows: int = 300) -> tuple[Tensor, nn.Module]:
    """Pictures with a bright square in one of two corners, and a model that tells them apart."""
    generator = torch.Generator().manual_seed(0)
    corner = torch.zeros(8, 8)
    corner[:4, :4], corner[4:, 4:] = 1, -1
    left = torch.rand(rows, 1, 1, 1, generator=generator) < 0.5
    bright = torch.where(left, corner > 0, corner < 0).float()
    x = bright + 0.3 * torch.randn(rows, 1, 8, 8, generator=generator)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2, bias=False))
    model[1].weight.data = torch.stack((corner, -corner)).flatten(1) / 2
    return x, model


@pytest.mark.parametrize(
    ("network", "options"),
    [
        ("conv", {"hidden": [8, 8]}),
        ("transformer", {"hidden": [32], "patch": 4}),
        ("model", {}),
    ],
)
def test_each_network_learns_a_value_function_and_is_loaded_again(
    network: str, options: dict[str, Any], tmp_path: Any
) -> None:
    x, model = data()
    players = ms.Players.patches((1, 8, 8), 4)
    value = ms.fit_surrogate(
        model, x, network=network, players=players, max_epochs=2, batch_size=32, learning_rate=5e-3,
        **options, **CPU,
    )  # fmt: skip
    mask = torch.tensor([[[True, False, False, False]]]).expand(20, 1, 4)
    # One corner that is bright tells the class, and one that is not does, too.
    error = (value(x[:20], mask)[:, 0] - value.prediction(x[:20])).abs().mean()
    assert error < 0.1
    # A corner that is never bright tells nothing.
    mask = mask.roll(1, -1)
    assert (value(x[:20], mask)[:, 0] - 0.5).abs().mean() < 0.1
    ms.save(value, tmp_path)
    again = ms.load(tmp_path, model)
    assert torch.equal(again(x[:20], mask), value(x[:20], mask))
    explanation = ms.auto_shapley(again, x[:2])
    assert explanation.efficiency_gap < 1e-5
