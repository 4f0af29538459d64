"""Imputation under intervention: x'_{S̄} ~ p(x' | do(x_S)), from any imputer and a causal order.

For components τ in causal order (Heskes et al. 2020, Theorem 1)

    p(x_{S̄} | do(x_S)) = Π_τ p(x_{τ∩S̄} | earlier components, x_{τ∩S})    τ not confounded
                         Π_τ p(x_{τ∩S̄} | earlier components)              τ confounded

so that what is set acts on what comes later, and never on what comes before. Inside a component
that is not confounded (its players act on each other) it acts as what is seen does; inside a
confounded one (they share hidden causes) it does not act at all.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from manifold_shap import _random
from manifold_shap.coalitions import distinct_coalitions
from manifold_shap.imputers.base import Completions, Imputer
from manifold_shap.ordering import Ordering

# Rows that are completed at a time where each has draws of its own to go by.
_MOST_ROWS = 2**14

# Later components draw by keys of their own: -3, -4, ...; an imputer names its streams from 1 on.
_STREAM = -2


class CausalImputer(Imputer):
    """Causal draws, component by component, each from `imputer` given what precedes it.

    A single component that is not confounded gives the draws of `imputer`, weights included; a
    single confounded one gives its unconditional draws, spliced. v(∅) stays the mean over the
    reference rows.

    Args:
        imputer: draws from p(x' | x_S), for all players.
        ordering: names of the players, component after component in causal order, as in
            `[["a", "b"], ["c"]]`.
        confounding: for each component, whether its players share hidden causes; by default none
            do.

    Raises:
        TypeError: a component is not a list of names, or `confounding` no list of bools.
        ValueError: an `ordering` that does not name every player once, or another number of flags
            than of components.
    """

    component: Tensor

    def __init__(
        self,
        imputer: Imputer,
        ordering: Any,
        confounding: Any = None,
    ) -> None:
        # Not that of Imputer: the reference rows are the imputer's, and are not copied.
        nn.Module.__init__(self)
        self.imputer = imputer
        self.players = imputer.players
        self.name = f"causal {imputer.name}"
        self.ordering = Ordering.of(ordering, imputer.players)
        self.confounding = _checked(confounding, self.ordering)
        # Several random components: new samples, which never repeat.
        fresh = len(self.ordering) > 1 and imputer.left_out(1) > 0
        self.support = None if fresh else imputer.support
        self.register_buffer(
            "component", self.ordering.component.to(imputer.device), persistent=False
        )

    @property
    def reference(self) -> Tensor:  # type: ignore[override]
        """Reference rows of the imputer."""
        return self.imputer.reference

    @property
    def provenance(self) -> dict[str, Any]:
        mine = {"causal_ordering": self.ordering.names, "confounding": list(self.confounding)}
        return {"imputer": self.imputer.name, **self.imputer.provenance, **mine}

    @property
    def _conditional(self) -> bool:
        """Whether interventions condition: one component, whose players share no hidden cause."""
        return len(self.ordering) == 1 and not self.confounding[0]

    @torch.no_grad()
    def impute(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Completions:
        """Complete m coalitions of every row; draws are weighted for one component at most."""
        if len(self.ordering) == 1:
            completed = self.imputer.impute(x, self._given(mask, 0), draws, keys)
            return completed._replace(rows=self.splice(x, mask, completed.rows))
        shape = (*mask.shape[:2], len(draws), *self.players.event)
        rows = x[:, None, None].expand(shape).clone()
        for component in range(len(self.ordering)):
            self._draw(rows, mask, component, draws, keys)
        return Completions(rows)

    @torch.no_grad()
    def impute_nested(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch runs run players"],
        draws: range,
        keys: Int64[Tensor, "batch runs"],
        most: int,
    ) -> Iterator[Completions]:
        """Nested coalitions of the imputer, where its distribution is this one."""
        nested = self.imputer.impute_nested if self._conditional else super().impute_nested
        yield from nested(x, mask, draws, keys, most)

    @torch.no_grad()
    def impute_around(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
        most: int,
    ) -> Iterator[Completions]:
        """Neighbouring coalitions of the imputer, where its distribution is this one."""
        around = self.imputer.impute_around if self._conditional else super().impute_around
        yield from around(x, mask, draws, keys, most)

    @torch.no_grad()
    def sample(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Float[Tensor, "batch m draws *event"]:
        """Equally weighted draws; for one component, those that the imputer itself samples."""
        if len(self.ordering) > 1:
            return self.impute(x, mask, draws, keys).rows
        return self.splice(x, mask, self.imputer.sample(x, self._given(mask, 0), draws, keys))

    def _given(
        self, mask: Bool[Tensor, "*shape players"], component: int
    ) -> Bool[Tensor, "*shape players"]:
        """Players by whose values this component is drawn."""
        earlier = (self.component < component).expand_as(mask)
        if self.confounding[component]:
            return earlier
        return earlier | mask & (self.component == component)

    def _draw(
        self,
        rows: Float[Tensor, "batch m draws *event"],
        mask: Bool[Tensor, "batch m players"],
        component: int,
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> None:
        """Draw the absent players of a component into `rows`, where earlier ones stand."""
        absent = ~mask & (self.component == component)
        where = absent.any(-1).nonzero(as_tuple=True)
        if len(where[0]) == 0:
            return
        given, own = self._given(mask[where], component), keys[where]
        # Coalitions of a row that agree on what is given, and share their key, share the draws.
        chosen, position = _distinct(where[0], own, given & mask[where])
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
        """One draw for each of the rows before it; of the first component, from the same row."""
        if component == 0:
            return self.imputer.sample(before[:, 0], given[:, None], draws, keys[:, None])[:, 0]
        numbers = torch.arange(draws.start, draws.stop, device=keys.device)
        single = _random.fold(_random.fold(keys, _STREAM - component)[:, None], numbers)
        repeated = given.repeat_interleave(len(draws), 0)
        parts = (
            part.split(_MOST_ROWS)
            for part in (before.flatten(0, 1), repeated[:, None], single.flatten()[:, None])
        )
        drawn = [
            self.imputer.sample(x, masks, range(1), own)[:, 0, 0]
            for x, masks, own in zip(*parts, strict=True)
        ]
        return torch.cat(drawn).unflatten(0, before.shape[:2])


def _distinct(
    row: Int64[Tensor, " some"], keys: Int64[Tensor, " some"], mask: Bool[Tensor, "some players"]
) -> tuple[Int64[Tensor, " distinct"], Int64[Tensor, " some"]]:
    """One place of each distinct (row, key, coalition), and where each given one stands there."""
    key, coalition = keys.unique(return_inverse=True)[1], distinct_coalitions(mask)[1]
    number = (row * len(keys) + key) * len(keys) + coalition
    distinct, position = number.unique(return_inverse=True)
    places = torch.arange(len(keys), device=keys.device)
    return torch.empty_like(distinct).scatter_(0, position, places), position


def _checked(confounding: Any, ordering: Ordering) -> tuple[bool, ...]:
    if confounding is None:
        return (False,) * len(ordering)
    listed = isinstance(confounding, Sequence)
    if not listed or not all(isinstance(flag, bool) for flag in confounding):
        raise TypeError(
            "Expected `confounding` to be a list of True and False, one per component of the "
            f"ordering, but got {confounding!r}."
        )
    if len(confounding) != len(ordering):
        raise ValueError(
            f"Expected `confounding` with one flag for each of the {len(ordering)} components of "
            f"the ordering but got {len(confounding)}: {list(confounding)}."
        )
    return tuple(confounding)
