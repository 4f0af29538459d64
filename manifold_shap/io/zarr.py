"""Turns explanations into labelled datasets and into zarr stores, and joins stores of blocks."""

import json
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from manifold_shap._arrays import Label, as_instances
from manifold_shap._messages import shown
from manifold_shap.io.files import digest, write_whole
from manifold_shap.players import Players
from manifold_shap.simplex.partition import Partition
from manifold_shap.spaces import as_space
from manifold_shap.tables.rows import codebook_of, schema_from

if TYPE_CHECKING:
    import xarray as xr

    from manifold_shap.explanation import Explanation
    from manifold_shap.tables.codebook import Codebook

_FORMAT = "manifold_shap explanation"
_TENSORS = ("phi", "standard_error", "base", "prediction", "x")
_OPTIONAL = ("owners", "covariance", "degrees_of_freedom", "model_error")
# How dates are written: the unit must not follow from the first ones.
_TIMES = {"units": "microseconds since 1970-01-01", "dtype": "int64"}
# Rows that are read at once where a store may be larger than memory.
_ROWS_AT_ONCE = 4096


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
        attrs={"format": _FORMAT}
        | {k: json.dumps(each) for k, each in attributes.items() if each is not None},
    )


def fields(dataset: "xr.Dataset") -> dict[str, Any]:
    """The arguments of the explanation that `to_dataset` was given.

    Raises:
        ValueError: the dataset is none of its making.
    """
    found = dataset.attrs.get("format")
    if found != _FORMAT:
        raise ValueError(
            f"Expected a dataset written by Explanation.save but got one of variables "
            f"{shown(sorted(map(str, dataset.variables)))} and format {found!r}."
        )
    schema, partition = (dataset.attrs.get(key) for key in ("schema", "partition"))
    return {
        **{name: _tensor(dataset, name) for name in _TENSORS},
        **{name: _tensor(dataset, name) if name in dataset else None for name in _OPTIONAL},
        "players": _players(dataset),
        "outputs": tuple(map(str, dataset["outputs"].values)),
        "space": as_space(**json.loads(dataset.attrs["space"])),
        "instances": as_instances(dataset["instances"].values),
        "made_by": json.loads(dataset.attrs["made_by"]),
        "schema": schema_from(json.loads(schema)) if schema else None,
        "partition": Partition(**json.loads(partition)) if partition else None,
    }


def save(dataset: "xr.Dataset", path: Path) -> None:
    """Write a zarr store, beside first and then renamed: never a partial one at `path`.

    Raises:
        FileExistsError: something that is not an explanation stands at `path`.
        OSError: no space or no permission; what stood at `path` is left as it was.
    """
    check_replaceable(path)
    dataset.attrs["sha256"] = _checksum(dataset)
    # Version 2 of the format is the one that specifies text.
    write_whole(path, lambda beside: dataset.to_zarr(beside, zarr_format=2, consolidated=True))


def load(path: Path, rows: slice | None = None) -> "xr.Dataset":
    """Read what `save` or `join` wrote.

    Args:
        path: the store.
        rows: read no others, and leave the checksum of all of them unchecked.

    Raises:
        FileNotFoundError: nothing stands at `path`.
        ValueError: it is no zarr store, or damaged.
    """
    import xarray as xr

    if not path.exists():
        raise FileNotFoundError(
            f"Expected an explanation at {path} but nothing is there; `Explanation.save` or "
            "`explain_rows` writes one."
        )
    try:
        with xr.open_zarr(path, consolidated=True, chunks=None) as store:
            dataset = store.isel(instances=rows or slice(None), missing_dims="ignore").load()
        known, found = dataset.attrs.get("sha256"), None if rows else _checksum(dataset)
    except PermissionError:
        raise
    except Exception as error:  # A damaged store makes zarr and xarray fail in any way.
        raise ValueError(
            f"Expected a complete explanation store at {path} but it cannot be read "
            f"({type(error).__name__}: {error}); write it again."
        ) from error
    if found and dataset.attrs.get("format") == _FORMAT and known != found:
        raise ValueError(
            f"Expected a complete explanation store at {path} but some of its numbers, names or "
            "attributes are not those that were saved; make it again with `explain.py` or "
            "`Explanation.save`."
        )
    return dataset


