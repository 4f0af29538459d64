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


def places(root: str | Path | None) -> tuple[Path, ...]:
    """The folders searched, in order: `root` alone, or else the variable's and the cache."""
    if root is not None:
        return (Path(root).expanduser(),)
    named = os.environ.get(VARIABLE)
    return (Path(named).expanduser(), cache()) if named else (cache(),)


def find(root: str | Path | None, *names: str) -> Path | None:
    """The first existing file of these names among the places, or None."""
    paths = (place / name for name in names for place in places(root))
    return next((path for path in paths if path.is_file()), None)


def located(root: str | Path | None, path: str) -> Path:
    """A file or a folder of the user's own: from the working directory, or else in the places.

    Raises:
        FileNotFoundError: there is none.
    """
    looked = [Path(path).expanduser(), *(place / path for place in places(root))]
    for candidate in looked:
        if candidate.exists():
            return candidate
    raise _missing(path, looked, "correct `path`")


def fetched(root: str | Path | None, name: str, fetch: Callable[[Path], Found]) -> Found:
    """What `fetch` gets from the publisher, into the folder of the cache that it is given.

    Args:
        root: the only folder to look in, where none is to be fetched.
        name: of the file, for errors.
        fetch: gets it.

    Raises:
        FileNotFoundError: `root` was given, or the download failed; the places looked at, and what
            to do.
    """
    looked = [place / name for place in places(root)]
    if root is not None:
        raise _missing(name, looked, "correct `root`, or leave it out to have the file fetched")
    try:
        return fetch(cache())
    # torchvision reports a failed download as RuntimeError; others are OSErrors.
    except (OSError, RuntimeError) as error:
        fix = f"the download failed ({error}): try again, or put the file in a folder and name "
        fix += f"that folder in the environment variable {VARIABLE}"
        raise _missing(name, looked, fix) from error


def require(root: str | Path | None, name: str, url: str) -> Path:
    """A file from one of the places, or else from `url` into the cache.

    Raises:
        FileNotFoundError: it is in none of the places and was not fetched.
    """

    def fetch(folder: Path) -> Path:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        download_url_to_file(url, str(target), progress=False)
        return target

    return find(root, name) or fetched(root, name, fetch)


def openml(name: str, version: int, columns: Sequence[str]) -> Callable[[Path], pd.DataFrame]:
    """Fetches a data set of OpenML, its columns renamed in order."""

    def fetch(folder: Path) -> pd.DataFrame:
        from sklearn.datasets import fetch_openml

        bunch = fetch_openml(name, version=version, data_home=str(folder), as_frame=True)
        return bunch.frame.set_axis(list(columns), axis=1)

    return fetch


def _missing(name: str, looked: Sequence[Path], fix: str) -> FileNotFoundError:
    paths = ", ".join(str(path.absolute()) for path in looked)
    return FileNotFoundError(f"Expected {name!r} but found none at {paths}; {fix}.")
