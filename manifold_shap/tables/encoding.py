"""How a column is encoded for networks and distances, and which cells drawn elements stand for.

A continuous column becomes one standardised element (an ordered one that of its rank), a binary
column one 0/1 element, and a categorical column a one-hot block. Where cells are missing, a
continuous column has one element more, which says so, and a categorical one a category more.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from pandas.api import types
from pandas.tseries.api import guess_datetime_format
from torch import Tensor

from manifold_shap._messages import shown, warn
from manifold_shap.tables.distinct import NUMBERS, Codes, label_of, numbers_of

# Categories that are no values of their own: missing cells, and all categories that are rare.
MISSING, OTHER = "(missing)", "(other)"
# Columns of more categories have the rarest of them share one element.
MOST_CATEGORIES = 100
# Text that is written as numbers is taken for numbers where it has as many distinct values.
LEAST_NUMERALS = 4


@dataclass(frozen=True)
class Encoding:
    """How the cells of a column are encoded.

    >>> Encoding("colour", "categorical", ("blue", "green", "red")).width
    3

    Attributes:
        name: of the column, as text.
        kind: "continuous", "ordered", "binary" or "categorical".
        categories: every value it may take, as text, in order; empty for a continuous column. A
            binary column encodes the first as 0 and the second as 1.
        mean: training mean, in the column's own units (continuous; of ranks, for an ordered one).
        scale: training standard deviation, in the same units; 1 where the column is constant.
        missing: whether a continuous or ordered column has a second element, 1 where the cell is
            missing, and 0 where it is not; the first is then 0, as at the mean.
        date: whether the numbers of a continuous column are days since 1970.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0
    missing: bool = False
    date: bool = False

    @classmethod
    def fit(cls, cells: pd.Series, codes: Codes, forced: bool = False) -> "Encoding":
        """The encoding of a column, with the mean and scale of the training rows.

        Numbers with exactly two distinct values are binary, other numbers, dates, times, durations
        and intervals continuous, and so is text that is written as numbers throughout. Ordered
        categories are ordered. Text, bool and other categories are binary with two distinct values
        and otherwise categorical.

        Args:
            cells: the distinct ones, in order.
            codes: the place of every cell of training among them.
            forced: whether numbers, too, are categories.

        Raises:
            TypeError, ValueError: see `numbers_of`.
        """
        name, absent, numbers = str(cells.name), cells.isna().to_numpy(bool), numbers_of(cells)
        kind, missing = types.infer_dtype(cells, skipna=True), bool(absent.any())
        ranked = isinstance(cells.dtype, pd.CategoricalDtype) and bool(cells.dtype.ordered)
        count = 0 if numbers is None else len(np.unique(numbers[~absent]))
        two = count == 2 and (ranked or (kind in NUMBERS and kind != "decimal"))
        least = {"string": LEAST_NUMERALS, "empty": 1}.get(kind, 0)
        if numbers is not None and count >= least and not (forced or two):
            ranks = tuple(map(label_of, cells.cat.categories)) if ranked else ()
            date = kind in ("date", "datetime", "datetime64", "period")
            mean, scale = _moments(numbers[codes])
            return cls(
                name, "ordered" if ranked else "continuous", ranks, mean, scale, missing, date
            )
        labels = list(dict.fromkeys(np.array([*map(label_of, cells)], object)[~absent]))
        if kind == "boolean" or types.is_bool_dtype(cells.dtype):
            labels = ["False", "True"]
        if len(labels) == 2 and not forced and not missing:
            return cls(name, "binary", tuple(labels))
        frequent = _most_frequent(labels, cells, codes)
        return cls(name, "categorical", (*frequent, *[MISSING] * missing))

    @property
    def width(self) -> int:
        """How many elements of the encoded row it takes."""
        return len(self.categories) if self.kind == "categorical" else 1 + self.missing

    def elements(self, cells: pd.Series) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Elements of cells `[cells, width]`, and which ones training had none like.

        That is a category that is not listed, or a missing cell where there was none: it is encoded
        as "other", or else as if it were average.

        Raises:
            TypeError: a column of numbers holds something else.
            ValueError: a number so far from the mean that float32 cannot hold it.
        """
        absent = cells.isna().to_numpy(bool)
        if self.kind in ("continuous", "ordered"):
            first = np.where(absent, 0, self._standardised(cells))
            columns = [first, absent] if self.missing else [first]
            return np.stack(columns, 1).astype(np.float32), absent & (not self.missing)
        places = {label: place for place, label in enumerate(self.categories)}
        place = np.array([places.get(label_of(cell), -1) for cell in cells], dtype=np.int64)
        place[absent] = places.get(MISSING, -1)
        unknown = place < 0
        if self.kind == "binary":
            return np.where(unknown, 0.5, place).astype(np.float32)[:, None], unknown
        place[unknown] = places.get(OTHER, -1)
        return np.eye(self.width + 1, self.width, dtype=np.float32)[place], unknown

    def _standardised(self, cells: pd.Series) -> NDArray[np.float32]:
        numbers = numbers_of(cells)
        if numbers is None:
            raise TypeError(
                f"Expected numbers in column {self.name!r}, as in training, but it holds "
                f"{shown(map(label_of, cells))}; convert or correct its cells."
            )
        with np.errstate(over="ignore"):
            standard = ((numbers - self.mean) / self.scale).astype(np.float32)
        if np.isinf(standard).any():
            raise ValueError(
                f"Column {self.name!r} holds {numbers[np.isinf(standard)][0]}, too far from the "
                f"training mean {self.mean} (scale {self.scale}) for float32; correct or drop "
                "these rows."
            )
        return standard


def _moments(numbers: NDArray[np.float64]) -> tuple[float, float]:
    present = numbers[~np.isnan(numbers)]
    if len(present) == 0:
        return 0.0, 1.0
    # The computed spread of a constant column is rounding noise, not exactly 0.
    if present.min() == present.max():
        return float(present[0]), 1.0
    return float(present.mean()), float(present.std())


def _most_frequent(labels: list[str], cells: pd.Series, codes: Codes) -> Sequence[str]:
    if len(labels) <= MOST_CATEGORIES:
        return labels
    counts = pd.Series(np.bincount(codes, minlength=len(cells)), index=[*map(label_of, cells)])
    counts = counts[cells.notna().to_numpy()].groupby(level=0, sort=False).sum()
    kept = counts.sort_values(ascending=False, kind="stable").index[: MOST_CATEGORIES - 1]
    name, form = str(cells.name), _date_format(labels)
    dates = (
        f" Its cells are dates that are text: `pandas.to_datetime(frame[{name!r}], "
        f"format={form!r})` makes them numbers, and so does pandas' reader, by "
        f"parse_dates=[{name!r}]{'' if form[:2] == '%Y' else f' and date_format={form!r}'}."
    )
    warn(
        f"Column {name!r} has {len(labels)} categories: all but the {len(kept)} most frequent ones "
        f"({1 - counts[kept].sum() / len(codes):.0%} of the rows) count as one to the value "
        f"function, {OTHER!r}; a model of frames sees them as they are.{dates if form else ''}",
    )
    frequent = frozenset(kept)
    return [*(label for label in labels if label in frequent), OTHER]


def _date_format(labels: list[str]) -> str:
    """The format in which nearly all of these texts are dates; empty where there is none."""
    for day_first in (False, True):
        with warnings.catch_warnings(action="ignore"):
            # They are in order: what stands for a missing date is first or last.
            form = guess_datetime_format(labels[len(labels) // 2], day_first) or ""
        dates = pd.to_datetime(labels, format=form, errors="coerce", utc=True)
        if "%d" in form and pd.isna(dates).mean() < 0.1:
            return form
    return ""


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
