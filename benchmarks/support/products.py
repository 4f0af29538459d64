"""Sums of products as games of many players, whose interactions of pairs are known."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Game(NamedTuple):
    """A game v(S) = Σ_k worth_k Π_{i in S} inside_ki Π_{i not in S} outside_ki.

    Attributes:
        inside, outside: factors of players in S and of others, `[products, players]`.
        worth: of each product, `[products, outputs]`.
    """

    inside: Tensor
    outside: Tensor
    worth: Tensor

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        """v of coalitions `[..., players]`; the same for all rows."""
        there = mask.float()
        if bool((self.outside == 1).all()):
            return (there @ self.inside.log().T).exp() @ self.worth
        # Products of players that are 1 where all of them are in S, else 0.
        members = 1 - self.outside
        return (there @ members.T > members.sum(1) - 0.5).float() @ self.worth

    def interactions(self) -> Tensor:
        """Of all pairs, `[players, players, outputs]`, in double precision.

        The mean over shares q of the others in S, uniform in [0, 1], of the change that a pair
        makes: Π_k (outside_k + q (inside_k - outside_k)) over the others is a polynomial in q,
        which Gauss-Legendre nodes integrate exactly.
        """
        inside, outside = self.inside.double(), self.outside.double()
        players = inside.shape[1]
        nodes, weights = np.polynomial.legendre.leggauss(players // 2)
        found = torch.zeros(players, players, len(inside), dtype=torch.float64)
        for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
            factor = outside + node * (inside - outside)
            share = (inside - outside) / factor
            product = weight * factor.prod(1)
            found += torch.einsum("k,ki,kj->ijk", product, share, share)
        return found * (1 - torch.eye(players))[..., None] @ self.worth.double()


def of_few(players: int, outputs: int, seed: int) -> Game:
    """Three products per player, each of two to six players that all have to be in S."""
    draw = torch.Generator().manual_seed(seed)
    count = 3 * players
    ranks = torch.rand(count, players, generator=draw).argsort(1).argsort(1)
    size = torch.randint(2, 7, (count, 1), generator=draw)
    worth = torch.randn(count, outputs, generator=draw)
    return Game(torch.ones(count, players), (ranks >= size).float(), worth)


def of_all(players: int, outputs: int, seed: int) -> Game:
    """Eight products of a factor for each player in S, of a standard deviation of about 0.2."""
    draw = torch.Generator().manual_seed(seed)
    inside = (0.2 * torch.randn(8, players, generator=draw)).exp()
    return Game(inside, torch.ones(8, players), torch.randn(8, outputs, generator=draw))
