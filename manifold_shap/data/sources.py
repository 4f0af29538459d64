"""Finds data files in local folders, and fetches them into the cache when they are not there."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
from torch.hub import download_url_to_file

VARIABLE = "MANIFOLD_SHAP_DATA"


def cache() -> Path:
    """The folder that downloads go to."""
    return Path.home() / ".cache" / "manifold_shap"


def places(root: str | Path | None) -> tuple[Path, ...]:
    """The folders searched, in order: `root` alone where given, else the variable and the cache."""
    if root is not None:
        return (Path(root).expanduser(),)
    named = os.environ.get(VARIABLE)
    return (Path(named).expanduser(), cache()) if named else (cache(),)


def find(root: str | Path | None, relative: str) -> Path | None:
    """The first existing file `relative` among the places, or None.

    Raises:
        PermissionError: a folder is closed to the user.
    """
    candidates = (place / relative for place in places(root))
    return next((path for path in candidates if path.is_file()), None)


def located(root: str | Path | None, path: str, is_folder: bool = False) -> Path:
    """A file or a folder of the user's own: from the working directory, or else in the places.

    Raises:
        FileNotFoundError: there is none.
        PermissionError: a folder is closed to the user.
    """
    direct = Path(path).expanduser()
    there = Path.is_dir if is_folder else Path.is_file
    for candidate in (direct, *(place / path for place in places(root))):
        if there(candidate):
            return candidate
    fix = f"nor is there one at {direct.absolute()}: correct `path`"
    raise missing(root, path, fix, "folder" if is_folder else "file")


def missing(
    root: str | Path | None, relative: str, fix: str, what: str = "file"
) -> FileNotFoundError:
    """The error that names every place looked at for `relative`, and the fix."""
    looked = ", ".join(str(place / relative) for place in places(root))
    return FileNotFoundError(f"Expected the {what} {relative!r} but found none at {looked}; {fix}.")


@contextmanager
def fetching(root: str | Path | None, relative: str) -> Iterator[None]:
    """Guards a download: none is made where `root` was given, and its failure names the fix.

    Raises:
        FileNotFoundError: `root` was given, or the download inside failed.
        PermissionError: a file or folder is closed to the user.
    """
    if root is not None:
        raise missing(root, relative, "correct `root`, or leave it out to have the file fetched")
    try:
        yield
    except PermissionError:
        raise
    # torchvision reports a failed download as RuntimeError; others are OSErrors.
    except (OSError, RuntimeError) as error:
        fix = f"the download failed ({error}): try again, or put the file in a folder and name "
        fix += f"that folder in the environment variable {VARIABLE}"
        raise missing(root, relative, fix) from error


def require(root: str | Path | None, relative: str, url: str) -> Path:
    """The file `relative`, from one of the places or else from `url` into the cache.

    Args:
        root: see `TensorDataModule`.
        relative: the file's path within a place.
        url: where the publisher has it.

    Raises:
        FileNotFoundError: it is in none of the places and was not fetched.
    """
    path = find(root, relative)
    if path is not None:
        return path
    with fetching(root, relative):
        target = cache() / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        download_url_to_file(url, str(target), progress=False)
        return target


def openml(name: str, version: int, columns: Sequence[str]) -> pd.DataFrame:
    """A data set of OpenML, its columns renamed in order, values as the publisher's file has them.

    Raises:
        ValueError: the table has another number of columns.
    """
    from sklearn.datasets import fetch_openml

    bunch = fetch_openml(name, version=version, data_home=str(cache()), as_frame=True)
    return bunch.frame.set_axis(list(columns), axis=1)
