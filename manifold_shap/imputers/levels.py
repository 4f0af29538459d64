"""Splits rows into levels, which are categories, and normal scores, which are numbers.

A column of few distinct values is a category. A column of numbers has a normal score, unless it
holds one of a few values that many rows share (no capital gain, a missing cell): such a value is a
level, and "a number" is one more. Categories of which one nearly determines another become a single
one, whose levels are the combinations that occur: components, in which categories are independent,
would have to be as many as the combinations.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from manifold_shap.players import Players

# Distinct values up to which a column of numbers is a category.
_MOST_VALUES = 16
# The share of the rows, and how many, from which a value of a column of numbers is a level.
_SPIKE, _LEAST_ROWS = 0.05, 20
# Categories join where they share so much of the smaller entropy, and leave so many rows a level.
_SHARED_ENTROPY, _ROWS_PER_LEVEL = 0.5, 10


class Category(nn.Module):
    """Players of few values, one or several that join.

    Attributes:
        elements: of rows, by member.
        owners: the player of each member.
        values: of each member, the vectors of its elements that are levels.
        labels: the combinations that occur, `[levels, members]`: numbers of values, or -1 for a
            number that is none of these.
        has_numbers: whether one level is that of numbers.
    """

    def __init__(
        self,
        elements: Sequence[Sequence[int]],
        owners: Sequence[int],
        values: Sequence[Any],
        labels: Any,
    ) -> None:
        super().__init__()
        self.elements = [list(own) for own in elements]
        self.labels = nn.Buffer(torch.as_tensor(labels), persistent=False)
        self.owners = nn.Buffer(torch.tensor(owners, device=self.labels.device), persistent=False)
        self.has_numbers = bool((self.labels < 0).any())
        for number, own in enumerate(values):
            self.register_buffer(f"values_{number}", torch.as_tensor(own), persistent=False)

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the same one, as plain data."""
        values = [own.tolist() for own in self.values]
        owners, labels = self.owners.tolist(), self.labels.tolist()
        return {"elements": self.elements, "owners": owners, "values": values, "labels": labels}

    @property
    def values(self) -> list[Tensor]:
        return [getattr(self, f"values_{number}") for number in range(len(self.elements))]

    def __len__(self) -> int:
        return len(self.labels)

    def label(self, x: Float[Tensor, "batch elements"]) -> Int64[Tensor, "batch members"]:
        """The number of each member's value; of a category the nearest one's."""
        found = []
        for own, values in zip(self.elements, self.values, strict=True):
            near = torch.cdist(x[:, own], values, p=1).min(-1)
            number = (near.values > 0) & self.has_numbers
            found.append(near.indices.masked_fill(number, -1))
        return torch.stack(found, 1)

    def matching(
        self, label: Int64[Tensor, "batch members"], known: Bool[Tensor, "batch members"]
    ) -> Bool[Tensor, "batch levels"]:
        """Levels that agree with the known members; with most of them where none does with all."""
        agreeing = ((label[:, None] == self.labels) & known[:, None]).sum(-1)
        return agreeing == agreeing.amax(-1, keepdim=True)

    def level(self, label: Int64[Tensor, "batch members"]) -> Int64[Tensor, " batch"]:
        """The level of rows all of whose members are known."""
        return self.matching(label, torch.ones_like(label, dtype=torch.bool)).long().argmax(1)

    def write(self, level: Int64[Tensor, "*shape"], rows: Float[Tensor, "*shape elements"]) -> None:
        """Write the values of levels into rows; where a level is a number, leave them."""
        labels = self.labels[level]
        for number, (own, values) in enumerate(zip(self.elements, self.values, strict=True)):
            label = labels[..., number, None]
            rows[..., own] = torch.where(label < 0, rows[..., own], values[label[..., 0].clamp(0)])

    def write_mean(
        self, share: Float[Tensor, "*shape levels"], rows: Float[Tensor, "*shape elements"]
    ) -> None:
        """Write the means of values whose levels have these shares; rows hold the numbers."""
        for number, (own, values) in enumerate(zip(self.elements, self.values, strict=True)):
            label = self.labels[:, number]
            of_number = share[..., label < 0].sum(-1, keepdim=True) * rows[..., own]
            rows[..., own] = share @ values[label.clamp(0)].masked_fill(label[:, None] < 0, 0)
            rows[..., own] += of_number


