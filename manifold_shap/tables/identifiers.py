"""Warns of columns that seem to identify the rows, and of those that a model has no use for."""

from collections.abc import Callable

import torch
from torch import Tensor

from manifold_shap._messages import shown, warn
from manifold_shap.tables.codebook import Codebook

# Rows, of all over the table, on which columns are permuted.
_PERMUTED_ROWS = 1024
# Rows on which most columns that a model depends on are found to be such.
_FIRST_ROWS = 128


def warn_of_identifiers(codebook: Codebook, x: Tensor) -> None:
    """Warn of columns of text or whole numbers that never repeat, in one warning.

    They number or name the rows, as it seems, and tell the value function nothing.

    Args:
        codebook: of the rows.
        x: codes of rows.
    """
    if names := codebook.never_repeated(x):
        warn(
            f"No value repeats in columns {shown(names)}: where they number or name the rows, "
            "leave them out of the game by `left_out`, or drop them."
        )


def warn_of_ignored(
    model: Callable[[Tensor], Tensor], codebook: Codebook, x: Tensor, seed: int
) -> None:
    """Warn of columns that play although no prediction depends on them, in one warning.

    On the manifold such a column has a share by what it tells of the others: of the target, if that
    is among them, nearly all.

    Args:
        model: from codes to predictions.
        codebook: of the rows.
        x: codes of rows.
        seed: of the rows among which columns are permuted.
    """
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    some, ignored = x[order[:_PERMUTED_ROWS]], list(range(len(codebook.names)))
    for rows in dict.fromkeys((len(some[:_FIRST_ROWS]), len(some))):
        before = model(some[:rows])
        ignored = _ignored(model, some[:rows], before, ignored)
        if not ignored:
            return
    warn(
        f"No prediction changes when these columns are permuted among {len(some)} rows: "
        f"{shown([codebook.names[k] for k in ignored])}. If the target is among them, leave it "
        "out. Features that the model ignores may stay: on the manifold they have a share by what "
        "they tell about those that it uses."
    )


def _ignored(
    model: Callable[[Tensor], Tensor], rows: Tensor, before: Tensor, places: list[int]
) -> list[int]:
    """The columns whose permutation changes nothing; many that nothing depends on are one call."""
    if torch.equal(model(_permuted(rows, places)), before):
        return places
    if len(places) == 1:
        return []
    middle = len(places) // 2
    halves = (places[:middle], places[middle:])
    return [place for half in halves for place in _ignored(model, rows, before, half)]


def _permuted(rows: Tensor, places: list[int]) -> Tensor:
    """The rows, in whose order each of these columns is shifted, and each by another number."""
    permuted = rows.clone()
    for place in places:
        permuted[:, place] = rows[:, place].roll(1 + place % (len(rows) - 1))
    return permuted
