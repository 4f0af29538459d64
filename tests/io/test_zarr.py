"""Stores of explanations: whole, or refused."""

import json
import pickle
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numcodecs  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch

import manifold_shap as ms
from tests.io.shared import run

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


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b'{"metadata": 1}'])
@pytest.mark.parametrize("lost", ["phi/0.0.0", "players/0", ".zattrs"])
def test_a_damaged_store_is_refused_whatever_is_wrong_with_it(
    store: Path, lost: str, content: bytes
) -> None:
    (store / lost).write_bytes(content)
    with pytest.raises((ValueError, LookupError)):
        ms.Explanation.load(store)


@pytest.mark.parametrize("lost", ["phi/0.0.0", "base/0.0", "x/0.0"])
def test_a_store_without_a_chunk_is_refused(store: Path, lost: str) -> None:
    (store / lost).unlink()
    with pytest.raises(ValueError, match=f"rows of {lost.split('/')[0]}"):
        ms.Explanation.load(store)


class RunsCode:
    """Unpickling it calls `Path.touch`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["phi", "done"])
def test_code_in_a_store_is_not_run(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, path = tmp_path / "trace", tmp_path / "evil.zarr"
    # As in versions of numcodecs that unpickle whatever a store holds.
    decode = lambda self, content, out=None: pickle.loads(content)  # noqa: E731
    monkeypatch.setattr(numcodecs.Pickle, "decode", decode)
    run(path)
    content = json.loads((path / name / ".zarray").read_text())
    content |= {"filters": [{"id": "pickle", "protocol": 5}], "compressor": None}
    content |= {"dtype": "|O", "fill_value": ""}
    (path / name / ".zarray").write_text(json.dumps(content))
    chunk = next(each for each in (path / name).iterdir() if each.name[0] == "0")
    chunk.write_bytes(pickle.dumps(np.array([RunsCode(trace)] * 2, dtype=object)))
    for read in (ms.Explanation.load, partial(run, resume=True)):
        with pytest.raises(
            ValueError, match=r"Refused to open .* pickle|cannot be read|No Zarr data type"
        ):
            read(path)
    attributes = json.loads((path / ".zattrs").read_text())
    del attributes["made_by"]
    (path / ".zattrs").write_text(json.dumps(attributes))
    with pytest.raises(ValueError, match=r"Refused|cannot be read"):
        ms.Explanation.load(path)
    assert not trace.exists()
