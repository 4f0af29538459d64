"""Tells which columns identify the rows without a use to the model: these need not play."""

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from manifold_shap._words import shown, warn
from manifold_shap.tables.codebook import Codebook

# Rows, of all over the table, on which columns that look like identifiers are permuted.
_PERMUTED_ROWS = 1024


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
        permuted = some.clone()
        permuted[:, place] = some[:, place].roll(1)
        if torch.equal(model(permuted), before):
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
