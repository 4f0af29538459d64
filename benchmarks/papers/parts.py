"""What a long experiment has finished, kept in files: an interrupted one goes on from there."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from manifold_shap.io.files import write_whole


def kept(path: Path, settings: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """What `make` returns, or returned when `path` was written, if settings were the same.

    Args:
        path: of the file, which is written beside and then renamed.
        settings: all that decides on the outcome, as plain values.
        make: gives what can be written as JSON.
    """
    wanted = json.loads(json.dumps(settings))
    if path.exists():
        part = json.loads(path.read_text())
        if part["settings"] == wanted:
            return part["found"]
    text = json.dumps({"settings": wanted, "found": make()}, indent=2) + "\n"
    write_whole(path, lambda beside: beside.write_text(text))
    return json.loads(text)["found"]
