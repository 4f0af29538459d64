"""Writes explanations of many rows as a folder of Parquet files, one for each block."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manifold_shap._version import __version__
from manifold_shap.explanation import Explanation
from manifold_shap.io.files import digest
from manifold_shap.io.frames import wide_frame
from manifold_shap.io.joined import merged
from manifold_shap.io.places import PARTS, Place

FORMAT = "manifold_shap explanation in Parquet"


def check_replaceable(place: Place) -> None:
    """See that a folder of Parquet files can be written.

    Raises:
        FileExistsError: something that is no such folder stands there.
        ImportError: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"Expected pyarrow, to write {place}, but it is not installed: "
            "`pip install 'manifold_shap[tables]'`."
        ) from error
    if place.is_free():
        return
    try:
        content = place.find()
        known = None if content is None else content.manifest or _listed(content.place)
        ours = known is not None and known["format"] == FORMAT
    except (ValueError, KeyError, TypeError):  # Of another program.
        ours = False
    if not ours:
        raise FileExistsError(
            f"Expected {place} to be free or to hold the Parquet files of an earlier explanation, "
            "but something else stands there; move it away or choose another path."
        )


def _listed(place: Place) -> dict[str, Any] | None:
    parts = (place / PARTS).read()
    return None if parts is None else json.loads(parts)


def join(parts: Sequence[Path], path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Write a Parquet file for each part, and last a list of them.

    Args:
        parts: explanations, in the order of their rows.
        path: a folder, where nothing is.
        settings: of the whole, for `made_by`; see `manifold_shap.io.joined.join`.

    Returns:
        What a manifest says of the folder.

    Raises:
        ValueError: a part is damaged or has other columns than the first, or what was written is
            not what is read back.
        OSError: no space or no permission.
    """
    path.mkdir()
    listed, made_by = list[dict[str, Any]](), dict[str, Any]()
    columns = header = None
    for number, part in enumerate(parts):
        explanation = Explanation.load(part)
        frame = wide_frame(explanation)
        columns = columns if header else list(frame.columns)
        if columns != list(frame.columns):
            raise ValueError(
                f"Expected every block to have the players and outputs of the first one but "
                f"{part} has others; an estimator gives the same ones for all rows."
            )
        made_by = merged(made_by, explanation.made_by)
        header = {
            "players": explanation.players.names,
            "outputs": explanation.outputs,
            "space": explanation.space.settings,
        }
        buffer, file = io.BytesIO(), path / f"{number:06d}.parquet"
        frame.to_parquet(buffer, engine="pyarrow", index=True)
        file.write_bytes(buffer.getbuffer())
        checksum = digest(buffer.getvalue())
        if digest(file.read_bytes()) != checksum:
            raise ValueError(f"Expected to read what was written to {file} but it differs.")
        listed.append({"name": file.name, "rows": len(frame), "sha256": checksum})
    known: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        **(header or {}),
        "made_by": {**made_by, **settings},
        "parts": listed,
    }
    (path / PARTS).write_text(json.dumps(known, indent=1))
    return {"format": FORMAT, "sha256": digest(known)}
