"""Run directories: what was made, with which configuration, and whether it is complete.

A directory `<name>` is complete or absent. Work in progress lives beside it in `<name>.partial`
and takes its place by a rename, so that an interruption never leaves something that looks whole,
and what was there before stays until then.
"""

import json
import math
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from manifold_shap.io.files import swap_in, write_whole

_CONFIG = "config.json"
_OURS = {
    _CONFIG,
    "metrics.json",
    "plots",
    "explanations.zarr",
    ".explanations.zarr.partial",
    "summary.json",
}


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


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file.

    Raises:
        ValueError: it is damaged.
    """
    try:
        return json.loads(path.read_text())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"Expected JSON in {path} but it is damaged ({error}); remove the directory "
            f"{path.parent} and train again."
        ) from error


def config_of(directory: Path) -> dict[str, Any] | None:
    """With which configuration the content was made; None for an absent or empty directory."""
    path = directory / _CONFIG
    return read_json(path) if path.exists() else None


def partial(directory: Path) -> Path:
    """Where work in progress on a directory lives."""
    return directory.with_name(directory.name + ".partial")


Config = Mapping[str, Any]


def _all(config: Config) -> Config:
    return config


def begin(
    directory: Path,
    config: Config,
    overwrite: bool,
    decisive: Callable[[Config], Config] = _all,
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
    work = partial(directory)
    _check_no_strangers(directory)
    if not any(work.glob("*.ckpt")):
        remove(work)  # It failed before anything was trained.
    if not overwrite:
        for place in (directory, work):
            check_same(place, config, decisive)
    there = config_of(work)
    if there is not None and decisive(there) != decisive(config):
        remove(work)
    work.mkdir(parents=True, exist_ok=True)
    write_json(work / _CONFIG, config)
    return work


def finish(directory: Path) -> None:
    """Put the finished work in its place; only then does what was there go."""
    old = swap_in(partial(directory), directory)
    if old is not None:
        if config_of(old) is None:
            _keep_explanations(old, directory)
        remove(old)


def _keep_explanations(old: Path, directory: Path) -> None:
    # Made without a training, as off-manifold ones are, and not outdated by this one.
    for path in [*old.glob("plots/*.png"), old / "explanations.zarr", old / "summary.json"]:
        place = directory / path.relative_to(old)
        if path.exists() and not place.exists():
            place.parent.mkdir(exist_ok=True)
            path.rename(place)


def _check_no_strangers(directory: Path) -> None:
    """Raise if replacing the directory would delete what no run wrote."""
    if not directory.exists():
        return
    strangers = [
        path.name
        for path in directory.iterdir()
        if path.name not in _OURS and path.suffix not in (".ckpt", ".skops")
    ]
    if strangers:
        raise ValueError(
            f"Expected {directory} to hold the results of a run and nothing else, but it has "
            f"{', '.join(sorted(strangers)[:5])}; move that away, or choose runs_dir=..."
        )


def check_same(
    directory: Path, config: Config, decisive: Callable[[Config], Config] = _all
) -> None:
    """Raise ValueError if what is in the directory was made with another configuration."""
    there = config_of(directory)
    if there is not None and (changes := differences(decisive(there), decisive(config))):
        raise ValueError(
            f"Expected {directory} to be free or of this configuration, but it holds the results "
            f"of another one ({'; '.join(changes[:8])}). Give overwrite=true to replace them, or "
            "runs_dir=... to keep both."
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


def remove(path: Path) -> None:
    """Remove a file or a directory, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
