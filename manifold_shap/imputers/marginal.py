"""Off-manifold splicing: absent features come from another row, whatever x_S says."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manifold_shap.coalitions import Players


class MarginalImputer:
    """x' = x_S ⊔ x''_{S̄} with x'' a row of the reference data (Frye et al. 2021, Eq. 2).

    Attributes:
        reference: the rows that donate, `[rows, *event]`.
        players: who plays; by default every element of a row on its own.
    """

    name = "marginal"

    def __init__(self, reference: Tensor | np.ndarray, players: Players | None = None) -> None:
        self.reference = torch.as_tensor(reference, dtype=torch.float32)
        if len(self.reference) == 0:
            raise ValueError("Expected at least one reference row to donate values but got none.")
        self.players = players or Players.of_elements(self.reference.shape[1:])
        if tuple(self.reference.shape[1:]) != self.players.event:
            raise ValueError(
                f"Expected reference rows of shape {self.players.event}, as `players` has it, but "
                f"got {tuple(self.reference.shape[1:])}."
            )

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
