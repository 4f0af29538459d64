"""Holds the decoded codes of training rows and weighs them, coalition after coalition."""

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap.vae.network import MaskedVAE

# A bank takes at most 1 GiB.
_BANK_ELEMENTS = 2**28

# Least codes of a bank: with fewer, neighbours in a table are too far apart.
_LEAST_CODES = 30_000

# Coalitions of a run that are updated together. More of them make a better matrix product, of more
# statistics; an accelerator is faster with fewer products.
_BLOCK_CPU = 8
_BLOCK_ACCELERATOR = 64

# An update by more than this share of all statistics takes longer than a product of all of them.
_LARGEST_UPDATE = 0.25


@torch.no_grad()
def decoded_codes(
    network: MaskedVAE, rows: Float[Tensor, "rows elements"], most: int | None, seed: int
) -> Float[Tensor, "codes f"]:
    """Coefficients of decoded codes of the rows, ordered by their first principal component.

    Neighbours are alike: as a coalition grows and weights shift, one uniform number continues to
    choose similar codes. A code is a column in memory, since runs of coalitions take few
    statistics of all codes.

    Args:
        network: a trained `MaskedVAE`.
        rows: whose codes.
        most: codes, at most; by default one of each row, several where that makes fewer than
            30,000, and no more than a gigabyte holds.
        seed: of the codes.
    """
    width = len(network.owner_of_statistic)
    most = most or _BANK_ELEMENTS // width
    generator = torch.Generator().manual_seed(seed)
    kept = torch.randperm(len(rows), generator=generator)
    # Small tables give several codes of each row.
    kept = kept.repeat(-(-_LEAST_CODES // len(kept)))[:most].to(rows.device)
    z = torch.cat([_sampled_codes(network, rows[some], generator) for some in kept.split(4096)])
    _, _, directions = torch.linalg.svd(z - z.mean(0), full_matrices=False)
    z = z[(z @ directions[0]).argsort()]
    columns = z.new_empty(width, len(z))
    for some, place in zip(z.split(4096), columns.split(4096, 1), strict=True):
        place.copy_(network.decode(some).eta.T)
    return columns.T


def _sampled_codes(
    network: MaskedVAE, rows: Float[Tensor, "rows elements"], generator: torch.Generator
) -> Float[Tensor, "rows latent"]:
    q = network.encode(rows).base_dist
    return q.loc + q.scale * torch.randn(q.loc.shape, generator=generator).to(rows.device)


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
