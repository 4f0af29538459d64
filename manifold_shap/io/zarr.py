"""Turns explanations into labelled datasets, and these into zarr stores at a path or a URL."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

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
_BY_PLAYER, _BY_ROW = ("instances", "players", "outputs"), ("instances", "outputs")
# The axes of each tensor of an explanation; of two, those of a row come behind "instances".
OF_EVENTS = ("x", "owners")
AXES = {
    **dict.fromkeys(("phi", "standard_error", "model_error"), _BY_PLAYER),
    **dict.fromkeys(("base", "prediction"), _BY_ROW),
    **dict.fromkeys((*OF_EVENTS, "degrees_of_freedom"), ("instances",)),
    "covariance": (*_BY_PLAYER, "outputs_too"),
}
# What a chunk that is gone would silently make NaN, which the others may be.
_NEVER_NAN = ("phi", "base", "prediction", "x")
# How dates are written: the unit must not follow from the first ones.
_TIMES = {"units": "microseconds since 1970-01-01", "dtype": "int64"}


def to_dataset(explanation: "Explanation") -> "xr.Dataset":
    """A labelled dataset, which shares no memory with the explanation.

    Rows of a table are `cells` in JSON, and so are `labels` that are more than text and numbers.

    Raises:
        ValueError: labels that cannot be written.
    """
    import xarray as xr

    from manifold_shap.tables.cells import packed, to_plain

    players = explanation.players
    event = [f"axis_{k}" for k in range(len(players.event))]
    arrays: dict[str, Any] = {"player_of_element": (event, players.index.numpy().copy())}
    for name, axes in AXES.items():
        if isinstance(tensor := getattr(explanation, name), Tensor):
            of_row = event if name in OF_EVENTS else []
            arrays[name] = [*axes, *of_row], tensor.numpy().copy()
    columns, partition = None, explanation.partition
    labels = _labels(explanation.instances)
    if labels.dtype.kind == "O" and not isinstance(explanation.instances[0], str):
        cells = [json.dumps(to_plain(label)) for label in explanation.instances]
        arrays["labels"] = ["instances"], np.array(cells, object)
    if "x" not in arrays:
        cells, columns = packed(explanation.x)
        arrays["cells"] = ["instances"], np.array(cells, object)
    attributes = {
        "space": explanation.space.settings,
        "padding": players.padding,
        "made_by": explanation.made_by,
        "columns": columns,
        "partition": partition
        and {"signs": partition.signs.tolist(), "classes": partition.classes},
    }
    return xr.Dataset(
        arrays,
        coords={
            "instances": labels,
            "players": np.array(players.names, object),
            "outputs": np.array(explanation.outputs, object),
        },
        attrs={"format": FORMAT}
        | {k: json.dumps(each) for k, each in attributes.items() if each is not None},
    )


def fields(dataset: "xr.Dataset") -> dict[str, Any]:
    """The arguments of the explanation that `to_dataset` was given.

    Raises:
        ValueError: the dataset is none of its making.
    """
    if dataset.attrs.get("format") != FORMAT:
        raise ValueError(
            f"Expected a dataset written by Explanation.save but got one of variables "
            f"{shown(sorted(map(str, dataset.variables)))} and format "
            f"{dataset.attrs.get('format')!r}."
        )
    from manifold_shap.tables.cells import from_plain, unpacked

    plain = {
        name: json.loads(dataset.attrs[name])
        for name in ("space", "made_by", "columns", "partition", "padding")
        if name in dataset.attrs
    }
    labels: Any = dataset.variables["instances"].values
    if "labels" in dataset:
        labels = [from_plain(json.loads(cell)) for cell in dataset["labels"].values.tolist()]
    found: dict[str, Any] = {name: _tensor(dataset, name) for name in AXES if name in dataset}
    if "columns" in plain:
        found["x"] = unpacked(dataset["cells"].values.tolist(), plain["columns"])
    if "degrees_of_freedom" in found and bool(found["degrees_of_freedom"].isinf().all()):
        del found["degrees_of_freedom"]  # As good as known, in a store of blocks.
    return {
        **found,
        "players": _players(dataset, plain.get("padding")),
        "outputs": tuple(map(str, dataset.variables["outputs"].values)),
        "space": as_space(**plain["space"]),
        "instances": as_instances(labels),
        "made_by": plain["made_by"],
        "partition": Partition(**plain["partition"]) if "partition" in plain else None,
    }


def save(dataset: "xr.Dataset", path: str | Path) -> None:
    """Write a zarr store: a folder or, where the name ends in ".zip", one file.

    Raises:
        FileExistsError: something that is not an explanation stands at `path`.
        OSError: no space or no permission; what stood at a path of this machine is left as it was.
    """
    place = location("path", path)
    is_there = earlier(place) is not None
    how: Any = {"zarr_format": 3, "consolidated": False, "encoding": encoding_of(dataset)}
    if isinstance(place, Path):
        in_one_file = place.suffix == ".zip"

        def write(beside: Path) -> None:
            if not in_one_file:
                dataset.to_zarr(beside, **how)
                return
            # zarr's own store of this kind writes what it changes a second time.
            with TemporaryDirectory() as folder, ZipFile(beside, "w") as packed:
                dataset.to_zarr(folder, **how)
                for file in filter(Path.is_file, sorted(Path(folder).rglob("*"))):
                    packed.write(file, file.relative_to(folder))

        write_whole(place, write)
        return
    if is_there:
        remove(place)
    dataset.to_zarr(place, **how)


def encoding_of(dataset: "xr.Dataset", size: int | None = None) -> dict[str, Any]:
    """How the variables of a dataset are written, of those by row so many rows in a chunk."""
    from zarr.codecs import ZstdCodec

    encoding = dict[str, Any]()
    for name, each in dataset.variables.items():
        # With a checksum, since others read garbage from a chunk cut short.
        compressor = ZstdCodec(level=1, checksum=True)
        own = encoding[str(name)] = {**each.encoding, "compressors": compressor}
        if each.dtype.kind == "f":
            own["fill_value"] = np.nan  # Of chunks that are gone.
        if "blocks" in each.dims:
            own["chunks"] = (1,)
        if size is not None and "instances" in each.dims:
            own["chunks"] = (size, *(max(1, n) for n in each.shape[1:]))
    return encoding


def load(path: str | Path, rows: slice | None = None) -> "xr.Dataset":
    """Read what `save` or `explain_rows` wrote, all of it or some rows.

    Raises:
        FileNotFoundError: no store stands at `path`.
        ValueError: it is not finished, no explanation, or lacks rows. What else is damaged in it
            zarr and xarray say.
        OSError: no permission, or the store cannot be reached.
    """
    place = location("path", path)
    try:
        group = opened(place, "r")
    except FileNotFoundError as error:
        if not stands(place):
            raise
        raise ValueError(
            f"Expected an explanation at {place} but something else stands there; `ms.load` reads "
            "what `ms.save` wrote."
        ) from error
    if group.attrs.get("format") == FORMAT and "made_by" not in group.attrs:
        blocks = [bool(entry) for entry in group["done"][:]]
        raise ValueError(
            f"Expected a complete explanation store at {place} but {sum(blocks)} of its "
            f"{len(blocks)} blocks are explained; the call of `explain_rows` that began it "
            "finishes it with resume=True."
        )
    found = read(place, slice(None) if rows is None else rows)
    if lost := [name for name in _NEVER_NAN if name in found and _lacks_rows(found[name])]:
        raise ValueError(
            f"Expected a complete explanation store at {place} but rows of {', '.join(lost)} are "
            "missing; write it again."
        )
    return found


def _lacks_rows(values: "xr.DataArray") -> bool:
    """Whether a row has no number: players that it lacks have none, all of them never."""
    return bool(values.isnull().all([axis for axis in values.dims if axis != "instances"]).any())


def read(place: Location, rows: Any) -> "xr.Dataset":
    """Rows of a store, be it finished or not."""
    import xarray as xr

    # An index would have the labels of all rows.
    how: Any = {"chunks": None, "create_default_indexes": False, "consolidated": False}
    with xr.open_zarr(_store(place), zarr_format=3, **how) as store:
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


def opened(place: Location, mode: Any) -> Any:
    """The group of a store."""
    import zarr

    return zarr.open_group(_store(place), mode=mode, zarr_format=3, use_consolidated=False)


def _store(place: Location) -> Any:
    """What zarr takes for a place: a file is one that `save` has packed."""
    from zarr.storage import ZipStore

    is_file = isinstance(place, Path) and place.suffix == ".zip" and place.is_file()
    return ZipStore(place, mode="r") if is_file else place


def _labels(instances: Sequence[Label]) -> "xr.Variable":
    import xarray as xr

    first = instances[0] if instances else 0
    if isinstance(first, datetime) and first.tzinfo is None:
        return xr.Variable("instances", np.array(instances, "datetime64[us]"), encoding=_TIMES)
    if isinstance(first, int | float):
        return xr.Variable("instances", np.array(instances, type(first)))
    # Of fixed width, longer ones of later rows would be cut.
    return xr.Variable("instances", np.array([*map(str, instances)], object))


def _tensor(dataset: "xr.Dataset", name: str) -> Tensor:
    return torch.from_numpy(np.array(dataset[name].values))


def _players(dataset: "xr.Dataset", padding: Any) -> Players:
    names = tuple(map(str, dataset.variables["players"].values))
    index = _tensor(dataset, "player_of_element")
    if padding is not None:
        return Players(names, index, padding)
    if "owners" in dataset:
        return Players.of_rows(index.shape, len(names), names)
    return Players.of_elements((len(names),), names).owning(index)
