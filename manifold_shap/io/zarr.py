"""Turns explanations into labelled datasets, and these into zarr stores."""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manifold_shap._arrays import Label, as_instances
from manifold_shap._messages import shown
from manifold_shap.io.files import digest
from manifold_shap.io.places import PARTS, Content, Place, place_of
from manifold_shap.io.stores import FORMAT, UnsafeStoreError, check_codecs
from manifold_shap.players import Players
from manifold_shap.simplex.partition import Partition
from manifold_shap.spaces import as_space
from manifold_shap.tables.rows import codebook_of, schema_from

if TYPE_CHECKING:
    import xarray as xr

    from manifold_shap.explanation import Explanation

_TENSORS = ("phi", "standard_error", "base", "prediction", "x")
_OPTIONAL = ("owners", "covariance", "degrees_of_freedom", "model_error")
# How dates are written: the unit must not follow from the first ones.
TIMES = {"units": "microseconds since 1970-01-01", "dtype": "int64"}
LAZY: Any = {"chunks": None, "create_default_indexes": False}  # An index has all rows' labels.
# Rows that are read at once where a store may be larger than memory.
ROWS_AT_ONCE = 4096


def to_dataset(explanation: "Explanation") -> "xr.Dataset":
    """A labelled dataset, which shares no memory with the explanation."""
    import xarray as xr

    x, schema = explanation.x, explanation.schema
    codebook = codebook_of(schema)
    if codebook is not None:
        # A store holds the values of its own rows, not all of the training frame.
        x, schema = codebook.only(x)
    event = [f"axis_{k}" for k in range(x.ndim - 1)]
    by_row, by_player = ["instances", *event], ["instances", "players", "outputs"]
    variables = {
        "phi": (by_player, explanation.phi),
        "standard_error": (by_player, explanation.standard_error),
        "base": (["instances", "outputs"], explanation.base),
        "prediction": (["instances", "outputs"], explanation.prediction),
        "x": (by_row, x),
        "player_of_element": (event, explanation.players.index),
        "model_error": (by_player, explanation.model_error),
        "degrees_of_freedom": (["instances"], explanation.degrees_of_freedom),
        "owners": (by_row, explanation.owners),
        "covariance": ([*by_player, "outputs_too"], explanation.covariance),
    }
    partition = explanation.partition
    attributes = {
        "space": explanation.space.settings,
        "padding": explanation.players.padding,
        "made_by": explanation.made_by,
        "schema": None if schema is None else schema.to_dict(),
        "partition": partition
        and {"signs": partition.signs.tolist(), "classes": partition.classes},
    }
    return xr.Dataset(
        {
            k: (axes, each.numpy().copy())
            for k, (axes, each) in variables.items()
            if each is not None
        },
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
    import xarray as xr

    if not isinstance(dataset, xr.Dataset):
        raise TypeError(
            f"Expected a dataset of xarray but got {type(dataset).__name__}; "
            "`explanation.to_xarray()` makes one, and `Explanation.load` reads a store."
        )
    found = dataset.attrs.get("format")
    if found != FORMAT:
        raise ValueError(
            f"Expected a dataset written by Explanation.save but got one of variables "
            f"{shown(sorted(map(str, dataset.variables)))} and format {found!r}."
        )
    try:
        return _fields(dataset)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ValueError(
            "Expected a dataset as Explanation.save wrote it but it is damaged "
            f"({type(error).__name__}: {error}); make it again."
        ) from error


def _fields(dataset: "xr.Dataset") -> dict[str, Any]:
    schema, partition = (dataset.attrs.get(key) for key in ("schema", "partition"))
    return {
        **{name: tensor_of(dataset, name) for name in _TENSORS},
        **{name: tensor_of(dataset, name) if name in dataset else None for name in _OPTIONAL},
        "players": _players(dataset),
        "outputs": tuple(map(str, dataset["outputs"].values)),
        "space": as_space(**json.loads(dataset.attrs["space"])),
        "instances": as_instances(dataset["instances"].values),
        "made_by": json.loads(dataset.attrs["made_by"]),
        "schema": schema_from(json.loads(schema)) if schema else None,
        "partition": Partition(**json.loads(partition)) if partition else None,
    }


def save(dataset: "xr.Dataset", path: str | Path | Place) -> None:
    """Write a zarr store, beside first and then put in its place: never a partial one at `path`.

    Raises:
        FileExistsError: something that is not an explanation stands at `path`.
        OSError: no space or no permission; what stood at `path` is left as it was.
    """
    place = place_of(path)
    check_replaceable(place)
    checksum = dataset.attrs["sha256"] = checksum_of(dataset)

    def write(beside: Path) -> dict[str, Any]:
        # Version 2 of the format is the one that specifies text.
        dataset.to_zarr(beside, zarr_format=2, consolidated=True)
        return {"format": FORMAT, "sha256": checksum}

    place.put(write)


def load(path: str | Path | Place, rows: slice | None = None) -> "xr.Dataset":
    """Read what `save` or `join` wrote.

    Args:
        path: the store.
        rows: read no others, and leave the checksum of all of them unchecked.

    Raises:
        FileNotFoundError: nothing stands at `path`.
        ValueError: it is no zarr store, or damaged.
        OSError: no permission, or the store cannot be reached.
    """
    place = place_of(path)
    content = place.find()
    while content is not None:
        try:
            return _read(place, content, rows)
        except ValueError:
            # Another call may have replaced it meanwhile, and removed what stood there.
            now = place.find()
            if now == content and (content.place / PARTS).read() is not None:
                raise ValueError(
                    f"Expected an explanation store at {place} but it holds tables; "
                    "`pandas.read_parquet` reads them."
                ) from None
            if now == content:
                raise
            content = now
    raise FileNotFoundError(
        f"Expected an explanation at {place} but nothing is there; `Explanation.save` or "
        "`explain_rows` writes one."
    )


def _read(place: Place, content: Content, rows: slice | None) -> "xr.Dataset":
    """What stands at a place, all of it or some rows; ValueError if it is damaged."""
    import xarray as xr

    expected = f"Expected a complete explanation store at {place} but"
    whole = content.place.fetched if rows is None else lambda: nullcontext(content.place.zarr())
    try:
        with whole() as files:
            check_codecs(files, str(place))
            with xr.open_zarr(files, consolidated=True, zarr_format=2, **LAZY) as store:
                dataset = store.isel(instances=rows or slice(None), missing_dims="ignore").load()
        found = checksum_of(dataset) if rows is None else None
    except (PermissionError, UnsafeStoreError):
        raise
    except Exception as error:  # A damaged store makes zarr and xarray fail in any way.
        raise ValueError(
            f"{expected} it cannot be read ({type(error).__name__}: {error}); write it again."
        ) from error
    known = dataset.attrs.get("sha256")
    wrong = (found or known) != known or content.manifest.get("sha256", known) != known
    if dataset.attrs.get("format") == FORMAT and wrong:
        raise ValueError(
            f"{expected} some of its numbers, names or attributes are not those that were saved; "
            "make it again with `explain.py` or `Explanation.save`."
        )
    return dataset


def differences(there: "xr.Dataset", here: "xr.Dataset", tolerance: float) -> list[str]:
    """Names of what two explanations of the same row do not agree on.

    Args:
        there, here: their datasets.
        tolerance: between numbers, relative to the largest one of a kind.
    """
    made, makes = (json.loads(dataset.attrs["made_by"]) for dataset in (there, here))
    names = [
        name for name in dict.fromkeys([*made, *makes]) if name not in ("evaluations", "receipt")
    ]
    changed = [name for name in names if made.get(name) != makes.get(name)]
    if not header_of(there).identical(header_of(here)):
        return [*changed, "players, outputs, output space or schema"]
    for name in ("phi", "base", "prediction"):
        old, new = there[name].values, here[name].values
        scale = np.nanmax(np.abs(old))
        if not np.allclose(old, new, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            changed.append(name)
    return changed


def check_replaceable(path: str | Path | Place) -> None:
    """Raise FileExistsError if something that is not an explanation stands at `path`."""
    import zarr

    place = place_of(path)
    if place.is_free():
        return
    try:
        content = place.find()
        ours = content is not None and content.manifest.get("format") == FORMAT
        if content is not None and not content.manifest:
            group = zarr.open_group(content.place.zarr(), mode="r")
            ours = group.attrs.get("format") == FORMAT
    except PermissionError:
        raise
    except Exception:  # Whatever it is, zarr cannot read it.
        ours = False
    if not ours:
        raise FileExistsError(
            f"Expected {place} to be free or to hold an earlier explanation, but something else "
            "stands there; move it away or choose another path."
        )


def _labels(instances: Sequence[Label]) -> "xr.Variable":
    """Labels of rows, written so that those of further rows can be appended."""
    import xarray as xr

    labels = np.array(instances)
    if labels.dtype.kind == "U":  # In a store, longer ones of later rows would be cut.
        labels = labels.astype(object)
    if instances and isinstance(instances[0], datetime):
        return xr.Variable("instances", labels.astype("datetime64[us]"), encoding=TIMES)
    return xr.Variable("instances", labels)


def tensor_of(dataset: "xr.Dataset", name: str) -> Tensor:
    return torch.from_numpy(np.array(dataset[name].values))


def _players(dataset: "xr.Dataset") -> Players:
    names = tuple(map(str, dataset["players"].values))
    index = tensor_of(dataset, "player_of_element")
    if "padding" in dataset.attrs:
        return Players(names, index, json.loads(dataset.attrs["padding"]))
    if bool((index < 0).any()):
        return Players.of_rows(index.shape, len(names), names)
    return Players(names, index)


def checksum_of(dataset: "xr.Dataset") -> str:
    """Of every number, name and attribute: zarr reads a lost chunk as if it held zeros or NaN."""
    attributes = {key: entry for key, entry in dataset.attrs.items() if key != "sha256"}
    variables = sorted(dataset.variables.items(), key=lambda named: str(named[0]))
    content = (([str(name), each.dims, each.shape], _content(each)) for name, each in variables)
    return digest(attributes, *chain.from_iterable(content))


def _content(variable: "xr.Variable") -> Any:
    """The names, or the numbers of a variable, some rows at a time."""
    if variable.dtype.kind == "M":
        return variable.values.astype("datetime64[us]").astype("int64")
    if variable.dtype.kind not in "biuf":
        return list(map(str, variable.values.flat))
    if "instances" not in variable.dims:
        return variable.values
    starts = range(0, len(variable), ROWS_AT_ONCE)
    return (variable[start : start + ROWS_AT_ONCE].values for start in starts)


def header_of(dataset: "xr.Dataset") -> "xr.Dataset":
    """What all blocks of rows have in common."""
    header = dataset.drop_dims("instances")
    header = header.drop_indexes(list(header.xindexes))  # Datasets are read without.
    own = ("made_by", "sha256")
    header.attrs = {key: entry for key, entry in dataset.attrs.items() if key not in own}
    if "schema" in header.attrs:
        schema = json.loads(header.attrs["schema"])
        # Each block has the values of its own rows.
        header.attrs["schema"] = {k: each for k, each in schema.items() if k != "vocabularies"}
    return header
