"""One row's way from base to prediction, seen in two or three balances (Noé et al., 6.1-6.2)."""

import difflib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from manifold_shap import simplex
from manifold_shap.explanation import Explanation
from manifold_shap.plots import style
from manifold_shap.plots.players import Moves

# Of the class-compositions, to the extent of what else is drawn.
_REACH = 0.45


@dataclass(frozen=True)
class Subspace:
    """The moves of one row and the class-compositions, projected on some of the balances.

    Attributes:
        moves: the players' steps.
        balances: positions of the balances that are the axes.
    """

    moves: Moves
    balances: tuple[int, ...]

    @classmethod
    def of_row(
        cls, explanation: Explanation, instance: int, balances: Sequence[int | str], most: int
    ) -> "Subspace":
        """Of the row at a position, in balances counted from 1 or called by name.

        Raises:
            ValueError: the output space is not `ilr`, there is nothing to plot, no such row, `most`
                is not positive, or a balance is unknown or named twice.
        """
        moves = Moves.of_row(explanation, instance, most)
        return cls(moves, positions(explanation.outputs, balances))

    @property
    def explanation(self) -> Explanation:
        """Of that row alone."""
        return self.moves.explanation

    @property
    def is_whole(self) -> bool:
        """Whether no balance is left out, so that a point tells the whole distribution."""
        return len(self.balances) == len(self.explanation.outputs)

    @property
    def points(self) -> Float[np.ndarray, "states axes"]:
        """The base, and where each step leads from there."""
        start = self.explanation.base.double()
        path = torch.cat((start, start + self.moves.phi.cumsum(0)))
        return path[:, list(self.balances)].numpy()

    @property
    def prediction(self) -> Float[np.ndarray, " axes"]:
        """Where the last step ends."""
        return self.explanation.prediction[0].double()[list(self.balances)].numpy()

    @property
    def directions(self) -> Float[np.ndarray, "classes axes"]:
        """Class-compositions: of norm one, before what other balances hold of them is left out."""
        basis = self.explanation.basis[list(self.balances)]
        return simplex.coordinates(simplex.class_compositions(basis.shape[1]), basis).numpy()

    def class_vectors(self) -> list[tuple[tuple[int, ...], Float[np.ndarray, " axes"]]]:
        """Classes and their projection, one and the same for all that no axis tells apart.

        Those of which nothing is seen here are left out.
        """
        directions = self.directions
        weights = self.explanation.basis[list(self.balances)].T.tolist()
        alike: dict[tuple[float, ...], list[int]] = {}
        for k, row in enumerate(weights):
            alike.setdefault(tuple(row), []).append(k)
        return [(tuple(group), directions[group[0]]) for row, group in alike.items() if any(row)]

    def walls(self) -> list[tuple[tuple[int, int], Float[np.ndarray, "edges axes"]]]:
        """Pairs of classes, and the edges of the cone where they tie above all others.

        Edges are unit vectors; only the whole space has such walls. Where k and l tie at the top,
        what is left of a composition is against the others: each edge is against one of them.
        """
        classes = range(len(self.explanation.classes))
        against = -self.directions
        return [
            (pair, against[[k for k in classes if k not in pair]])
            for pair in itertools.combinations(classes, 2)
        ]

    @property
    def magnification(self) -> float:
        """A round factor that makes the class-compositions about as large as the path."""
        points = np.concatenate((self.points, self.prediction[None]))
        extent = max(np.ptp(points, axis=0).max(), 0.5 * np.abs(points).max())
        reach = max(np.linalg.norm(vector) for _, vector in self.class_vectors())
        return _round_number(_REACH * extent / reach) if extent > 0 else 1.0

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

    def caption(self) -> str:
        """What the dashed vectors are, and how much of the space is seen."""
        factor = self.magnification
        scaled = "" if factor == 1 else f" × {factor:g}"
        seen = f"; {len(self.balances)} of {len(self.explanation.outputs)} balances"
        return f"dashed: class-compositions{scaled}{'' if self.is_whole else seen}"


def require_balances(explanation: Explanation, balances: Sequence[int | str], axes: int) -> None:
    """Refuse a space with fewer balances than axes, and another number of balances.

    Raises:
        ValueError: it is so, or the output space is not `ilr`.
    """
    there = len(explanation.classes) - 1
    if there < axes:
        instead = "ilr_plane" if there == 2 else "bars"
        raise ValueError(
            f"Expected at least {axes + 1} classes, which have {axes} balances, but got "
            f"{there + 1} with {there}; use plots.{instead}."
        )
    if isinstance(balances, str) or len(balances) != axes:
        raise ValueError(f"Expected `balances` to be {axes} of them but got {balances!r}.")


def positions(names: Sequence[str], balances: Sequence[int | str]) -> tuple[int, ...]:
    """Of balances, by number from 1 or by name.

    Raises:
        ValueError: one is unknown, or named twice.
    """
    found = tuple(_position(names, balance) for balance in balances)
    for balance, position in zip(balances, found, strict=True):
        if found.count(position) > 1:
            raise ValueError(f"Expected different `balances` but got {balance!r} more than once.")
    return found


def _position(names: Sequence[str], balance: int | str) -> int:
    if balance in names:
        return names.index(str(balance))
    if isinstance(balance, (int, np.integer)) and 1 <= balance <= len(names):
        return int(balance) - 1
    close = difflib.get_close_matches(str(balance), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise ValueError(
        f"Expected `balances` by number from 1 to {len(names)}, or by name among "
        f"{list(names)[:20]}, but got {balance!r}{hint}"
    )


def _round_number(value: float) -> float:
    """The nearest of 1, 2, 5 and their multiples of powers of ten."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(
        min((power * m for m in (1, 2, 5, 10)), key=lambda near: abs(np.log(near / value)))
    )
