"""Computes one row's path from base to prediction on the simplex, and views of it on balances."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap import simplex
from manifold_shap._messages import shown as listed
from manifold_shap.explanation import Explanation
from manifold_shap.plots import selection
from manifold_shap.spaces import Probability


@dataclass(frozen=True)
class Path:
    """Steps from the base to the prediction of one row, the largest norm first.

    Attributes:
        explanation: of that row alone.
        shown: players with a step of their own.
        phi: of the steps, in log-ratio coordinates; the last one is of all other players together
            if there are any.
        name: of the row.
        norm_errors: standard errors of the norms of `phi`, NaN where they are not known.
    """

    explanation: Explanation
    shown: Int64[Tensor, " shown"]
    phi: Float[Tensor, "steps outputs"]
    norm_errors: Float[Tensor, " steps"]
    name: str

    @classmethod
    def of_row(cls, explanation: Explanation, row: int, most: int) -> "Path":
        """The path of a row, by position, on which at most `most` players have their own step."""
        selection.one(explanation)
        norms = explanation.norms()
        row = selection.row_index(explanation, row, "row")
        shown = selection.largest(norms[row], most)
        phi = selection.with_rest(explanation.phi[row].double().T, shown).T
        errors = torch.full((len(phi),), torch.nan, dtype=norms.dtype)
        errors[: len(shown)] = explanation.norm_errors()[row, shown]
        name = selection.row_name(explanation, row)
        return cls(explanation[[row]], shown, phi, errors, name)

    @property
    def coordinates(self) -> Float[Tensor, "states outputs"]:
        """The base, and where each step leads from there."""
        start = self.explanation.base.double()
        return torch.cat((start, start + self.phi.cumsum(0)))

    @property
    def compositions(self) -> Float[Tensor, "steps classes"]:
        """The Shapley compositions of the steps."""
        return simplex.ilr_inv(self.phi, self.explanation.basis).exp()

    @property
    def states(self) -> Float[Tensor, "states classes"]:
        """Probabilities of the classes at the base, and after each step."""
        return simplex.ilr_inv(self.coordinates, self.explanation.basis).exp()

    @property
    def prediction(self) -> Float[Tensor, " classes"]:
        """Probabilities of the classes for this row."""
        return simplex.ilr_inv(self.explanation.prediction[0], self.explanation.basis).exp()

    def headline(self, *more: str) -> list[str]:
        """The predicted class and the row, and further lines."""
        k = int(self.prediction.argmax())
        said = Probability().amount(self.prediction[k].item())
        first = f"Predicted probability of {self.explanation.classes[k]}: {said}, {self.name}"
        return [first, *more]

    def labels(self, room: int) -> list[str]:
        """Names of the steps, with feature values, at most `room` letters."""
        return selection.labels(self.explanation, 0, self.shown, room)


def positions(names: Sequence[str], balances: Sequence[int | str]) -> tuple[int, ...]:
    """Of balances, by number from 1 or by name.

    Raises:
        ValueError: one is unknown, or named twice.
    """
    found: list[int] = []
    for balance in balances:
        if balance in names:
            position = names.index(str(balance))
        elif isinstance(balance, (int, np.integer)) and 1 <= balance <= len(names):
            position = int(balance) - 1
        else:
            raise ValueError(
                f"Expected `balances` by number from 1 to {len(names)}, or by name among "
                f"{listed(names)}, but got {balance!r}."
            )
        if position in found:
            raise ValueError(f"Expected different `balances` but got {balance!r} more than once.")
        found.append(position)
    return tuple(found)
