"""A discrete Bayesian network as a law: exact posteriors and draws, by variable elimination.

Bucket elimination (Dechter 1999). Evidence comes as a likelihood of each state of each variable: an
indicator where the state is seen, ones where it is not. So one order serves every coalition, and a
batch of them is one more axis of every table. The variables are then drawn backwards, each from its
own table at the states of those that were eliminated after it.
"""

import gzip
import itertools
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64, Int64
from torch import Tensor

import manifold_shap as ms
from manifold_shap import _random
from manifold_shap._arrays import is_frame
from manifold_shap._checks import check_rows
from manifold_shap.models import predictor_of
from manifold_shap.oracles import ConditionalLaw, Drawn
from manifold_shap.oracles.base import Keys, Mask, Posterior, Rows, check_possible
from manifold_shap.players import Players

# Public networks, and the variable that is the label of each.
TARGETS = {"asia": "dysp", "sachs": "Akt", "child": "Disease", "insurance": "PropCost"}
# Numbers in the tables of a call: 64 MiB; and rows of a frame that a model is given.
_MOST_NUMBERS, _MOST_ROWS = 2**23, 2**16
_VARIABLE = re.compile(r"variable\s+(\S+)\s*\{.*?\{(.*?)\}", re.DOTALL)
_TABLE = re.compile(r"probability\s*\((.*?)\)\s*\{(.*?)\}", re.DOTALL)
_LINE = re.compile(r"(?:table|\(([^)]*)\))([^;]*);")


class Variable(NamedTuple):
    """A variable, its states, and its probabilities given its parents.

    Attributes:
        name: of the variable.
        states: names of its states.
        parents: names of the variables that it depends on.
        table: P(state | states of the parents), `[*states of parents, states]`, in float64.
    """

    name: str
    states: tuple[str, ...]
    parents: tuple[str, ...]
    table: Tensor


def read_bif(text: str) -> tuple[Variable, ...]:
    """The variables of a network in the text of its file, in order.

    >>> rain, wet = read_bif('''network rain {}
    ... variable rain { type discrete [ 2 ] { yes, no }; }
    ... variable wet { type discrete [ 2 ] { yes, no }; }
    ... probability ( rain ) { table 0.2, 0.8; }
    ... probability ( wet | rain ) { (yes) 0.9, 0.1; (no) 0.0, 1.0; }''')
    >>> wet.parents, wet.table.tolist()
    (('rain',), [[0.9, 0.1], [0.0, 1.0]])
    """
    states = {name: _names(of) for name, of in _VARIABLE.findall(text)}
    found = {}
    for head, body in _TABLE.findall(text):
        name, *parents = _names(head.replace("|", ","))
        table = torch.zeros([len(states[each]) for each in (*parents, name)]).double()
        for row, numbers in _LINE.findall(body):
            given = _names(row) if row else ()
            place = tuple(states[p].index(s) for p, s in zip(parents, given, strict=True))
            table[place] = torch.tensor([*map(float, _names(numbers))], dtype=torch.float64)
        # Public files round their numbers.
        total = table.sum(-1, keepdim=True)
        assert math.isclose(total.min(), 1, abs_tol=1e-4), name
        found[name] = Variable(name, states[name], tuple(parents), table / total)
    return tuple(found[name] for name in states)


def _names(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(","))


class Factor(NamedTuple):
    """A table over some of the variables.

    Attributes:
        scope: numbers of the variables, one for each axis.
        table: one number for each of their joint states.
    """

    scope: tuple[int, ...]
    table: Tensor


class Step(NamedTuple):
    """What is multiplied when a variable is eliminated.

    Attributes:
        scope: the variable, then its neighbours in the order in which they are eliminated.
        factors: those with the variable that are left.
        sources: the earlier variables whose messages come here.
    """

    scope: tuple[int, ...]
    factors: list[Factor]
    sources: list[int]


