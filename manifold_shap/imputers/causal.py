"""Imputation under intervention: x'_{S̄} ~ p(x' | do(x_S)), from any imputer and a causal order.

For components τ in causal order (Heskes et al. 2020, Theorem 1)

    p(x_{S̄} | do(x_S)) = Π_τ p(x_{τ∩S̄} | earlier components, x_{τ∩S})    τ not confounded
                         Π_τ p(x_{τ∩S̄} | earlier components)              τ confounded

so that what is set acts on what comes later, and never on what comes before. Inside a component
that is not confounded (its players act on each other) it acts as what is seen does; inside a
confounded one (they share hidden causes) it does not act at all.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from manifold_shap import noise
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
        ordering: Ordering | Sequence[Any],
        confounding: Sequence[Any] | None = None,
    ) -> None:
        # Not that of Imputer: the reference rows are the imputer's, and are not copied.
        nn.Module.__init__(self)
        self.imputer = imputer
        self.players = imputer.players
        self.name = f"causal {imputer.name}"
        self.ordering = Ordering.of(ordering, imputer.players)
        self.confounding = _checked(confounding, self.ordering)
        self.proposals = imputer.proposals
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

    def undrawn(self, draws: int) -> float:
        """That of the imputer for one component; further ones are fresh samples."""
        return self.imputer.undrawn(draws) if len(self.ordering) == 1 else 1.0

    @torch.no_grad()
    def impute(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch m players"],
        draws: range,
        keys: Int64[Tensor, "batch m"],
    ) -> Completions:
        """Complete m coalitions of every row; draws are weighted for one component at most."""
        given = self._given(mask, 0)
        if len(self.ordering) == 1:
            completed = self.imputer.impute(x, given, draws, keys)
            return completed._replace(rows=self.splice(x, mask, completed.rows))
        # Absent players of later components hold draws here, too, until their turn comes.
        rows = self.splice(x, mask, self.imputer.sample(x, given, draws, keys))
        for component in range(1, len(self.ordering)):
            self._draw(rows, mask, component, noise.fold(keys, _STREAM - component), draws)
        return Completions(rows)

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
        keys: Int64[Tensor, "batch m"],
        draws: range,
    ) -> None:
        """Draw the absent players of a component into `rows`, given what stands before them."""
        absent = ~mask & (self.component == component)
        where = absent.any(-1).nonzero(as_tuple=True)
        if len(where[0]) == 0:
            return
        numbers = torch.arange(draws.start, draws.stop, device=keys.device)
        before = rows[where]
        drawn = self._single_draws(
            before.flatten(0, 1),
            self._given(mask[where], component).repeat_interleave(len(draws), 0),
            noise.fold(keys[where][:, None], numbers).flatten(),
        )
        mine = self.players.expand(absent[where])[:, None]
        rows[where] = torch.where(mine, drawn.unflatten(0, before.shape[:2]), before)

    def _single_draws(
        self,
        x: Float[Tensor, "rows *event"],
        mask: Bool[Tensor, "rows players"],
        keys: Int64[Tensor, " rows"],
    ) -> Float[Tensor, "rows *event"]:
        """One draw for one coalition of each row."""
        parts = (part.split(_MOST_ROWS) for part in (x, mask[:, None], keys[:, None]))
        drawn = [
            self.imputer.sample(rows, masks, range(1), own)[:, 0, 0]
            for rows, masks, own in zip(*parts, strict=True)
        ]
        return torch.cat(drawn)


def _checked(confounding: Sequence[Any] | None, ordering: Ordering) -> tuple[bool, ...]:
    if confounding is None:
        return (False,) * len(ordering)
    if not all(isinstance(flag, bool) for flag in confounding):
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
