"""Imputation by a masked-encoder VAE: p(x'|x_S) = ∫ p(x'|z) p(z|x_S) dz (Frye et al. Eq. 13).

Two ways to p(z|x_S). The *encoder* posterior draws from the masked encoder r(z|x_S), and may
correct it by importance weights w ∝ [p(x_S|z) p(z) / r(z|x_S)]^τ. The *bank* does without r: the
codes of the training rows stand for the prior, and are drawn in proportion to p(x_S|z)^τ. τ < 1
tempers likelihoods that are products over hundreds of elements, and over-confident.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import noise
from manifold_shap.checkpoints import save_checkpoint
from manifold_shap.coalitions import Players
from manifold_shap.imputers.base import Completions, Imputer
from manifold_shap.likelihood import Product
from manifold_shap.vae import MaskedVAE, prior_log_prob, sample_mixture

POSTERIORS = ("bank", "encoder")

# What a bank may take: 1 GiB.
_BANK_ELEMENTS = 2**28

# Weights held at a time: on a processor what its cache holds, three times as fast as more.
_WEIGHT_ELEMENTS_CPU = 2**21
_WEIGHT_ELEMENTS_ACCELERATOR = 2**26

# A bank has at least so many codes: with fewer, neighbours in a table are too far apart.
_LEAST_CODES = 30_000

# Weighted draws among which an equally weighted one is chosen.
_PROPOSALS = 64

# Names of the streams of random numbers that one key gives.
_COMPONENT, _LATENT, _ELEMENT = 1, 2, 3


class VAEImputer(Imputer):
    """x'_{S̄} from the decoder, at codes drawn given x_S.

    Args:
        network: a trained `MaskedVAE`.
        reference: training rows; their codes are the bank.
        players: who plays.
        posterior: `bank` or `encoder`.
        temper: τ, the power of the weights.
        importance: whether draws of the encoder posterior carry importance weights.
        bank_size: most codes in the bank; by default one of each row, several where that makes
            fewer than 30,000, and no more than a gigabyte holds.
        seed: of the codes.

    Attributes:
        checkpoint: what `save` writes: tensors and plain data, none of the reference rows.
        training_record: epochs, seconds and validation loss, where it was trained in this process.
    """

    name = "vae"
    bank: Tensor

    def __init__(
        self,
        network: MaskedVAE,
        reference: Any,
        players: Players | None = None,
        *,
        posterior: str = "bank",
        temper: float = 1.0,
        importance: bool = False,
        bank_size: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(reference, players)
        check_posterior(posterior, temper, importance, bank_size)
        self.network = network.eval().requires_grad_(False).to(self.device)
        self.checkpoint: dict[str, Any] = {}
        self.training_record: dict[str, float] = {}
        self.posterior, self.temper, self.importance = posterior, temper, importance
        self.bank_size, self.seed = bank_size, seed
        self.proposals = _PROPOSALS if importance else 1
        bank = torch.zeros(0, len(network.owner_of_statistic))
        if posterior == "bank":
            bank = self._fill_bank(bank_size or _BANK_ELEMENTS // bank.shape[1], seed)
        self.register_buffer("bank", bank, persistent=False)

    @property
    def provenance(self) -> dict[str, Any]:
        mine: dict[str, Any] = {"posterior": self.posterior}
        if self.posterior == "bank":
            mine |= {"codes": len(self.bank), "codes_seed": self.seed}
        else:
            mine |= {"importance": self.importance}
        return {**mine, "temper": self.temper} if self.is_weighted else mine

    @property
    def settings(self) -> dict[str, Any]:
        """How codes are drawn: arguments that make this imputer of its network and rows."""
        return {
            "posterior": self.posterior,
            "temper": self.temper,
            "importance": self.importance,
            "bank_size": self.bank_size,
            "seed": self.seed,
        }

    @property
    def is_weighted(self) -> bool:
        """Whether draws depend on weights, and so on `temper`."""
        return self.posterior == "bank" or self.importance

    @torch.no_grad()
    def impute(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Completions:
        """Decode codes drawn given x_S; see `Imputer.impute`."""
        u = noise.uniform(noise.fold(keys, _COMPONENT), (), draws)
        log_weights, effective = None, None
        if self.posterior == "bank":
            chosen, effective = self._chosen(x, mask, u)
            decoded = Product(self.network.likelihood, self.bank[chosen])
        else:
            decoded, log_weights = self._from_encoder(x.flatten(1), mask, u, keys, draws)
        elements = (self.players.index.numel(),)
        drawn = decoded.quantile(noise.uniform(noise.fold(keys, _ELEMENT), elements, draws))
        rows = self.splice(x, mask, drawn.unflatten(-1, self.players.event))
        return Completions(rows, log_weights, effective)

    def save(self, path: str | Path) -> None:
        """Write the imputer without its reference rows to one file; `load_imputer` reads it.

        Raises:
            ValueError: it was put together by hand, neither trained nor loaded.
            OSError: no space or no permission; what stood at `path` is left as it was.
        """
        if not self.checkpoint:
            raise ValueError(
                "Expected an imputer from `fit_imputer` or `load_imputer` but this one has no "
                "checkpoint; save `imputer.network.state_dict()` instead."
            )
        save_checkpoint(path, self.checkpoint)

    @torch.no_grad()
    def mean(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        keys: Int64[Tensor, "batch m"],
        draws: int = 64,
    ) -> Float[Tensor, "batch m *event"]:
        """E[x' | x_S], what absent elements are expected to be; of one-hot blocks the shares."""
        if self.posterior == "bank":
            decoded = Product(self.network.likelihood, self.bank).mean
            weights = [self.bank_weights(*pairs) for pairs in self._pairs(x, mask)]
            mean = torch.cat([some @ decoded for some in weights]).unflatten(0, mask.shape[:2])
        else:
            u = noise.uniform(noise.fold(keys, _COMPONENT), (), range(draws))
            product, log_weights = self._from_encoder(x.flatten(1), mask, u, keys, range(draws))
            known = torch.zeros_like(u) if log_weights is None else log_weights
            mean = torch.einsum("bmk,bmke->bme", known.softmax(-1), product.mean)
        return mean.unflatten(-1, self.players.event)

    def bank_weights(
        self, x: Float[Tensor, "pairs elements"], mask: Bool[Tensor, "pairs players"]
    ) -> Float[Tensor, "pairs codes"]:
        """p(z|x_S) of the codes in the bank."""
        # The temper goes to the statistics: they are far smaller than their product.
        return (self.temper * self._present(x, mask) @ self.bank.T).softmax(-1)

    def _pairs(self, x: Tensor, mask: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows `[some, elements]` with one coalition each, as many as may be weighted at a time."""
        on_cpu = self.bank.device.type == "cpu"
        most = _WEIGHT_ELEMENTS_CPU if on_cpu else _WEIGHT_ELEMENTS_ACCELERATOR
        flat, coalitions = x.flatten(1), mask.flatten(0, 1)
        numbers = torch.arange(len(coalitions), device=x.device)
        for some in numbers.split(max(1, most // len(self.bank))):
            yield flat[some // mask.shape[1]], coalitions[some]

    def _chosen(
        self, x: Tensor, mask: Tensor, u: Tensor
    ) -> tuple[Int64[Tensor, "batch m draws"], Float[Tensor, "batch m"]]:
        """Codes at `u` of the bank's distribution, and the effective number behind them."""
        wanted = u.flatten(0, 1)
        chosen, effective, first = [], [], 0
        for rows, coalitions in self._pairs(x, mask):
            weights = self.bank_weights(rows, coalitions)
            effective.append(1 / weights.square().sum(-1))
            upper = weights.cumsum(-1)
            here = wanted[first : first + len(rows)] * upper[:, -1:]
            chosen.append(torch.searchsorted(upper, here).clamp(max=len(self.bank) - 1))
            first += len(rows)
        return (
            torch.cat(chosen).unflatten(0, mask.shape[:2]),
            torch.cat(effective).unflatten(0, mask.shape[:2]),
        )

    def _from_encoder(
        self, x: Tensor, mask: Tensor, u: Tensor, keys: Tensor, draws: range
    ) -> tuple[Product, Tensor | None]:
        r = self.network.encode_masked(x, mask)
        latent = noise.normal(noise.fold(keys, _LATENT), (self.network.latent,), draws)
        z = sample_mixture(r, u, latent)
        decoded = self.network.decode(z)
        if not self.importance:
            return decoded, None
        statistics = self._present(x[:, None].expand(-1, mask.shape[1], -1), mask)
        likelihood = decoded.log_prob(statistics[:, :, None])
        proposed = r.log_prob(z.movedim(2, 0)).movedim(0, 2)
        return decoded, self.temper * (likelihood + prior_log_prob(z) - proposed)

    def _present(
        self, x: Float[Tensor, "*pairs elements"], mask: Bool[Tensor, "*pairs players"]
    ) -> Float[Tensor, "*pairs f"]:
        """Statistics of the present elements, zero elsewhere."""
        present = mask[..., self.network.owner_of_statistic]
        return self.network.likelihood.statistics(x) * present

    @torch.no_grad()
    def _fill_bank(self, most: int, seed: int) -> Float[Tensor, "codes f"]:
        """Coefficients of decoded codes of the rows, in the order of their main direction.

        Neighbours are alike, so that as a coalition grows and weights shift, one uniform number
        goes on choosing similar codes.
        """
        rows = self.reference.flatten(1)
        generator = torch.Generator().manual_seed(seed)
        kept = torch.randperm(len(rows), generator=generator)
        # Small tables give several codes of each row.
        kept = kept.repeat(-(-_LEAST_CODES // len(kept)))[:most].to(rows.device)
        codes = []
        for some in kept.split(4096):
            q = self.network.encode(rows[some]).base_dist
            shape = torch.randn(q.loc.shape, generator=generator).to(rows.device)
            codes.append(q.loc + q.scale * shape)
        z = torch.cat(codes)
        _, _, directions = torch.linalg.svd(z - z.mean(0), full_matrices=False)
        z = z[(z @ directions[0]).argsort()]
        return torch.cat([self.network.decode(some).eta for some in z.split(4096)])


def check_posterior(posterior: str, temper: float, importance: bool, bank_size: int | None) -> None:
    """Raise ValueError unless a `VAEImputer` can draw codes with these settings."""
    if posterior not in POSTERIORS:
        raise ValueError(f"Expected `posterior` to be one of {POSTERIORS}, got {posterior!r}.")
    if not temper >= 0:
        raise ValueError(f"Expected `temper` to be at least 0 but got {temper}.")
    if importance and posterior == "bank":
        raise ValueError(
            "Expected `importance` with posterior='encoder' but got it with posterior='bank', "
            "whose codes are weighted in any case; leave one of the two out."
        )
    if bank_size is not None and bank_size < 1:
        raise ValueError(f"Expected `bank_size` of at least 1 but got {bank_size}.")
