"""What of a `DataLoader` decides on its rows: its `collate_fn`, and the order that it takes."""

from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
    default_convert,
)


def collated(loader: DataLoader) -> Dataset[Any]:
    """A loader's data set, with each item as its `collate_fn` has it.

    >>> loader = DataLoader([1.0, 2.0], collate_fn=lambda items: Tensor(items)[:, None])
    >>> collated(loader)[1]
    tensor([2.])
    """
    usual = loader.collate_fn in (default_collate, default_convert)
    return loader.dataset if usual else _Collated(loader)


def check_order(loader: DataLoader, name: str) -> None:
    """Raise ValueError unless every row of a loader is as likely as any other.

    >>> check_order(DataLoader([1.0, 2.0], shuffle=True), "x_train")
    """
    batches = loader.batch_sampler
    sampler = loader.sampler if batches is None else batches
    if type(batches) is BatchSampler:
        sampler = batches.sampler
    if type(sampler) not in (SequentialSampler, RandomSampler):
        raise ValueError(
            f"Expected `{name}` to be a loader of all rows alike, in their order or shuffled, but "
            f"its sampler is a {type(sampler).__name__}; a training cuts its own batches, so "
            "choose rows by `torch.utils.data.Subset(dataset, numbers)`, and repeat those that are "
            "to weigh more."
        )


class _Collated(Dataset[Any]):
    """The rows of a loader's data set, each as the loader's `collate_fn` makes a batch of it."""

    def __init__(self, loader: DataLoader) -> None:
        self.dataset, self.collate = loader.dataset, loader.collate_fn
        self.is_batched = loader.batch_sampler is not None

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, number: int) -> Any:
        item = self.dataset[number]
        if not self.is_batched:
            return self.collate(item)
        batch = self.collate([item])
        rows = batch[0] if isinstance(batch, tuple | list) and batch else batch
        if not isinstance(rows, Tensor | np.ndarray):
            return rows  # Named as what is no row.
        if len(rows) != 1:
            raise ValueError(f"`collate_fn` made {len(rows)} rows of one item")
        return rows[0]