class Numbers(nn.Module):
    """Columns of numbers: the normal scores of their empirical distributions, and back.

    Attributes:
        elements: of rows, one for each column.
        owners: the player of each.
    """

    def __init__(
        self, elements: Sequence[int], owners: Sequence[int], columns: Sequence[Tensor]
    ) -> None:
        """Take the distribution of each column from the numbers that it holds in training."""
        super().__init__()
        self.elements = list(elements)
        # Behind the numbers of a column its largest one is repeated, at least twice.
        order = torch.zeros(len(columns), max(map(len, columns), default=0) + 2)
        for row, own in zip(order, columns, strict=True):
            row[:] = own.max()
            row[: len(own)] = own.sort().values
        # Columns whose numbers repeat, twice on average or more, are drawn as observed.
        smooth = [len(own.unique()) * 2 > len(own) for own in columns]
        self.owners = nn.Buffer(torch.tensor(owners, dtype=torch.int64))
        self.order = nn.Buffer(order)
        self.counts = nn.Buffer(torch.tensor([len(own) for own in columns], dtype=torch.int64))
        self.smooth = nn.Buffer(torch.tensor(smooth, dtype=torch.bool))

    @property
    def settings(self) -> dict[str, Any]:
        """Plain data from which `Numbers.of` makes one of these columns, without their numbers."""
        most = self.order.shape[1] - 2
        return {"elements": self.elements, "owners": self.owners.tolist(), "most": most}

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Numbers":
        """One of these settings, whose tensors are to be loaded."""
        columns = [torch.zeros(settings["most"])] * len(settings["elements"])
        return cls(settings["elements"], settings["owners"], columns)

    def __len__(self) -> int:
        return len(self.elements)

    def scores(self, x: Float[Tensor, "batch elements"]) -> Float64[Tensor, "batch numbers"]:
        """Φ⁻¹ of the share of smaller numbers, of equal ones a half."""
        columns = x[:, self.elements].mT.contiguous()
        counts = self.counts[:, None]
        below, up_to = (
            torch.minimum(torch.searchsorted(self.order, columns, right=right), counts)
            for right in (False, True)
        )
        share = (below + up_to).double() / (2 * counts)
        return torch.special.ndtri(share.clamp(min=0.5 / counts, max=1 - 0.5 / counts)).mT

    def quantiles(self, scores: Float[Tensor, "*shape numbers"]) -> Float[Tensor, "*shape numbers"]:
        """Numbers of these scores: interpolated, or observed where these repeat."""
        smooth, counts = self.smooth.to(scores.dtype), self.counts.to(scores.dtype)
        place = torch.special.ndtr(scores).mul_(counts).sub_(0.5 * smooth).clamp_(min=0)
        low = place.long()
        share = place.sub_(low).mul_(smooth)
        columns, most = self.order.shape
        index = low.add_(torch.arange(0, columns * most, most, device=low.device))
        below = self.order.take(index)
        return torch.lerp(below, self.order.take(index.add_(1)), share.to(below.dtype))


