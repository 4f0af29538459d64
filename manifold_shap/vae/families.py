"""Chooses a distribution for every element of a row, by its table or by its values."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._messages import check_choice

if TYPE_CHECKING:
    from manifold_shap.tables.table import Block

CONTINUOUS = ("auto", "normal", "quantile")

# Binary elements, one-hot blocks, and continuous elements, each with its indicator if it has one.
_Kinds = tuple[list[int], list[list[int]], dict[int, int | None]]


def choose_families(
    x: Float[Tensor, "rows *event"],
    blocks: "Sequence[Block] | None" = None,
    continuous: str = "auto",
    bins: int = 32,
    least_scale: float = 0.05,
    index: Sequence[int] | None = None,
) -> list[list[Any]]:
    """A family for every element of these rows, as plain lists.

    Blocks of a table are what it says; without one, elements that are always 0 or 1 are
    Bernoulli and all others continuous. A continuous column with missing cells has a family for its
    value and its indicator together, chosen by the values that are there.

    Args:
        x: training rows.
        blocks: of the table whose encoded rows they are, see `Table.blocks`.
        continuous: `normal`, `quantile`, or `auto`: `quantile` for columns of a table with a value
            that more than a tenth of the rows share, since a normal distribution has no peaks.
        bins: most quantile bins; frequent values add bins of their own.
        least_scale: of normal elements.
        index: player that owns each element. Without a table, a player whose elements are one 1
            among 0s in every row is a category.

    Raises:
        ValueError: `continuous` is none of them.

    >>> choose_families(torch.tensor([[0.0, 1.5], [1.0, 2.5]]), continuous="normal")
    [['Bernoulli', [0]], ['Scores', [1], 0.05]]
    """
    check_choice("continuous", continuous, CONTINUOUS)
    flat = x.flatten(1)
    binary, categorical, numbers = (
        _kinds_by_value(flat, index) if blocks is None else _kinds_by_block(blocks)
    )
    chosen: list[list[Any]] = [["Bernoulli", binary]] if binary else []
    chosen += [["Categorical", block] for block in categorical]
    smooth = []
    for element, indicator in numbers.items():
        there = flat[:, element] if indicator is None else flat[flat[:, indicator] == 0, element]
        peak = continuous == "auto" and x.ndim == 2 and _has_peak(there)
        if len(there) and (peak or continuous == "quantile"):
            family: list[Any] = ["Quantile", [element], bin_edges(there, bins).tolist()]
        elif indicator is not None:
            family = ["Scores", [element], least_scale]
        else:
            smooth.append(element)
            continue
        chosen.append(family if indicator is None else ["MaybeMissing", family, indicator])
    if smooth:
        # The elements of a picture or a series have one unit.
        chosen.append(["Scores" if x.ndim == 2 else "Normal", smooth, least_scale])
    return chosen


def _kinds_by_block(blocks: "Sequence[Block]") -> _Kinds:
    numbers = [own for kind, own in blocks if kind in ("continuous", "ordered")]
    return (
        [own[0] for kind, own in blocks if kind == "binary"],
        [own for kind, own in blocks if kind == "categorical"],
        {own[0]: own[1] if len(own) > 1 else None for own in numbers},
    )


def _kinds_by_value(x: Float[Tensor, "rows elements"], index: Sequence[int] | None) -> _Kinds:
    is_binary = ((x == 0) | (x == 1)).all(0)
    blocks: list[list[int]] = []
    if index is not None and len(set(index)) < len(index):
        owner = torch.tensor(list(index), device=x.device)
        members = [(owner == player).nonzero()[:, 0] for player in owner.unique()]
        several = [own for own in members if len(own) > 1 and bool(is_binary[own].all())]
        blocks = [own.tolist() for own in several if bool((x[:, own].sum(1) == 1).all())]
    taken = {element for block in blocks for element in block}
    binary = [e for e in is_binary.nonzero()[:, 0].tolist() if e not in taken]
    return binary, blocks, dict.fromkeys((~is_binary).nonzero()[:, 0].tolist())


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
