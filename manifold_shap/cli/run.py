"""A run: its data, its settings and its place."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from manifold_shap.cli.directories import config_of
from manifold_shap.data.base import TensorDataModule

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One training: its data, its settings and its place.

    Attributes:
        data: a data module after `setup`.
        settings: `data`, `classifier`, `value_function` and `seed`, as plain values: what makes
            two runs the same.
        directory: of the value function.
        home: of the data set; the classifier lives here.
        trainer: arguments of `lightning.Trainer`; where to train is not part of what a run is.
        sweep: whether this is one of the jobs of a multirun.
        overwrite: replace what was made with other settings.
        progress: show bars on work of more than two seconds.
        teacher: the value function that a surrogate learns from, if there is one: its `settings`,
            and a checksum of its `checkpoint`.
    """

    data: TensorDataModule
    settings: Settings
    directory: Path
    home: Path
    trainer: Settings
    sweep: bool = False
    overwrite: bool = False
    progress: bool = True
    teacher: Settings | None = None

    @property
    def config(self) -> dict[str, Any]:
        """The settings that decide the result, and checksums of the data and of a teacher."""
        own = {**self.classifier_config, "value_function": self.settings["value_function"]}
        return own if self.teacher is None else {**own, "teacher": dict(self.teacher)}

    @property
    def classifier_config(self) -> dict[str, Any]:
        """The part of it that decides the classifier."""
        data = {key: entry for key, entry in self.settings["data"].items() if key != "root"}
        return {
            "seed": self.settings["seed"],
            "data": data,
            "rows": fingerprint(self.data.x_train, self.data.y_train),
            "classifier": self.settings["classifier"],
        }


def classifier_part(config: Settings) -> dict[str, Any]:
    """The part of a value function's configuration that decides its classifier."""
    return {key: config.get(key) for key in ("seed", "data", "rows", "classifier")}


def classifier_directory(home: Path, config: Settings, sweep: bool) -> Path:
    """Where the classifier of this configuration lives.

    Beside the value functions. The jobs of a sweep may differ in it: those whose classifier is
    not the one that stands there have theirs in a place named by its configuration.
    """
    usual = home / "classifier"
    if not sweep or config_of(usual) in (None, config):
        return usual
    name = zlib.crc32(json.dumps(config, sort_keys=True).encode())
    return home / "classifiers" / f"{name:08x}"


def fingerprint(*tensors: Tensor) -> int:
    """A checksum of data: the same settings on another file are another configuration."""
    checksum = 0
    for tensor in tensors:
        content = tensor.detach().cpu().contiguous()
        checksum = zlib.crc32(content.numpy().tobytes(), checksum)
    return checksum
