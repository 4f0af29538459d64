"""Represents a distribution over the orders of the players, w(π), beside those that are allowed."""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from inspect import isfunction
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap._checks import check_distinct, check_known
from manifold_shap._messages import shown
from manifold_shap.coalitions import distinct_coalitions
from manifold_shap.ordering import Ordering
from manifold_shap.players import Players
from manifold_shap.posets import Part

# Ten players have 3.6 million orders, too many to weight them all.
_MOST_ORDERS = math.factorial(9)


class WeightedOrdering(Ordering):
    """Orders that count unequally: φ = Σ_π w(π) · marginal contributions along π.

    This is the general definition of Shapley values with an order (Frye, Rowat & Feige 2020;
    Carballo, Eq. 3.5.1). Given as a table, or by a function where at most 9! orders are allowed,
    orders are drawn from w exactly, or all of them are taken. Otherwise they are drawn uniformly,
    and values are means weighted by w ("self-normalised"), with a bias in proportion to the
    reciprocal of the number of orders; their effective number is part of an explanation's
    `made_by`.

    Args:
        weights: a table of orders (the players' names) and their weights; or a function of orders,
            int64 `[orders, players]`, whose entry k is the number of the player that comes k-th,
            which returns their weights `[orders]`. They need not sum to one; other orders than
            those of a table have weight zero.
        players: all players of the game.
        relations: of a function, what restricts the orders besides, as of `Ordering`.

    Raises:
        TypeError: `weights` is neither a mapping nor callable.
        ValueError: an order that does not name every player once; weights that are negative, not
            finite or all zero; a table together with `relations`.

    >>> players = Players.of_elements((2,), ["a", "b"])
    >>> mostly_a_first = WeightedOrdering({("a", "b"): 3, ("b", "a"): 1}, players)
    >>> mostly_a_first.all_orders()
    (tensor([[0, 1],
            [1, 0]]), tensor([0.7500, 0.2500], dtype=torch.float64))
    """

    weighted = True

    def __init__(
        self,
        weights: Any,
        players: Players,
        relations: Any = None,
        constants: Collection[str] = (),
    ) -> None:
        every = [players.names] if relations is None else relations
        super().__init__(every, players, constants)
        if not isinstance(weights, Mapping) and not callable(weights):
            raise TypeError(
                "Expected `weights` to be a table of orders, as in {('a', 'b'): 0.7, ('b', 'a'): "
                f"0.3}}, or a function of orders, but got {weights!r}."
            )
        self._weights, self._relations = weights, relations
        if isinstance(weights, Mapping):
            if relations is not None:
                raise ValueError(
                    "Expected no `relations` beside a table of orders, which has the allowed ones "
                    "only; leave one of the two out."
                )
            _check_table(weights, players)

    def of_players(self, players: Players, constants: Collection[str] = ()) -> "WeightedOrdering":
        """The same distribution by name; a function of numbers takes the players as they are.

        Raises:
            ValueError: a function, and players that stand in another order.
        """
        if callable(self._weights) and players.names != self.players.names:
            raise ValueError(
                f"Expected the players {shown(self.players.names)} that the function of `weights` "
                f"is of but got {shown(players.names)}; make a `WeightedOrdering` of these."
            )
        return WeightedOrdering(self._weights, players, self._relations, constants)

    def among(self, players: Players) -> "Ordering":
        """Not defined: a distribution is over orders of all players.

        Raises:
            ValueError: some players are missing.
        """
        if players.names != self.players.names:
            raise ValueError(
                "Expected rows that have all players for a `WeightedOrdering` but some have only "
                f"{shown(players.names)}; take an `Ordering`, or explain such rows apart."
            )
        return self

    def __len__(self) -> int:
        return 1

    @property
    def restricts(self) -> bool:
        return True

    @property
    def provenance(self) -> dict[str, Any]:
        if isinstance(self._weights, Mapping):
            return {"order_weights": [[list(key), float(w)] for key, w in self._weights.items()]}
        name = self._weights.__name__ if isfunction(self._weights) else type(self._weights).__name__
        restricted = {} if self._relations is None else super().provenance
        return {"order_weights": name, **restricted}

    @property
    def orders(self) -> int | float:
        return len(self._weights) if isinstance(self._weights, Mapping) else super().orders

    def all_orders(self) -> tuple[Int64[Tensor, "orders players"], Float[Tensor, " orders"]]:
        """Every order whose weight is not zero, and its probability."""
        return self._law

    @cached_property
    def parts(self) -> list[Part]:
        if not self._listed:
            raise OverflowError(f"More than {_MOST_ORDERS} orders are not all weighted.")
        return [_Prefixes(*self._law)]

    def sample_pairs(
        self, shape: Sequence[int], generator: torch.Generator
    ) -> Int64[Tensor, "*shape 2 players"]:
        """Independent orders in pairs: drawn by their weights, or with `log_weights`."""
        shape = (*shape, 2)
        if not self._listed:
            return super().sample_pairs(shape, generator)[..., 0, :]
        orders, probability = self._law
        # Not `multinomial`: it takes no more than 2^24 orders, and rounds in single precision.
        number = torch.rand(shape, generator=generator, dtype=torch.float64)
        which = torch.searchsorted(probability.cumsum(0), number, right=True)
        return orders[which.clamp(max=len(orders) - 1)]

    def log_weights(
        self, orders: Int64[Tensor, "*shape players"]
    ) -> Float[Tensor, "*shape"] | None:
        if self._listed:
            return None
        own = self._asked(orders.reshape(-1, orders.shape[-1])).log().reshape(orders.shape[:-1])
        drawn = super().log_weights(orders)
        return own if drawn is None else own + drawn

    @property
    def _listed(self) -> bool:
        return self.orders <= _MOST_ORDERS

    @cached_property
    def _law(self) -> tuple[Int64[Tensor, "orders players"], Float[Tensor, " orders"]]:
        if isinstance(self._weights, Mapping):
            number = {name: k for k, name in enumerate(self.players.names)}
            orders = torch.tensor([[number[name] for name in order] for order in self._weights])
            weights = torch.tensor([float(w) for w in self._weights.values()], dtype=torch.float64)
        else:
            orders = super().all_orders()[0]
            weights = self._asked(orders)
        if not weights.sum() > 0:
            raise ValueError("Expected `weights` of which some are not zero but all orders have 0.")
        orders, weights = orders[weights > 0], weights[weights > 0]
        return orders, weights / weights.sum()

    @property
    def _coalitions(self) -> list[int | float]:
        return [self.parts[0].coalitions] if self._listed else [math.inf]

    def _asked(self, orders: Int64[Tensor, "some players"]) -> Float[Tensor, " some"]:
        """What the function says of these orders."""
        weights = torch.as_tensor(self._weights(orders), dtype=torch.float64)
        if weights.shape != orders.shape[:1]:
            raise ValueError(
                f"Expected the function of `weights` to return {len(orders)} numbers, one for each "
                f"order, but got the shape {tuple(weights.shape)}."
            )
        _check_weights(weights)
        return weights


