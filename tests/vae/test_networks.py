"""Convolutional networks of a VAE: what they see, and any shape."""

import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.convolutions import ResidualBlock
from manifold_shap.vae import networks
from manifold_shap.vae.families import choose_families
from manifold_shap.vae.network import MaskedVAE
from tests.vae.test_vae import check_unseen

EVENTS = [(2, 7), (3, 5, 6), (1, 1, 3)]
every = pytest.mark.parametrize("event", EVENTS)


def rows(event: tuple[int, ...], count: int = 40, seed: int = 0) -> Tensor:
    """Normal elements, and every third one binary."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn((count, *event), generator=generator).flatten(1)
    x[:, ::3] = (x[:, ::3] > 0).float()
    return x.unflatten(1, event)


def positions(event: tuple[int, ...]) -> ms.Players:
    """One player per position, with its channels."""
    size = torch.Size(event[1:]).numel()
    index = torch.arange(size).reshape(event[1:]).expand(event)
    return ms.Players(range(size), index.contiguous())


def make(event: tuple[int, ...]) -> MaskedVAE:
    torch.manual_seed(0)
    x = rows(event)
    index = positions(event).index.flatten().tolist()
    made = MaskedVAE(choose_families(x), index, 3, (4, 6), 2, network="conv", event=event)
    for layer in made.modules():
        if isinstance(layer, ResidualBlock):
            nn.init.normal_(layer.change[-1].weight, std=0.2)
    made.likelihood.describe(x.flatten(1))
    return made


def masks(event: tuple[int, ...], count: int) -> Tensor:
    players = len(positions(event))
    mask = torch.rand(count, 4, players, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[:, 0], mask[:, 1] = False, True
    return mask


@every
def test_the_masked_encoder_never_sees_what_is_absent(event: tuple[int, ...]) -> None:
    check_unseen(make(event), rows(event, 1).flatten(1), masks(event, 1))


@every
def test_parts_change_memory_alone(event: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    whole, x, mask = make(event), rows(event).flatten(1), masks(event, 40)
    monkeypatch.setattr(networks, "_MOST_HELD", 1)
    parts = make(event)
    z = torch.randn(5, 2, 3)
    torch.testing.assert_close(parts.decode(z).eta, whole.decode(z).eta)
    torch.testing.assert_close(parts.encode(x).mean, whole.encode(x).mean)
    found, expected = (made.encode_masked(x, mask).mean for made in (parts, whole))
    torch.testing.assert_close(found, expected)
