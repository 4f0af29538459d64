"""Splits rows that may be in a file into blocks, with the labels of the rows."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from manifold_shap._arrays import as_instances
from manifold_shap._checks import check_rows, check_whole
from manifold_shap._messages import way_to_rows
from manifold_shap.io.files import digest
from manifold_shap.players import Players


class Blocks:
    """Rows to explain, split into blocks of equally many; the last may have fewer.

    Args:
        x: a tensor, or an array that may be in a file.
        size: rows of a block.
        labels: one per row, see `as_instances`; by default 0, 1, ...

    Raises:
        TypeError, ValueError: `size` is no whole number of at least 1; no rows; other labels than
            one per row.

    >>> blocks = Blocks(np.zeros((5, 2)), 2, "abcde")
    >>> list(blocks.numbers), blocks[2][1]
    ([0, 1, 2], ('e',))
    """

    def __init__(self, x: Any, size: int, labels: Any) -> None:
        if isinstance(x, str | os.PathLike) or not hasattr(x, "__getitem__"):
            raise TypeError(
                f"Expected `x` to be rows that can be sliced but got {type(x).__name__}; "
                f"{way_to_rows(x) or 'a tensor, an array or a data frame of numbers'}."
            )
        self.x, shape = x, np.shape(x)
        self.size = check_whole("block", size, fix="1024 rows suit most tables")
        if not shape or shape[0] == 0:
            raise ValueError(
                f"Expected `x` of shape (rows, *event), with at least one row, but got "
                f"{tuple(shape)}; pass rows of the shape that `players` own."
            )
        if not (labels is None or isinstance(labels, Iterable)):
            raise TypeError(
                f"Expected `instances` to list labels, one per row, but got {labels!r:.100}; leave "
                "it out to have 0, 1, ..."
            )
        self.labels = range(shape[0]) if labels is None else as_instances(labels)
        if len(self.labels) != shape[0]:
            raise ValueError(
                f"Expected {shape[0]} labels in `instances`, one per row, but got "
                f"{len(self.labels)}; leave it out to have 0, 1, ..."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def numbers(self) -> range:
        """Of the blocks."""
        return range(-(-len(self) // self.size))

    def where(self, number: int) -> slice:
        """Which rows are a block."""
        return slice(number * self.size, min((number + 1) * self.size, len(self)))

    def __getitem__(self, number: int) -> tuple[Any, Sequence[Any]]:
        """The rows of a block, and their labels."""
        return self.x[self.where(number)], self.labels[self.where(number)]

    def count(self, numbers: Iterable[int]) -> int:
        """How many rows these blocks have."""
        return sum(len(self.labels[self.where(number)]) for number in numbers)

    @property
    def fingerprint(self) -> str:
        """A checksum of rows and labels, after a check of every row."""
        players = Players.of_elements(np.shape(self.x)[1:])
        parts = [self.where(number) for number in self.numbers]
        rows = (check_rows(self.x[k], players, first_row=k.start) for k in parts)
        # A block at a time: the text of all labels is longer than many a table.
        labels = ("".join(f"{label}\n" for label in self.labels[k]).encode() for k in parts)
        return digest((each.cpu().numpy() for each in rows), labels)
