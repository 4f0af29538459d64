"""Explanations as labelled datasets, and as zarr stores on disk: whole ones, or by regions."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import torch
from torch import Tensor

from manifold_shap.io.files import swap_in
from manifold_shap.players import Players
from manifold_shap.simplex.partition import Partition
from manifold_shap.spaces import as_space
from manifold_shap.tables.schema import Schema

if TYPE_CHECKING:
    import xarray as xr

    from manifold_shap.explanation import Explanation

_FORMAT = "manifold_shap explanation"
_TENSORS = ("phi", "standard_error", "base", "prediction", "x")
# Rows that are read at once where a store may be larger than memory.
_ROWS_AT_ONCE = 4096
# What zarr, xarray and a decompressor raise of a store that has lost a part, or holds a torn one.
UNREADABLE = (OSError, KeyError, TypeError, ValueError, RuntimeError)


def to_dataset(explanation: "Explanation") -> "xr.Dataset":
    """A labelled dataset, which shares no memory with the explanation."""
    import xarray as xr

    event = [f"axis_{k}" for k in range(explanation.x.ndim - 1)]
    by_player = ("instances", "players", "outputs")
    variables = {
        "phi": (by_player, copied(explanation.phi)),
        "standard_error": (by_player, copied(explanation.standard_error)),
        "base": (("instances", "outputs"), copied(explanation.base)),
        "prediction": (("instances", "outputs"), copied(explanation.prediction)),
        "x": (("instances", *event), copied(explanation.x)),
        "player_of_element": (event, copied(explanation.players.index)),
    }
    if explanation.degrees_of_freedom is not None:
        freedom = copied(explanation.degrees_of_freedom)
        variables["degrees_of_freedom"] = (("instances",), freedom)
    if explanation.owners is not None:
        variables["owners"] = (("instances", *event), copied(explanation.owners))
    if explanation.covariance is not None:
        variables["covariance"] = ((*by_player, "outputs_too"), copied(explanation.covariance))
    return xr.Dataset(
        variables,
        coords={
            "instances": list(explanation.instances),
            "players": np.array(explanation.players.names),
            "outputs": np.array(explanation.outputs),
        },
        attrs=_attributes(explanation),
    )


def fields(dataset: "xr.Dataset") -> dict[str, Any]:
    """The arguments of the explanation that `to_dataset` was given.

    Raises:
        ValueError: the dataset is none of its making.
    """
    if dataset.attrs.get("format") != _FORMAT:
        raise ValueError(
            f"Expected a dataset written by Explanation.save (format {_FORMAT!r}) but got one "
            f"with variables {sorted(map(str, dataset.variables))[:10]} and format "
            f"{dataset.attrs.get('format')!r}."
        )
    names = tuple(map(str, dataset["players"].values))
    schema, partition = (dataset.attrs.get(key) for key in ("schema", "partition"))
    return {
        **{name: _tensor(dataset, name) for name in _TENSORS},
        "covariance": _tensor(dataset, "covariance") if "covariance" in dataset else None,
        "players": _players(names, _tensor(dataset, "player_of_element")),
        "outputs": tuple(map(str, dataset["outputs"].values)),
        "owners": _tensor(dataset, "owners") if "owners" in dataset else None,
        "degrees_of_freedom": (
            _tensor(dataset, "degrees_of_freedom") if "degrees_of_freedom" in dataset else None
        ),
        "space": as_space(**json.loads(dataset.attrs["space"])),
        "instances": tuple(int(k) for k in dataset["instances"].values),
        "made_by": json.loads(dataset.attrs["made_by"]),
        "schema": Schema.from_dict(json.loads(schema)) if schema else None,
        "partition": Partition(**json.loads(partition)) if partition else None,
    }


def save(dataset: "xr.Dataset", path: Path) -> None:
    """Write a zarr store, beside first and then renamed: never a partial one at `path`.

    Raises:
        FileExistsError: something that is not an explanation stands at `path`.
        OSError: no space or no permission; what stood at `path` is left as it was.
    """
    check_replaceable(path)
    beside = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        dataset.attrs["sha256"] = _hash(dataset)
        # Version 2 of the format is the one that specifies text.
        dataset.to_zarr(beside, mode="w", zarr_format=2, consolidated=True)
        put(beside, path)
    except OSError as error:
        raise type(error)(
            error.errno,
            f"Could not write the explanation to {path} ({error.strerror}); free some space "
            "or choose another place. Nothing there was changed.",
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def put(store: Path, path: Path) -> None:
    """Rename a finished store to `path`, in place of an earlier one.

    Raises:
        OSError: it cannot be renamed; what stood at `path` is left as it was.
    """
    old = swap_in(store, path)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def load(path: Path) -> "xr.Dataset":
    """Read what `save` wrote.

    Raises:
        FileNotFoundError: nothing stands at `path`.
        ValueError: it is no zarr store, or damaged.
    """
    import xarray as xr

    if not path.exists():
        raise FileNotFoundError(
            f"Expected an explanation at {path} but nothing is there; `explain.py` and "
            "`Explanation.save` write one."
        )
    try:
        with xr.open_zarr(path, consolidated=True) as store:
            dataset = store.load()
    except UNREADABLE as error:
        raise ValueError(
            f"Expected a complete explanation store at {path} but it cannot be read ({error}); "
            "make it again with `explain.py` or `Explanation.save`."
        ) from error
    if dataset.attrs.get("format") == _FORMAT and dataset.attrs.get("sha256") != _hash(dataset):
        raise ValueError(
            f"Expected a complete explanation store at {path} but some of its numbers or names "
            "are not those that were saved; make it again with `explain.py` or "
            "`Explanation.save`."
        )
    return dataset


def reserve(dataset: "xr.Dataset", path: Path, instances: Sequence[int], block: int) -> None:
    """Make a store whose regions are to be written: one chunk per block of rows.

    Args:
        dataset: of one row; names, shapes and attributes are those of the store to come.
        path: where.
        instances: labels of all rows.
        block: rows per chunk.
    """
    import zarr

    chunks = {
        str(name): (block, *variable.shape[1:])
        for name, variable in dataset.data_vars.items()
        if "instances" in variable.dims
    }
    chunks["instances"] = (len(instances),)
    encoding = {name: {"chunks": shape} for name, shape in chunks.items()}
    dataset.to_zarr(path, mode="w", zarr_format=2, consolidated=False, encoding=encoding)
    group: Any = zarr.open_group(path, mode="r+", use_consolidated=False)
    for name in chunks:
        array = group[name]
        array.resize((len(instances), *array.shape[1:]))
    group["instances"][:] = np.asarray(instances)


def write_region(dataset: "xr.Dataset", path: Path, start: int) -> str:
    """Write the rows of a dataset to their place in a store that `reserve` made.

    What the store has no place for, as covariances that its first row did not have, is left out.
    Different processes may do so at the same time, each with blocks of its own.

    Returns:
        The checksum that `region_checksum` finds as long as nothing of it is lost.
    """
    group, digest = _opened(path), hashlib.sha256()
    for name in _by_rows(group):
        values = dataset[name].values.astype(group[name].dtype)
        group[name][start : start + len(values)] = values
        _add(digest, name, values)
    return digest.hexdigest()


def region_checksum(path: Path, start: int, stop: int) -> str:
    """A checksum of the rows of a region, as they are read back.

    Raises:
        UNREADABLE: they cannot be. What is lost altogether is read as NaN, and shows in the sum.
    """
    group, digest = _opened(path), hashlib.sha256()
    for name in _by_rows(group):
        _add(digest, name, group[name][start:stop])
    return digest.hexdigest()


def frame_checksum(path: Path) -> str:
    """A checksum of what `reserve` made and no region changes: shapes, names, labels, attributes.

    Raises:
        UNREADABLE: it cannot be read.
    """
    group, digest = _opened(path), hashlib.sha256()
    of_seal = ("made_by", "sha256")
    attributes = {key: entry for key, entry in group.attrs.items() if key not in of_seal}
    digest.update(json.dumps(attributes, sort_keys=True).encode())
    by_rows = _by_rows(group)
    for name in sorted(group.array_keys()):
        array = group[name]
        digest.update(repr((name, name in by_rows, array.shape, str(array.dtype))).encode())
        if name not in by_rows:
            _add(digest, name, array[...])
    return digest.hexdigest()


def seal(path: Path, made_by: Mapping[str, Any]) -> None:
    """Finish a store whose regions are all written: what `load` checks, and one file of metadata.

    Args:
        path: of the store.
        made_by: of the whole explanation.
    """
    import xarray as xr
    import zarr

    group = zarr.open_group(path, mode="r+", use_consolidated=False)
    with xr.open_zarr(path, consolidated=False, chunks=None) as store:
        group.attrs.update({"made_by": json.dumps(made_by), "sha256": _hash(store)})
    zarr.consolidate_metadata(path, zarr_format=2)


def load_rows(path: Path, start: int, stop: int) -> "xr.Dataset":
    """Some rows of a store that `save` or `seal` finished; the others are neither read nor checked.

    Raises:
        FileNotFoundError: nothing stands at `path`.
    """
    import xarray as xr

    with xr.open_zarr(path, consolidated=True, chunks=None) as store:
        return store.isel(instances=slice(start, stop)).load()


def check_replaceable(path: Path) -> None:
    """Raise FileExistsError if something that is not an explanation stands at `path`."""
    import zarr

    if not path.exists():
        return
    try:
        ours = zarr.open_group(path, mode="r").attrs.get("format") == _FORMAT
    except (OSError, ValueError):
        ours = False
    if not ours:
        raise FileExistsError(
            f"Expected {path} to be free or to hold an earlier explanation, but something else "
            "stands there; move it away or choose another path."
        )


def copied(tensor: Tensor) -> np.ndarray:
    """The numbers, in memory of their own."""
    return tensor.numpy().copy()


def _attributes(explanation: "Explanation") -> dict[str, str]:
    attributes = {
        "format": _FORMAT,
        "space": json.dumps(explanation.space.settings),
        "made_by": json.dumps(explanation.made_by),
    }
    if explanation.schema is not None:
        attributes["schema"] = json.dumps(explanation.schema.to_dict())
    if explanation.partition is not None:
        plain = {
            "signs": explanation.partition.signs.tolist(),
            "classes": explanation.partition.classes,
        }
        attributes["partition"] = json.dumps(plain)
    return attributes


def _tensor(dataset: "xr.Dataset", name: str) -> Tensor:
    return torch.from_numpy(np.array(dataset[name].values))


def _players(names: tuple[str, ...], index: Tensor) -> Players:
    if bool((index < 0).any()):
        return Players.of_rows(index.shape, len(names), names)
    return Players(names, index)


def _hash(dataset: "xr.Dataset") -> str:
    """Of every number and name: zarr itself reads a lost chunk as if it held zeros."""
    digest = hashlib.sha256()
    for name in sorted(map(str, dataset.variables)):
        for values in _parts(dataset[name]):
            digest.update(_bytes(values))
    return digest.hexdigest()


def _bytes(values: np.ndarray) -> bytes:
    numeric = values.dtype.kind in "fi"
    return values.tobytes() if numeric else "\0".join(map(str, values)).encode()


def _add(digest: Any, name: str, values: np.ndarray) -> None:
    if values.dtype.kind == "f":
        # NaN has several bit patterns, and a chunk of nothing else is not written, but read as one.
        values = np.where(np.isnan(values), np.nan, values)
    digest.update(name.encode() + b"\0" + _bytes(values))


def _opened(path: Path) -> Any:
    """The store as a group of arrays, to read and to write regions of."""
    import zarr

    return zarr.open_group(path, mode="r+", use_consolidated=False)


def _by_rows(group: Any) -> list[str]:
    """Names of the arrays that regions are written of."""
    dimensions = {name: group[name].attrs.get("_ARRAY_DIMENSIONS") for name in group.array_keys()}
    return sorted(
        name
        for name, axes in dimensions.items()
        if name != "instances" and axes[:1] == ["instances"]
    )


def _parts(variable: "xr.DataArray") -> Iterator[np.ndarray]:
    """The numbers of a variable, some rows at a time."""
    if "instances" not in variable.dims:
        yield variable.values
        return
    for start in range(0, len(variable), _ROWS_AT_ONCE):
        yield variable[start : start + _ROWS_AT_ONCE].values
