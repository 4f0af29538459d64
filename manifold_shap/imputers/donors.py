"""Absent features from one row of the data each, the likest rows first."""

from abc import abstractmethod

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import noise
from manifold_shap.imputers.base import Completions, Imputer

# Weights whose logarithms differ by less count as equal, and take turns.
_TIE = 1e-6


class DonorImputer(Imputer):
    """x' = x_S ⊔ z_{S̄} with z one of the donors, weighted by how well z_S fits x_S.

    Nothing is left to chance but the turn of donors of equal weight: draw number k is the donor of
    the k-th largest weight. Fewer draws than donors are therefore not noisy, but narrow: they keep
    to the heaviest. `sample` draws in proportion to the weights instead.

    Attributes:
        donors: `[donors, *event]`.
        turns: a random place for each donor, in which those of equal weight come.
        proposals: donors of the largest weights among which `sample` chooses.
    """

    donors: Tensor
    turns: Tensor
    proposals = 1024

    def _set_donors(self, donors: Float[Tensor, "donors *event"]) -> None:
        turns = torch.randperm(len(donors), generator=torch.Generator().manual_seed(0))
        self.population = len(donors)
        self.register_buffer("donors", donors, persistent=False)
        self.register_buffer("turns", turns.to(donors.device), persistent=False)

    @abstractmethod
    def ranked(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        keys: Int64[Tensor, "batch m"],
        count: int,
    ) -> tuple[Int64[Tensor, "batch m count"], Float[Tensor, "batch m count"]]:
        """Indices of the donors of the largest weights, heaviest first, and log-weights."""

    def impute(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Completions:
        """Complete each coalition from its heaviest donors; see `Imputer.impute`.

        Draws beyond the number of donors, and beyond the share of the weight that counts, have a
        weight of zero.
        """
        count = min(draws.stop, len(self.donors))
        index, log_weights = self.ranked(x, mask, keys, count)
        missing = (0, draws.stop - count)
        index = torch.nn.functional.pad(index, missing)[..., draws.start :]
        log_weights = torch.nn.functional.pad(log_weights, missing, value=-torch.inf)
        completed = self.splice(x, mask, self.donors[index])
        return Completions(completed, log_weights[..., draws.start :])

    def sample(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Float[Tensor, "batch m draws *event"]:
        """Equally weighted draws: donors chosen in proportion to their weights."""
        index, log_weights = self.ranked(x, mask, keys, min(self.proposals, len(self.donors)))
        cumulative = log_weights.softmax(-1).cumsum(-1)
        wanted = noise.uniform(noise.fold(keys, -2), (), draws) * cumulative[..., -1:]
        chosen = torch.searchsorted(cumulative, wanted.contiguous())
        return self.splice(x, mask, self.donors[index.gather(-1, chosen)])

    def undrawn(self, draws: int) -> float:
        """0: which donors count is not drawn, so that fewer are a bias rather than a variance."""
        return 0.0

    def _heaviest(
        self, log_weights: Float[Tensor, "pairs donors"], keys: Int64[Tensor, " pairs"], count: int
    ) -> tuple[Int64[Tensor, "pairs count"], Float[Tensor, "pairs count"]]:
        """Donors sorted by weight; those of equal weight in an order that the key decides."""
        donors = len(self.donors)
        begin = (noise.uniform(keys, ()).double() * donors).long()
        turn = (self.turns + begin[:, None]) % donors
        # Distinct scores: any number of the largest comes in one and the same order.
        score = log_weights.double() - turn * (_TIE / donors)
        index = score.topk(count, dim=-1).indices
        return index, log_weights.gather(-1, index)
