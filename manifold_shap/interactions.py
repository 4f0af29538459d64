"""Holds interactions of pairs of players, beside Shapley values of the same coalitions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._messages import Instead, check_choice
from manifold_shap.explanation import Explanation, positions
from manifold_shap.players import Players
from manifold_shap.simplex import compositions, geometry

if TYPE_CHECKING:
    import pandas as pd
    import shapiq

INDICES = ("SII", "k-SII")


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Instead):
    """Interactions of pairs of players, for every row and output.

    `values[b, i, j]` says how much more players i and j change the output together than each of
    them alone, in the mean over coalitions of the others: above zero they strengthen each other,
    below zero one takes the place of the other. It is symmetric in i and j. On its diagonal are the
    first-order terms: with the index "SII" Shapley values, with "k-SII" what is left of them
    without half of a player's interactions, so that

        prediction - base = Σ_i values[b, i, i] + Σ_{i<j} values[b, i, j].

    Where rows have players of their own (`Players.of_rows`), entries of players that a row lacks
    are NaN.

        >>> from manifold_shap import shapley_interactions
        >>> def product(x, mask):
        ...     return torch.where(mask, x[:, None], 0.0).prod(-1, keepdim=True)
        >>> found = shapley_interactions(product, torch.tensor([[2.0, 3.0]]), index="k-SII")
        >>> found
        Interactions(1 instance, 2 players, model output, index 'k-SII', by 'exact')
        >>> found.values[0, ..., 0]
        tensor([[0., 6.],
                [6., 0.]])

    Attributes:
        values: `[instances, players, players, outputs]`, in units of the output space.
        standard_error: of `values`, same shape: from the sampling of coalitions and of the draws
            that each takes, not from other errors of the value function; zero where all were
            taken, NaN where not known.
        shapley: the Shapley values of the same coalitions, with the rows and all else that an
            `Explanation` holds.
        index: "SII" or "k-SII".

    Raises:
        ValueError: another index.
    """

    values: Float[Tensor, "instances players players outputs"]
    standard_error: Float[Tensor, "instances players players outputs"]
    shapley: Explanation
    index: str = "SII"

    def __post_init__(self) -> None:
        check_choice("index", self.index, INDICES)

    @property
    def players(self) -> Players:
        """Names of the players, and which of them owns each element of a row."""
        return self.shapley.players

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return self.shapley.outputs

    @property
    def made_by(self) -> Mapping[str, Any]:
        """Version of this package, estimator, value function and their settings, as plain data."""
        return {**self.shapley.made_by, "index": self.index}

    def compositions(self) -> Float[Tensor, "instances players players classes"]:
        """Interactions as points of the simplex: `ilr_inv(values)`, as of Shapley compositions.

        The uniform one is no interaction. Perturbing the base by all first-order terms and all
        pairs of the index "k-SII" gives the prediction. Their classes are `shapley.classes`.

        Raises:
            ValueError: the output space is not `ilr`; so for `norms` and `projections`.
        """
        return geometry.ilr_inv(self.values, self.shapley.basis).exp()

    def norms(self) -> Float[Tensor, "instances players players"]:
        """How strongly each pair moves the prediction together, whatever the direction."""
        self.shapley.norms()
        return self.values.norm(dim=-1)

    def projections(self) -> Float[Tensor, "instances players players classes"]:
        """On the class-compositions: in favour of, or against, which class."""
        return compositions.projections(self.values, self.shapley.basis)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> "Interactions":
        """Some rows by position, as of an `Explanation`."""
        at = positions(rows, len(self))
        values, error = self.values[at], self.standard_error[at]
        return replace(self, values=values, standard_error=error, shapley=self.shapley[at])

    def to_frame(self) -> "pd.DataFrame":
        """A line per instance, pair of players and output: `value` and `standard_error`.

        A player beside itself has the first-order term. Players that a row lacks are left out.
        """
        import pandas as pd

        first, second = torch.triu_indices(len(self.players), len(self.players))
        row = torch.arange(len(self.values))[:, None, None]
        output = torch.arange(len(self.outputs))
        places = [
            each.flatten().numpy()
            for each in torch.broadcast_tensors(row, first[:, None], second[:, None], output)
        ]
        names = np.array(self.players.names, dtype=object)
        frame = pd.DataFrame(
            {
                "instance": pd.Index(list(self.shapley.instances))[places[0]],
                "player": names[places[1]],
                "other": names[places[2]],
                "output": np.array(self.outputs, dtype=object)[places[3]],
                "value": self.values[:, first, second].flatten().numpy(),
                "standard_error": self.standard_error[:, first, second].flatten().numpy(),
            }
        )
        there = self.shapley.present
        both = (there[:, first] & there[:, second])[..., None].expand(-1, -1, len(self.outputs))
        return frame[both.flatten().numpy()].reset_index(drop=True)

    def to_shapiq(self, row: int, output: str | int) -> "shapiq.InteractionValues":
        """The interactions of a row and an output for shapiq (`manifold_shap[shapiq]`).

        Raises:
            ImportError: shapiq is not installed.
            ValueError: no such row or output.
        """
        from manifold_shap.interop import shapiq_values

        return shapiq_values.interaction_values(self.shapley, row, output, self)

    def __repr__(self) -> str:
        count, name = len(self.values), "instance" if len(self.values) == 1 else "instances"
        return (
            f"Interactions({count} {name}, {len(self.players)} players, "
            f"{self.shapley.space.named(self.outputs)}, index {self.index!r}, by "
            f"{self.made_by.get('estimator', 'unknown estimator')!r})"
        )
