"""What a process leaves that was killed, or that someone has damaged, neither hides nor blocks."""

from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
import zarr

import manifold_shap as ms
from manifold_shap.io.files import remove, swap_in

ROWS = torch.arange(12.0).reshape(6, 2)


def game(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (x[:, None] * mask).sum(-1, keepdim=True)


def cut_off(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Stop at a rename of a path, as SIGKILL would: nothing is put back."""
    rename, calls = Path.rename, list[Path]()

    def once(self: Path, target: Path) -> Path:
        calls.append(self)
        if len(calls) == at:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", once)


def test_an_explanation_that_was_being_replaced_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, new = tmp_path / "rows.zarr", tmp_path / "new"
    earlier = ms.exact_shapley(game, ROWS)
    earlier.save(path)
    new.mkdir()
    with monkeypatch.context() as patched:
        cut_off(patched, 2)
        with pytest.raises(KeyboardInterrupt):
            swap_in(new, path)
    assert not path.exists()
    assert torch.equal(ms.Explanation.load(path).phi, earlier.phi)
    later = ms.exact_shapley(game, ROWS + 1)
    later.save(path)
    assert torch.equal(ms.Explanation.load(path).phi, later.phi)
    remove(path)
    with pytest.raises(FileNotFoundError):  # What was replaced long ago does not come back.
        ms.Explanation.load(path)


@pytest.mark.parametrize("resume", [True, False])
def test_a_damaged_record_in_an_object_store_blocks_nothing(resume: bool) -> None:
    url = f"memory://left-{resume}/rows.zarr"
    calls = list[int]()

    def stops(value: Any, x: Any, seed: int = 0) -> ms.Explanation:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return ms.exact_shapley(value, x)

    def call(estimator: Any, resume: bool) -> int:
        return ms.explain_rows(url, game, ROWS, estimator, block=2, resume=resume)

    with pytest.raises(KeyboardInterrupt):
        call(stops, False)
    memory = fsspec.filesystem("memory")
    memory.pipe_file(f"/left-{resume}/.rows.zarr.partial/first.zarr/_manifest.json", b"{bad")
    if resume:
        with pytest.raises(ValueError, match=r"record is damaged; start again with resume=False"):
            call(ms.exact_shapley, True)
    with pytest.warns(UserWarning, match="Removed what an interrupted call had left"):
        assert call(ms.exact_shapley, False) == len(ROWS)
    assert ms.Explanation.load(url).phi.shape == (6, 2, 1)


def test_rows_of_objects_are_refused(tmp_path: Path) -> None:
    words = zarr.open_array(
        tmp_path / "words", mode="w", shape=3, dtype=str, zarr_format=2, fill_value=""
    )
    words[:] = np.array(["a", "b", "c"])
    with pytest.raises(ValueError, match=r"Expected an array of numbers at .*words"):
        ms.read_rows(tmp_path / "words")
