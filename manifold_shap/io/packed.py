"""Packs the files of a folder into one, and unpacks them, for stores that count requests."""

import io
import zipfile
import zlib
from pathlib import Path

_DAMAGED = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError)


def pack(folder: Path) -> bytes:
    """The files of a folder in one, as they are."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(path, path.relative_to(folder).as_posix())
    return buffer.getvalue()


def unpack(folder: Path) -> None:
    """Make folders, by the same names, of what was packed and is in a folder.

    Raises:
        ValueError: it is damaged.
    """
    for path in list(folder.rglob("*.zip")):
        try:
            with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
                path.unlink()
                archive.extractall(path)
        except _DAMAGED as error:
            raise ValueError(f"Expected a complete block at {path} but it is damaged.") from error
