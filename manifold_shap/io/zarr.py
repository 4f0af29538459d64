"""Turns explanations into labelled datasets, and these into zarr stores at a path or a URL."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manifold_shap._arrays import Label, as_instances
from manifold_shap._messages import shown
from manifold_shap.io.files import Location, location, remove, stands, write_whole
from manifold_shap.players import Players
from manifold_shap.simplex.partition import Partition
from manifold_shap.spaces import as_space

if TYPE_CHECKING:
    import xarray as xr

    from manifold_shap.explanation import Explanation

FORMAT = "manifold_shap explanation"
# What decodes the arrays of a store that this package writes: numbers and text, no objects.
_CODECS = {"blosc", "vlen-utf8", "zstd", "zlib", "gzip", "lz4"}
_TENSORS = ("phi", "standard_error", "base", "prediction", "x")
_OPTIONAL = ("owners", "covariance", "degrees_of_freedom", "model_error")
# What a chunk that is gone would silently make NaN, which the others may be.
_NEVER_NAN = ("phi", "base", "prediction", "x")
# How dates are written: the unit must not follow from the first ones.
_TIMES = {"units": "microseconds since 1970-01-01", "dtype": "int64"}


class UnsafeStoreError(ValueError):
    """A store that could run code if it were read."""


def variables(explanation: "Explanation") -> dict[str, tuple[list[str], Tensor]]:
    """The tensors of an explanation with the names of their axes; those that it lacks left out."""
    event = [f"axis_{k}" for k in range(explanation.x.ndim - 1)]
    by_row, by_player = ["instances", *event], ["instances", "players", "outputs"]
    every = {
        "phi": (by_player, explanation.phi),
        "standard_error": (by_player, explanation.standard_error),
        "base": (["instances", "outputs"], explanation.base),
        "prediction": (["instances", "outputs"], explanation.prediction),
        "x": (by_row, explanation.x),
        "player_of_element": (event, explanation.players.index),
        "model_error": (by_player, explanation.model_error),
        "degrees_of_freedom": (["instances"], explanation.degrees_of_freedom),
        "owners": (by_row, explanation.owners),
        "covariance": ([*by_player, "outputs_too"], explanation.covariance),
    }
    return {name: (axes, each) for name, (axes, each) in every.items() if each is not None}


def to_dataset(explanation: "Explanation") -> "xr.Dataset":
    """A labelled dataset, which shares no memory with the explanation."""
    import xarray as xr

    found, table = variables(explanation), explanation.table
    if table is not None:
        # A store holds the values of its own rows, not all of the training frame.
        codes, table = table.only(explanation.x)
        found["x"] = (found["x"][0], codes)
    partition = explanation.partition
    attributes = {
        "space": explanation.space.settings,
        "padding": explanation.players.padding,
        "made_by": explanation.made_by,
        "table": None if table is None else table.state(),
        "partition": partition
        and {"signs": partition.signs.tolist(), "classes": partition.classes},
    }
    return xr.Dataset(
        {name: (axes, each.numpy().copy()) for name, (axes, each) in found.items()},
        coords={
            "instances": _labels(explanation.instances),
            "players": np.array(explanation.players.names),
            "outputs": np.array(explanation.outputs),
        },
        attrs={"format": FORMAT}
        | {k: json.dumps(each) for k, each in attributes.items() if each is not None},
    )


def fields(dataset: "xr.Dataset") -> dict[str, Any]:
    """The arguments of the explanation that `to_dataset` was given.

    Raises:
        ValueError: the dataset is none of its making.
    """
    found = dataset.attrs.get("format")
    if found != FORMAT:
        raise ValueError(
            f"Expected a dataset written by Explanation.save but got one of variables "
            f"{shown(sorted(map(str, dataset.variables)))} and format {found!r}."
        )
    table, partition = (dataset.attrs.get(key) for key in ("table", "partition"))
    if table is not None:
        from manifold_shap.tables.table import Table

        table = Table.restored(json.loads(table))
    return {
        **{name: _tensor(dataset, name) for name in _TENSORS},
        **{name: _tensor(dataset, name) if name in dataset else None for name in _OPTIONAL},
        "players": _players(dataset),
        "outputs": tuple(map(str, dataset["outputs"].values)),
        "space": as_space(**json.loads(dataset.attrs["space"])),
        "instances": as_instances(dataset["instances"].values),
        "made_by": json.loads(dataset.attrs["made_by"]),
        "table": table,
        "partition": Partition(**json.loads(partition)) if partition else None,
    }


def save(dataset: "xr.Dataset", path: str | Path) -> None:
    """Write a zarr store.

    Raises:
        FileExistsError: something that is not an explanation stands at `path`.
        OSError: no space or no permission; what stood at a path of this machine is left as it was.
    """
    place = location("path", path)
    is_there = earlier(place) is not None
    # Version 2 of the format is the one that specifies text.
    how: Any = {"zarr_format": 2, "consolidated": True, "encoding": encoding_of(dataset)}
    if isinstance(place, Path):
        write_whole(place, lambda beside: dataset.to_zarr(beside, **how))
        return
    if is_there:
        remove(place)
    dataset.to_zarr(place, **how)


def encoding_of(dataset: "xr.Dataset", size: int | None = None) -> dict[str, Any]:
    """How the variables of a dataset are written, of those by row so many rows in a chunk."""
    encoding = {
        str(name): {**each.encoding, "compressors": [compressor()]}
        for name, each in dataset.variables.items()
    }
    for name, each in dataset.variables.items():
        if size is not None and "instances" in each.dims:
            encoding[str(name)]["chunks"] = (size, *each.shape[1:])
    return encoding


def compressor() -> Any:
    """What writes chunks: with a checksum, since others read garbage from a chunk cut short."""
    from numcodecs import Zstd

    return Zstd(level=1, checksum=True)


def load(path: str | Path, rows: slice | None = None) -> "xr.Dataset":
    """Read what `save` or `explain_rows` wrote, all of it or some rows.

    Raises:
        FileNotFoundError: nothing stands at `path`.
        ValueError: it is no zarr store, damaged, or not finished.
        OSError: no permission, or the store cannot be reached.
    """
    place = location("path", path)
    expected = f"Expected a complete explanation store at {place} but"
    if not stands(place):
        raise FileNotFoundError(
            f"Expected an explanation at {place} but nothing is there; `Explanation.save` or "
            "`explain_rows` writes one."
        )
    try:
        group = opened(place, "r", use_consolidated=None)
        arrays = arrays_of(group)
        if "call" not in group.attrs or "made_by" in group.attrs:
            found = read(place, slice(None) if rows is None else rows, consolidated=True)
            lost = [name for name in _NEVER_NAN if name in found and _lacks_rows(found[name])]
            if lost:
                raise ValueError(f"rows of {', '.join(lost)} are missing")
            return found
        done = [bool(entry) for entry in arrays["done"][:]]
    except (PermissionError, UnsafeStoreError):
        raise
    except Exception as error:  # A damaged store makes zarr and xarray fail in any way.
        raise ValueError(
            f"{expected} it cannot be read ({type(error).__name__}: {error}); write it again."
        ) from error
    raise ValueError(
        f"{expected} {sum(done)} of its {len(done)} blocks are explained; the call of "
        "`explain_rows` that began it finishes it with resume=True."
    )


def _lacks_rows(values: "xr.DataArray") -> bool:
    """Whether a row has no number: players that it lacks have none, all of them never."""
    return bool(values.isnull().all([axis for axis in values.dims if axis != "instances"]).any())


def read(place: Location, rows: Any, consolidated: bool = False) -> "xr.Dataset":
    """Rows of a store, be it finished (its metadata are then consolidated) or not."""
    import xarray as xr

    # An index would have the labels of all rows.
    how: Any = {"chunks": None, "create_default_indexes": False, "consolidated": consolidated}
    with xr.open_zarr(place, zarr_format=2, **how) as store:
        own = store.drop_vars("done", errors="ignore")
        return own.isel(instances=rows, missing_dims="ignore").load()


def earlier(place: Location) -> Any:
    """The explanation that stands at a place, as a group of zarr; None where nothing does.

    Raises:
        FileExistsError: something else stands there.
    """
    if not stands(place):
        return None
    try:
        found = opened(place, "r")
        ours = found.attrs.get("format") == FORMAT
    except PermissionError:
        raise
    except Exception:  # Whatever it is, zarr cannot read it.
        ours = False
    if not ours:
        raise FileExistsError(
            f"Expected {place} to be free or to hold an earlier explanation, but something else "
            "stands there; move it away or choose another path."
        )
    return found


def opened(place: Location, mode: Any, use_consolidated: bool | None = False) -> Any:
    """The group of a store, as its files have it or, where there are, by its joint metadata."""
    import zarr

    return zarr.open_group(place, mode=mode, zarr_format=2, use_consolidated=use_consolidated)


def arrays_of(group: Any) -> dict[str, Any]:
    """The arrays of a store by name.

    Raises:
        UnsafeStoreError: one names a codec that `Explanation.save` does not use. Some, such as
            `pickle`, run code from the file.
    """
    arrays = dict(group.arrays())
    for name, array in arrays.items():
        found = {str(codec.codec_id) for codec in (*array.filters, *array.compressors)} - _CODECS
        if found:
            raise UnsafeStoreError(
                f"Refused to open {group.store_path}: its array {name!r} is to be decoded by "
                f"{', '.join(sorted(found))}, which no explanation needs and which can run code; "
                "make it again with `explain.py` or `Explanation.save`."
            )
    return arrays


def label_array(instances: Sequence[Label]) -> np.ndarray:
    """Labels of rows, as a store has them."""
    labels = np.array(instances)
    if instances and isinstance(instances[0], datetime):
        return labels.astype("datetime64[us]")
    # Of fixed width, longer ones of later rows would be cut.
    return labels.astype(object) if labels.dtype.kind == "U" else labels


def _labels(instances: Sequence[Label]) -> "xr.Variable":
    import xarray as xr

    labels = label_array(instances)
    return xr.Variable("instances", labels, encoding=_TIMES if labels.dtype.kind == "M" else None)


def _tensor(dataset: "xr.Dataset", name: str) -> Tensor:
    return torch.from_numpy(np.array(dataset[name].values))


def _players(dataset: "xr.Dataset") -> Players:
    names = tuple(map(str, dataset["players"].values))
    index = _tensor(dataset, "player_of_element")
    if "padding" in dataset.attrs:
        return Players(names, index, json.loads(dataset.attrs["padding"]))
    if bool((index < 0).any()):
        return Players.of_rows(index.shape, len(names), names)
    return Players(names, index)
