"""Keeps run directories: locks, records, and work in progress that takes its place by a rename.

A directory `<name>` is complete or absent. Work in progress lives beside it in `<name>.partial`, so
that an interruption never leaves something that looks whole, and what was there before stays until
the work is done.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import Timeout

from manifold_shap.io import files
from manifold_shap.io.files import remove, swap_in, write_whole

CONFIG, METRICS, SUMMARY = "config.json", "metrics.json", "summary.json"
STORE, PLOTS = "explanations.zarr", "plots"
Config = Mapping[str, Any]
# The one figure that a training draws.
CURVE = "mse_by_size.png"
# What a run directory may hold besides checkpoints.
_OURS = {CONFIG, METRICS, SUMMARY, STORE, f".{STORE}.partial", PLOTS}


@contextmanager
def locked(directory: Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a run directory, which ends with this context or the process.

    Args:
        directory: complete or in progress: both have one lock.
        wait: until another command is done, instead of raising.

    Raises:
        ValueError: another command is at work there.
    """
    path = directory.with_name(f".{directory.name.removesuffix('.partial')}.lock")
    try:
        lock = files.locked(path)
    except Timeout as error:
        if not wait:
            raise ValueError(
                f"Expected {directory} to be free but another train.py or explain.py is at work "
                "in it; wait until that is done, or choose another runs_dir=... ."
            ) from error
        print(f"Waiting for another command that is at work in {directory}")
        lock = files.locked(path, timeout=-1)
    try:
        yield
    finally:
        lock.release()


def check_writable(directory: Path) -> None:
    """Make the directory, or raise.

    Raises:
        OSError: no permission, no space, or a file in the way.
    """
    probe = directory / f".{uuid4().hex}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.write_text("writable")
    except OSError as error:
        raise type(error)(
            error.errno,
            f"Expected to be able to write runs to {directory} but cannot ({error.strerror}); "
            "choose another place with runs_dir=...",
        ) from error
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file, whole or not at all; NaN and infinities become null."""
    text = json.dumps(_without_nan(content), indent=2, allow_nan=False) + "\n"
    write_whole(path, lambda beside: beside.write_text(text))


def _without_nan(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {key: _without_nan(entry) for key, entry in content.items()}
    if isinstance(content, (list, tuple)):
        return [_without_nan(entry) for entry in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON file; None where there is none.

    Raises:
        ValueError: it is damaged.
    """
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise damaged(path, str(error)) from error
    if not isinstance(content, dict):
        raise damaged(path, f"it holds a {type(content).__name__}")
    return content


def read_config(directory: Path, *groups: str) -> dict[str, Any] | None:
    """With which configuration the content was made; None for an absent or empty directory.

    Args:
        directory: the directory.
        groups: of settings that the configuration must have.

    Raises:
        ValueError: the file is damaged.
    """
    config = read_json(directory / CONFIG)
    missing = [group for group in groups if not isinstance((config or {}).get(group), dict)]
    if config is not None and (missing or (groups and "rows" not in config)):
        raise damaged(directory / CONFIG, f"it lacks settings of {', '.join(missing or groups)}")
    return config


def damaged(path: Path, why: str) -> ValueError:
    """The error for a record that cannot be what a run wrote."""
    return ValueError(
        f"Expected the record of a run in {path} but it is damaged ({why}); remove that directory "
        "and train again."
    )


def in_progress(directory: Path) -> Path:
    """Where work in progress on a directory lives."""
    return directory.with_name(directory.name + ".partial")


def begin(
    directory: Path,
    config: Config,
    overwrite: bool,
    decisive: Callable[[Config], Config] = dict,
) -> Path:
    """Open the work in progress on a directory: new, or continued if it has this configuration.

    Args:
        directory: where the work goes when it is finished.
        config: of the work.
        overwrite: replace finished or interrupted work of another configuration.
        decisive: the part of a configuration that must be the same.

    Returns:
        The directory to work in.

    Raises:
        ValueError: finished or interrupted work of another configuration is there, and
            `overwrite` is false; or files are there that no run wrote.
    """
    work = in_progress(directory)
    _check_no_strangers(directory)
    if not any(work.glob("*.ckpt")):
        remove(work)  # It failed before anything was trained.
    for place in (directory, work):
        there = read_config(place)
        if there is None or not (changes := differences(decisive(there), decisive(config))):
            continue
        if not overwrite:
            raise ValueError(
                f"Expected {place} to be free or of this configuration, but it holds the results "
                f"of another one ({'; '.join(changes[:8])}). Give overwrite=true to replace them, "
                "or runs_dir=... to keep both."
            )
        if place == work:
            remove(work)
    work.mkdir(parents=True, exist_ok=True)
    write_json(work / CONFIG, config)
    return work


def finish(directory: Path, config: Config) -> None:
    """Put the finished work in its place; only then does what was there go.

    Raises:
        ValueError: the work is of another configuration now: someone has written into it.
    """
    work = in_progress(directory)
    if changes := differences(read_config(work), json.loads(json.dumps(config))):
        raise ValueError(
            f"Expected the work in {work} to be this command's own, but another one has written "
            f"into it ({'; '.join(changes[:4])}); train again."
        )
    old = swap_in(work, directory)
    if old is not None:
        if not (old / CONFIG).exists():
            # Explanations that needed no training, and are not outdated by this one.
            for path in [*old.glob(f"{PLOTS}/*"), old / STORE, old / SUMMARY]:
                place = directory / path.relative_to(old)
                if path.exists() and not place.exists():
                    place.parent.mkdir(exist_ok=True)
                    path.rename(place)
        remove(old)


def drawn(directory: Path) -> list[str]:
    """Files in `plots` that a run drew, by its own record: others are not its to remove."""
    listed = (read_json(directory / SUMMARY) or {}).get("figures", [])
    return [name for name in listed if isinstance(name, str) and Path(name).name == name]


def _check_no_strangers(directory: Path) -> None:
    """Raise if replacing the directory would delete what no run wrote."""
    ours = {*_OURS, *(f"{PLOTS}/{name}" for name in (*drawn(directory), CURVE))}
    paths = [*directory.glob("*"), *directory.glob(".*"), *directory.glob(f"{PLOTS}/*")]
    names = [str(path.relative_to(directory)) for path in paths]
    strangers = [
        name for name in names if name not in ours and Path(name).suffix not in (".ckpt", ".skops")
    ]
    if strangers:
        raise ValueError(
            f"Expected {directory} to hold the results of a run and nothing else, but it has "
            f"{', '.join(sorted(strangers)[:5])}; move that away, or choose runs_dir=..."
        )


def differences(there: Any, here: Any, name: str = "") -> list[str]:
    """What two nested configurations disagree on, as `name: there -> here`."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        keys = dict.fromkeys([*there, *here])
        return [
            change
            for key in keys
            for change in differences(
                there.get(key), here.get(key), f"{name}.{key}" if name else str(key)
            )
        ]
    return [] if there == here else [f"{name}: {there!r} -> {here!r}"]