def join(parts: Sequence[Path], path: Path, settings: Mapping[str, Any]) -> None:
    """Write one store with the rows of several, of which few are in memory at a time.

    Args:
        parts: stores that `save` wrote, in the order of their rows; all but the last have equally
            many. Where some have a `covariance`, the others get one that is 0 or NaN.
        path: where nothing is.
        settings: of the whole, for its `made_by`. Of those of the parts, `evaluations` add up, and
            of other numbers the largest counts.

    Raises:
        ValueError: a part is damaged or differs from the first in its names or attributes, or
            what was written is not what is read back.
        OSError: no space or no permission.
    """
    import xarray as xr
    import zarr

    first, made_by = load(parts[0]), dict[str, Any]()
    size, with_covariance = len(first["phi"]), any((part / "covariance").exists() for part in parts)
    codebook = _codebook(first)
    at_once = max(1, _ROWS_AT_ONCE // size)
    for number in range(0, len(parts), at_once):
        blocks = [_alike(part, first, with_covariance) for part in parts[number : number + at_once]]
        for block in blocks:
            made_by = _merged(made_by, json.loads(block.attrs["made_by"]))
            if codebook is not None:
                _recode(block, codebook)
        rule: Any = {"compat": "override", "join": "override", "combine_attrs": "override"}
        several = xr.concat(blocks, "instances", data_vars="minimal", coords="minimal", **rule)
        how: Any = {"append_dim": "instances"}
        if number == 0:
            by_row = {k: each for k, each in several.variables.items() if "instances" in each.dims}
            chunks = {k: {"chunks": (size, *each.shape[1:])} for k, each in by_row.items()}
            how = {"encoding": chunks}
        several.to_zarr(path, zarr_format=2, consolidated=False, **how)
        with xr.open_zarr(path, consolidated=False, chunks=None) as store:
            written = store.isel(instances=slice(number * size, None)).load()
        if not written.equals(several):
            raise ValueError(f"Expected to read what was written to {path} but it differs.")
    group = zarr.open_group(path, mode="r+", use_consolidated=False)
    if codebook is not None:
        group.attrs["schema"] = json.dumps(codebook.to_dict())
    group.attrs["made_by"] = json.dumps({**made_by, **settings})
    with xr.open_zarr(path, consolidated=False, chunks=None) as store:
        group.attrs["sha256"] = _checksum(store)
    zarr.consolidate_metadata(path, zarr_format=2)


def differences(there: "xr.Dataset", here: "xr.Dataset", tolerance: float) -> list[str]:
    """Names of what two explanations of the same row do not agree on.

    Args:
        there, here: their datasets.
        tolerance: between numbers, relative to the largest one of a kind.
    """
    made, makes = (json.loads(dataset.attrs["made_by"]) for dataset in (there, here))
    names = [name for name in dict.fromkeys([*made, *makes]) if name != "evaluations"]
    changed = [name for name in names if made.get(name) != makes.get(name)]
    if not _header(there).identical(_header(here)):
        return [*changed, "players, outputs, output space or schema"]
    for name in ("phi", "base", "prediction"):
        old, new = there[name].values, here[name].values
        scale = np.nanmax(np.abs(old))
        if not np.allclose(old, new, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            changed.append(name)
    return changed


def check_replaceable(path: Path) -> None:
    """Raise FileExistsError if something that is not an explanation stands at `path`."""
    import zarr

    if not path.exists():
        return
    try:
        ours = zarr.open_group(path, mode="r").attrs.get("format") == _FORMAT
    except Exception:  # Whatever it is, zarr cannot read it.
        ours = False
    if not ours:
        raise FileExistsError(
            f"Expected {path} to be free or to hold an earlier explanation, but something else "
            "stands there; move it away or choose another path."
        )


def _labels(instances: Sequence[Label]) -> "xr.Variable":
    """Labels of rows, written so that those of further rows can be appended."""
    import xarray as xr

    labels = np.array(instances)
    if labels.dtype.kind == "U":  # In a store, longer ones of later rows would be cut.
        labels = labels.astype(object)
    if instances and isinstance(instances[0], datetime):
        return xr.Variable("instances", labels.astype("datetime64[us]"), encoding=_TIMES)
    return xr.Variable("instances", labels)


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


def _checksum(dataset: "xr.Dataset") -> str:
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
    starts = range(0, len(variable), _ROWS_AT_ONCE)
    return (variable[start : start + _ROWS_AT_ONCE].values for start in starts)


def _header(dataset: "xr.Dataset") -> "xr.Dataset":
    """What all blocks of rows have in common."""
    header = dataset.drop_dims("instances")
    own = ("made_by", "sha256")
    header.attrs = {key: entry for key, entry in dataset.attrs.items() if key not in own}
    if "schema" in header.attrs:
        schema = json.loads(header.attrs["schema"])
        # Each block has the values of its own rows.
        header.attrs["schema"] = {k: each for k, each in schema.items() if k != "vocabularies"}
    return header


def _alike(part: Path, first: "xr.Dataset", with_covariance: bool) -> "xr.Dataset":
    """A block of rows, checked to go with the first one; all have a covariance, or none."""
    dataset = load(part).drop_encoding()
    if dataset["instances"].dtype.kind == "M":
        dataset["instances"].encoding = dict(_TIMES)
    if not _header(dataset).identical(_header(first)):
        raise ValueError(
            f"Expected every block to have the players, outputs and attributes of the first one "
            f"but {part} has others; an estimator gives the same ones for all rows."
        )
    if with_covariance and "covariance" not in dataset:
        # Zero where the standard errors are, and unknown elsewhere.
        error = dataset["standard_error"]
        square = np.where(error == 0, error, np.nan)[..., None].repeat(error.sizes["outputs"], -1)
        dataset["covariance"] = ((*error.dims, "outputs_too"), square)
    return dataset


def _codebook(dataset: "xr.Dataset") -> "Codebook | None":
    schema = dataset.attrs.get("schema")
    return codebook_of(schema_from(json.loads(schema)) if schema else None)


def _recode(block: "xr.Dataset", codebook: "Codebook") -> None:
    """Give the rows of a block the codes of a codebook, which learns their values by it."""
    own = cast("Codebook", _codebook(block))
    with warnings.catch_warnings():
        # What training had none of was said when the rows were explained.
        warnings.simplefilter("ignore", UserWarning)
        codes = codebook.rows(own.frame(_tensor(block, "x")))
    block["x"] = (block["x"].dims, codes.numpy())


def _merged(known: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """How the rows of two explanations were made."""
    both = {**other, **known}
    for name in known.keys() & other.keys():
        if isinstance(known[name], (int, float)) and isinstance(other[name], (int, float)):
            join = sum if name in ("evaluations", "rows_far_outside") else max
            both[name] = join((known[name], other[name]))
    return both
