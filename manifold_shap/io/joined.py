"""Joins the zarr stores of blocks of rows into one."""

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from manifold_shap import receipt
from manifold_shap.io.places import LocalPlace
from manifold_shap.io.zarr import (
    FORMAT,
    LAZY,
    ROWS_AT_ONCE,
    TIMES,
    checksum_of,
    header_of,
    load,
    tensor_of,
)
from manifold_shap.tables.rows import codebook_of, schema_from

if TYPE_CHECKING:
    import xarray as xr

    from manifold_shap.tables.codebook import Codebook


def join(parts: Sequence[Path], path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Write one store with the rows of several, of which few are in memory at a time.

    Args:
        parts: stores that `save` wrote, in the order of their rows; all but the last have equally
            many. Where some have a `covariance`, the others get one that is 0 or NaN.
        path: where nothing is.
        settings: of the whole, for its `made_by`. Of those of the parts, `evaluations` add up, and
            of other numbers the largest counts.

    Returns:
        What a manifest says of the store.

    Raises:
        ValueError: a part is damaged or differs from the first in its names or attributes, or
            what was written is not what is read back.
        OSError: no space or no permission.
    """
    import xarray as xr
    import zarr

    first, made_by = load(parts[0]), dict[str, Any]()
    size, with_covariance = len(first["phi"]), any(map(_has_covariance, parts))
    codebook = _codebook(first)
    at_once = max(1, ROWS_AT_ONCE // size)
    for number in range(0, len(parts), at_once):
        blocks = [_alike(part, first, with_covariance) for part in parts[number : number + at_once]]
        for block in blocks:
            made_by = merged(made_by, json.loads(block.attrs["made_by"]))
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
        with xr.open_zarr(path, consolidated=False, **LAZY) as store:
            written = store.isel(instances=slice(number * size, None)).load()
        if not written.equals(several):
            raise ValueError(f"Expected to read what was written to {path} but it differs.")
    group = zarr.open_group(path, mode="r+", use_consolidated=False)
    if codebook is not None:
        group.attrs["schema"] = json.dumps(codebook.to_dict())
    group.attrs["made_by"] = json.dumps({**made_by, **settings})
    with xr.open_zarr(path, consolidated=False, **LAZY) as store:
        checksum = group.attrs["sha256"] = checksum_of(store)
    zarr.consolidate_metadata(path, zarr_format=2)
    return {"format": FORMAT, "sha256": checksum}


def _has_covariance(part: Path) -> bool:
    content = LocalPlace(part).find()
    return content is not None and (content.place.zarr() / "covariance").exists()


def _alike(part: Path, first: "xr.Dataset", with_covariance: bool) -> "xr.Dataset":
    """A block of rows, checked to go with the first one; all have a covariance, or none."""
    dataset = load(part).drop_encoding()
    if dataset["instances"].dtype.kind == "M":
        dataset["instances"].encoding = dict(TIMES)
    if not header_of(dataset).identical(header_of(first)):
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
        codes = codebook.rows(own.frame(tensor_of(block, "x")))
    block["x"] = (block["x"].dims, codes.numpy())


def merged(known: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """How the rows of two explanations were made."""
    both = {**other, **known}
    for name in known.keys() & other.keys():
        if isinstance(known[name], (int, float)) and isinstance(other[name], (int, float)):
            join = sum if name in ("evaluations", "rows_far_outside") else max
            both[name] = join((known[name], other[name]))
        elif name == "receipt":
            both[name] = receipt.merged(known[name], other[name])
    return both
