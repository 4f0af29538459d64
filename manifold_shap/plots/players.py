"""What moves one row's prediction on the simplex: its players, and how they are called."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap import simplex
from manifold_shap.explanation import Explanation
from manifold_shap.plots import selection, style, words
from manifold_shap.spaces import Probability
from manifold_shap.tables.schema import Schema


@dataclass(frozen=True)
class Moves:
    """Steps from the base to the prediction of one row, the largest norm first.

    Attributes:
        explanation: of that row alone.
        shown: players with a step of their own.
        phi: of the steps, in log-ratio coordinates; the last one is of all other players together
            if there are any.
        norm_errors: standard errors of the norms of `phi`, NaN where they are not known.
    """

    explanation: Explanation
    shown: Int64[Tensor, " shown"]
    phi: Float[Tensor, "steps outputs"]
    norm_errors: Float[Tensor, " steps"]

    @classmethod
    def of_row(cls, explanation: Explanation, instance: int, most: int) -> "Moves":
        """Of the row at a position, with at most so many players on their own.

        Raises:
            ValueError: the output space is not `ilr`, there is nothing to plot, no such row, or
                `most` is not positive.
        """
        norms = explanation.norms()
        selection.named(explanation)
        row = selection.row_index(explanation, instance, "instance")
        shown = selection.largest(norms[row], most)
        phi, errors = explanation.phi[row].double(), explanation.norm_errors()[row, shown]
        steps = phi[shown]
        if len(shown) < len(phi):
            steps = torch.cat((steps, phi.sum(0, keepdim=True) - steps.sum(0, keepdim=True)))
            errors = torch.cat((errors, torch.full_like(errors[:1], torch.nan)))
        return cls(explanation[[row]], shown, steps, errors)

    @property
    def compositions(self) -> Float[Tensor, "steps classes"]:
        """Of the steps, probabilities."""
        return simplex.ilr_inv(self.phi, self.explanation.basis).exp()

    @property
    def states(self) -> Float[Tensor, "states classes"]:
        """Probabilities of the classes at the base, and after each step."""
        start = self.explanation.base.double()
        path = torch.cat((start, start + self.phi.cumsum(0)))
        return simplex.ilr_inv(path, self.explanation.basis).exp()

    @property
    def prediction(self) -> Float[Tensor, " classes"]:
        """Probabilities of the classes for this row."""
        return simplex.ilr_inv(self.explanation.prediction[0], self.explanation.basis).exp()

    def headline(self) -> str:
        """The class predicted, and the row."""
        k = int(self.prediction.argmax())
        said = words.amount(self.prediction[k].item(), Probability())
        row = self.explanation.instances[0]
        return f"Predicted probability of {self.explanation.classes[k]}: {said} (row {row})"

    def labels(self, room: float) -> list[str]:
        """Of the steps: names with values, at most `room` points wide."""
        return labels(self.explanation, 0, self.shown, room)


def labels(
    explanation: Explanation, row: int, shown: Int64[Tensor, " shown"], room: float
) -> list[str]:
    """`name = value` of some players of a row, at most `room` points wide; the others' number."""
    features = explanation[[row]].features()
    found = []
    for player in shown.tolist():
        name = explanation.players.names[player]
        # Players that group columns of a table have no single value.
        if features is None or name not in features:
            found.append(style.shorten(name, room))
            continue
        value = words.feature_value(_settled(explanation.schema, name, features[name].iloc[0]))
        value = style.shorten(value, 0.6 * room)
        left = room - style.text_width(f" = {value}")
        found.append(f"{style.shorten(name, left)} = {value}")
    others = len(explanation.players) - len(shown)
    return [*found, words.count(others, "other feature")] if others else found


def _settled(schema: Schema | None, name: str, value: Any) -> Any:
    """Zero where a decoded value is only the rounding error of a float32 in other units."""
    for column in schema.columns if schema else ():
        noise = 1e-6 * (abs(column.mean) + column.scale)
        if column.name == name and column.kind == "continuous" and abs(value) < noise:
            return 0.0
    return value
