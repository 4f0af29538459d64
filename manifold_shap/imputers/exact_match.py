"""The conditional distribution of a discrete table: its rows that agree with x on S."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap.imputers.donors import DonorImputer
from manifold_shap.players import Players

# Comparisons, and weights, held at a time: 16 MiB each.
_MOST_ELEMENTS = 2**22


class ExactMatchImputer(DonorImputer):
    """p(x' | x_S) of the reference rows themselves: those with z_S = x_S, equally likely.

    Where no row agrees with x on all of S, the rows that disagree in the fewest players of S count
    instead. A player agrees when all of its elements do, so a one-hot block counts once. Equal rows
    are one donor, weighted by their number: as many draws as distinct rows give the exact
    conditional mean of the table.

    Args:
        reference: rows of the table `[rows, *event]`.
        players: who plays; by default every element of a row on its own.

    Raises:
        TypeError, ValueError: `reference` is no tensor or array of finite rows of the shape that
            `players` own; or it is continuous: in most players no value occurs twice.
    """

    name = "exact_match"
    log_count: Tensor
    owners: Tensor

    def __init__(self, reference: Any, players: Players | None = None) -> None:
        super().__init__(reference, players)
        distinct, counts = self.reference.flatten(1).unique(dim=0, return_counts=True)
        self._set_donors(distinct.reshape(-1, *self.players.event))
        self.register_buffer("log_count", counts.float().log(), persistent=False)
        index = self.players.index.flatten().to(self.device)
        owners = torch.nn.functional.one_hot(index, len(self.players)).float()
        self.register_buffer("owners", owners, persistent=False)
        self._check_discrete()

    def weigh(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Iterator[tuple[Int64[Tensor, " some"], Float[Tensor, "some donors"]]]:
        """See `DonorImputer.weigh`: of the distinct rows that agree with x, their shares."""
        donors = len(self.donors)
        numbers = torch.arange(mask.shape[0] * mask.shape[1], device=x.device)
        by_row = numbers.unflatten(0, mask.shape[:2])
        rows = max(1, _MOST_ELEMENTS // (donors * len(self.owners)))
        for first in range(0, len(x), rows):
            some = slice(first, first + rows)
            differs = self._differs(x[some])
            coalitions = max(1, _MOST_ELEMENTS // (donors * len(differs)))
            parts = mask[some].split(coalitions, 1), by_row[some].split(coalitions, 1)
            for own, which in zip(*parts, strict=True):
                yield which.flatten(), self._log_weights(own, differs).flatten(0, 1)

    def _differs(self, x: Float[Tensor, "batch *event"]) -> Float[Tensor, "batch donors players"]:
        """1 for each player in which a donor is not as the row."""
        elements = x.flatten(1)[:, None] != self.donors.flatten(1)
        return (elements.float() @ self.owners > 0).float()

    def _log_weights(
        self,
        mask: Bool[Tensor, "batch m players"],
        differs: Float[Tensor, "batch donors players"],
    ) -> Float[Tensor, "batch m donors"]:
        mismatches = mask.float() @ differs.mT
        fewest = mismatches.amin(-1, keepdim=True)
        return self.log_count.masked_fill(mismatches > fewest, -torch.inf).log_softmax(-1)

    def _check_discrete(self) -> None:
        rows, table = len(self.reference), self.reference.flatten(1)
        columns = [table[:, self.owners[:, k] > 0] for k in range(len(self.players))]
        continuous = sum(len(column.unique(dim=0)) == rows for column in columns)
        if rows > 1 and continuous > len(self.players) / 2:
            raise ValueError(
                f"Expected a discrete table but in {continuous} of {len(self.players)} players no "
                f"value occurs twice among the {rows} reference rows, so that none would match; "
                "bin these columns, or use `EmpiricalImputer`, which weights by distance."
            )
