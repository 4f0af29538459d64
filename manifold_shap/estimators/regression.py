"""Fits Shapley values by least squares to coalitions and their complements.

Shapley values are the weighted least-squares fit of v by an additive game with the same ends, v(∅)
and v(N) (Lundberg & Lee 2017). A coalition is taken together with its complement, under the same
weight: half their difference enters the fit, and their mean drops out (Covert & Lee 2021). With
u = 1_S - |S|/n, which sums to zero, and y = (v(S) - v(N∖S))/2 minus its value under equal shares of
v(N) - v(∅), the fit is equal shares plus the β of

    Σ w u uᵀ β = Σ w u y,    w = n / (|S| (n-|S|) C(n,|S|)).

Over all coalitions Σ w u uᵀ is the identity among vectors that sum to zero, and β is Σ w u y. For a
sample of coalitions, w is divided by the expected number of each. The left side depends on the
coalitions alone, which all rows and outputs share: it is factorised once.
"""

import itertools
from collections.abc import Iterator
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.pairs import PAIRS_PER_PART, Pairs, choose_pairs

# Pairs that do not determine all values are drawn again, at most so often.
_MOST_DRAWS = 10_000
# What is smaller, relative to one, counts as rounding error of float64.
_ROUNDING = 1e-10


class Regression:
    """Least squares of y on u, for any number of rows and outputs.

    Args:
        pairs: of coalitions, at which all of them are evaluated.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    @classmethod
    def of_game(
        cls,
        game: Evaluator,
        evaluations: int | None,
        law: str,
        seed: int,
        without_replacement: bool = False,
    ) -> "Regression":
        """The regression on the first pairs by a law that determine all values.

        Args:
            game: the evaluator.
            evaluations: coalitions per row.
            law: one of `LAWS`.
            seed: of the draws.
            without_replacement: see `choose_pairs`.

        Raises:
            ValueError: an odd number of coalitions per row, or fewer than two for each player.
        """
        draws = choose_pairs(
            game, evaluations, law, seed, 2 * len(game.players), without_replacement
        )
        for pairs in itertools.islice(draws, _MOST_DRAWS):
            found = cls(pairs)
            if not bool(found.inverse.isnan().any()):
                return found
        raise ValueError(
            f"Expected coalitions that determine the values of all {len(game.players)} players but "
            f"{_MOST_DRAWS} draws of {2 * len(pairs.mask)} did not; give more `evaluations`."
        )

    @cached_property
    def inverse(self) -> Float[Tensor, "players players"]:
        """Of Σ w u uᵀ among vectors that sum to zero; NaN where it leaves values undetermined."""
        players = self.pairs.mask.shape[1]
        # u is orthogonal to constants: adding their projection makes the sum invertible.
        gram = self.pairs.weight.new_full((players, players), 1 / players)
        for _, u, w in self._parts():
            gram += (w[:, None] * u).T @ u
        root, failed = torch.linalg.cholesky_ex(gram)
        if int(failed) or float(root.diagonal().square().min()) < _ROUNDING:
            return gram * torch.nan
        return torch.cholesky_inverse(root)

    @cached_property
    def leverage(self) -> Float[Tensor, " pairs"]:
        """w uᵀ `inverse` u, the weight of a pair's own y in its fitted value: at most 1."""
        shares = [w * ((u @ self.inverse) * u).sum(1) for _, u, w in self._parts()]
        return torch.cat([self.pairs.weight[:0], *shares])

    @property
    def leverage_one(self) -> Bool[Tensor, "pairs 1"]:
        """Drawn pairs without which values would be undetermined: of leverage one."""
        return self.pairs.drawn & (self.leverage > 1 - _ROUNDING)[:, None]

    def moment(
        self, y: Float[Tensor, "rows pairs outputs"]
    ) -> Float[Tensor, "rows players outputs"]:
        """Σ w u y."""
        total = y.new_zeros(len(y), self.pairs.mask.shape[1], y.shape[2])
        for part, u, w in self._parts():
            total += torch.einsum("pn,bpo->bno", w[:, None] * u, y[:, part])
        return total

    def fit(self, y: Float[Tensor, "rows pairs outputs"]) -> Float[Tensor, "rows players outputs"]:
        """β, which sums to zero over the players."""
        return self.inverse @ self.moment(y)

    def residual(
        self, y: Float[Tensor, "rows pairs outputs"], beta: Float[Tensor, "rows players outputs"]
    ) -> Float[Tensor, "rows pairs outputs"]:
        """y minus its fitted values."""
        fitted = [torch.einsum("pn,bno->bpo", u, beta) for _, u, _ in self._parts()]
        return y - torch.cat([y[:, :0], *fitted], dim=1)

    def loo_residuals(
        self, y: Float[Tensor, "rows pairs outputs"], beta: Float[Tensor, "rows players outputs"]
    ) -> Float[Tensor, "rows pairs outputs"]:
        """Residuals of drawn pairs in the fit to all other pairs, given β, the fit to all.

        Zero for pairs that were not drawn, NaN for leverage_one ones.
        """
        others = torch.where(self.leverage_one, torch.nan, 1 - self.leverage[:, None])
        return torch.where(self.pairs.drawn, self.residual(y, beta) / others, 0.0)

    def unbiased(
        self, y: Float[Tensor, "rows pairs outputs"], errors: Float[Tensor, "rows pairs outputs"]
    ) -> Float[Tensor, "rows players outputs"]:
        """The mean of the fits to all but one of the drawn pairs, and Σ w u e of what they leave.

        Essential pairs stay in all of the fits.

        Args:
            y: as for `fit`.
            errors: e, those of `loo_residuals`.
        """
        errors = torch.where(self.leverage_one, 0.0, errors)
        # Each of the fits is β - `inverse` w_j u_j e_j.
        moment = self.moment(y - errors / max(1, self.pairs.sampled))
        mean = self.inverse @ moment
        # At enumerated sizes the sum over the residuals of any β is exact.
        left_in = ~self.pairs.drawn | self.leverage_one
        return mean + self.moment(torch.where(left_in, self.residual(y, mean), errors))

    def covariance(
        self,
        linear: Float[Tensor, "players players"],
        errors: Float[Tensor, "rows pairs outputs"],
        full_covariance: bool,
    ) -> Float[Tensor, "rows players *errors"]:
        """Of `linear` Σ w u e over the drawn pairs, from their spread; or its diagonal alone.

        Args:
            linear: a symmetric map.
            errors: e, zero for pairs that were not drawn.
            full_covariance: whether to give covariances between outputs.
        """

        def products(of: Tensor) -> Tensor:
            return of[..., :, None] * of[..., None, :] if full_covariance else of.square()

        total = errors.new_zeros(len(errors), len(linear), errors.shape[2])
        squares = products(total)
        for part, u, w in self._parts():
            moved, own = (w[:, None] * u) @ linear, errors[:, part]
            total += torch.einsum("pn,bpo->bno", moved, own)
            squares += torch.einsum("pn,bp...->bn...", moved.square(), products(own))
        count = self.pairs.sampled
        if count < 2:
            return torch.full_like(squares, torch.nan)
        return (squares - products(total) / count) * (count / (count - 1))

    def _parts(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Numbers of some pairs, with their u `[part, players]` and w."""
        mask, weight = self.pairs.mask, self.pairs.weight
        for start in range(0, len(mask), PAIRS_PER_PART):
            part = slice(start, start + PAIRS_PER_PART)
            u = mask[part].double()
            yield part, u - u.mean(1, keepdim=True), weight[part]
