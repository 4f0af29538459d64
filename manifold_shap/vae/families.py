"""Chooses a distribution for every element of a row, from a table or from the values."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._messages import check_choice
from manifold_shap.imputers.levels import columns_of

CONTINUOUS = ("auto", "normal", "quantile")


def choose_families(
    x: Float[Tensor, "rows *event"],
    index: Sequence[int] | None = None,
    continuous: str = "auto",
    bins: int = 32,
    least_scale: float = 0.05,
) -> list[list[Any]]:
    """A family for every element of these rows, as plain lists.

    Elements that are always 0 or 1 are Bernoulli or, where one of several elements of a player is
    1 in every row, a category; all others are continuous. A number that may be missing has a family
    for its value and its indicator together, chosen by the values that are there.

    Args:
        x: training rows.
        index: player that owns each element; by default each is one.
        continuous: `normal`, `quantile`, or `auto`: `quantile` for columns of a table with a value
            that more than a tenth of the rows share, since a normal distribution has no peaks.
        bins: most quantile bins; frequent values add bins of their own.
        least_scale: of normal elements.

    Raises:
        ValueError: `continuous` is none of them.

    >>> choose_families(torch.tensor([[0.0, 1.5], [1.0, 2.5]]), continuous="normal")
    [['Bernoulli', [0]], ['Scores', [1], 0.05]]
    """
    check_choice("continuous", continuous, CONTINUOUS)
    flat, is_table = x.flatten(1), x.ndim == 2
    binary = ((flat == 0) | (flat == 1)).all(0).tolist()
    # The elements of pictures and series are no columns.
    owner = range(flat.shape[1]) if index is None or not is_table else index
    columns = columns_of(flat, owner)
    chosen: list[list[Any]] = []
    if single := [own[0] for own in columns if len(own) == 1 and binary[own[0]]]:
        chosen.append(["Bernoulli", single])
    chosen += [["Categorical", own] for own in columns if len(own) > 1 and binary[own[0]]]
    smooth = []
    for element, *indicator in (own for own in columns if not binary[own[0]]):
        there = flat[flat[:, indicator].sum(1) == 0, element]
        peak = continuous == "auto" and is_table and _has_peak(there)
        if peak or continuous == "quantile":
            family: list[Any] = ["Quantile", [element], bin_edges(there, bins).tolist()]
        elif indicator:
            family = ["Scores", [element], least_scale]
        else:
            smooth.append(element)
            continue
        chosen.append(["MaybeMissing", family, *indicator] if indicator else family)
    if smooth:
        # The elements of a picture or a series have one unit.
        chosen.append(["Scores" if is_table else "Normal", smooth, least_scale])
    return chosen


def _has_peak(column: Float[Tensor, " rows"], share: float = 0.1) -> bool:
    counts = column.unique(return_counts=True)[1]
    return len(counts) > 1 and int(counts.max()) > share * len(column)


def bin_edges(column: Float[Tensor, " rows"], most: int) -> Float[Tensor, " edges"]:
    """Smallest values of all bins but the first: quantiles, and each frequent value on its own.

    >>> bin_edges(torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0]), most=3)
    tensor([1., 3.])
    """
    values, counts = column.unique(return_counts=True)
    frequent = counts > len(column) / most
    ranks = counts.cumsum(0) - counts
    opens = ranks * most // len(column) != (ranks - counts.roll(1)) * most // len(column)
    opens |= frequent | frequent.roll(1)
    if len(values) <= most:
        opens = torch.ones_like(frequent)
    opens[0] = False
    return values[opens]
