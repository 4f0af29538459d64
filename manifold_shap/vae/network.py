"""Defines the masked-encoder variational autoencoder (Frye et al. 2021, Section 4.1, Appendix A).

An encoder q(z|x), a decoder p(x|z) and a masked encoder r(z|x_S) maximise

    E_q[log p(x|z)] - KL(q(z|x) || r(z|x_S)) - β KL(q(z|x) || p(z))                   (Eq. 14)

over coalitions of the Shapley sum, and p(x'|x_S) = ∫ p(x'|z) r(z|x_S) dz (Eq. 13). By default two
things differ from the paper. The masked encoder gets a mask of the present players, instead of a
fill value in place of absent elements. And KL(q || r) trains r alone, not q, so that r approximates
q and does not simplify it. What does not read r, such as a bank of codes, is then the same without.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.distributions import (
    Categorical,
    Independent,
    MixtureSameFamily,
    Normal,
    kl_divergence,
)

from manifold_shap._checks import check_whole
from manifold_shap.nn import Network, kind_of
from manifold_shap.players import Players
from manifold_shap.vae.likelihood import Likelihood, Product
from manifold_shap.vae.networks import NAMED, NETWORKS

# Log-scales in latent space, where codes are of order one. Of a row far from all others the network
# extrapolates: unbounded, a scale of 1e8 would make the loss 1e13, and NaN soon after.
_LEAST_LOG_SCALE, _MOST_LOG_SCALE = -5.0, 2.0


class MaskedVAE(nn.Module):
    """Encoder, decoder and masked encoder; each returns a distribution.

    Args:
        families: distributions of the elements; see `choose_families`.
        index: player that owns each of the flattened input elements.
        latent: dimensions of z.
        hidden: width of each hidden layer of the three networks; of convolutional ones the channels
            of each block, which halves the sizes of a picture. Of no effect on the user's.
        components: normals in the mixture r(z|x_S) (Eq. 20); None for no masked encoder.
        fill: what absent elements are set to, as in the paper (-1 there); by default None, and the
            masked encoder gets zeros and the mask.
        activation: one of `nn.ACTIVATIONS`; of no effect on the user's networks.
        network: `mlp` for fully connected networks, `conv` for convolutional ones; or a function
            that makes each of them by its widths, see `own_networks`.
        event: shape of one input row, which convolutional networks need; by default flat.
        padding: the number that rows are padded by, see `Players`. Padding is seen by no encoder,
            and is no part of the likelihood.

    Attributes:
        players: as the index has them, with numbers for names.

    Raises:
        TypeError, ValueError: a size that is no whole number, a word that is not known, or
            convolutions of rows that are neither pictures nor series.
    """

    owner_of_statistic: Tensor
    owner_of_feature: Tensor
    owner_of_mask: Tensor
    masked: Any

    def __init__(
        self,
        families: Sequence[Sequence[Any]],
        index: Sequence[int],
        latent: int = 32,
        hidden: Sequence[int] | None = (512, 512),
        components: int | None = 4,
        fill: float | None = None,
        activation: str | None = "relu",
        network: Network = "mlp",
        event: Sequence[int] | None = None,
        padding: float | None = None,
    ) -> None:
        super().__init__()
        check_whole("latent", latent)
        mixture = 0 if components is None else check_whole("components", components)
        self.latent, self.components, self.fill = latent, mixture, fill
        self.likelihood = Likelihood(families)
        owner = torch.tensor(list(index))
        self.register_buffer(
            "owner_of_statistic", owner[self.likelihood.statistic_of], persistent=False
        )
        features = owner[self.likelihood.feature_of]
        self.register_buffer("owner_of_feature", features, persistent=False)
        kind = kind_of(network, NAMED)
        shaped = owner.reshape(tuple(event or (len(owner),)))
        self.players = Players(range(int(owner.max()) + 1), shaped, padding)
        # The numbers of the mask that its encoder sees.
        beside = owner if kind == "conv" else torch.arange(len(self.players))
        self.register_buffer("owner_of_mask", beside, persistent=False)
        options = (network,) if kind == "own" else (hidden, activation)
        game = self.likelihood, self.players, latent, mixture * (2 * latent + 1)
        self.encoder, self.decoder, self.masked = NETWORKS[kind](*game, *options)

    def encode(self, x: Float[Tensor, "batch elements"]) -> Independent:
        """q(z|x), a diagonal normal (Eq. 18)."""
        return _normal(self.encoder(self._features(x)))

    def decode(self, z: Float[Tensor, "*batch latent"]) -> Product:
        """p(x|z), a product over elements (Eq. 19)."""
        raw = self.decoder(z.reshape(-1, self.latent))
        return self.likelihood(raw.reshape(*z.shape[:-1], -1).float())

    def encode_masked(
        self, x: Float[Tensor, "batch elements"], mask: Bool[Tensor, "batch m players"]
    ) -> MixtureSameFamily:
        """r(z|x_S), a mixture of diagonal normals (Eq. 20), of batch shape `[batch, m]`."""
        # A player that a row lacks is in every coalition.
        mask = mask | ~self.players.owned(x.unflatten(1, self.players.event))[:, None]
        present = mask[..., self.owner_of_feature]
        beside = mask[..., self.owner_of_mask].to(x.dtype)
        known = torch.where(present, self._features(x)[:, None], self.fill or 0.0)
        beside = beside if self.fill is None else torch.ones_like(beside)
        numbers = self.masked(torch.cat((known, beside), dim=-1).flatten(0, 1)).float()
        raw = numbers.unflatten(0, mask.shape[:2]).unflatten(-1, (self.components, -1))
        return MixtureSameFamily(
            Categorical(logits=raw[..., 0], validate_args=False),
            _normal(raw[..., 1:]),
            validate_args=False,
        )

    def statistics(self, x: Float[Tensor, "rows elements"]) -> Float[Tensor, "rows f"]:
        """t(x), see `Likelihood`; zero for padding."""
        return self._without_padding(x, self.likelihood.statistics(x), self.likelihood.statistic_of)

    def _features(self, x: Tensor) -> Float[Tensor, "rows features"]:
        return self._without_padding(x, self.likelihood.features(x), self.likelihood.feature_of)

    def _without_padding(self, x: Tensor, numbers: Tensor, element_of: Tensor) -> Tensor:
        if self.players.padding is None:
            return numbers
        owners = self.players.owners(x.unflatten(1, self.players.event)).flatten(1)
        return torch.where((owners >= 0)[:, element_of], numbers, 0.0)

    def loss(
        self,
        x: Float[Tensor, "batch elements"],
        mask: Bool[Tensor, "batch m players"],
        noise: Float[Tensor, "batch latent"],
        beta: float = 1.0,
        detach: bool = True,
    ) -> Float[Tensor, " batch"]:
        """-L of each row, the mean over its coalitions (Eq. 14 and below), in nats; without r, the
        bound of q and the decoder alone.

        Args:
            x: flattened rows.
            mask: coalitions of each row.
            noise: standard normal numbers, for one sample of q.
            beta: β, the weight of KL(q || p(z)).
            detach: whether KL(q || r) trains r alone.
        """
        q = self.encode(x)
        loc, scale = q.base_dist.loc, q.base_dist.scale
        z = loc + scale * noise
        reconstruction = self.decode(z).log_prob(self.statistics(x))
        prior = _independent(torch.zeros_like(loc), torch.ones_like(scale))
        to_prior = beta * kl_divergence(q, prior)
        if not self.components:
            return to_prior - reconstruction
        r = self.encode_masked(x, mask)
        if detach:
            q, z = _independent(loc.detach(), scale.detach()), z.detach()
        return _kl(q, z, r).mean(1) + to_prior - reconstruction


def sample_mixture(
    mixture: MixtureSameFamily,
    u: Float[Tensor, "*batch draws"],
    noise: Float[Tensor, "*batch draws latent"],
) -> Float[Tensor, "*batch draws latent"]:
    """Draws of a mixture from uniform numbers (for the component) and normal ones."""
    upper = mixture.mixture_distribution.probs.cumsum(-1)
    chosen = torch.searchsorted(upper, u.contiguous()).clamp(max=upper.shape[-1] - 1)
    normals = normals_of(mixture)
    index = chosen[..., None].expand(*chosen.shape, noise.shape[-1])
    return normals.loc.gather(-2, index) + normals.scale.gather(-2, index) * noise


def normals_of(mixture: MixtureSameFamily) -> Normal:
    """The diagonal normals of a mixture, `[*batch, components, latent]`."""
    return cast(Normal, cast(Independent, mixture.component_distribution).base_dist)


def prior_log_prob(z: Float[Tensor, "*batch latent"]) -> Float[Tensor, "*batch"]:
    """log p(z) of the standard normal prior, up to a constant."""
    return -z.square().sum(-1) / 2


def _normal(raw: Tensor) -> Independent:
    mean, rough = raw.float().chunk(2, dim=-1)
    log_scale = _LEAST_LOG_SCALE + F.softplus(rough - _LEAST_LOG_SCALE)
    return _independent(mean, log_scale.clamp(max=_MOST_LOG_SCALE).exp())


def _independent(mean: Tensor, scale: Tensor) -> Independent:
    return Independent(Normal(mean, scale, validate_args=False), 1, validate_args=False)


def _kl(
    q: Independent, z: Float[Tensor, "batch latent"], r: MixtureSameFamily
) -> Float[Tensor, "batch m"]:
    """KL(q || r) for each coalition: exact for one component, by the one sample z for more."""
    if r.mixture_distribution.probs.shape[-1] == 1:
        only, own = normals_of(r), q.base_dist
        alone = _independent(only.loc[:, :, 0], only.scale[:, :, 0])
        return kl_divergence(_independent(own.loc[:, None], own.scale[:, None]), alone)
    return q.log_prob(z)[:, None] - r.log_prob(z[:, None])
