"""Imputes under interventions, x'_{S̄} ~ p(x' | do(x_S)), by any imputer and a causal order.

For components τ in causal order (Heskes et al. 2020, Theorem 1)

    p(x_{S̄} | do(x_S)) = Π_τ p(x_{τ∩S̄} | earlier components, x_{τ∩S})    τ not confounded
                         Π_τ p(x_{τ∩S̄} | earlier components)              τ confounded

so that an intervention affects later components, and never earlier ones. Inside a component that
is not confounded (its players cause each other) it affects the others as conditioning does; inside
a confounded one (they share hidden causes) it does not affect them at all. Of a causal graph every
player is a component, given its own causes: p(x_S̄ | do(x_S)) = Π_j p(x_j | causes of j), j ∈ S̄.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from manifold_shap import _random
from manifold_shap.coalitions import Coalitions, Listed, distinct_coalitions
from manifold_shap.imputers.base import (
    CompletedRows,
    Completions,
    Imputer,
    Keys,
    Mask,
    Rows,
)
from manifold_shap.ordering import Ordering

# Rows completed at a time where each row is conditioned on draws of its own.
_MOST_ROWS = 2**14

# Later components fold these numbers into their keys: -3, -4, ...; streams of imputers are from 1.
_STREAM = -2


class CausalImputer(Imputer):
    """Draws under interventions, component by component, each by `imputer` given earlier ones.

    A single component that is not confounded gives the draws of `imputer`, weights included; a
    single confounded one gives its unconditional draws, spliced. v(∅) stays the mean over the
    reference rows.

    Args:
        imputer: draws from p(x' | x_S), for all players.
        ordering: names of the players, component after component in causal order, as in
            `[["a", "b"], ["c"]]`; or the direct causes of each player, as in `{"c": ["a", "b"]}`;
            or an `Ordering`. A graph has all direct causes: given these, a player depends on
            nothing else but its effects.
        confounding: for each component, whether its players share hidden causes; by default none
            do. Of a graph there are none.

    Raises:
        TypeError: a component is not a list of names, or `confounding` no list of bools.
        ValueError: an `ordering` that does not name every player once, or another number of flags
            than of components, or flags beside a graph; groups.

    >>> from manifold_shap import Players
    >>> from manifold_shap.imputers import GaussianImputer
    >>> players = Players.of_elements((3,), ["a", "b", "c"])
    >>> imputer = CausalImputer(GaussianImputer(torch.randn(100, 3), players), [["a"], ["b", "c"]])
    >>> imputer.provenance["causal_ordering"]
    [['a'], ['b', 'c']]
    """

    def __init__(self, imputer: Imputer, ordering: Any, confounding: Any = None) -> None:
        # Not Imputer's: the reference rows are those of the inner imputer, and are not copied.
        nn.Module.__init__(self)
        self.imputer = imputer
        self.players, self.table = imputer.players, imputer.table
        self.dtype, self.copies, self.learned = imputer.dtype, imputer.copies, imputer.learned
        self.name = f"causal {imputer.name}"
        self.ordering = Ordering.of(ordering, imputer.players)
        own, before = self.ordering.steps
        self.confounding = _checked_confounding(confounding, self.ordering)
        # Draws of several random components never repeat.
        fresh = len(own) > 1 and imputer.unsampled_fraction(1) > 0
        self.distinct_draws = None if fresh else imputer.distinct_draws
        above = (own.float() @ self.ordering.before.T.float()) > 0
        # Whom each component draws, given whom, and who comes before these in turn.
        self.own, self.before, self.above = (
            nn.Buffer(each.to(imputer.device), persistent=False) for each in (own, before, above)
        )

    @property
    def reference(self) -> Tensor:  # type: ignore[override]
        """Reference rows of the imputer."""
        return self.imputer.reference

    @property
    def provenance(self) -> dict[str, Any]:
        mine = {"causal_ordering": self.ordering.names, "confounding": list(self.confounding)}
        return {"imputer": self.imputer.name, **self.imputer.provenance, **mine}

    @torch.no_grad()
    def impute(self, x: Rows, coalitions: Coalitions, draws: range) -> Completions:
        """Complete m coalitions of every row; only a single component has weighted draws."""
        mask, keys = coalitions.masks(), coalitions.each_key()
        if len(self.own) == 1:
            completed = self.imputer.impute(x, Listed(self._given(mask, 0), keys), draws)
            return completed._replace(rows=self.splice(x, mask, completed.rows))
        shape = (*mask.shape[:2], len(draws), *self.players.event)
        rows = x[:, None, None].expand(shape).clone()
        for component in range(len(self.own)):
            self._draw(rows, mask, component, draws, keys)
        return Completions(rows)

    @torch.no_grad()
    def sample(self, x: Rows, coalitions: Coalitions, draws: range) -> CompletedRows:
        """Equally weighted draws; of a single component, those that the inner imputer samples."""
        if len(self.own) > 1:
            return self.impute(x, coalitions, draws).rows
        mask = coalitions.masks()
        given = Listed(self._given(mask, 0), coalitions.each_key())
        return self.splice(x, mask, self.imputer.sample(x, given, draws))

    def _given(
        self, mask: Bool[Tensor, "*shape players"], component: int
    ) -> Bool[Tensor, "*shape players"]:
        """Players that the draws of this component are conditioned on."""
        before = self.before[component].expand_as(mask)
        if self.confounding[component]:
            return before
        return before | mask & self.own[component]

    def _draw(
        self, rows: CompletedRows, mask: Mask, component: int, draws: range, keys: Keys
    ) -> None:
        """Draw the absent players of a component into `rows`, which hold what it depends on."""
        absent = ~mask & self.own[component]
        where = absent.any(-1).nonzero(as_tuple=True)
        if len(where[0]) == 0:
            return
        given, own = self._given(mask[where], component), keys[where]
        # Coalitions of a row with equal conditions and equal keys share their draws.
        known = (given | self.above[component]) & mask[where]
        chosen, position = _distinct(where[0], own, known)
        before = rows[where[0][chosen], where[1][chosen]]
        drawn = self._sample(before, given[chosen], component, draws, own[chosen])
        mine = self.players.expand(absent[where])[:, None]
        rows[where] = torch.where(mine, drawn[position], rows[where])

    def _sample(
        self,
        before: Float[Tensor, "some draws *event"],
        given: Bool[Tensor, "some players"],
        component: int,
        draws: range,
        keys: Int64[Tensor, " some"],
    ) -> Float[Tensor, "some draws *event"]:
        """One draw given each draw of what it depends on; if nothing, draws given the row alone."""
        if not self.before[component].any():
            keys = _random.fold(keys, _STREAM - component) if component else keys
            some = Listed(given[:, None], keys[:, None])
            return self.imputer.sample(before[:, 0], some, draws)[:, 0]
        numbers = torch.arange(draws.start, draws.stop, device=keys.device)
        single = _random.fold(_random.fold(keys, _STREAM - component)[:, None], numbers)
        repeated = given.repeat_interleave(len(draws), 0)
        parts = (
            part.split(_MOST_ROWS)
            for part in (before.flatten(0, 1), repeated[:, None], single.flatten()[:, None])
        )
        drawn = [
            self.imputer.sample(x, Listed(masks, own), range(1))[:, 0, 0]
            for x, masks, own in zip(*parts, strict=True)
        ]
        return torch.cat(drawn).unflatten(0, before.shape[:2])


def _distinct(
    row: Int64[Tensor, " some"], keys: Int64[Tensor, " some"], mask: Bool[Tensor, "some players"]
) -> tuple[Int64[Tensor, " distinct"], Int64[Tensor, " some"]]:
    """One place of each distinct (row, key, coalition), and the number of each given one."""
    key, coalition = keys.unique(return_inverse=True)[1], distinct_coalitions(mask)[1]
    number = (row * len(keys) + key) * len(keys) + coalition
    distinct, position = number.unique(return_inverse=True)
    places = torch.arange(len(keys), device=keys.device)
    return torch.empty_like(distinct).scatter_(0, position, places), position


def _checked_confounding(confounding: Any, ordering: Ordering) -> tuple[bool, ...]:
    components = len(ordering.steps[0])
    if confounding is None:
        return (False,) * components
    given = [*confounding] if isinstance(confounding, Sequence) else [confounding]
    if not all(isinstance(flag, bool) for flag in given):
        raise TypeError(f"Expected `confounding` as a list of True and False but got {given}.")
    if len(given) != components or ordering.component is None:
        raise ValueError(
            f"Expected `confounding` with one flag for each of the {components} components of "
            f"the ordering, and none beside a graph, but got {given}."
        )
    return tuple(confounding)
