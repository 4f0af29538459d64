"""Where data files are looked for, and how they are fetched when they are not there."""

import http.client
import os
import stat
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

VARIABLE = "MANIFOLD_SHAP_DATA"
_TIMEOUT_SECONDS = 60


def cache() -> Path:
    """The folder downloads go to."""
    return Path.home() / ".cache" / "manifold_shap"


def places(root: str | Path | None) -> tuple[Path, ...]:
    """The folders searched, in order: `root` alone where given, else the variable and the cache."""
    if root is not None:
        return (Path(root).expanduser(),)
    named = os.environ.get(VARIABLE)
    return (Path(named).expanduser(), cache()) if named else (cache(),)


def find(root: str | Path | None, relative: str) -> Path | None:
    """The first existing file `relative` among the places, or None."""
    candidates = (place / relative for place in places(root))
    return next((path for path in candidates if is_file(path)), None)


def is_file(path: Path) -> bool:
    """Whether it is a file; a folder that may not be looked into is an error, not an absence.

    Raises:
        PermissionError: one of its folders is closed to the user.
    """
    # `Path.is_file` hides that error from Python 3.14 on.
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def missing(root: str | Path | None, relative: str, fix: str) -> FileNotFoundError:
    """The error that names every place looked at for `relative`, and the fix."""
    looked = ", ".join(str(place / relative) for place in places(root))
    return FileNotFoundError(f"Expected the file {relative!r} but found none at {looked}; {fix}.")


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
    # torchvision reports a failed download as RuntimeError.
    except (OSError, RuntimeError, http.client.HTTPException) as error:
        fix = f"the download failed ({error}): try again, or put the file in a folder and name "
        fix += f"that folder in the environment variable {VARIABLE}"
        raise missing(root, relative, fix) from error


def require(root: str | Path | None, relative: str, url: str) -> Path:
    """The file `relative`, from one of the places or else from `url` into the cache.

    Raises:
        FileNotFoundError: it is in none of the places and was not fetched.
    """
    path = find(root, relative)
    if path is not None:
        return path
    with fetching(root, relative):
        return download(url, cache() / relative)


def download(url: str, target: Path) -> Path:
    """Fetch `url` into the file `target`, which appears whole or not at all."""
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
        content = response.read()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        partial.write_bytes(content)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def openml(name: str, version: int, columns: tuple[str, ...]) -> pd.DataFrame:
    """A data set of OpenML, its columns renamed in order, values as the publisher's file has them.

    Raises:
        ValueError: the table has another number of columns.
    """
    from sklearn.datasets import fetch_openml

    bunch = fetch_openml(name, version=version, data_home=str(cache()), as_frame=True)
    frame: pd.DataFrame = bunch.frame
    if frame.shape[1] != len(columns):
        raise ValueError(
            f"Expected the OpenML data set {name!r} (version {version}) to have the columns "
            f"{list(columns)} but got {list(frame.columns)}."
        )
    return frame.set_axis(list(columns), axis=1)
