"""Chooses what of an explanation a report shows: some of many rows, and some of many outputs."""

from dataclasses import dataclass

import torch

from manifold_shap.explanation import Explanation
from manifold_shap.plots import selection

# Rows of the table, unless they take too much room.
MOST_ROWS = 400
# Outputs of all rows together, each with figures of its own.
_DRAWN = 5
# Outputs of a row; where there are no more than the first, each row has all of them.
_OUTPUTS, _OUTPUTS_OF_ROW = 10, 5


@dataclass(frozen=True)
class Shown:
    """Rows and outputs that a page shows.

    Attributes:
        explanation: of all rows.
        order: positions of rows, in the order in which they are given up: the same for the same
            number of rows.
        outputs: positions of the outputs that all rows together are shown for, the first of which
            is shown at first.
    """

    explanation: Explanation
    order: tuple[int, ...]
    outputs: tuple[int, ...]

    @classmethod
    def of(cls, explanation: Explanation) -> "Shown":
        """Of any explanation with rows."""
        rows = len(explanation.phi)
        order = torch.randperm(rows, generator=torch.Generator().manual_seed(0)).tolist()
        main, _ = selection.output_of_all(explanation, None)
        size = explanation.prediction.double()
        if explanation.space.on_simplex:
            weight = size.mean(0)
        else:
            weight = explanation.phi.double().abs().nanmean((0, 1))
        weight[main] = torch.inf
        largest = weight.argsort(descending=True, stable=True)[:_DRAWN].tolist()
        return cls(explanation, tuple(order[:MOST_ROWS]), tuple(largest))

    def rows(self, most: int) -> list[int]:
        """Positions of at most so many rows, in their order."""
        return sorted(self.order[:most])

    @property
    def outputs_of_rows(self) -> list[list[int]]:
        """Of each row that may be shown, by position, its outputs; the first is shown at first."""
        explanation = self.explanation
        few = len(explanation.outputs) <= _OUTPUTS
        top = len(explanation.outputs) if few else _OUTPUTS_OF_ROW
        return selection.several_outputs_of_rows(explanation, None, top).tolist()
