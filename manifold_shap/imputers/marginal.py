"""Off-manifold splicing: absent features come from another row, whatever x_S says."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manifold_shap.coalitions import Players
from manifold_shap.rows import check_rows, to_tensor


class MarginalImputer:
    """x' = x_S ⊔ x''_{S̄} with x'' a row of the reference data (Frye et al. 2021, Eq. 2).

    Attributes:
        reference: a copy of the rows that donate, `[rows, *event]`.
        players: who plays; by default every element of a row on its own.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of finite rows of the shape that
            `players` own.
    """

    name = "marginal"

    def __init__(self, reference: Any, players: Players | None = None) -> None:
        rows = to_tensor(reference, "reference")
        self.players = players or Players.of_elements(rows.shape[1:])
        self.reference = check_rows(rows, self.players, "reference").clone()

    def to(self, device: torch.device | str) -> "MarginalImputer":
        """Move the reference rows."""
        self.reference = self.reference.to(device)
        return self

    def undrawn(self, draws: int) -> float:
        """Share of the reference rows that so many draws leave out, and may err about."""
        return max(0.0, 1 - draws / len(self.reference))

    def impute(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: int,
        generator: torch.Generator,
    ) -> Float[Tensor, "batch m draws *event"]:
        """Complete each coalition from `draws` distinct donors, the same for every coalition.

        As many draws as reference rows, or more, take every reference row in turn.
        """
        rows = len(self.reference)
        donors = torch.randperm(rows, generator=generator)
        donors = donors[torch.arange(draws) % rows].to(self.reference.device)
        present = self.players.expand(mask)[:, :, None]
        return torch.where(present, x[:, None, None], self.reference[donors])
