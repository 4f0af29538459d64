"""Rows cut into blocks, and the seeds of these: the same ones in every process and every call."""

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from manifold_shap import _random
from manifold_shap._checks import check_rows, to_tensor
from manifold_shap.explanation import Explanation
from manifold_shap.players import Players
from manifold_shap.tables.schema import Schema


@dataclass(frozen=True)
class Rows:
    """Rows to explain, in blocks.

    Attributes:
        x: rows `[instances, *event]`, in memory or not.
        block: rows per block; the last may have fewer.
        instances: labels; None for 0, 1, ...
        schema: columns of the table that they come from.
    """

    x: Any
    block: int
    instances: Sequence[int] | None
    schema: Schema | None

    def __post_init__(self) -> None:
        check_block(self.block)
        if not hasattr(self.x, "shape"):
            to_tensor(self.x)  # Says what was expected.
        if len(self.x.shape) == 0:
            raise ValueError(
                f"Expected `x` of shape (rows, *event) but got a single number, {self.x!r}; pass "
                "rows of the shape that `players` own."
            )
        if len(self) == 0:
            raise ValueError("Expected at least one row in `x` but got none.")
        if self.instances is not None and len(self.instances) != len(self):
            raise ValueError(
                f"Expected `instances` to be {len(self)} labels, one per row, but got "
                f"{len(self.instances)}."
            )

    def __len__(self) -> int:
        return int(self.x.shape[0])

    @property
    def blocks(self) -> int:
        """How many there are."""
        return -(-len(self) // self.block)

    @property
    def labels(self) -> Sequence[int]:
        """Of all rows."""
        return range(len(self)) if self.instances is None else self.instances

    def where(self, number: int) -> slice:
        """The rows of a block."""
        return slice(number * self.block, min((number + 1) * self.block, len(self)))

    def count(self, numbers: Iterable[int]) -> int:
        """How many rows these blocks have."""
        parts = map(self.where, numbers)
        return sum(part.stop - part.start for part in parts)

    def fingerprint(self, players: Players) -> str:
        """A checksum of rows, labels and columns, after a check of every row.

        Raises:
            TypeError, ValueError: rows that cannot be explained.
        """
        columns = json.dumps(self.schema.to_dict()) if self.schema else ""
        digest = hashlib.sha256(columns.encode())
        digest.update(np.asarray(self.labels, dtype=np.int64).tobytes())
        for number in range(self.blocks):
            part = self.where(number)
            rows = check_rows(self.x[part], players, f"x[{part.start}:{part.stop}]")
            digest.update(rows.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


def check_block(block: Any) -> None:
    """Raise ValueError if it is no number of rows."""
    if not isinstance(block, int) or isinstance(block, bool) or block < 1:
        raise ValueError(
            f"Expected `block` to be an integer of at least 1 but got {block!r}; 1024 rows suit "
            "most tables."
        )


def check_seed(seed: Any) -> None:
    """Raise ValueError if it is no integer of 64 bits."""
    whole = isinstance(seed, int) and not isinstance(seed, bool)
    if not whole or not -(2**63) <= seed < 2**63:
        raise ValueError(
            f"Expected `seed` to be an integer from -2**63 to 2**63 - 1 but got {seed!r}; 0 is as "
            "good as any other."
        )


def with_seed(estimator: Callable[..., Explanation], seed: int) -> Callable[..., Explanation]:
    """The estimator with this seed, if it takes one."""
    known = inspect.signature(estimator).parameters.values()
    takes = any(each.name == "seed" or each.kind is each.VAR_KEYWORD for each in known)
    return partial(estimator, seed=seed) if takes else estimator


def block_seed(seed: int, number: int) -> int:
    """The seed of a block."""
    folded = int(_random.fold(torch.tensor(seed), number))
    return folded & (2**63 - 1)
