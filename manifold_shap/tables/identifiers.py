"""Tells which columns the model has no use for; those that identify the rows need not play."""

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from manifold_shap._messages import shown, warn
from manifold_shap.tables.codebook import Codebook

# Rows, of all over the table, on which columns that look like identifiers are permuted.
_PERMUTED_ROWS = 1024
# Rows on which most columns that a model depends on are found to be such.
_FIRST_ROWS = 128


def unused_identifiers(
    model: Callable[[Tensor], Tensor],
    codebook: Codebook,
    x: Tensor,
    seed: int,
    described: Collection[Any] = (),
) -> list[Any]:
    """Columns that seem to identify the rows, and whose permutation changes no prediction.

    Warns of them, and of others that seem to identify the rows but that the model depends on.

    Args:
        model: from codes to predictions.
        codebook: of the rows.
        x: codes of rows.
        seed: of the rows among which columns are permuted.
        described: columns that are known to describe the rows.
    """
    names = codebook.columns_in_play
    suspects = [place for place in codebook.identifiers(x) if names[place] not in described]
    if not suspects:
        return []
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    some, unused = x[order[:_PERMUTED_ROWS]], []
    before = model(some)
    for place in suspects:
        if torch.equal(model(_permuted(some, [place])), before):
            unused.append(names[place])
        else:
            warn(
                f"Column {codebook.names[place]!r} looks like an identifier of the rows, but the "
                "model depends on it, so that it is a player."
            )
    if unused:
        warn(
            f"Columns that identify the rows and that no prediction depends on do not play: "
            f"{shown(unused)}."
        )
    return unused


def warn_of_ignored(
    model: Callable[[Tensor], Tensor], codebook: Codebook, x: Tensor, seed: int
) -> None:
    """Warn of columns that play although no prediction depends on them, in one warning.

    On the manifold such a column has a share by what it tells of the others: of the target, if that
    is among them, nearly all.

    Args:
        model, codebook, x, seed: see `unused_identifiers`.
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
