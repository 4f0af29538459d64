"""A discrete Bayesian network as a law: exact posteriors and draws, by variable elimination."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor

from benchmarks.laws.bif import read_bif
from benchmarks.laws.elimination import Elimination, Factor
from benchmarks.laws.variables import Variable, check_network, check_states
from manifold_shap import _random
from manifold_shap._arrays import is_frame
from manifold_shap._checks import check_known, check_rows
from manifold_shap._messages import check_choice, shown
from manifold_shap.oracles.base import (
    ConditionalLaw,
    Drawn,
    Keys,
    Mask,
    Posterior,
    Rows,
    check_possible,
)
from manifold_shap.players import Players

if TYPE_CHECKING:
    import pandas as pd

# Numbers in the tables of a call: 64 MiB.
_MOST_NUMBERS = 2**23


class BayesianNetwork(ConditionalLaw):
    """The law of the variables of a network; one is the label, and all others are players.

    A row holds the number of each variable's state, in the order of the network. The network is
    eliminated once for all coalitions in one order (Dechter 1999); see `Elimination`.

        >>> flip = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
        >>> yes_no = ("yes", "no")
        >>> law = BayesianNetwork(
        ...     [Variable("rain", yes_no), Variable("wet", yes_no, ("rain",), flip)], "rain"
        ... )
        >>> law.posterior(torch.tensor([[0.0]]), torch.tensor([[[True], [False]]]))
        tensor([[[0.8182, 0.1818],
                 [0.5000, 0.5000]]], dtype=torch.float64)
        >>> law.frame(law.sample(3).x)["wet"].tolist()
        ['no', 'no', 'yes']

    Attributes:
        variables: all of them, checked, the label's among them.
        target: name of the label's.

    Args:
        variables: see `Variable`; `read_bif` reads them from a file.
        target: the variable that is the label.

    Raises:
        ValueError: the variables make no network, see `check_network`; `target` is none of them, or
            the only one.
    """

    name = "bayesian_network"
    sizes: tuple[int, ...]

    def __init__(self, variables: Sequence[Variable], target: str) -> None:
        self.variables = check_network(variables)
        names = [each.name for each in self.variables]
        self.target = check_choice("target", target, names)
        self._label = names.index(target)
        self._own = [k for k in range(len(names)) if k != self._label]
        if not self._own:
            raise ValueError(f"Expected variables besides the target {target!r} but got none.")
        players = [self.variables[k] for k in self._own]
        super().__init__(Players.of_elements((len(players),), [each.name for each in players]))
        self.classes = self.variables[self._label].states
        self.sizes = tuple(len(each.states) for each in players)
        self._counts = [len(each.states) for each in self.variables]
        self._factors = [
            Factor((*map(names.index, each.parents), k), torch.as_tensor(each.table))
            for k, each in enumerate(self.variables)
        ]
        self._elimination = Elimination(self._counts, self._factors, self._label)

    @classmethod
    def read(cls, path: str | Path, target: str) -> "BayesianNetwork":
        """The network of a file; arguments and errors as of `read_bif` and the class."""
        return cls(read_bif(path), target)

    def posterior(self, x: Rows, mask: Mask) -> Posterior:
        """P(Y = y | x_S), exactly.

        Raises:
            ValueError: a present player is in none of its states, or x_S has no probability.
        """
        parts = [self._evidence(tables) for _, tables in self._eliminated(x, mask)]
        joint = torch.cat(parts)
        return (joint / joint.sum(1, keepdim=True)).unflatten(0, mask.shape[:2])

    def evidence(self, x: Rows, mask: Mask) -> Float64[Tensor, "batch m"]:
        """P(X_S = x_S), exactly. Arguments and errors as of `posterior`."""
        parts = [self._evidence(tables).sum(1) for _, tables in self._eliminated(x, mask)]
        return torch.cat(parts).unflatten(0, mask.shape[:2])

    def draw(self, x: Rows, mask: Mask, draws: range, keys: Keys) -> Drawn:
        """Exact draws, backwards along the order of elimination; see `ConditionalLaw.draw`."""
        uniform = _random.uniform(keys, (len(self.variables),), draws).flatten(0, 1)
        parts = []
        for where, tables in self._eliminated(x, mask):
            self._evidence(tables)
            parts.append(self._elimination.draw(tables, uniform[where]))
        states = torch.cat(parts).unflatten(0, mask.shape[:2])
        rows = states[..., self._own].to(x.dtype)
        kept = torch.where(mask[:, :, None], x[:, None, None], rows)
        return Drawn(kept, states[..., self._label])

    def probability(self, x: Rows) -> Float64[Tensor, " batch"]:
        """P(X = x) of whole rows, the label summed out."""
        states = x.long()[:, None].expand(-1, len(self.classes), -1)
        label = torch.arange(len(self.classes), device=x.device).expand(len(x), -1)
        places = dict(zip(self._own, states.unbind(-1), strict=True)) | {self._label: label}
        product = torch.ones(label.shape, dtype=torch.float64, device=x.device)
        for scope, table in self._factors:
            product = product * table.to(x.device)[tuple(places[k] for k in scope)]
        return product.sum(1)

    def frame(self, x: Float[Tensor, "batch elements"]) -> "pd.DataFrame":
        """Rows as a table of the names of states: categories in the order of the network."""
        import pandas as pd

        codes: Any = x.cpu().long().numpy().T
        return pd.DataFrame(
            {
                self.variables[k].name: pd.Categorical.from_codes(
                    own, dtype=pd.CategoricalDtype([*self.variables[k].states])
                )
                for k, own in zip(self._own, codes, strict=True)
            }
        )

    def rows(self, x: Any) -> Float[Tensor, "batch elements"]:
        """Rows, checked; a frame of names of states becomes their numbers.

        Raises:
            TypeError: no numbers, and no frame.
            ValueError: rows of another shape, columns that are missing, or an unknown state.
        """
        if is_frame(x):
            x = self._numbers(x)
        rows = check_rows(x, self.players)
        check_states(rows, torch.ones_like(rows, dtype=torch.bool), self.sizes, self.names)
        return rows

    def _numbers(self, frame: Any) -> Tensor:
        check_known(self.names, [*frame.columns], "columns of the network")
        columns = []
        for name, k in zip(self.names, self._own, strict=True):
            place = {state: number for number, state in enumerate(self.variables[k].states)}
            cells = [str(cell) for cell in frame[name]]
            unknown = sorted({cell for cell in cells if cell not in place})
            if unknown:
                raise ValueError(
                    f"Expected states of {name!r} among {shown(place)} but got {shown(unknown)}."
                )
            columns.append([place[cell] for cell in cells])
        return torch.tensor(columns, dtype=torch.float32).mT

    def _eliminated(self, x: Rows, mask: Mask) -> Iterator[tuple[slice, dict[int, Tensor]]]:
        """Parts of the (row, coalition) pairs, each with the tables of the elimination."""
        check_states(x, mask.any(1), self.sizes, self.names)
        known = torch.where(mask, x[:, None], 0).long().flatten(0, 1)
        present = mask.flatten(0, 1)
        step = max(1, _MOST_NUMBERS // self._elimination.cost)
        for first in range(0, len(known), step):
            where = slice(first, first + step)
            states, seen = known[where], present[where, :, None]
            likelihoods: list[Tensor] = [torch.empty(0)] * len(self.variables)
            likelihoods[self._label] = (
                torch.ones(len(states), len(self.classes)).to(x.device).double()
            )
            for j, k in enumerate(self._own):
                one_hot = F.one_hot(states[:, j], self._counts[k]).double()
                likelihoods[k] = torch.where(seen[:, j], one_hot, 1.0)
            yield where, self._elimination.tables(likelihoods)

    def _evidence(self, tables: dict[int, Tensor]) -> Float64[Tensor, "pairs classes"]:
        """P(y, x_S), which has to be above 0."""
        joint = tables[self._label]
        check_possible(joint.sum(1) > 0)
        return joint
