"""Off-manifold splicing: absent features come from another row, whatever x_S says."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap.imputers.base import Completions, Imputer
from manifold_shap.players import Players


class MarginalImputer(Imputer):
    """x' = x_S ⊔ x''_{S̄} with x'' a row of the reference data (Frye et al. 2021, Eq. 2).

    Attributes:
        reference: a copy of the rows that donate, `[rows, *event]`.
        players: who plays; by default every element of a row on its own.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of finite rows of the shape that
            `players` own.
    """

    name = "marginal"
    order: Tensor

    def __init__(self, reference: Any, players: Players | None = None) -> None:
        super().__init__(reference, players)
        self.support = len(self.reference)
        shuffled = torch.randperm(len(self.reference), generator=torch.Generator().manual_seed(0))
        self.register_buffer("order", shuffled.to(self.reference.device), persistent=False)

    def impute(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Completions:
        """Complete each coalition from distinct donors, until every row has donated.

        The donors are neighbours in one random order of the reference rows; the key says where
        they begin.
        """
        rows = len(self.reference)
        begin = (_random.uniform(keys, ()).double() * rows).long()
        numbers = torch.arange(draws.start, draws.stop, device=keys.device)
        donors = self.order[(begin[..., None] + numbers) % rows]
        # Both are finite, so that a product with zero is zero; this is faster than `where`.
        present = self.players.expand(mask)[:, :, None].float()
        drawn = self.reference.index_select(0, donors.flatten()).view(
            *donors.shape, *self.players.event
        )
        return Completions(torch.addcmul(x[:, None, None] * present, drawn, 1 - present))
