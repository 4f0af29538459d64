"""Convolutional networks of a VAE: what they see, any shape, and conditionals that are known."""

import pytest
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.convolutions import ResidualBlock
from manifold_shap.vae import networks
from manifold_shap.vae.families import choose_families
from manifold_shap.vae.network import MaskedVAE

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


def make(
    event: tuple[int, ...], continuous: str = "normal", fill: float | None = None
) -> MaskedVAE:
    torch.manual_seed(0)
    x = rows(event)
    families = choose_families(x, continuous=continuous, bins=4)
    index = positions(event).index.flatten().tolist()
    made = MaskedVAE(families, index, 3, (4, 6), 2, fill, network="conv", event=event)
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
@pytest.mark.parametrize("fill", [None, -1.0])
def test_the_masked_encoder_never_sees_what_is_absent(
    event: tuple[int, ...], fill: float | None
) -> None:
    made, x, mask = make(event, fill=fill), rows(event, 1).flatten(1), masks(event, 1)
    x.requires_grad_()
    for k in range(4):
        r = made.encode_masked(x, mask[:, k : k + 1])
        total = r.component_distribution.base_dist.loc.sum() + r.mixture_distribution.logits.sum()
        (gradient,) = torch.autograd.grad(total, x)
        present = positions(event).expand(mask[0, k]).flatten()
        assert not gradient[0, ~present].any()
        assert bool(present.any()) == bool(gradient[0, present].any())


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


class Factors:
    """x = W z + noise with smooth W: of a series or a picture all conditionals are known."""

    def __init__(self, event: tuple[int, ...]) -> None:
        self.event = event
        places = torch.cartesian_prod(*(torch.linspace(0, 1, side) for side in event[1:]))
        places = places.reshape(-1, len(event) - 1)
        centres = torch.rand(3, len(event) - 1, generator=torch.Generator().manual_seed(3))
        bumps = torch.exp(-((places[:, None] - centres) ** 2).sum(-1) / 0.1)
        signs = torch.tensor([[1.0, 1, 1], [1, -1, 0.5], [-1, 1, 1]])[: event[0]]
        self.mixing = (signs[:, None] * bumps).flatten(0, 1)
        self.covariance = self.mixing @ self.mixing.T + 0.01 * torch.eye(len(self.mixing))

    def rows(self, count: int, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        z = torch.randn(count, 3, generator=generator)
        noise = 0.1 * torch.randn(count, len(self.mixing), generator=generator)
        return (z @ self.mixing.T + noise).unflatten(1, self.event)

    def mean(self, x: Tensor, present: Tensor) -> Tensor:
        """E[x | x_S] of a flat row."""
        known, cross = self.covariance[present][:, present], self.covariance[:, present]
        return torch.where(present, x, cross @ torch.linalg.solve(known, x[present]))


@pytest.mark.parametrize(
    ("event", "hidden"),
    [((2, 12), (16, 16)), pytest.param((3, 4, 5), (32,), marks=pytest.mark.slow)],
)
def test_the_mean_is_that_of_a_gaussian(event: tuple[int, ...], hidden: tuple[int, ...]) -> None:
    law, players = Factors(event), positions(event)
    encoder = ms.fit_imputer(
        law.rows(1500, 0),
        players=players,
        network="conv",
        hidden=hidden,
        latent=4,
        components=1,
        learning_rate=1e-2,
        batch_size=64,
        max_epochs=6,
        posterior="encoder",
    )
    bank = ms.VAEImputer(encoder.network, encoder.reference, players, bank_size=4000)
    x, mask = law.rows(20, 1), ms.metrics.shapley_pairs(20, len(players), least=100, seed=2)
    mask[..., 0] = True
    absent = ~players.expand(mask).flatten(2)
    expected = torch.stack(
        [torch.stack([law.mean(x[b].flatten(), ~own) for own in absent[b]]) for b in range(20)]
    )
    for imputer in (bank, encoder):
        keys = torch.arange(100).reshape(20, 5)
        found = imputer.means(x, mask, keys, (1.0,))[0].flatten(2)
        error = (found - expected)[absent].square().mean()
        assert error < 0.1 * expected[absent].square().mean()
