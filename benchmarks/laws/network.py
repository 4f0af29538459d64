"""A discrete Bayesian network as a law: exact posteriors and draws, by variable elimination."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor

from benchmarks.laws.bif import Variable, read_bif
from benchmarks.laws.elimination import Elimination, Factor
from manifold_shap import _random
from manifold_shap._arrays import is_frame
from manifold_shap._checks import check_rows
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

# Public networks, and the variable that is the label of each.
TARGETS = {"asia": "dysp", "sachs": "Akt", "child": "Disease", "insurance": "PropCost"}
# Numbers in the tables of a call: 64 MiB.
_MOST_NUMBERS = 2**23


class BayesianNetwork(ConditionalLaw):
    """The law of the variables of a network; one is the label, and all others are players.

    A row holds the number of each variable's state, in the order of the network. The network is
    eliminated once for all coalitions in one order (Dechter 1999); see `Elimination`.

        >>> even, flip = torch.tensor([0.5, 0.5]), torch.tensor([[0.9, 0.1], [0.2, 0.8]])
        >>> rain = Variable("rain", ("yes", "no"), (), even.double())
        >>> wet = Variable("wet", ("yes", "no"), ("rain",), flip.double())
        >>> law = BayesianNetwork([rain, wet], "rain")
        >>> law.posterior(torch.tensor([[0.0]]), torch.tensor([[[True], [False]]]))
        tensor([[[0.8182, 0.1818],
                 [0.5000, 0.5000]]], dtype=torch.float64)
        >>> law.frame(law.sample(3).x)["wet"].tolist()
        ['no', 'no', 'yes']

    Attributes:
        variables: all of them, the label's among them.
        target: name of the label's.

    Args:
        variables: see `Variable`; `read_bif` reads them from a file.
        target: the variable that is the label.
    """

    name = "bayesian_network"
    sizes: tuple[int, ...]

    def __init__(self, variables: Sequence[Variable], target: str) -> None:
        self.variables, self.target = tuple(variables), target
        names = [each.name for each in self.variables]
        self._label = names.index(target)
        self._own = [k for k in range(len(names)) if k != self._label]
        players = [self.variables[k] for k in self._own]
        super().__init__(Players.of_elements((len(players),), [each.name for each in players]))
        self.classes = self.variables[self._label].states
        self.sizes = tuple(len(each.states) for each in players)
        self._counts = [len(each.states) for each in self.variables]
        self._factors = [
            Factor((*map(names.index, each.parents), k), each.table)
            for k, each in enumerate(self.variables)
        ]
        self._elimination = Elimination(self._counts, self._factors, self._label)

    @classmethod
    def public(cls, name: str) -> "BayesianNetwork":
        """One of the networks of `TARGETS`, with its label."""
        folder = os.environ.get("MANIFOLD_SHAP_DATA", ".")
        return cls(read_bif(Path(folder, "bayesian_networks", f"{name}.bif.gz")), TARGETS[name])

    def posterior(self, x: Rows, mask: Mask) -> Posterior:
        """P(Y = y | x_S), exactly.

        Raises:
            ValueError: x_S has no probability.
        """
        parts = [self._evidence(tables) for _, tables in self._eliminated(x, mask)]
        joint = torch.cat(parts)
        return (joint / joint.sum(1, keepdim=True)).unflatten(0, mask.shape[:2])

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
        """Rows; a frame of names of states becomes their numbers."""
        if not is_frame(x):
            return check_rows(x, self.players)
        columns = [
            [self.variables[k].states.index(str(cell)) for cell in x[name]]
            for name, k in zip(self.names, self._own, strict=True)
        ]
        return torch.tensor(columns, dtype=torch.float32).mT

    def _eliminated(self, x: Rows, mask: Mask) -> Iterator[tuple[slice, dict[int, Tensor]]]:
        """Parts of the (row, coalition) pairs, each with the tables of the elimination."""
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
