"""Finds data files in local folders, and fetches them into the cache when they are not there."""

import os
from pathlib import Path

from torch.hub import download_url_to_file

VARIABLE = "MANIFOLD_SHAP_DATA"


def cache() -> Path:
    """The folder that downloads go to."""
    return Path.home() / ".cache" / "manifold_shap"


def places() -> tuple[Path, ...]:
    """The folders searched, in order: that of the environment variable, and the cache."""
    named = os.environ.get(VARIABLE)
    return (Path(named).expanduser(), cache()) if named else (cache(),)


def find(*names: str) -> Path | None:
    """The first existing file of these names among the places, or None."""
    paths = (place / name for name in names for place in places())
    return next((path for path in paths if path.is_file()), None)


def require(name: str, url: str) -> Path:
    """A file from one of the places, or else from `url` into the cache.

    Raises:
        FileNotFoundError: it is in none of the places, and the download failed; what to do.
    """
    if found := find(name):
        return found
    target = cache() / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        download_url_to_file(url, str(target), progress=False)
    except (OSError, RuntimeError) as error:  # torch reports a wrong size as RuntimeError.
        raise FileNotFoundError(
            f"Expected {name!r} in {' or '.join(map(str, places()))}, but it is not there and the "
            f"download failed ({error}): try again, or put the file in a folder and name that "
            f"folder in the environment variable {VARIABLE}."
        ) from error
    return target
