"""Holds the decoded codes of training rows and weighs them, coalition after coalition."""

from collections.abc import Iterable
from functools import partial

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from manifold_shap._stored import StoredRows
from manifold_shap.vae.likelihood import Likelihood, Product
from manifold_shap.vae.network import MaskedVAE

# By default a table of coefficients takes at most 1 GiB; those decoded at a time take 64 MiB.
_BANK_ELEMENTS = 2**28
_DECODED_ELEMENTS = 2**24

# Least codes of a bank: with fewer, neighbours in a table are too far apart.
_LEAST_CODES = 30_000

# Coalitions of a run that are updated together. More of them make a better matrix product, of more
# statistics; an accelerator is faster with fewer products.
_BLOCK_CPU = 8
_BLOCK_ACCELERATOR = 64

# An update by more than this share of all statistics takes longer than a product of all of them.
_LARGEST_UPDATE = 0.25


class Bank(nn.Module):
    """Codes of training rows, which represent the prior p(z), and the coefficients of all of them.

    Args:
        likelihood: of the elements.
        table: coefficients; fastest where a code is a column in memory.
    """

    table: Tensor

    def __init__(self, likelihood: Likelihood, table: Float[Tensor, "codes f"]) -> None:
        super().__init__()
        self.product = partial(Product, likelihood)
        self.register_buffer("table", table, persistent=False)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, codes: Int64[Tensor, " some"]) -> Product:
        """p(x|z) of the codes with these numbers."""
        return self.product(self.table[codes])

    def mean(
        self, weights: Iterable[Float[Tensor, "*batch some codes"]]
    ) -> Float[Tensor, "*batch pairs elements"]:
        """Expected values of the elements under weights of the codes, which come in parts."""
        decoded = self.product(self.table).mean
        return torch.cat([some @ decoded for some in weights], dim=-2)


@torch.no_grad()
def bank_of(
    network: MaskedVAE, rows: Tensor | StoredRows, most: int | None, seed: int
) -> tuple[Bank, Int64[Tensor, " codes"]]:
    """Codes of the rows and, where these are padded, their lengths; ordered by the codes' first
    principal component.

    Neighbours are alike: as a coalition grows and weights shift, one uniform number continues to
    choose similar codes. A code is a column in memory, since runs of coalitions take few
    statistics of all codes.

    Args:
        network: a trained `MaskedVAE`.
        rows: whose codes; of those that lie elsewhere a part is in memory at a time.
        most: codes, at most; by default one of each row, several where that makes fewer than
            30,000, and no more than a gigabyte of coefficients holds.
        seed: of the codes.
    """
    width = len(network.owner_of_statistic)
    generator = torch.Generator().manual_seed(seed)
    kept = torch.randperm(len(rows), generator=generator)
    # Small tables give several codes of each row.
    kept = kept.repeat(-(-_LEAST_CODES // len(kept)))[: most or _BANK_ELEMENTS // width]
    codes_of, lengths_of = [], []
    # Drawn at once, so that codes do not depend on how many rows are read together.
    noise = torch.randn(len(kept), network.latent, generator=generator)
    at_once = max(1, min(4096, _DECODED_ELEMENTS // rows.shape[1:].numel()))
    for some, own in zip(kept.split(at_once), noise.split(at_once), strict=True):
        x = rows[some.to(rows.device)]
        q = network.encode(x.flatten(1)).base_dist
        codes_of.append(q.loc + q.scale * own.to(x.device))
        lengths_of.append(network.players.lengths(x))
    z = torch.cat(codes_of)
    _, _, directions = torch.linalg.svd(z - z.mean(0), full_matrices=False)
    order = (z @ directions[0]).argsort()
    z, lengths = z[order], torch.cat(lengths_of)[order]
    columns, some = z.new_empty(width, len(z)), max(1, min(4096, _DECODED_ELEMENTS // width))
    for codes, place in zip(z.split(some), columns.split(some, 1), strict=True):
        place.copy_(network.decode(codes).eta.T)
    return Bank(network.likelihood, columns.T), lengths


class RunningLikelihood:
    """log p(x_S|z) of all codes for a sequence of coalitions that differ in few players.

    Along an order each coalition gains a player, around a coalition one player at a time is
    toggled: log p changes by the terms of these players alone. A few coalitions at a time are
    updated together, by a matrix product of the statistics in which they differ from the last one.

    Args:
        bank: coefficients of the codes; fastest where a code is a column in memory.
    """

    def __init__(self, bank: Float[Tensor, "codes f"]) -> None:
        self.columns = bank.T
        on_cpu = bank.device.type == "cpu"
        self.block = _BLOCK_CPU if on_cpu else _BLOCK_ACCELERATOR
        # Start from the empty coalition: log p = 0.
        self._statistics, self._log_prob = bank.new_zeros(bank.shape[1]), bank.new_zeros(len(bank))

    def __call__(
        self, statistics: Float[Tensor, "coalitions f"]
    ) -> Float[Tensor, "coalitions codes"]:
        """log p for the next coalitions: statistics of present elements, zero elsewhere."""
        log_prob = statistics.new_empty(len(statistics), self.columns.shape[1])
        parts = statistics.split(self.block), log_prob.split(self.block)
        for some, out in zip(*parts, strict=True):
            self._update(some, out)
            self._statistics, self._log_prob = some[-1], out[-1]
        # The caller owns what it was given, and may change it.
        self._log_prob = self._log_prob.clone()
        return log_prob

    def _update(self, statistics: Tensor, out: Tensor) -> None:
        change = statistics - self._statistics
        changed = change.any(0).nonzero()[:, 0]
        if len(changed) > _LARGEST_UPDATE * len(self.columns):
            torch.mm(statistics, self.columns, out=out)
        else:
            own = self.columns.index_select(0, changed)
            torch.addmm(self._log_prob, change[:, changed], own, out=out)
