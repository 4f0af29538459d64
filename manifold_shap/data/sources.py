"""Finds data files in local folders, and fetches them into the cache when they are not there."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pandas as pd
from torch.hub import download_url_to_file

VARIABLE = "MANIFOLD_SHAP_DATA"
Found = TypeVar("Found")


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


def fetched(name: str, fetch: Callable[[Path], Found]) -> Found:
    """What `fetch` gets from the publisher, into the folder of the cache that it is given.

    Args:
        name: of the file, for errors.
        fetch: gets it.

    Raises:
        FileNotFoundError: the download failed; the places looked at, and what to do.
    """
    try:
        return fetch(cache())
    # torchvision reports a failed download as RuntimeError; others are OSErrors.
    except (OSError, RuntimeError) as error:
        raise FileNotFoundError(
            f"Expected {name!r} in {' or '.join(map(str, places()))}, but it is not there and the "
            f"download failed ({error}): try again, or put the file in a folder and name that "
            f"folder in the environment variable {VARIABLE}."
        ) from error


def require(name: str, url: str) -> Path:
    """A file from one of the places, or else from `url` into the cache.

    Raises:
        FileNotFoundError: it is in none of the places and was not fetched.
    """

    def fetch(folder: Path) -> Path:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        download_url_to_file(url, str(target), progress=False)
        return target

    return find(name) or fetched(name, fetch)


def openml(name: str, version: int, columns: Sequence[str]) -> Callable[[Path], pd.DataFrame]:
    """Fetches a data set of OpenML, its columns renamed in order."""

    def fetch(folder: Path) -> pd.DataFrame:
        from sklearn.datasets import fetch_openml

        bunch = fetch_openml(name, version=version, data_home=str(folder), as_frame=True)
        return bunch.frame.set_axis(list(columns), axis=1)

    return fetch
