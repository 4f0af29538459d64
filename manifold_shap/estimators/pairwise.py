"""Fits interactions of all pairs of players to the even part of a game: pairwise regression.

The even part of v,

    c(S) = v(N) + v(∅) - v(S) - v(N∖S),

holds all that there is of interactions of pairs: it is the same for S and N∖S, and the
interactions of the other part, as of a sum of contributions, are zero. If v is a
sum of terms of one, two or three players each, then c(S) is exactly the sum of I_ij over i in S and
j in N∖S. For any v, two facts make I the weighted least-squares fit of these sums.

For single players they are exact: Σ_j I_ij = c({i}) = r_i. With equal shares of these,

    J_ij = (r_i + r_j) / (n-2) - Σ r / ((n-1)(n-2)),

what is left, B = I - J, has rows that sum to zero. Let U be the symmetric matrix that is 1 where S
parts two players and 0 elsewhere, less equal shares of its rows' sums. Then ⟨U, B⟩, over pairs, is
the sum of B over i in S and j in N∖S, and with y = c(S) - ⟨U, J⟩ likewise

    Σ w U ⟨U, B⟩ = Σ w U y,    w = n (n-1)(n-2) / (4 C(n,s) s (s-1) (n-s) (n-s-1)),  s = |S|,

over all coalitions of sizes 2 to n-2: w U has the weights of I_ij there. These matrices B, of zero
diagonal and rows that sum to zero, are one irreducible representation of the permutations of
players, on which Σ w U ⟨U, ·⟩ is a multiple of the identity; w makes it the identity. All of this
is the regression of KernelSHAP one degree up, and as there w |U|² C(n,s) is the same for all s:
leverage scores draw |S| uniformly (Musco & Witter 2025). Fumagalli et al. (2024) have a regression
for the index, too, on all coalitions rather than on pairs of them.

Over all coalitions of one size, U sums to zero: what y has as a function of |S| alone, such as the
jumps of a learned v at N and ∅, is nothing to B, but noise to a fit of drawn coalitions. It has an
intercept for each size, shared with the complements' size, next to B; that is, y and U are centred
among the coalitions of each size.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap.estimators.pairs import Pairs

# The equations are factorised, as a matrix of all pairs of players by all pairs.
MOST_PLAYERS = 45
# Numbers at a time: so few stay in a processor's cache.
_MOST_NUMBERS = 2**19
_SMALLEST = 1e-10


class PairwiseRegression:
    """Least squares of even parts, for any number of games on the same coalitions.

    Even parts `[games, pairs]` and matrices `[games, players, players]` are in double precision.

    Args:
        pairs: coalitions of sizes 2 to n-2 and their complements, with the weights of KernelSHAP.
        dtype: precision of products with all pairs of players, such as that of the game's values.

    Raises:
        ValueError: the pairs do not determine all interactions.
    """

    def __init__(self, pairs: Pairs, dtype: torch.dtype = torch.float64) -> None:
        self.pairs, self._players = pairs, pairs.mask.shape[1]
        # By player, so that products of two are quickly made.
        self._sign = 2 * pairs.mask.T.to(dtype) - 1
        self._size = pairs.mask.sum(1).double()
        self._pair = torch.triu_indices(self._players, self._players, 1, device=pairs.mask.device)
        n, s = self._players, self._size
        self._weight = pairs.weight * (n - 1) * (n - 2) / (4 * (s - 1) * (n - s - 1))
        # Coalitions of one size, or of the complements' size, have equal weights.
        smaller = torch.minimum(s, n - s)
        _, self._kind, counts = smaller.unique(return_inverse=True, return_counts=True)
        self._counts = counts.double()
        self._products_of_kind = self._summed_products()
        # What an even part weighs in its own fitted value: in that of its size, besides.
        self._in_size = 1 / self._counts[self._kind]
        self._inverse = self._factorise()

    def targets(
        self, c: Float[Tensor, "games pairs"], alone: Float[Tensor, "games players"]
    ) -> Float[Tensor, "games pairs"]:
        """y: what is left of c where each player's part is shared equally: c(S) - ⟨U, J⟩."""
        n, s = self._players, self._size
        total = alone.sum(1, keepdim=True)
        own = (_times(alone, self._sign) + total) / 2
        parted = ((n - s) * own + s * (total - own)) / (n - 2)
        return c - parted + s * (n - s) * total / ((n - 1) * (n - 2))

    def fit(
        self, y: Float[Tensor, "games pairs"]
    ) -> tuple[Float[Tensor, "games players players"], Float[Tensor, "games pairs"]]:
        """B, and the residuals of y, less their mean for each size."""
        y = y - self._means(y)[:, self._kind]
        fitted = self._matrix(self._upper(self.moment(y)) @ self._inverse)
        return fitted, y - self.fitted(fitted)

    def fitted(self, b: Float[Tensor, "games players players"]) -> Float[Tensor, "games pairs"]:
        """⟨U, B⟩, less its mean for each size."""
        own = self._upper(b) / -2
        found = torch.cat([_times(own, products) for _, products in self._products()], dim=1)
        return found - self._means(found)[:, self._kind]

    def moment(self, y: Float[Tensor, "games pairs"]) -> Float[Tensor, "games players players"]:
        """Σ w U y."""
        return without_shares(self._sum(self._weight * y)) / -2

    def variance(
        self, errors: Float[Tensor, "games pairs"]
    ) -> Float[Tensor, "games players players"]:
        """Of B, by the spread of drawn pairs, from the residuals of the fit.

        Those of a fit to all others are larger by 1 / (1 - leverage): this is the jackknife, whose
        variances are too large, if anything.
        """
        count = self.pairs.sampled
        drawn = torch.where(self.pairs.drawn[:, 0], count / (count - 1), 0.0)
        left = errors.square() * drawn
        total = left.new_zeros(len(left), len(self._inverse))
        for part, u, w in self._parts():
            moved = u @ self._inverse
            others = (1 - w * (moved * u).sum(1) - self._in_size[part]).clamp(min=_SMALLEST)
            total += left[:, part] @ ((w / others)[:, None] * moved).square()
        return self._matrix(total)

    def _sum(self, weight: Float[Tensor, "games pairs"]) -> Float[Tensor, "games players players"]:
        """Of ±1 for pairs of players: 1 where a coalition has both or neither."""
        total = weight.new_zeros(len(weight), self._pair.shape[1])
        for part, products in self._products():
            total += _times(weight[:, part], products.T)
        return self._matrix(total)

    def _products(self) -> Iterator[tuple[slice, Float[Tensor, "half some"]]]:
        """Numbers of some coalitions, with ±1 for pairs of players; they last until the next."""
        n = self._players
        step = max(1, _MOST_NUMBERS // self._pair.shape[1])
        room = self._sign.new_empty(self._pair.shape[1], min(step, self._sign.shape[1]))
        for start in range(0, self._sign.shape[1], step):
            part = slice(start, start + step)
            z = self._sign[:, part]
            products = room[:, : z.shape[1]]
            for player, others in enumerate(products.split(list(range(n - 1, 0, -1)))):
                torch.mul(z[player], z[player + 1 :], out=others)
            yield part, products

    def _upper(self, matrix: Float[Tensor, "games players players"]) -> Float[Tensor, "games half"]:
        return matrix[:, self._pair[0], self._pair[1]]

    def _matrix(self, upper: Float[Tensor, "games half"]) -> Float[Tensor, "games players players"]:
        matrix = upper.new_zeros(len(upper), self._players, self._players)
        matrix[:, self._pair[0], self._pair[1]] = upper
        return matrix + matrix.mT

    def _factorise(self) -> Float[Tensor, "unknowns unknowns"]:
        """The inverse of the left side."""
        n, (first, second) = self._players, self._pair
        # In the space of row sums, which no U enters, anything that is invertible will do.
        incidence = torch.zeros(len(first), n, dtype=torch.float64, device=self._sign.device)
        incidence[range(len(first)), first] = incidence[range(len(first)), second] = 1
        gram = incidence @ incidence.T / n
        for _, u, w in self._parts():
            gram += (w[:, None] * u).T @ u
        root, failed = torch.linalg.cholesky_ex(gram)
        if int(failed):
            raise ValueError(
                f"Expected coalitions that determine the interactions of {n} players but the "
                f"{len(self.pairs.mask)} pairs drawn do not; give more `evaluations`, or another "
                "`seed`."
            )
        return torch.cholesky_inverse(root)

    def _parts(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Numbers of some coalitions, with their U, centred by size, of pairs of players and w."""
        step = max(1, _MOST_NUMBERS // self._players**2)
        center = self._in_pairs(self._products_of_kind / self._counts[:, None])
        for start in range(0, self._sign.shape[1], step):
            part = slice(start, start + step)
            z = self._sign[:, part].T.double()
            u = self._upper(without_shares(z[:, :, None] * z[:, None, :])) / -2
            yield part, u - center[self._kind[part]], self._weight[part]

    def _in_pairs(self, products: Float[Tensor, "some half"]) -> Float[Tensor, "some half"]:
        """U of sums of ±1 for pairs of players."""
        return self._upper(without_shares(self._matrix(products))) / -2

    def _means(self, y: Float[Tensor, "games pairs"]) -> Float[Tensor, "games sizes"]:
        total = y.new_zeros(len(y), len(self._counts))
        return total.index_add_(1, self._kind, y) / self._counts

    def _summed_products(self) -> Float[Tensor, "sizes half"]:
        """Sums of ±1 for pairs of players over the coalitions of each size."""
        total = self._counts.new_zeros(len(self._counts), self._pair.shape[1])
        for part, products in self._products():
            total.index_add_(0, self._kind[part], products.T.double())
        return total


def equal_shares(
    alone: Float[Tensor, "games players"],
) -> Float[Tensor, "games players players"]:
    """J, whose rows sum to the even parts of single players; zero on the diagonal."""
    n = alone.shape[1]
    total = alone.sum(1)[:, None, None]
    shares = (alone[:, :, None] + alone[:, None, :]) / (n - 2) - total / ((n - 1) * (n - 2))
    return shares * _others(shares)


def without_shares(
    matrix: Float[Tensor, "games players players"],
) -> Float[Tensor, "games players players"]:
    """A symmetric matrix without its diagonal and without equal shares of its rows' sums."""
    own = matrix * _others(matrix)
    return own - equal_shares(own.sum(2))


def _others(like: Float[Tensor, "games players players"]) -> Float[Tensor, "players players"]:
    return 1 - torch.eye(like.shape[1], dtype=like.dtype, device=like.device)


def _times(
    left: Float[Tensor, "games some"], right: Float[Tensor, "some more"]
) -> Float[Tensor, "games more"]:
    """In the precision of the right side, given in double precision."""
    return (left.to(right.dtype) @ right).double()