class Elimination:
    """A distribution proportional to a product of factors, ready to be summed and drawn.

        >>> prior, channel = torch.tensor([0.75, 0.25]), torch.tensor([[0.5, 0.5], [0.0, 1.0]])
        >>> sums = Elimination([2, 2], [Factor((0,), prior), Factor((0, 1), channel)], last=0)
        >>> seen = [torch.ones(1, 2).double(), torch.tensor([[0.0, 1.0]]).double()]
        >>> sums.tables(seen)[0]  # P(first, second = 1), of the variable that is left.
        tensor([[0.3750, 0.2500]], dtype=torch.float64)

    Attributes:
        order: of elimination, by the least number of edges that it adds (min-fill).
        cost: numbers in all tables for one piece of evidence.

    Args:
        sizes: numbers of states of the variables.
        factors: of the distribution; every variable is in one of them.
        last: the variable that is eliminated last.
    """

    def __init__(self, sizes: Sequence[int], factors: Sequence[Factor], last: int) -> None:
        near = min_fill([factor.scope for factor in factors], sizes, last)
        self.order, goals = [*near], dict[int, int]()
        self.steps: dict[int, Step] = {}
        for variable, around in near.items():
            own = [each for each in factors if variable == min(each.scope, key=self.order.index)]
            sources = [source for source, goal in goals.items() if goal == variable]
            scope = (variable, *sorted(around, key=self.order.index))
            self.steps[variable] = Step(scope, own, sources)
            # Of variables that nothing joins to the last one it gets the probability alone.
            goals[variable] = scope[1] if len(scope) > 1 else last
        self.cost = sum(math.prod(sizes[v] for v in step.scope) for step in self.steps.values())

    def tables(
        self, likelihoods: Sequence[Float64[Tensor, "batch _"]]
    ) -> dict[int, Float64[Tensor, "batch ..."]]:
        """The table of each variable when it is eliminated.

        That of the last one is P(its state, evidence), and its sum is P(evidence).

        Args:
            likelihoods: of every state of each variable.
        """
        tables: dict[int, Tensor] = {}
        batch = len(likelihoods)  # A label of einsum, after those of the variables.
        for variable, (scope, factors, sources) in self.steps.items():
            terms: list[Any] = [likelihoods[variable], [batch, variable]]
            for factor in factors:
                terms += [factor.table.to(likelihoods[variable]), [*factor.scope]]
            for source in sources:
                terms += [tables[source].sum(1), [batch, *self.steps[source].scope[1:]]]
            tables[variable] = torch.einsum(*terms, [batch, *scope])
        return tables

    def draw(
        self,
        tables: dict[int, Float64[Tensor, "batch ..."]],
        uniform: Float[Tensor, "batch draws variables"],
    ) -> Int64[Tensor, "batch draws variables"]:
        """States drawn from the distribution given the evidence, as backwards as it was summed.

        Args:
            tables: as of `tables`; no evidence without probability.
            uniform: numbers strictly between 0 and 1, one for each variable.
        """
        states = torch.zeros(uniform.shape, dtype=torch.int64, device=uniform.device)
        for variable in reversed(self.order):
            scope, table = self.steps[variable].scope, tables[variable]
            known = states[..., list(scope[1:])].unbind(-1)
            rows = torch.arange(len(table), device=table.device)[:, None]
            upper = table.movedim(1, -1)[rows, *known].cumsum(-1)
            share = uniform[..., variable, None].double() * upper[..., -1:]
            # The first state that reaches the share has some probability itself.
            states[..., variable] = (upper < share).sum(-1)
        return states


