"""Finds the observed value that drawn elements of a column stand for."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from manifold_shap.tables.forms import Codes
from manifold_shap.tables.schema import Column
from manifold_shap.tables.vocabulary import Vocabulary, shares


class ValueOf(ABC):
    """From the elements of a column to codes of values of training."""

    @abstractmethod
    def __call__(
        self, elements: Float[Tensor, "*batch width"], u: Float[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch"]:
        """Codes; `u` are uniform numbers."""

    def weigh(self, codes: Codes) -> None:  # noqa: B027
        """Take how often each value occurs from the cells of training, where that matters."""


class NearestNumber(ValueOf):
    """The nearest of the numbers of training, or a missing cell.

    Boundaries are the middles between neighbouring numbers: as trees have them, so that a drawn
    number and the one that it becomes are in one leaf.

    Args:
        numbers: in increasing order, as elements.
        missing: the code of a missing cell, where a second element says so.
    """

    def __init__(self, numbers: NDArray[np.float32], missing: int | None) -> None:
        self.middles = torch.from_numpy((numbers[1:] + numbers[:-1]) / 2)
        self.missing = missing

    def __call__(self, elements: Tensor, u: Tensor) -> Tensor:
        middles = self.middles.to(elements.device)
        codes = torch.bucketize(elements[..., 0].contiguous(), middles).to(elements.dtype)
        if self.missing is None:
            return codes
        return codes.masked_fill(elements[..., 1] >= 0.5, self.missing)


class NearestCategory(ValueOf):
    """The category with the largest element; of those that share one, by their shares.

    Args:
        codes_of: the codes of the values that each category stands for.
        binary: whether a single element says which of two it is.
    """

    def __init__(self, codes_of: Sequence[Sequence[int]], binary: bool) -> None:
        self.codes_of, self.binary = codes_of, binary
        self.first = torch.tensor([float(codes[0]) for codes in codes_of])
        self.shared = [place for place, codes in enumerate(codes_of) if len(codes) > 1]
        self.upper = {
            place: torch.linspace(0, 1, len(codes_of[place]) + 1)[1:].double()
            for place in self.shared
        }

    def weigh(self, codes: Codes) -> None:
        share = shares(codes, int(codes.max()) + 1)
        for place in self.shared:
            own = share[list(self.codes_of[place])].cumsum()
            self.upper[place] = torch.from_numpy(own / own[-1])

    def __call__(self, elements: Tensor, u: Tensor) -> Tensor:
        place = (elements[..., 0] >= 0.5).long() if self.binary else elements.argmax(-1)
        codes = self.first.to(elements.device)[place]
        for shared in self.shared:
            own = torch.tensor(self.codes_of[shared], device=u.device, dtype=codes.dtype)
            upper = self.upper[shared].to(u.device)
            chosen = torch.searchsorted(upper, u.double().contiguous()).clamp(max=len(own) - 1)
            codes = torch.where(place == shared, own[chosen], codes)
        return codes


def value_of(column: Column, vocabulary: Vocabulary, elements: NDArray[np.float32]) -> ValueOf:
    """How elements of a column become codes.

    Args:
        column: how it is encoded.
        vocabulary: its values, all of them of training.
        elements: of each value `[codes, width]`.
    """
    count = len(vocabulary.values) - (vocabulary.missing is not None)
    if column.kind in ("continuous", "ordered"):
        return NearestNumber(elements[:count, 0], vocabulary.missing)
    binary = column.kind == "binary"
    place: Any = elements[:, 0].astype(int) if binary else elements.argmax(1)
    codes_of = [np.flatnonzero(place == k).tolist() for k in range(len(column.categories))]
    # A category that training has no row of, such as False of a column of True, is never drawn.
    return NearestCategory([codes or [0] for codes in codes_of], binary)