def split(rows: Float[Tensor, "rows elements"], players: Players) -> tuple[list[Category], Numbers]:
    """Categories and numbers of rows.

    An indicator of a missing cell, behind its number, and one-hot elements are a column each.
    """
    owner = players.index.flatten().tolist()
    categories = list[Category]()
    numbers, owners, columns = list[int](), list[int](), list[Tensor]()
    for elements in columns_of(rows, owner):
        player = owner[elements[0]]
        values, counts = rows[:, elements].unique(dim=0, return_counts=True)
        many = counts > max(_LEAST_ROWS, _SPIKE * len(rows))
        if len(elements) == 2:
            many |= values[:, 1] == 1
        left = counts[~many].count_nonzero()
        if len(values) <= _MOST_VALUES or len(elements) > 2 or left < 3:
            categories.append(_category(elements, player, values))
            continue
        own = rows[:, elements]
        plain = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        if many.any():
            categories.append(_category(elements, player, values[many], numbers=True))
            plain = categories[-1].label(rows)[:, 0] < 0
        numbers.append(elements[0])
        owners.append(player)
        columns.append(own[plain, 0])
    return _joined(rows, categories), Numbers(numbers, owners, columns).to(rows.device)


def _category(
    elements: Sequence[int], player: int, values: Tensor, numbers: bool = False
) -> Category:
    labels = torch.arange(-1 if numbers else 0, len(values), device=values.device)
    return Category([elements], [player], [values], labels[:, None])


def columns_of(rows: Float[Tensor, "rows elements"], owner: Sequence[int]) -> list[list[int]]:
    """Elements that are one column: one-hot, or a number and whether it is missing."""
    binary = ((rows == 0) | (rows == 1)).all(0).tolist()
    found, first = list[list[int]](), 0
    while first < len(owner):
        end = first + 1
        while end < len(owner) and owner[end] == owner[first]:
            end += 1
        width = 1
        total = rows[:, first].clone()
        for last in range(first + 1, end):
            if not (binary[first] and binary[last]):
                break
            total += rows[:, last]
            if bool((total == 1).all()):
                width = last - first + 1
        if width == 1 and first + 1 < end and binary[first + 1] and not binary[first]:
            missing = rows[:, first + 1] == 1
            width += bool(missing.any() and (rows[missing, first] == 0).all())
        found.append(list(range(first, first + width)))
        first += width
    return found


def _joined(rows: Float[Tensor, "rows elements"], categories: list[Category]) -> list[Category]:
    """Categories of which none nearly determines another one."""
    whole = dict(enumerate(each for each in categories if not each.has_numbers))
    levels = {k: each.level(each.label(rows)) for k, each in whole.items()}
    shared = {(i, j): _shared_entropy(levels[i], levels[j]) for j in whole for i in range(j)}
    while shared and shared[pair := max(shared, key=lambda pair: shared[pair])] > _SHARED_ENTROPY:
        first, second = (whole.pop(k) for k in pair)
        label = torch.cat([first.label(rows), second.label(rows)], 1)
        joint = Category(
            [*first.elements, *second.elements],
            [*first.owners.tolist(), *second.owners.tolist()],
            [*first.values, *second.values],
            label.unique(dim=0),
        )
        new, code = max(levels) + 1, label.unique(dim=0, return_inverse=True)[1]
        shared = {each: own for each, own in shared.items() if not {*each} & {*pair}}
        shared |= {(k, new): _shared_entropy(levels[k], code) for k in whole}
        whole[new], levels[new] = joint, code
    return [*whole.values()] + [each for each in categories if each.has_numbers]


def _shared_entropy(first: Int64[Tensor, " rows"], second: Int64[Tensor, " rows"]) -> float:
    """What two share of the smaller entropy; nothing where there are too few rows to join them."""
    one, two = (_entropy(own)[0] for own in (first, second))
    both, count = _entropy(first * (int(second.max()) + 1) + second)
    return (one + two - both) / max(min(one, two), 1e-9) * (count * _ROWS_PER_LEVEL <= len(first))


def _entropy(levels: Int64[Tensor, " rows"]) -> tuple[float, int]:
    counts = levels.unique(return_counts=True)[1].double()
    share = counts / counts.sum()
    return -(share * share.log()).sum().item(), len(counts)
