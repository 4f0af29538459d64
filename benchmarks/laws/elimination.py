"""Eliminates the variables of a discrete distribution, for a whole batch of evidence at once.

Bucket elimination (Dechter 1999). Evidence comes as a likelihood of each state of each variable:
an indicator where the state is seen, ones where it is not. So one order serves every coalition,
and a batch of them is one more axis of every table. The variables are then drawn backwards, each
from its own table at the states of those that were eliminated after it.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor


class Factor(NamedTuple):
    """A table over some of the variables.

    >>> Factor((1, 0), torch.ones(2, 3)).table.shape
    torch.Size([2, 3])

    Attributes:
        scope: numbers of the variables, one for each axis.
        table: one number for each of their joint states.
    """

    scope: tuple[int, ...]
    table: Tensor


class Bucket(NamedTuple):
    """What is multiplied when a variable is eliminated.

    Attributes:
        scope: the variable, then its neighbours in the order in which they are eliminated.
        table: product of the factors with the variable, `[*scope]`, with an axis of length 1 for
            each variable that none of them has.
        inputs: the earlier variables whose messages come here, with the shapes that these take.
    """

    scope: tuple[int, ...]
    table: Tensor
    inputs: tuple[tuple[int, tuple[int, ...]], ...]


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
        self.sizes = tuple(sizes)
        self.order = min_fill([factor.scope for factor in factors], self.sizes, last)
        self._place = {variable: place for place, variable in enumerate(self.order)}
        left, goals = list(factors), dict[int, int]()
        self.buckets: dict[int, Bucket] = {}
        for variable in self.order:
            own = [factor for factor in left if variable in factor.scope]
            left = [factor for factor in left if variable not in factor.scope]
            sources = [source for source, goal in goals.items() if goal == variable]
            near = {source: self.buckets[source].scope[1:] for source in sources}
            around = {v for factor in own for v in factor.scope}.union(*near.values())
            scope = self._sorted(around | {variable})
            table = torch.ones((1,) * len(scope), dtype=torch.float64)
            for factor in own:
                table = table * self._aligned(factor, scope)
            inputs = tuple((source, self._shape(theirs, scope)) for source, theirs in near.items())
            self.buckets[variable] = Bucket(scope, table, inputs)
            # Of variables that nothing joins to the last one it gets the probability alone.
            goals[variable] = scope[1] if len(scope) > 1 else last
        self.cost = sum(
            math.prod(self.sizes[v] for v in scope) for scope, _, _ in self.buckets.values()
        )

    def tables(
        self, likelihoods: Sequence[Float64[Tensor, "batch _"]]
    ) -> dict[int, Float64[Tensor, "batch ..."]]:
        """The table of each variable when it is eliminated.

        That of the last one is P(its state, evidence), and its sum is P(evidence).

        Args:
            likelihoods: of every state of each variable.
        """
        tables: dict[int, Tensor] = {}
        for variable, bucket in self.buckets.items():
            own = likelihoods[variable]
            table = bucket.table.to(own) * own.view(*own.shape, *(1,) * (len(bucket.scope) - 1))
            for source, shape in bucket.inputs:
                table = table * tables[source].sum(1).view(-1, *shape)
            tables[variable] = table
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
            scope, table = self.buckets[variable].scope, tables[variable]
            known = states[..., list(scope[1:])].unbind(-1)
            rows = torch.arange(len(table), device=table.device)[:, None]
            upper = table.movedim(1, -1)[rows, *known].cumsum(-1)
            share = uniform[..., variable, None].double() * upper[..., -1:]
            # The first state that reaches the share has some probability itself.
            states[..., variable] = (upper < share).sum(-1)
        return states

    def _sorted(self, variables: Iterable[int]) -> tuple[int, ...]:
        return tuple(sorted(variables, key=self._place.__getitem__))

    def _aligned(self, factor: Factor, whole: tuple[int, ...]) -> Tensor:
        """The table with its axes in the order of elimination, one for each variable of `whole`."""
        scope = self._sorted(factor.scope)
        table = factor.table.double().permute([factor.scope.index(v) for v in scope])
        return table.reshape(self._shape(scope, whole))

    def _shape(self, scope: tuple[int, ...], whole: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self.sizes[v] if v in scope else 1 for v in whole)


def min_fill(scopes: Iterable[Sequence[int]], sizes: Sequence[int], last: int) -> tuple[int, ...]:
    """An order of elimination: next the variable whose neighbours lack the fewest edges.

    Of several, the one whose table is the smallest.

    >>> min_fill([(0, 1), (1, 2), (2, 3)], sizes=[2, 2, 2, 2], last=1)
    (0, 3, 2, 1)
    """
    near: dict[int, set[int]] = {variable: set() for variable in range(len(sizes))}
    for scope in scopes:
        for one, other in itertools.permutations(scope, 2):
            near[one].add(other)

    def cost(variable: int) -> tuple[int, int, int]:
        around = near[variable]
        lacking = sum(b not in near[a] for a, b in itertools.combinations(around, 2))
        return lacking, math.prod(sizes[v] for v in (variable, *around)), variable

    order = []
    while len(near) > 1:
        variable = min((v for v in near if v != last), key=cost)
        around = near.pop(variable)
        for one in around:
            near[one] |= around - {one}
            near[one].discard(variable)
        order.append(variable)
    return (*order, last)