def min_fill(
    scopes: Sequence[Sequence[int]], sizes: Sequence[int], last: int
) -> dict[int, set[int]]:
    """Neighbours that each variable has when it is eliminated, in the order of elimination.

    Next is the variable whose neighbours lack the fewest edges; of several, the one whose table is
    the smallest.

    >>> min_fill([(0, 1), (1, 2), (2, 3)], sizes=[2, 2, 2, 2], last=1)
    {0: {1}, 3: {2}, 2: {1}, 1: set()}
    """
    near = {v: set().union(*(s for s in scopes if v in s)) - {v} for v in range(len(sizes))}

    def cost(variable: int) -> tuple[int, int, int]:
        around = near[variable]
        lacking = sum(b not in near[a] for a, b in itertools.combinations(around, 2))
        return lacking, math.prod(sizes[v] for v in (variable, *around)), variable

    eliminated = {}
    while near:
        variable = min(near.keys() - {last}, key=cost, default=last)
        around = eliminated[variable] = near.pop(variable)
        for one in around:
            near[one] = (near[one] | around) - {one, variable}
    return eliminated


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
        self._features = [each for each in self.variables if each.name != target]
        features = [each.name for each in self._features]
        super().__init__(Players.of_elements((len(features),), features))
        self.classes = self.variables[self._label].states
        self.sizes = tuple(len(each.states) for each in self._features)
        counts = [len(each.states) for each in self.variables]
        factors = [
            Factor((*map(names.index, each.parents), k), each.table)
            for k, each in enumerate(self.variables)
        ]
        self._elimination = Elimination(counts, factors, self._label)

    @classmethod
    def public(cls, name: str) -> "BayesianNetwork":
        """One of the networks of `TARGETS`, with its label."""
        path = Path(os.environ.get("MANIFOLD_SHAP_DATA", "."), f"bayesian_networks/{name}.bif.gz")
        return cls(read_bif(gzip.decompress(path.read_bytes()).decode()), TARGETS[name])

    def posterior(self, x: Rows, mask: Mask) -> Posterior:
        """P(Y = y | x_S), exactly.

        Raises:
            ValueError: x_S has no probability.
        """
        joint = self._joint(x, mask)
        check_possible(joint.sum(2).flatten() > 0)
        return joint / joint.sum(2, keepdim=True)

    def draw(self, x: Rows, mask: Mask, draws: range, keys: Keys) -> Drawn:
        """Exact draws, backwards along the order of elimination; see `ConditionalLaw.draw`."""
        uniform = _random.uniform(keys, (len(self.variables),), draws).flatten(0, 1)
        parts = []
        for where, tables in self._eliminated(x, mask):
            check_possible(tables[self._label].sum(1) > 0)
            parts.append(self._elimination.draw(tables, uniform[where]))
        states = torch.cat(parts).unflatten(0, mask.shape[:2])
        own = torch.arange(len(self.variables)) != self._label
        kept = torch.where(mask[:, :, None], x[:, None, None], states[..., own])
        return Drawn(kept, states[..., self._label])

    def probability(self, x: Rows) -> Float64[Tensor, " batch"]:
        """P(X = x) of whole rows, the label summed out."""
        every = torch.ones(len(x), 1, len(self.names), dtype=torch.bool, device=x.device)
        return self._joint(x, every).sum((1, 2))

    def frame(self, x: Float[Tensor, "batch elements"]) -> pd.DataFrame:
        """Rows as a table of the names of states: categories in the order of the network."""
        codes: Any = x.cpu().long().numpy().T
        columns = {
            each.name: pd.Categorical.from_codes(own, pd.Index(each.states))
            for each, own in zip(self._features, codes, strict=True)
        }
        return pd.DataFrame(columns)

    def rows(self, x: Any) -> Float[Tensor, "batch elements"]:
        """Rows; a frame of names of states becomes their numbers."""
        if not is_frame(x):
            return check_rows(x, self.players)
        columns = [[one.states.index(str(cell)) for cell in x[one.name]] for one in self._features]
        return torch.tensor(columns, dtype=torch.float32).mT

    def _eliminated(self, x: Rows, mask: Mask) -> Iterator[tuple[slice, dict[int, Tensor]]]:
        """Parts of the (row, coalition) pairs, each with the tables of the elimination."""
        known = torch.where(mask, x[:, None], 0).long().flatten(0, 1)
        present = mask.flatten(0, 1)
        step = max(1, _MOST_NUMBERS // self._elimination.cost)
        for first in range(0, len(known), step):
            where = slice(first, first + step)
            states, seen = known[where], present[where, :, None]
            likelihoods = [
                torch.where(seen[:, j], F.one_hot(states[:, j], size).double(), 1.0)
                for j, size in enumerate(self.sizes)
            ]
            likelihoods.insert(self._label, x.new_ones(len(states), len(self.classes)).double())
            yield where, self._elimination.tables(likelihoods)

    def _joint(self, x: Rows, mask: Mask) -> Float64[Tensor, "batch m classes"]:
        """P(y, x_S)."""
        parts = [tables[self._label] for _, tables in self._eliminated(x, mask)]
        return torch.cat(parts).unflatten(0, mask.shape[:2])


def model_of(
    law: ConditionalLaw, model: Any, names: Sequence[str] | None = None, returns: str | None = None
) -> ms.Model:
    """A model of the law's frames; arguments as of `as_model`, whose classes are `names`."""
    asked = predictor_of(model, returns)
    names, returns = names or asked.classes, returns or asked.returns
    x = law.sample(64).x
    return ms.as_model(lambda rows: asked(law.frame(rows)), x, names, returns, _MOST_ROWS)
