"""Computes one row's path from base to prediction on the simplex, and views of it on balances."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap import simplex
from manifold_shap._messages import closest
from manifold_shap._messages import shown as listed
from manifold_shap.explanation import Explanation
from manifold_shap.plots import selection, style
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

    def labels(self, room: float) -> list[str]:
        """Names of the steps, with feature values, at most `room` points wide."""
        return selection.labels(self.explanation, 0, self.shown, room)


@dataclass(frozen=True)
class View(Path):
    """A path and the class-compositions, projected on two or three balances (Noé et al., 6.1-6.2).

    Attributes:
        balances: positions of the balances that are the axes.
    """

    balances: tuple[int, ...]

    @classmethod
    def on_balances(
        cls,
        explanation: Explanation,
        row: int,
        balances: Sequence[int | str],
        most: int,
        axes: int,
    ) -> "View":
        """The path of a row, by position, on so many balances, counted from 1 or given by name."""
        selection.one(explanation)
        there = len(explanation.classes) - 1
        if there < axes:
            instead = "ilr_plane" if there == 2 else "waterfall"
            raise ValueError(
                f"Expected at least {axes + 1} classes, which have {axes} balances, but got "
                f"{there + 1} with {there}; use plots.{instead}."
            )
        if isinstance(balances, str) or len(balances) != axes:
            raise ValueError(f"Expected `balances` to be {axes} of them but got {balances!r}.")
        path = Path.of_row(explanation, row, most)
        return cls(**vars(path), balances=positions(explanation.outputs, balances))

    @property
    def is_whole(self) -> bool:
        """Whether no balance is left out, so that a point determines the whole distribution."""
        return len(self.balances) == len(self.explanation.outputs)

    @property
    def points(self) -> Float[np.ndarray, "states axes"]:
        """The base, where each step leads from there, and so in the end the prediction."""
        return self.coordinates[:, list(self.balances)].numpy()

    @property
    def directions(self) -> Float[np.ndarray, "classes axes"]:
        """Projections of the class-compositions, which have norm one before they are projected."""
        basis = self.explanation.basis[list(self.balances)]
        return simplex.coordinates(simplex.class_compositions(basis.shape[1]), basis).numpy()

    def class_vectors(self) -> list[tuple[tuple[int, ...], Float[np.ndarray, " axes"]]]:
        """Classes and their projection, one and the same for all that no axis distinguishes.

        Classes whose projection is zero are left out.
        """
        directions = self.directions
        weights = self.explanation.basis[list(self.balances)].T.tolist()
        alike: dict[tuple[float, ...], list[int]] = {}
        for k, row in enumerate(weights):
            alike.setdefault(tuple(row), []).append(k)
        return [(tuple(group), directions[group[0]]) for row, group in alike.items() if any(row)]

    @property
    def magnification(self) -> float:
        """A round factor that makes the class-compositions about as large as the path."""
        points = self.points
        extent = max(np.ptp(points, axis=0).max(), 0.5 * np.abs(points).max())
        if extent == 0:
            return 1.0
        wanted = 0.45 * extent / max(np.linalg.norm(vector) for _, vector in self.class_vectors())
        power = 10.0 ** np.floor(np.log10(wanted))
        round_ones = (power * m for m in (1, 2, 5, 10))
        return float(min(round_ones, key=lambda near: abs(np.log(near / wanted))))

    @property
    def segments(self) -> Float[np.ndarray, "segments 2 axes"]:
        """The starts and ends of the steps and of the magnified class-compositions."""
        ends = self.magnification * np.stack([vector for _, vector in self.class_vectors()])
        steps = np.stack((self.points[:-1], self.points[1:]), 1)
        return np.concatenate((steps, np.stack((np.zeros_like(ends), ends), 1)))

    def box(self, border: float) -> Float[np.ndarray, "2 axes"]:
        """The lowest and the highest of all segments, with a border: a share of their extent."""
        ends = self.segments.reshape(-1, len(self.balances))
        low, high = ends.min(0), ends.max(0)
        room = border * max((high - low).max(), 1e-6)
        return np.stack((low - room, high + room))

    def axis_labels(self, room: float) -> list[str]:
        """What the axes compare, at most `room` points wide."""
        labels = []
        for j in self.balances:
            number = "" if self.is_whole else f" (balance {j + 1})"
            left = room - style.text_width(f"log-ratio {number}")
            name = style.shorten(self.explanation.outputs[j], left)
            labels.append(f"log-ratio {name}{number}")
        return labels

    def class_label(self, members: Sequence[int], room: float) -> str:
        """Names of classes, at most `room` points wide."""
        names = [self.explanation.classes[k] for k in members]
        # Beside the numbers of the steps, a bare number would be taken for one.
        kind = ("class " if len(names) == 1 else "classes ") if names[0].isdigit() else ""
        return style.shorten(kind + ", ".join(names), room)

    def headline(self, *more: str) -> list[str]:
        """That of the path, what the dashed vectors are, and how much of the space is seen.

        A predicted class that is in no balance shown is named: no arrow tells of it.
        """
        factor = self.magnification
        scaled = "" if factor == 1 else f" × {factor:g}"
        seen = f"; {len(self.balances)} of {len(self.explanation.outputs)} balances"
        caption = f"dashed: class-compositions{scaled}{'' if self.is_whole else seen}"
        k = int(self.prediction.argmax())
        if all(k not in members for members, _ in self.class_vectors()):
            more = f"no balance shown has {self.class_label([k], 80.0)}", *more
        return super().headline(caption, *more)


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
                f"{listed(names)}, but got {balance!r}{closest(balance, names) or '.'}"
            )
        if position in found:
            raise ValueError(f"Expected different `balances` but got {balance!r} more than once.")
        found.append(position)
    return tuple(found)
