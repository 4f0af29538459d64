"""Looks at a zarr store before it is read: whether that would run code."""

from typing import Any

FORMAT = "manifold_shap explanation"
# What decodes the arrays of a store that this package writes: numbers and text, no objects.
_CODECS = {"blosc", "vlen-utf8", "zstd", "zlib", "gzip", "lz4"}


class UnsafeStoreError(ValueError):
    """A store that could run code if it were read."""


def check_codecs(files: Any, name: str) -> None:
    """Raise UnsafeStoreError if an array names a codec that `Explanation.save` does not use.

    Some codecs, such as `pickle`, run code from the file.

    Args:
        files: what zarr reads the store from.
        name: of the store, for the error.
    """
    import zarr

    try:
        group = zarr.open_group(files, mode="r", zarr_format=2)
        arrays = list(group.arrays())
    except Exception:  # Whoever reads it says what is wrong with it.
        return
    for array_name, array in arrays:
        found = {str(codec.codec_id) for codec in (*array.filters, *array.compressors)} - _CODECS
        if found:
            raise UnsafeStoreError(
                f"Refused to open {name}: its array {array_name!r} is to be decoded by "
                f"{', '.join(sorted(found))}, which no explanation needs and which can run code; "
                "make it again with `explain.py` or `Explanation.save`."
            )
