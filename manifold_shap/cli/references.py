"""Reference points and rows that the configuration describes in words and numbers."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap.data.base import TensorDataModule

POINTS = ("mean", "median", "zero")


def point_of(data: TensorDataModule, point: str) -> Float[Tensor, " *event"]:
    """The mean, the median or the zero of the training rows, as one row.

    In a table, `zero` is meant in a column's own units, and binary and categorical columns take
    their most frequent category: a mean of categories is none.

    Raises:
        ValueError: another word.
    """
    if point not in POINTS:
        raise ValueError(f"Expected `point` to be one of {POINTS} but got {point!r}.")
    rows = data.x_train
    if point == "median":
        row = rows.flatten(1).median(0).values.reshape(rows.shape[1:])
    else:
        row = rows.mean(0) if point == "mean" else torch.zeros_like(rows[0])
    first = 0
    for column in data.schema.columns if data.schema else ():
        block = slice(first, first + column.width)
        first = block.stop
        if column.kind != "continuous":
            distinct, counts = rows[:, block].unique(dim=0, return_counts=True)
            row[block] = distinct[counts.argmax()]
        elif point == "zero":
            row[block] = -column.mean / column.scale
    return row


def chosen_rows(
    data: TensorDataModule,
    against: str | int | None = None,
    rows: int | Sequence[int] | None = None,
) -> Float[Tensor, "rows *event"]:
    """Training rows to compare against: those of a class, or those listed.

    Raises:
        ValueError: neither or both are given, or there is no such class or row.
    """
    if (against is None) == (rows is None):
        found = (
            "neither; make it the value function, value_function=contrastive, and give"
            if rows is None
            else "both; set one of them to null, and of the other give"
        )
        raise ValueError(
            f"Expected one of `against` and `rows` for the contrastive value function but got "
            f"{found} value_function.against=CLASS, one of {list(data.classes)[:20]}, or "
            "value_function.rows=[...]. In `compare` it takes what train.py has recorded of it."
        )
    if rows is not None:
        return data.x_train[_checked(rows, len(data.x_train))]
    if str(against) not in data.classes:
        raise ValueError(
            f"Expected `against` to be one of the classes {list(data.classes)[:20]} but got "
            f"{against!r}."
        )
    return data.x_train[data.y_train == data.classes.index(str(against))]


def _checked(rows: Any, most: int) -> list[int]:
    listed = [rows] if isinstance(rows, int) else list(rows)
    if not listed or not all(isinstance(row, int) and 0 <= row < most for row in listed):
        raise ValueError(
            f"Expected `rows` to list training rows from 0 to {most - 1} but got {rows}."
        )
    return listed
