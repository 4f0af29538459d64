"""Imputation by a masked-encoder VAE: p(x'|x_S) = ∫ p(x'|z) p(z|x_S) dz (Frye et al. Eq. 13).

Two ways to p(z|x_S). The *encoder* posterior draws from the masked encoder r(z|x_S), and may
correct it by importance weights w ∝ [p(x_S|z) p(z) / r(z|x_S)]^τ. The *bank* does without r: the
codes of the training rows stand for the prior, and are drawn in proportion to p(x_S|z)^τ. τ < 1
tempers likelihoods that are products over hundreds of elements, and over-confident.
"""

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

# What a bank may take, and what its weights may take at a time: 1 GiB and 256 MiB.
_BANK_ELEMENTS = 2**28
_WEIGHT_ELEMENTS = 2**26

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
        if posterior not in POSTERIORS:
            raise ValueError(f"Expected `posterior` to be one of {POSTERIORS}, got {posterior!r}.")
        if not temper >= 0:
            raise ValueError(f"Expected `temper` to be at least 0 but got {temper}.")
        if bank_size is not None and bank_size < 1:
            raise ValueError(f"Expected `bank_size` of at least 1 but got {bank_size}.")
        self.network = network.eval().requires_grad_(False)
        self.checkpoint: dict[str, Any] = {}
        self.training_record: dict[str, float] = {}
        self.posterior, self.temper, self.importance = posterior, temper, importance
        self.proposals = _PROPOSALS if posterior == "encoder" and importance else 1
        bank = torch.zeros(0, len(network.owner_of_statistic))
        if posterior == "bank":
            bank = self._fill_bank(bank_size or _BANK_ELEMENTS // bank.shape[1], seed)
        self.register_buffer("bank", bank, persistent=False)

    @property
    def provenance(self) -> dict[str, Any]:
        mine: dict[str, Any] = {"posterior": self.posterior, "temper": self.temper}
        return {**mine, "importance": self.importance} if self.posterior == "encoder" else mine

    @torch.no_grad()
    def impute(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Completions:
        flat = x.flatten(1)
        u = noise.uniform(noise.fold(keys, _COMPONENT), (), draws)
        if self.posterior == "bank":
            decoded = Product(self.network.likelihood, self._from_bank(flat, mask, u))
            log_weights = None
        else:
            decoded, log_weights = self._from_encoder(flat, mask, u, keys, draws)
        elements = noise.uniform(noise.fold(keys, _ELEMENT), flat.shape[1:], draws)
        drawn = decoded.quantile(elements).unflatten(-1, self.players.event)
        return Completions(self.splice(x, mask, drawn), log_weights)

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
        flat = x.flatten(1)
        if self.posterior == "bank":
            weights = self.bank_weights(flat, mask)
            mean = weights @ Product(self.network.likelihood, self.bank).mean
        else:
            u = noise.uniform(noise.fold(keys, _COMPONENT), (), range(draws))
            decoded, log_weights = self._from_encoder(flat, mask, u, keys, range(draws))
            known = torch.zeros_like(u) if log_weights is None else log_weights
            mean = torch.einsum("bmk,bmke->bme", known.softmax(-1), decoded.mean)
        return mean.unflatten(-1, self.players.event)

    def bank_weights(
        self, x: Float[Tensor, "batch elements"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "batch m codes"]:
        """p(z|x_S) of the codes in the bank."""
        present = self._present(x, mask)
        return (self.temper * (present @ self.bank.T)).softmax(-1)

    def _from_bank(self, x: Tensor, mask: Tensor, u: Tensor) -> Float[Tensor, "batch m draws f"]:
        rows = max(1, _WEIGHT_ELEMENTS // (mask.shape[1] * len(self.bank)))
        chosen = []
        for some in torch.arange(len(x), device=x.device).split(rows):
            upper = self.bank_weights(x[some], mask[some]).cumsum(-1)
            wanted = (u[some] * upper[..., -1:]).contiguous()
            chosen.append(torch.searchsorted(upper, wanted))
        return self.bank[torch.cat(chosen).clamp(max=len(self.bank) - 1)]

    def _from_encoder(
        self, x: Tensor, mask: Tensor, u: Tensor, keys: Tensor, draws: range
    ) -> tuple[Product, Tensor | None]:
        r = self.network.encode_masked(x, mask)
        latent = noise.normal(noise.fold(keys, _LATENT), (self.network.latent,), draws)
        z = sample_mixture(r, u, latent)
        decoded = self.network.decode(z)
        if not self.importance:
            return decoded, None
        likelihood = decoded.log_prob(self._present(x, mask)[:, :, None])
        proposed = torch.stack([r.log_prob(z[:, :, k]) for k in range(z.shape[2])], dim=2)
        return decoded, self.temper * (likelihood + prior_log_prob(z) - proposed)

    def _present(self, x: Tensor, mask: Tensor) -> Float[Tensor, "batch m f"]:
        """Statistics of the present elements, zero elsewhere."""
        present = mask[..., self.network.owner_of_statistic]
        return self.network.likelihood.statistics(x)[:, None] * present

    @torch.no_grad()
    def _fill_bank(self, most: int, seed: int) -> Float[Tensor, "codes f"]:
        """Coefficients of decoded codes, one code per row, in the order of their main direction.

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
