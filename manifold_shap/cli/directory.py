"""Keeps one directory of results: complete or absent, and replaced by a rename.

Work in progress on `<name>` lives beside it in `<name>.partial`, so that an interruption never
leaves something that looks whole, and what was there before stays until the work is done.
"""

import json
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from manifold_shap.io.files import remove, swap_in, write_whole

CONFIG, METRICS, SUMMARY = "config.json", "metrics.json", "summary.json"
STORE, PLOTS, REPORT = "explanations.zarr", "plots", "report.html"
# The one figure that a training draws.
CURVE = "mse_by_size.png"
# What an interrupted training leaves.
BEST = "best.ckpt"
Config = Mapping[str, Any]


class Directory:
    """A directory of a run: that of a classifier, or of a value function.

    Attributes:
        path: where finished work is.
        work: where work in progress is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path.with_name(f"{path.name}.partial")

    def begin(
        self, config: Config, overwrite: bool, decisive: Callable[[Config], Config] = dict
    ) -> Path:
        """The directory to work in: anew, or where work of this configuration stopped.

        Args:
            config: of the work.
            overwrite: replace finished or interrupted work of another configuration.
            decisive: the part of a configuration that must be the same.

        Raises:
            ValueError: finished or interrupted work of another configuration is there, and
                `overwrite` is false; or files are there that no run wrote.
        """
        self._check_no_other_files()
        if not any(self.work.glob("*.ckpt")):
            remove(self.work)  # It failed before anything was trained.
        for place in (self.path, self.work):
            there = read_config(place)
            changes = differences(decisive(there), decisive(config)) if there else []
            if changes and not overwrite:
                raise ValueError(
                    f"Expected {place} to be free or of this configuration, but it holds the "
                    f"results of another one ({'; '.join(changes[:8])}). Give overwrite=true to "
                    "replace them, or runs_dir=... to keep both."
                )
            if changes and place == self.work:
                remove(self.work)
        self.work.mkdir(parents=True, exist_ok=True)
        write_json(self.work / CONFIG, config)
        return self.work

    def finish(self) -> None:
        """Put the finished work in its place; only then does what was there go."""
        old = swap_in(self.work, self.path)
        if old is not None:
            self._keep_explanations(old)
        remove(old)

    def _keep_explanations(self, old: Path) -> None:
        """Keep explanations that needed no training, and are not outdated by this one."""
        if (old / CONFIG).exists():
            return
        for path in [*old.glob(f"{PLOTS}/*"), *(old / name for name in (STORE, REPORT, SUMMARY))]:
            place = self.path / path.relative_to(old)
            if path.exists() and not place.exists():
                place.parent.mkdir(exist_ok=True)
                path.rename(place)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The record of the explanation that was there when it was first asked for, if any."""
        return read_json(self.path / SUMMARY) or {}

    @property
    def drawn(self) -> list[str]:
        """Figures in `plots` that a run drew, by its own record: others are not its to remove."""
        listed = self.summary.get("figures", [])
        return [path.name for path in self.path.glob(f"{PLOTS}/*") if path.name in listed]

    def _check_no_other_files(self) -> None:
        """Raise if replacing the directory would delete what no run wrote."""
        ours = {CONFIG, METRICS, SUMMARY, STORE, PLOTS, REPORT}
        ours |= {f"{PLOTS}/{name}" for name in (*self.drawn, CURVE)}
        # Hidden ones a run that was killed has left.
        paths = [path for each in ("[!.]*", f"{PLOTS}/[!.]*") for path in self.path.glob(each)]
        names = [str(path.relative_to(self.path)) for path in paths]
        kept = (".ckpt", ".skops")
        others = [name for name in names if name not in ours and Path(name).suffix not in kept]
        if others:
            raise ValueError(
                f"Expected {self.path} to hold the results of a run and nothing else, but it has "
                f"{', '.join(sorted(others)[:5])}; move that away, or choose runs_dir=..."
            )


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
    """What a JSON file holds; nothing if it is damaged, None if there is none."""
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text())
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def read_config(place: Path, *groups: str) -> dict[str, Any] | None:
    """With which configuration the content of a directory was made; None if there is none.

    Args:
        place: the directory.
        groups: of settings that the configuration must have.

    Raises:
        ValueError: the file is damaged.
    """
    config = read_json(place / CONFIG)
    if config is None:
        return None
    missing = [group for group in groups if not isinstance(config.get(group), dict)]
    if not config or missing or (groups and "rows" not in config):
        raise damaged(place / CONFIG, f"it lacks settings of {', '.join(missing or groups)}")
    return config


def damaged(path: Path, why: str) -> ValueError:
    """The error for a record that cannot be what a run wrote."""
    return ValueError(
        f"Expected the record of a run in {path} but it is damaged ({why}); remove that directory "
        "and train again."
    )


def differences(there: Any, here: Any, name: str = "") -> list[str]:
    """What two nested configurations disagree on, as `name: there -> here`."""
    if not (isinstance(there, Mapping) and isinstance(here, Mapping)):
        return [] if there == here else [f"{name}: {there!r} -> {here!r}"]
    return [
        change
        for key in dict.fromkeys([*there, *here])
        for change in differences(there.get(key), here.get(key), f"{name}.{key}".lstrip("."))
    ]
