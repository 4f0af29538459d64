"""Finds the observed cells that drawn elements stand for."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from manifold_shap.tables.distinct import Codes
from manifold_shap.tables.encoding import Encoding


class NearestNumber:
    """The nearest of the numbers of training, or a missing cell.

    Boundaries are the middles between neighbouring numbers: as trees have them, so that a drawn
    number and the one that it becomes are in one leaf.

        >>> nearest = NearestNumber(np.array([-1, 0, 3], dtype=np.float32), missing=None)
        >>> nearest(torch.tensor([[-9.0], [1.4], [1.6]]), torch.zeros(3))
        tensor([0., 1., 2.])

    Args:
        numbers: in increasing order, as elements.
        missing: the code of a missing cell, where a second element says so.
    """

    def __init__(self, numbers: NDArray[np.float32], missing: int | None) -> None:
        lower, upper = numbers[:-1], numbers[1:]
        middles = ((lower.astype(np.float64) + upper) / 2).astype(np.float32)
        # The middle of two neighbouring floats is one of them: the lower, which is not above it.
        self.middles = torch.from_numpy(np.where(middles < upper, middles, lower))
        self.missing = missing

    def __call__(self, elements: Tensor, u: Tensor) -> Tensor:
        middles = self.middles.to(elements.device)
        codes = torch.bucketize(elements[..., 0].contiguous(), middles).to(elements.dtype)
        if self.missing is None:
            return codes
        return codes.masked_fill(elements[..., 1] >= 0.5, self.missing)


class NearestCategory:
    """The category with the largest element.

    Of several that are as near, and of the cells that share one, by how often they occur.

        >>> codes_of = [np.array([0]), np.array([1, 2])]
        >>> nearest = NearestCategory(codes_of, np.array([5, 3, 1]))
        >>> elements = torch.tensor([[0.1, 0.9], [0.1, 0.9], [0.8, 0.2]])
        >>> nearest(elements, torch.tensor([0.74, 0.76, 0.5]))
        tensor([1., 2., 0.])

    Args:
        codes_of: the codes of the cells that each category stands for.
        counts: how often each code occurs in training.
    """

    def __init__(self, codes_of: Sequence[Codes], counts: Codes) -> None:
        often = [max(int(counts[codes].sum()), 1) for codes in codes_of]
        self.often = torch.tensor(often, dtype=torch.float32)
        self.first = torch.tensor([float(codes[0]) for codes in codes_of])
        self.shared = {}
        for place, codes in enumerate(codes_of):
            if len(codes) > 1:
                upper = np.cumsum(np.maximum(counts[codes], 1e-9))
                among = torch.tensor(codes, dtype=torch.float32)
                self.shared[place] = among, torch.from_numpy(upper[:-1] / upper[-1])

    def __call__(self, elements: Tensor, u: Tensor) -> Tensor:
        if elements.shape[-1] < len(self.first):  # A single element says which of two it is.
            place = (elements[..., 0] >= 0.5).long()
        else:
            place, u = largest(elements, u, self.often)
        codes = self.first.to(elements.device)[place]
        for shared, (among, upper) in self.shared.items():
            chosen = torch.bucketize(u.double().contiguous(), upper.to(u.device), right=True)
            codes = torch.where(place == shared, among.to(codes.device)[chosen], codes)
        return codes


def largest(
    elements: Float[Tensor, "*batch width"],
    u: Float[Tensor, "*batch"],
    often: Float[Tensor, " width"],
) -> tuple[Tensor, Tensor]:
    """The place of the largest element, of several by how often they occur; and what is left of u.

    >>> largest(torch.tensor([[0.0, 1.0, 1.0]]), torch.tensor([0.5]), torch.tensor([9.0, 1.0, 3.0]))
    (tensor([2]), tensor([0.3333]))
    """
    top, place = elements.max(-1)
    near = elements == top[..., None]
    # A copula draws each element for itself: all may be 0, or several 1.
    tied = near.sum(-1) > 1
    if bool(tied.any()):
        upper = (near[tied] * often.to(u.device)).cumsum(-1)
        wanted = u[tied][:, None] * upper[:, -1:]
        # From the right: even at u = 0, an element that is not the largest is passed over.
        chosen = torch.searchsorted(upper, wanted, right=True).clamp(max=upper.shape[1] - 1)
        share = often.to(u.device)[chosen]
        place[tied], u = chosen[:, 0], u.clone()
        u[tied] = ((wanted - upper.gather(1, chosen) + share) / share)[:, 0]
    return place, u


def nearest_cell(
    encoding: Encoding, elements: NDArray[np.float32], missing: Codes, counts: Codes
) -> NearestNumber | NearestCategory:
    """How elements of a column become codes.

    Args:
        encoding: of the column.
        elements: of each cell of training `[codes, width]`.
        missing: codes of missing cells.
        counts: how often each code occurs in training.
    """
    if encoding.kind in ("continuous", "ordered"):
        most = int(missing[counts[missing].argmax()]) if len(missing) else None
        return NearestNumber(elements[: len(elements) - len(missing), 0], most)
    binary = encoding.kind == "binary"
    place = elements[:, 0].astype(np.int64) if binary else elements.argmax(1)
    codes_of = [np.flatnonzero(place == k) for k in range(len(encoding.categories))]
    # A category that training has no row of, such as False of a column of True, is never drawn.
    nowhere = np.zeros(1, dtype=np.int64)
    return NearestCategory([codes if len(codes) else nowhere for codes in codes_of], counts)
