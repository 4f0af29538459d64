"""Finds data files in local folders, and fetches them into the cache when they are not there."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from manifold_shap._messages import check_text

VARIABLE = "MANIFOLD_SHAP_DATA"
_TIMEOUT_SECONDS = 60


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
    return next((path for path in candidates if is_file(path)), None)


def located(root: str | Path | None, path: str, is_folder: bool = False) -> Path:
    """A file or a folder of the user's own: from the working directory, or else in the places.

    Raises:
        FileNotFoundError: there is none.
        PermissionError: a folder is closed to the user.
    """
    if "://" in str(path):
        raise FileNotFoundError(
            f"Expected the path of a {'folder' if is_folder else 'file'} but got the address "
            f"{str(path)!r}; download it first."
        )
    # Unlike `Path.expanduser`, this leaves the home of a user that there is not as it is.
    direct = Path(os.path.expanduser(check_text("path", path)))
    there = Path.is_dir if is_folder else is_file
    found = next(
        (each for each in (direct, *(p / path for p in places(root))) if there(each)), None
    )
    if found is None:
        named = direct.absolute() == Path(path)
        fix = "" if named else f"nor is there one at {direct.absolute()}: "
        fix += "correct `path`"
        raise missing(root, path, fix, "folder" if is_folder else "file")
    return found


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
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def missing(
    root: str | Path | None, relative: str, fix: str, what: str = "file"
) -> FileNotFoundError:
    """The error that names every place looked at for `relative`, and the fix."""
    looked = dict.fromkeys(str(place / relative) for place in places(root))
    looked.pop(relative, None)
    where = f"found none at {', '.join(looked)}" if looked else "there is none"
    return FileNotFoundError(f"Expected the {what} {relative!r} but {where}; {fix}.")


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
    # torchvision reports a failed download as RuntimeError; errors of `requests` are OSErrors.
    except (OSError, RuntimeError) as error:
        fix = f"the download failed ({error}): try again, or put the file in a folder and name "
        fix += f"that folder in the environment variable {VARIABLE}"
        raise missing(root, relative, fix) from error


def require(root: str | Path | None, relative: str, url: str, sha256: str | None = None) -> Path:
    """The file `relative`, from one of the places or else from `url` into the cache.

    Args:
        root: see `TensorDataModule`.
        relative: the file's path within a place.
        url: where the publisher has it.
        sha256: of the file's content, where it is known; only downloads are compared with it.

    Raises:
        FileNotFoundError: it is in none of the places and was not fetched.
        ValueError: what was fetched has another checksum.
    """
    path = find(root, relative)
    if path is not None:
        return path
    with fetching(root, relative):
        import pooch

        pooch.get_logger().setLevel("WARNING")
        target = cache() / relative
        loader = pooch.HTTPDownloader(timeout=_TIMEOUT_SECONDS)
        pooch.retrieve(url, sha256, target.name, target.parent, downloader=loader)
        return target


def openml(name: str, version: int, columns: Sequence[str]) -> pd.DataFrame:
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
