"""Stores of explanations: whole, or refused."""

import shutil
from pathlib import Path

import pytest
import torch

import manifold_shap as ms

ROWS = torch.randn(10, 4, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of one explanation."""
    path = tmp_path_factory.mktemp("saved") / "rows.zarr"
    explanation = ms.permutation_shapley(
        lambda x, mask: x[:, None] * mask + 1, ROWS, permutations=4
    )
    explanation.save(path)
    return path


@pytest.fixture
def store(tmp_path: Path, saved: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(saved, tmp_path / "rows.zarr"))


@pytest.mark.parametrize("content", [b"", b"[" * 100_000])
@pytest.mark.parametrize("lost", ["phi/c/0/0/0", "players/c/0", "zarr.json"])
def test_a_damaged_store_is_refused_whatever_is_wrong_with_it(
    store: Path, lost: str, content: bytes
) -> None:
    (store / lost).write_bytes(content)
    with pytest.raises((ValueError, LookupError, RuntimeError)):
        ms.Explanation.load(store)


@pytest.mark.parametrize("lost", ["phi/c/0/0/0", "base/c/0/0", "x/c/0/0"])
def test_a_store_without_a_chunk_is_refused(store: Path, lost: str) -> None:
    (store / lost).unlink()
    with pytest.raises(ValueError, match=f"rows of {lost.split('/')[0]}"):
        ms.Explanation.load(store)
