"""Leakage: zero for what never looks at absent players, and the size of it for what does."""

from typing import Any

import pytest
import torch
from torch import Tensor

import manifold_shap as ms
from tests.examples import VALUES, Padded

X = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
MASK = ms.metrics.shapley_pairs(400, 3, least=8000)


# The game of the callable is scaled by a player, present or not; the corrected game is moved by
# what the model says of the whole row. Leakage is of players that all rows share.
LEFT_OUT = ("callable", "corrected", "grouped by row", "ragged", "padded", "words of padded rows")


@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind not in LEFT_OUT])
def test_no_value_function_of_ours_reads_absent_players(kind: str) -> None:
    value, x, *_ = VALUES[kind]()
    mask = ms.metrics.shapley_pairs(len(x), len(value.players), least=40)
    # Rows in batches of another kind may round otherwise.
    assert ms.metrics.leakage(value, x, mask) < 1e-12


def test_values_of_an_absent_player_come_from_another_row() -> None:
    def leaky(x: Tensor, mask: Tensor) -> Tensor:
        return x[:, None, :1].expand(-1, mask.shape[1], -1)

    x = torch.tensor([[0.0, 1.0], [3.0, 1.0]])
    mask = torch.tensor([[[False, True]], [[True, False]]])
    assert ms.metrics.leakage(leaky, x, mask) == 9 / 2


@pytest.mark.usefixtures("any_type")
def test_it_needs_rows_to_exchange() -> None:
    def value(x: Tensor, mask: Tensor) -> Any:
        return mask.float().sum(-1, keepdim=True)

    with pytest.raises(ValueError, match="at least 2 rows, to take values from, but got 1"):
        ms.metrics.leakage(value, X[:1], MASK[:1])
    rows = Padded.some_rows()
    with pytest.raises(ValueError, match="leakage"):
        ms.metrics.leakage(Padded(), rows, torch.ones(len(rows), 1, len(Padded().players)).bool())