class _Prefixes(Part):
    """The coalitions along listed orders, each weighted by the orders that pass through it."""

    def __init__(
        self, orders: Int64[Tensor, "orders players"], probability: Float[Tensor, " orders"]
    ) -> None:
        size = orders.shape[1]
        rank = orders.argsort(1)
        nested = rank[:, None] < torch.arange(size + 1)[:, None]
        masks, position = distinct_coalitions(nested.flatten(0, 1))
        self.members, self._masks, self.coalitions = torch.arange(size), masks, len(masks)
        position = position.unflatten(0, (len(orders), size + 1))
        self._weights = torch.zeros(len(masks), size, dtype=torch.float64)
        share = probability[:, None].expand_as(orders)
        for sign, ends in ((1, position[:, 1:]), (-1, position[:, :-1])):
            self._weights.index_put_((ends, orders), sign * share, accumulate=True)

    def masks(self) -> Bool[Tensor, "coalitions own"]:
        return self._masks

    def weights(self) -> Float[Tensor, "coalitions own"]:
        return self._weights


def _check_table(weights: Mapping[Any, Any], players: Players) -> None:
    for order in weights:
        if isinstance(order, str) or not isinstance(order, Sequence):
            raise TypeError(
                f"Expected each order of `weights` to be a tuple of names but got {order!r}."
            )
        check_known(order, players.names, "players in an order of `weights`")
        check_distinct(order, "players in an order of `weights`")
        if len(order) < len(players):
            left_out = [name for name in players.names if name not in order]
            raise ValueError(
                f"Expected every order of `weights` to name all players but {order} leaves out "
                f"{shown(left_out)}."
            )
    _check_weights(torch.tensor([float(weight) for weight in weights.values()]))
    if not any(weights.values()):
        raise ValueError("Expected `weights` of which some are not zero but got none.")


def _check_weights(weights: Float[Tensor, " some"]) -> None:
    if not bool((weights.isfinite() & (weights >= 0)).all()):
        raise ValueError(
            "Expected `weights` of orders that are finite and not negative but got "
            f"{shown(weights[~(weights.isfinite() & (weights >= 0))].tolist(), 3)}."
        )
