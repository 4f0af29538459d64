"""Stores of explanations: whole or refused, and joined without loss."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
import zarr

import manifold_shap as ms
from manifold_shap.io import zarr as storage
from manifold_shap.io.joined import join

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


@pytest.mark.parametrize("name", ["made_by", "space", "schema", "new"])
def test_attributes_are_part_of_the_checksum(store: Path, name: str) -> None:
    known = json.loads((store / ".zattrs").read_text())
    changed = {**known, name: known["made_by"].replace('"permutations": 4', '"permutations": 64')}
    assert changed != known
    (store / ".zattrs").write_text(json.dumps(changed))
    with pytest.raises(ValueError, match="not those that were saved"):
        ms.Explanation.load(store)


@pytest.mark.parametrize("content", [None, b"", b"torn", b"[" * 100_000, b"{}", b'{"metadata": 1}'])
@pytest.mark.parametrize(
    "lost", ["phi/0.0.0", "phi/.zarray", "players/0", "instances/0", ".zmetadata", ".zattrs"]
)
def test_a_damaged_store_is_refused_whatever_is_wrong_with_it(
    store: Path, lost: str, content: bytes | None
) -> None:
    if lost.startswith("phi/.z") or lost == ".zattrs":
        (store / ".zmetadata").unlink()
    if content is None:
        (store / lost).unlink(missing_ok=True)
    else:
        (store / lost).write_bytes(content)
    with pytest.raises(
        ValueError, match=r"Expected a .*(complete explanation store|dataset written)"
    ):
        ms.Explanation.load(store)


def test_numbers_that_were_changed_are_noticed(store: Path, saved: Path) -> None:
    for name in ("phi", "base", "x", "player_of_element", "instances"):
        group: Any = zarr.open_group(store, mode="r+")
        numbers = group[name][:]
        numbers.flat[-1] += 1
        group[name][:] = numbers
        with pytest.raises(ValueError, match="not those that were saved"):
            ms.Explanation.load(store)
        numbers.flat[-1] -= 1
        group[name][:] = numbers
    ms.Explanation.load(store)


def test_every_kind_of_nan_is_saved_as_one(tmp_path: Path, saved: Path) -> None:
    explanation = ms.Explanation.load(saved)
    unknown = -torch.full_like(explanation.standard_error, torch.nan)
    replace(explanation, standard_error=unknown).save(tmp_path / "nan.zarr")
    assert bool(ms.Explanation.load(tmp_path / "nan.zarr").standard_error.isnan().all())


@pytest.mark.parametrize("block", [3, 5, 10])
def test_parts_are_joined_without_loss(tmp_path: Path, saved: Path, block: int) -> None:
    explanation = ms.Explanation.load(saved)
    parts = [tmp_path / f"{start}.zarr" for start in range(0, 10, block)]
    for start, part in zip(range(0, 10, block), parts, strict=True):
        explanation[start : start + block].save(part)
    made_by = {"evaluations": explanation.made_by["evaluations"]}
    join(parts, tmp_path / "joined.zarr", made_by)
    joined, whole = (storage.load(path) for path in (tmp_path / "joined.zarr", saved))
    assert joined.identical(whole)
    assert (tmp_path / "joined.zarr" / "phi" / "0.0.0").exists()
    assert (tmp_path / "joined.zarr" / "phi" / "1.0.0").exists() == (block < 10)


def test_a_store_that_does_not_hold_what_was_written_is_not_finished(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import xarray as xr

    def torn(dataset: xr.Dataset, path: Path, **settings: Any) -> Any:
        done = write(dataset, path, **settings)
        (path / "phi" / "0.0.0").unlink()
        return done

    write = xr.Dataset.to_zarr
    monkeypatch.setattr(xr.Dataset, "to_zarr", torn)
    with pytest.raises(ValueError, match=r"to read what was written to .* but it differs"):
        join([store], tmp_path / "joined.zarr", {})


def test_differences_are_named(saved: Path) -> None:
    there = storage.load(saved)
    assert storage.differences(there, there, 0.0) == []
    for name in ("phi", "base", "prediction"):
        here = there.copy(deep=True)
        here[name][:] *= 1.01
        assert storage.differences(there, here, 1e-3) == [name]
        assert storage.differences(there, here, 0.1) == []
    renamed = there.assign_coords(players=["a", "b", "c", "d"])
    assert storage.differences(there, renamed, 0.0) == ["players, outputs, output space or schema"]
    other = there.assign_attrs(made_by=json.dumps({"permutations": 6, "evaluations": 1}))
    assert "permutations" in storage.differences(there, other, 0.0)
    assert "evaluations" not in storage.differences(there, other, 0.0)


TABLE = pd.DataFrame({"age": [1.5, 2.0, np.nan, 4.0] * 5, "town": [*"abcd"] * 5})


def test_some_rows_are_read_without_the_labels_of_all(store: Path, tmp_path: Path) -> None:
    parts = [store, Path(shutil.copytree(store, tmp_path / "more.zarr"))]
    join(parts, tmp_path / "whole.zarr", {})
    (tmp_path / "whole.zarr" / "instances" / "1").write_bytes(b"torn")
    few = ms.Explanation.load(tmp_path / "whole.zarr", slice(2, 5))
    assert few.instances == (2, 3, 4)
    with pytest.raises(ValueError, match="cannot be read"):
        ms.Explanation.load(tmp_path / "whole.zarr")


def of_table(rows: slice, frame: Any = TABLE) -> ms.Explanation:
    codebook = ms.Codebook.fit(frame)
    x = codebook.rows(frame)[rows]
    found = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True), x)
    return replace(found.with_labels(range(20)[rows], codebook), players=codebook.players)


@pytest.mark.parametrize("frame", [TABLE, pl.from_pandas(TABLE)])
def test_rows_of_a_frame_are_stored_with_their_own_values(tmp_path: Path, frame: Any) -> None:
    explanation = of_table(slice(1, 3), frame)
    explanation.save(tmp_path / "rows.zarr")
    found = ms.Explanation.load(tmp_path / "rows.zarr")
    assert isinstance(found.schema, ms.Codebook)
    assert found.schema.names == ("age", "town")
    assert found.features().astype(object).equals(explanation.features().astype(object))
    assert "d" not in json.dumps(found.schema.to_dict()["vocabularies"])


def test_frames_of_polars_are_read_where_polars_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explanation = of_table(slice(1, 3), pl.from_pandas(TABLE))
    explanation.save(tmp_path / "rows.zarr")
    monkeypatch.setitem(sys.modules, "polars", None)
    found = ms.Explanation.load(tmp_path / "rows.zarr")
    assert found.features().astype(object).equals(explanation.features().astype(object))


def test_blocks_of_a_frame_are_joined(tmp_path: Path) -> None:
    parts = []
    for start in (0, 2, 4):
        parts.append(tmp_path / f"{start}.zarr")
        of_table(slice(start, start + 2)).save(parts[-1])
    join(parts, tmp_path / "whole.zarr", {})
    found, whole = ms.Explanation.load(tmp_path / "whole.zarr"), of_table(slice(0, 6))
    assert found.features().equals(whole.features())
    assert torch.equal(found.phi, whole.phi)
