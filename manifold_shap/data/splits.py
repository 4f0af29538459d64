"""Splits rows into training, validation and test rows, and checks what these are to teach."""

import torch
from jaxtyping import Int64
from torch import Tensor

from manifold_shap._checks import check_finite
from manifold_shap._messages import shown


def split_rows(rows: int, held_out: dict[str, float], seed: int) -> tuple[Int64[Tensor, " _"], ...]:
    """Random disjoint row indices that cover every row: the rest, then one part per share.

    Each part is in random order, so that its first rows are a random sample too.

    >>> [part.tolist() for part in split_rows(5, {"validation": 0.2, "test": 0.4}, seed=0)]
    [[4, 0], [1], [3, 2]]

    Raises:
        ValueError: a part has no row.
    """
    sizes = {name: round(share * rows) for name, share in held_out.items()}
    sizes = {"train": rows - sum(sizes.values()), **sizes}
    if min(sizes.values()) < 1:
        raise ValueError(
            f"Expected shares that leave every split some rows but got {held_out} of {rows} rows, "
            f"which makes {sizes}; change {' or '.join(f'`{name}`' for name in held_out)}."
        )
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    return order.split(list(sizes.values()))


def check_classes(name: str, y: Tensor, classes: tuple[str, ...]) -> None:
    """Raise ValueError unless training rows are of every one of two or more classes."""
    present = torch.bincount(y, minlength=len(classes)) > 0
    if present.sum() < 2:
        raise ValueError(
            f"Expected training rows of at least two classes in {name!r} but every one is "
            f"{classes[int(y[0])]!r}; check the target, or use more rows."
        )
    if not present.all():
        absent = [label for label, found in zip(classes, present, strict=True) if not found]
        raise ValueError(
            f"Expected training rows of every class in {name!r} but none of the {len(y)} is of "
            f"{shown(absent)}; merge or drop rare classes, choose another `seed` or smaller shares "
            "`validation` and `test`, or predict numbers by task=regression."
        )


def check_numbers(name: str, target: str, y: Tensor) -> None:
    """Raise ValueError unless training rows have finite and different numbers to predict."""
    check_finite(y, "y_train", "drop or fill these rows")
    if bool((y == y[0]).all()):
        raise ValueError(
            f"Expected different numbers in the target {target!r} of {name!r} but every training "
            f"row holds {y[0].item():g}; check the target, or use more rows."
        )
