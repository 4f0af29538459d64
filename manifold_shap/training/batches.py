"""Makes batches of tensors, each by one indexing operation.

The usual loader fetches rows one by one and stacks them, which for small rows takes longer than the
training step. Here the sampler yields tensors of row indices and the data set gathers a batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from manifold_shap._stored import StoredRows

# What a training has for every row: tensors, or rows that lie elsewhere.
Parts: TypeAlias = tuple[Tensor | StoredRows, ...]


@dataclass(eq=False)
class IndexBatches(Sampler[Tensor]):
    """Row indices of each batch of an epoch; the order is a function of (seed, epoch) alone.

    Lightning calls `set_epoch`, so that a resumed training gets the batches that it would have had.

    Of several processes each has its part of every batch, so that any number of them takes the same
    steps on the same rows. A process for which a last, short batch has no row left gets one of the
    others' rows, which does not count: all have to take part in every step.

    >>> parts = [IndexBatches(5, 4, False, 0, 5, rank=rank, ranks=2) for rank in range(2)]
    >>> [[index.tolist() for index in part] for part in parts]
    [[[0, 1], [4]], [[2, 3], [4]]]
    >>> [[part.counts(number) for number in range(2)] for part in parts]
    [[(2, 4), (1, 1)], [(2, 4), (0, 1)]]

    Attributes:
        rows: number of rows.
        batch_size: rows of a batch, those of all processes together.
        shuffle: whether the order differs between epochs; else it is that of the rows.
        seed: of the order.
        total: rows of an epoch. More than there are repeat full orders, so that a small table has
            epochs of a useful length.
        epoch: number of the epoch.
        rank, ranks: which of how many processes this is.
    """

    rows: int
    batch_size: int
    shuffle: bool
    seed: int
    total: int
    epoch: int = 0
    rank: int = 0
    ranks: int = 1

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order the next iteration gives."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.total // self.batch_size)

    def __iter__(self) -> Iterator[Tensor]:
        # A generator, because Lightning calls `set_epoch` after `iter` when it resumes.
        for batch in self._order().split(self.batch_size):
            own = batch.tensor_split(self.ranks)[self.rank]
            yield own if len(own) else batch[:1]

    def counts(self, number: int) -> tuple[int, int]:
        """Rows of a batch that count in this process, and in all of them."""
        every = min(self.batch_size, self.total - number * self.batch_size)
        share, more = divmod(every, self.ranks)
        return share + (self.rank < more), every

    def _order(self) -> Tensor:
        if not self.shuffle:
            return torch.arange(self.total) % self.rows
        # torch's CPU generator keeps 32 bits of its seed, so the pair is hashed, not packed.
        state = np.random.SeedSequence([self.seed, self.epoch]).generate_state(1)
        generator = torch.Generator().manual_seed(int(state[0]))
        passes = -(-self.total // self.rows)
        orders = [torch.randperm(self.rows, generator=generator) for _ in range(passes)]
        return torch.cat(orders)[: self.total]


class GatheredRows(Dataset[tuple[Tensor, ...]]):
    """Parts with one common first axis, indexed by a whole batch of rows at once."""

    def __init__(self, *parts: Tensor | StoredRows) -> None:
        self.parts = parts

    def __getitem__(self, index: Tensor) -> tuple[Tensor, ...]:
        return tuple(part.index_select(0, index.to(part.device)) for part in self.parts)


def loader(parts: Parts, order: IndexBatches) -> DataLoader[tuple[Tensor, ...]]:
    """A loader of rows; a batch is a tuple with one tensor per part.

    >>> order = IndexBatches(5, batch_size=2, shuffle=False, seed=0, total=5)
    >>> [x.tolist() for (x,) in loader((torch.arange(5),), order)]
    [[0, 1], [2, 3], [4]]

    Args:
        parts: one or more, with the same number of rows on their first axis, on any device; or
            rows that lie elsewhere, which their workers gather.
        order: of the rows.
    """
    workers = [part.workers for part in parts if isinstance(part, StoredRows)]
    return DataLoader(
        GatheredRows(*parts),
        batch_size=None,
        sampler=order,
        collate_fn=tuple,
        # Without one, each pass over the loader would draw from the global generator.
        generator=torch.Generator(),
        **(workers[0] if workers else {}),
    )
