"""Absent features from one row of the data each, the likest rows first."""

from abc import abstractmethod
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap.imputers.base import Completions, Imputer

# Weights whose logarithms differ by less count as equal, and take turns.
_TIE = 1e-6

# The stream of random numbers by which samples choose their donors.
_CHOICE = -2


class DonorImputer(Imputer):
    """x' = x_S ⊔ z_{S̄} with z one of the donors, weighted by how well z_S fits x_S.

    Nothing is left to chance but the turn of donors of equal weight: draw number k is the donor of
    the k-th largest weight. Fewer draws than donors are therefore narrow: they keep to the
    heaviest. `sample` draws from all donors in proportion to their weights instead.

    Attributes:
        donors: `[donors, *event]`.
        turns: a random place for each donor, in which those of equal weight come.
        share: only the largest weights that together make up this share of all count.
    """

    donors: Tensor
    turns: Tensor
    share: float = 1.0

    def _set_donors(self, donors: Float[Tensor, "donors *event"]) -> None:
        turns = torch.randperm(len(donors), generator=torch.Generator().manual_seed(0))
        self.support = len(donors)
        self.register_buffer("donors", donors, persistent=False)
        self.register_buffer("turns", turns.to(donors.device), persistent=False)

    @abstractmethod
    def weigh(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Iterator[tuple[Int64[Tensor, " some"], Float[Tensor, "some donors"]]]:
        """Logarithms of the weights of all donors, which sum to 1, a part of the pairs at a time.

        Yields:
            The numbers of some of the batch · m pairs (row, coalition), and their log-weights: no
            more at a time than memory holds, however many rows and coalitions there are.
        """

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
        return self._complete(x, mask, draws, keys, self.weigh(x, mask))

    def _complete(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
        parts: Iterator[tuple[Tensor, Tensor]],
    ) -> Completions:
        """Each coalition by the heaviest donors, given all weights; see `weigh`."""
        count = min(draws.stop, len(self.donors))
        index = torch.zeros(*mask.shape[:2], draws.stop, dtype=torch.int64, device=x.device)
        log_weights = torch.full(index.shape, -torch.inf, device=x.device)
        for some, weights in parts:
            heaviest, largest = self._heaviest(weights, keys.flatten()[some], count)
            index.flatten(0, 1)[some, :count] = heaviest
            log_weights.flatten(0, 1)[some, :count] = largest.float()
        completed = self.splice(x, mask, self.donors[index[..., draws.start :]])
        correction = self._correction(log_weights[..., :count].exp())
        return Completions(completed, log_weights[..., draws.start :], correction=correction)

    def _correction(self, weights: Float[Tensor, "batch m count"]) -> Float[Tensor, "batch m"]:
        """Finite-population correction of the mean over the heaviest donors, from their weights.

        Let u be these weights in proportion, and r the share of all weight w that is left out. If
        outputs are independent of the weights, of variance s², the error of the mean has variance
        s² (r² Σu² + Σ_left w²), and Σ_left w² ≤ r (1 - r) min u. Over s² Σu² that is r (r + (1 - r)
        min u / Σu²): for equal weights the share of the donors that is left out.
        """
        if weights.shape[-1] == len(self.donors):
            return torch.zeros_like(weights[..., 0])
        drawn, lightest = weights.sum(-1), weights[..., -1]
        left = (1 - drawn / self.share).clamp(min=0)
        # Nothing is left after a donor of no weight, whatever the rounding of the sum.
        left = torch.where(lightest > 0, left, 0)
        return left * (left + (1 - left) * lightest * drawn / weights.square().sum(-1))

    def sample(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Float[Tensor, "batch m draws *event"]:
        """Equally weighted draws: donors chosen in proportion to their weights."""
        wanted = _random.uniform(_random.fold(keys, _CHOICE), (), draws).flatten(0, 1).double()
        index = torch.zeros(wanted.shape, dtype=torch.int64, device=x.device)
        for some, weights in self.weigh(x, mask):
            upper = self._counted(weights).exp().double().cumsum(-1)
            index[some] = torch.searchsorted(upper, wanted[some] * upper[:, -1:])
        return self.splice(x, mask, self.donors[index.unflatten(0, mask.shape[:2])])

    def _heaviest(
        self, log_weights: Float[Tensor, "pairs donors"], keys: Int64[Tensor, " pairs"], count: int
    ) -> tuple[Int64[Tensor, "pairs count"], Float[Tensor, "pairs count"]]:
        """Donors sorted by weight; those of equal weight in an order that the key decides."""
        donors = len(self.donors)
        distinct, position = keys.unique(return_inverse=True)
        begin = (_random.uniform(distinct, ()).double() * donors).long()
        later = (self.turns + begin[:, None]) % donors * (_TIE / donors)
        # Distinct scores: any number of the largest comes in one and the same order.
        score = log_weights.double() - later.double()[position]
        index = score.topk(count, dim=-1).indices
        largest = log_weights.gather(-1, index)
        if self.share == 1:
            return index, largest
        # A donor counts unless those before it make up the share already.
        before = largest.exp().cumsum(-1) - largest.exp()
        return index, largest.masked_fill(before >= self.share, -torch.inf)

    def _counted(self, log_weights: Float[Tensor, "pairs donors"]) -> Tensor:
        """Log-weights with no weight for donors beyond the share; equal ones count together."""
        if self.share == 1:
            return log_weights
        falling = log_weights.sort(-1, descending=True).values
        before = falling.exp().cumsum(-1) - falling.exp()
        last = (before < self.share).sum(-1, keepdim=True) - 1
        return log_weights.masked_fill(log_weights < falling.gather(-1, last), -torch.inf)
