"""The empirical conditional: rows of the data, weighted by a kernel around x_S."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap._checks import to_tensor
from manifold_shap.coalitions import distinct_coalitions
from manifold_shap.imputers.bandwidth import choose_bandwidths
from manifold_shap.imputers.base import LEAST_NESTED_PLAYERS, Completions, nested_parts
from manifold_shap.imputers.covariance import REGULARISATION, regularised_moments
from manifold_shap.imputers.donors import DonorImputer
from manifold_shap.imputers.mahalanobis import Mahalanobis
from manifold_shap.players import Players


class EmpiricalImputer(DonorImputer):
    """Reference rows z, weighted by exp(-ρ² / 2σ²) with ρ the scaled Mahalanobis distance on S.

    Aas, Jullum & Løland (2021), Section 3.3; Carballo, Eqs. 3.4.5-3.4.7. Only the largest weights
    that together make up the share η of all count. As many draws as reference rows give the whole
    of them, fewer the nearest rows only.

    Args:
        reference: rows of the data distribution `[rows, *event]`, at least two.
        players: who plays; by default every element of a row on its own.
        bandwidth: σ, in units in which the mean ρ² of two random rows is about 2; or "aicc", by
            the corrected Akaike criterion, one for each number of present players.
        share: η; 1 keeps every row.
        targets: what the kernel should predict well, `[rows, outputs]`, for bandwidth="aicc": give
            T(f(reference)) to choose σ for one model. By default the absent features themselves,
            which suits every model.
        regularisation: see `regularised_moments`.

    Attributes:
        bandwidth: σ for each number of present players, `[players + 1]`.

    Raises:
        TypeError, ValueError: `reference` or `targets` is no tensor or array of finite rows of the
            right shape, or another argument is out of range.
    """

    name = "empirical"
    bandwidth: Tensor

    def __init__(
        self,
        reference: Any,
        players: Players | None = None,
        bandwidth: float | str = 0.1,
        share: float = 0.95,
        targets: Any = None,
        regularisation: float = REGULARISATION,
    ) -> None:
        super().__init__(reference, players)
        _check(bandwidth, share, targets)
        self.share = share
        self._set_donors(self.reference)
        rows = self.reference.flatten(1)
        moments = regularised_moments(rows, regularisation)
        self.ridge = moments.ridge
        self.distance = Mahalanobis(rows, moments)
        self._rule = bandwidth
        if isinstance(bandwidth, str):
            wanted = self._targets(targets)
            chosen = choose_bandwidths(rows, moments, self.players, wanted)
        else:
            chosen = torch.full((len(self.players) + 1,), bandwidth)
        self.register_buffer("bandwidth", chosen.to(self.device), persistent=False)

    @property
    def provenance(self) -> dict[str, Any]:
        return {"bandwidth": self._rule, "share": self.share, "ridge": self.ridge}

    def weigh(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Iterator[tuple[Int64[Tensor, " some"], Float[Tensor, "some donors"]]]:
        """See `DonorImputer.weigh`: the kernel at each reference row, the sum of all being 1."""
        pairs = x.repeat_interleave(mask.shape[1], 0).flatten(1)
        players = mask.flatten(0, 1)
        coalitions, which = distinct_coalitions(players)
        present = self.players.expand(coalitions).flatten(1)
        sigma = self.bandwidth.double()[players.sum(-1)]
        for some, squared in self.distance.parts(pairs, present, which):
            yield some, (squared / (-2 * sigma[some, None].square())).log_softmax(-1)

    def impute_nested(
        self,
        x: Float[Tensor, "batch *event"],
        mask: Bool[Tensor, "batch runs run players"],
        draws: range,
        keys: Int64[Tensor, "batch runs"],
        most: int,
    ) -> Iterator[Completions]:
        """Complete nested coalitions by one factorisation for each run."""
        if len(self.players) < LEAST_NESTED_PLAYERS:
            yield from super().impute_nested(x, mask, draws, keys, most)
            return
        for some, own in nested_parts(mask, keys, most):
            single = own.repeat_interleave(some.shape[2], 1)
            weights = self._weigh_along(x, some)
            yield self._complete(x, some.flatten(1, 2), draws, single, weights)

    def _weigh_along(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch runs run players"]
    ) -> Iterator[tuple[Int64[Tensor, " some"], Float[Tensor, "some donors"]]]:
        """As `weigh`, of coalitions that grow within each run."""
        given = x.repeat_interleave(mask.shape[1], 0).flatten(1)
        present = self.players.expand(mask.flatten(0, 1)).flatten(2)
        sigma, first = self.bandwidth.double()[mask.sum(-1)].flatten(), 0
        for squared in self.distance.parts_along(given, present):
            some = torch.arange(first, first + len(squared), device=x.device)
            yield some, (squared / (-2 * sigma[some, None].square())).log_softmax(-1)
            first += len(squared)

    def _targets(self, targets: Any) -> Tensor | None:
        if targets is None:
            return None
        numbers = to_tensor(targets, "targets").to(self.device)
        if numbers.ndim != 2 or len(numbers) != len(self.reference):
            raise ValueError(
                f"Expected `targets` of shape ({len(self.reference)}, outputs), one row for each "
                f"reference row, but got {tuple(numbers.shape)}; a single output is "
                "`targets[:, None]`."
            )
        if not bool(numbers.isfinite().all()):
            raise ValueError(
                f"Expected finite `targets` but {int((~numbers.isfinite()).sum())} entries are NaN "
                "or infinite; leave out the rows where the model is not finite."
            )
        return numbers


def _check(bandwidth: float | str, share: float, targets: Any) -> None:
    if bandwidth != "aicc" and (isinstance(bandwidth, str) or not 0 < bandwidth < float("inf")):
        raise ValueError(
            f"Expected `bandwidth` to be a positive number or 'aicc' but got {bandwidth!r}."
        )
    if not 0 < share <= 1:
        raise ValueError(f"Expected `share` in (0, 1] but got {share}.")
    if targets is not None and bandwidth != "aicc":
        raise ValueError(
            f"Expected no `targets` with bandwidth={bandwidth!r}, since they only choose one; use "
            "bandwidth='aicc'."
        )
