"""Which columns a model has no use for, found by few calls."""

import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import manifold_shap as ms
from manifold_shap.tables.identifiers import warn_of_ignored

COLUMNS = 40
FRAME = pd.DataFrame(
    torch.randn(60, COLUMNS, generator=torch.Generator().manual_seed(0)).numpy()
).rename(columns=str)
CODEBOOK = ms.Codebook.fit(FRAME)
X = CODEBOOK.rows(FRAME)


@settings(max_examples=30)
@given(st.sets(st.integers(0, COLUMNS - 1), max_size=COLUMNS - 1))
def test_all_columns_that_are_not_used_are_named(used: set[int]) -> None:
    calls = []

    def model(x: Tensor) -> Tensor:
        calls.append(len(x))
        return x[:, sorted(used)].sum(1, keepdim=True)

    others = [str(k) for k in range(COLUMNS) if k not in used]
    with pytest.warns(UserWarning, match="No prediction changes when") as caught:
        warn_of_ignored(model, CODEBOOK, X, seed=0)
    named = str(caught[0].message).partition("]")[0].partition("[")[2]
    assert named == ", ".join(map(repr, others[:20]))
    assert len(calls) < 3 + 12 * max(1, len(used))


def test_columns_that_are_compared_are_used() -> None:
    """Both permuted alike, they would be equal in every row as before."""
    frame = FRAME.assign(copy=FRAME["0"])[["0", "copy", "1"]]
    codebook = ms.Codebook.fit(frame)
    with pytest.warns(UserWarning, match=r"rows: \['1'\]"):
        warn_of_ignored(
            lambda x: (x[:, :1] == x[:, 1:2]).float(), codebook, codebook.rows(frame), seed=0
        )
