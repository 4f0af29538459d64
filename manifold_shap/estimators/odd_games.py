"""Describes random interactions of players, and the Shapley values of what they add up to.

A coalition is z in {-1, 1}^n, 1 for the players in it. Of a random game with a term b_T Π_{i∈T} z_i
for every set T of players, independent and of variance Π_{i∈T} a_i, the covariance between two
coalitions is Π (1 + a_i z_i z'_i): a_i is the relevance of player i to interactions. Only sets of
odd size bear on Shapley values, since those of even size are the same for a coalition and its
complement (Fumagalli et al. 2026). The covariance of the odd part is

    k(z, z') = Π √(1 - a_i²) sinh(Σ artanh(a_i) z_i z'_i),

one matrix product for all interactions of the orders 1, 3, 5, ... The multilinear extension of the
game Π (1 + a_i z_i z'_i) is Π (1 + a_i z'_i t) where all z_i have the expectation t. Its Shapley
values, which are those of k(., z') as well, are

    φ_i = a_i z'_i ∫ Π_{j≠i} (1 + a_j z'_j t) dt,    t from -1 to 1 (Owen 1972).
"""

import math
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

# Nodes of Gauss-Legendre quadrature: exact up to 48 players, to rounding beyond, since the
# relevances of all add up to a few.
_NODES = 24
# Sum of the relevances of all players, and the largest of one.
_SUM, _LARGEST = 3.0, 0.9
# Halvings of the range of a factor.
_HALVINGS = 60


class OddGames:
    """Random games of odd interactions, without effect on v(N) - v(∅), which is known.

    Args:
        relevance: a of each player, below one; as many games as there are rows of it.
    """

    def __init__(self, relevance: Float[Tensor, "games players"]) -> None:
        self.relevance = relevance

    def covariance(
        self, z: Float[Tensor, "m players"], other: Float[Tensor, "k players"]
    ) -> Float[Tensor, "games m k"]:
        """Between coalitions, given that the value of the grand coalition is zero."""
        whole = torch.ones_like(other[:1])
        explained = self._odd(z, whole) * self._share(other).mT
        return self._odd(z, other) - explained

    def shapley(self, z: Float[Tensor, "m players"]) -> Float[Tensor, "games m players"]:
        """Of the games `covariance(., z)`; they sum to zero."""
        every = torch.cat((z, torch.ones_like(z[:1])))
        own = self.relevance[:, None] * every
        found = torch.zeros_like(own)
        nodes, weights = np.polynomial.legendre.leggauss(min(_NODES, z.shape[1] // 2 + 1))
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
            logs = torch.log1p(own * node)
            found += weight * (logs.sum(2, keepdim=True) - logs).exp()
        found *= own
        return found[:, :-1] - self._share(z) * found[:, -1:]

    def involvement(
        self, z: Float[Tensor, "m players"], coefficients: Float[Tensor, "games m outputs"]
    ) -> Float[Tensor, "games players"]:
        """Mean squares of the terms of three or more players that a player is part of.

        Of the games Σ `coefficients` `covariance(., z)`, summed over outputs.
        """
        every = torch.cat((z, torch.ones_like(z[:1])))
        anchor = -self._share(z).mT @ coefficients
        coefficients = torch.cat((coefficients, anchor), 1)
        # Terms are independent and have variances Π a_i: products of two sections are sums over
        # sets with a_i² in place of a_i. Those with player i are a_i² z_i z'_i times the even part
        # of the others, of which the term of no other player is left out.
        square = self.relevance.square()
        exponent = (every * square.atanh()[:, None]) @ every.mT
        scale = _scale(square)
        weight = coefficients @ coefficients.mT
        even = exponent.cosh() * scale * weight
        odd = (exponent.sinh() * scale * weight).sum((1, 2))[:, None]
        of_even = (every * (even @ every)).sum(1)
        alone = (every * (weight @ every)).sum(1)
        of_others = (of_even - square * odd) / (1 - square.square()) - alone
        return (square * of_others).clamp(min=0)

    @cached_property
    def _angle(self) -> Float[Tensor, "games 1 players"]:
        return self.relevance.atanh()[:, None]

    def _odd(self, z: Tensor, other: Tensor) -> Float[Tensor, "games m k"]:
        return ((z * self._angle) @ other.mT).sinh() * _scale(self.relevance)

    def _share(self, z: Tensor) -> Float[Tensor, "games m 1"]:
        """Covariance with the grand coalition, over its variance."""
        whole = torch.ones_like(z[:1])
        return self._odd(z, whole) / self._odd(whole, whole)


def _scale(relevance: Float[Tensor, "games players"]) -> Float[Tensor, "games 1 1"]:
    return (torch.log1p(-relevance.square()).sum(1) / 2).exp()[:, None, None]


def relevances(weights: Float[Tensor, "games players"]) -> Float[Tensor, "games players"]:
    """Relevances in proportion to positive weights, which sum to three and are at most 0.9."""
    weights = weights / weights.amax(1, keepdim=True)
    total = min(_SUM, _LARGEST * weights.shape[1] * (1 - 1e-6))
    low, high = (torch.full_like(weights[:, :1], math.log(end)) for end in (1e-6, 1e9))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        small = (weights * middle.exp()).clamp(max=_LARGEST).sum(1, keepdim=True) < total
        low, high = torch.where(small, middle, low), torch.where(small, high, middle)
    return (weights * high.exp()).clamp(max=_LARGEST)
