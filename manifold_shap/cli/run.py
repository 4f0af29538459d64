"""Opens a run: its settings, its directory, and the value function, data and model behind it."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from manifold_shap._checks import check_seed
from manifold_shap.cli import registry
from manifold_shap.cli.directories import (
    CONFIG,
    damaged,
    differences,
    in_progress,
    locked,
    read_config,
)
from manifold_shap.cli.registry import Settings
from manifold_shap.data.base import TensorDataModule
from manifold_shap.io.files import digest
from manifold_shap.models import Model
from manifold_shap.spaces import OutputSpace
from manifold_shap.training.classifier import load_classifier
from manifold_shap.values import ValueFunction

# What an interrupted training leaves.
BEST = "best.ckpt"
# What every record of a run has.
_GROUPS = ("data", "classifier")


class Found(NamedTuple):
    """A value function of a run, before it is made.

    Attributes:
        settings: as they were recorded, or as this call has them.
        path: the checkpoint, if it is trained.
        config: that of its training, if it was recorded.
    """

    settings: dict[str, Any]
    path: Path | None = None
    config: dict[str, Any] | None = None

    @property
    def title(self) -> str:
        """What figures and tables call it."""
        name = self.settings["title"] or self.settings["name"]
        return f"{name} (half-trained)" if self.is_half_trained else name

    @property
    def is_half_trained(self) -> bool:
        """Whether its training was interrupted, so that the best checkpoint so far stands in."""
        return self.path is not None and self.path.parent.suffix == ".partial"

    @property
    def is_as_trained(self) -> bool:
        """Whether it was completed with the settings that it is to be loaded with."""
        recorded = (self.config or {}).get("value_function", {})
        own = registry.settings_of_loading(self.settings)
        return all(recorded.get(key) == own[key] for key in own) and not self.is_half_trained


class Run:
    """What one of the commands works on: settings, directories, data and model.

    Args:
        settings: of the command, as plain values.
        directory: of a job of a sweep; by default the one that has the value function's name.

    Attributes:
        settings: the same; once a run is opened, with data and value function as recorded.
        home: the directory of all runs on these data.
        directory: of the value function, or of results beside it.
        is_sweep: whether the run is one job of a sweep.
        classifier_directory: of the model to explain.
        found: the value function that was opened.
        drawn: the value functions that are drawn, by name.
        placed: results that have taken the place of earlier ones.

    Raises:
        TypeError, ValueError: a seed that is none, or a name that names no directory.
    """

    def __init__(self, settings: Settings, directory: Path | None = None) -> None:
        self.settings = dict(settings)
        self.seed = check_seed(settings["seed"])
        self.progress = bool(settings["progress"])
        self.name = _component("value_function.name", settings["value_function"]["name"])
        self.home = Path(settings["runs_dir"], _component("data.name", settings["data"]["name"]))
        self.directory = directory or self.home / self.name
        self.is_sweep = directory is not None
        self.classifier_directory = self.home / "classifier"
        self.found = Found(dict(settings["value_function"]))
        self.drawn: dict[str, Found] = {}
        self.placed: list[str] = []

    @classmethod
    @contextmanager
    def open(cls, settings: Settings, given: Sequence[str] = ()) -> Iterator["Run"]:
        """A run that was trained, locked for as long as it is open.

        Its data and value function are those that were recorded, and need not be typed again.

        Args:
            settings: of `explain.py`.
            given: names of the settings that the user gave: they must agree with the record, or
                replace it where no checkpoint depends on them.

        Raises:
            FileNotFoundError: nothing was trained.
            ValueError: a given setting disagrees, the data are others now, a file is damaged, or
                another command is at work here.
        """
        run, checkpoint = cls(settings), settings["checkpoint"]
        if not run.home.is_dir():
            raise FileNotFoundError(_untrained("classifier", run.classifier_directory))
        if checkpoint is not None:
            run.directory = run._place_of(Path(checkpoint))
        with locked(run.directory):
            run.found = run.find(run.found.settings, given, checkpoint)
            config = run.found.config or read_config(run.classifier_directory, *_GROUPS)
            if config is None:
                raise FileNotFoundError(_untrained("classifier", run.classifier_directory))
            run.settings["data"] = _recorded_data(config, settings, given, run.home)
            run._choose_classifier(config)
            if run.found.is_half_trained and checkpoint is None and run.found.path:
                run.directory = run.found.path.parent
            before = run._stamps()
            try:
                yield run
            except KeyboardInterrupt as error:
                raise KeyboardInterrupt(f"{run._fate()} {error}".strip()) from None
            if run._stamps() != before:
                raise ValueError(
                    f"Expected the checkpoints of {run.directory} to stay while they are "
                    "explained, but another command has replaced one; explain again."
                )

    def find(
        self, settings: Settings, given: Sequence[str] = (), checkpoint: str | None = None
    ) -> Found:
        """The value function of a run on these data, in its directory or in a file.

        Raises:
            FileNotFoundError: it has to be trained first.
            ValueError: a setting that the user gave disagrees with the record.
        """
        name, place = settings["name"], self.home / settings["name"]
        if not registry.is_trained(settings):
            return Found(
                _agreed(settings, read_config(place, *_GROUPS, "value_function"), given, place)
            )
        path = place / f"{name}.ckpt" if checkpoint is None else Path(checkpoint)
        if not path.exists() and checkpoint is None:
            path = in_progress(place) / BEST
        if not path.exists():
            what = f"value function, value_function={name},"
            raise FileNotFoundError(_untrained(what, place if checkpoint is None else path))
        config = read_config(path.parent, *_GROUPS, "value_function")
        return Found(_agreed(settings, config, given, path.parent), path, config)

    def value(
        self, found: Found, space: OutputSpace | None = None, anew: bool = False
    ) -> ValueFunction:
        """The value function that was found, for the model of this run.

        Args:
            found: see `find`.
            space: instead of that of the settings, unless a training has decided it.
            anew: choose again what suits the model, where the settings leave it open.
        """
        space = space or registry.space_of(found.settings)
        if found.path is None:
            made = registry.make(found.settings, self, space)
        else:
            anew = anew or not found.is_as_trained
            made = registry.load(found.path, found.settings, self, space, anew)
        value = registry.as_value(made, found.settings, self, space)
        names, expected = value.players.names, self.data.players.names
        if names != expected:
            raise ValueError(
                f"Expected a value function for {self.data.name}, with {len(expected)} players, "
                f"but the one in {found.path} is for {len(names)}: {', '.join(names[:5])} ..."
            )
        return value

    @cached_property
    def data(self) -> TensorDataModule:
        """The data, after `setup`; their class is named by this call, not by a file of a run."""
        own = self.settings["data"]
        data = registry.code(own["_target_"])(**{key: own[key] for key in own if key != "_target_"})
        data.setup()
        return data

    @cached_property
    def rows(self) -> str:
        """A checksum of the training rows: the same settings on another file are another run."""
        return digest(self.data.x_train, self.data.y_train)

    @cached_property
    def model(self) -> Model:
        """The model to explain."""
        return load_classifier(self.classifier_directory, self.data)

    @property
    def classifier_config(self) -> dict[str, Any]:
        """The settings that decide the classifier, and the checksum of its training rows."""
        data = {key: entry for key, entry in self.settings["data"].items() if key != "root"}
        own = {"seed": self.seed, "data": data, "rows": self.rows}
        return {**own, "classifier": self.settings["classifier"]}

    def other_classifier(self, config: Settings) -> Path:
        """Where a classifier lives that a job of a sweep has trained beside the usual one."""
        return self.home / "classifiers" / digest(classifier_part(config))[:8]

    def _choose_classifier(self, config: Settings) -> None:
        """Take the classifier of a training, or the usual one if that is gone.

        A surrogate knows the classifier that it was trained for by its outputs.
        """
        if self.other_classifier(config).exists():
            self.classifier_directory = self.other_classifier(config)
        usual = config
        if registry.serves_any_model(self.found.settings):
            usual = read_config(self.classifier_directory, *_GROUPS) or {}
        if not config["rows"] == usual.get("rows") == self.rows:
            raise ValueError(
                f"Expected the data on which {self.found.path or self.classifier_directory} was "
                "trained, but the training rows are others now; run train.py again, or bring the "
                "old file back."
            )

    def _place_of(self, checkpoint: Path) -> Path:
        """Where the results of a checkpoint go: beside it only if it is that of a run."""
        if not registry.is_trained(self.found.settings):
            trained = registry.names_where("value_function", registry.is_trained)
            raise ValueError(
                f"Expected `checkpoint` together with a value function that is trained ({trained}) "
                f"but value_function={self.name} has none; leave one of the two out."
            )
        if not checkpoint.is_file():
            raise FileNotFoundError(f"Expected a checkpoint at {checkpoint} but no file is there.")
        place = checkpoint.resolve().parent
        runs = Path(self.settings["runs_dir"]).resolve()
        if place.is_relative_to(runs) and (place / CONFIG).exists():
            return checkpoint.parent
        return self.home / f"{self.name}-{digest(checkpoint.read_bytes())[:8]}"

    def place(self, name: str, write: Callable[[Path], object]) -> None:
        """Write a part of the results, which replaces an earlier one."""
        write(self.directory / name)
        self.placed.append(name)

    def _fate(self) -> str:
        """What an interruption leaves of the results."""
        if not self.placed:
            return f"Earlier results in {self.directory} are as they were."
        return (
            f"In {self.directory}, {' and '.join(self.placed)} are new already; what else is there "
            "may be of earlier rows: give the command again."
        )

    def _stamps(self) -> list[tuple[str, int, int]]:
        """What tells whether a file that was read has been replaced."""
        read = [self.found.path] if self.found.path else []
        with suppress(FileNotFoundError):
            read.extend(sorted(self.classifier_directory.iterdir()))
            stats = [(str(path), path.stat()) for path in read]
            return [(path, stat.st_mtime_ns, stat.st_ino) for path, stat in stats]
        return []


def classifier_part(config: Settings) -> dict[str, Any]:
    """The part of a configuration that decides the classifier."""
    return {key: config.get(key) for key in ("seed", "data", "rows", "classifier")}


def _component(setting: str, name: Any) -> str:
    """A name of a directory inside another one, and no way out of it."""
    is_name = isinstance(name, str) and bool(re.fullmatch(r"[^./\\:\0\s][^/\\:\0]*", name))
    if not is_name or name in ("classifier", "classifiers") or name.endswith(".partial"):
        raise ValueError(
            f"Expected `{setting}` to be the name of one directory, without slashes and with no "
            f"dot in front, but got {name!r}; runs_dir=... says where runs lie."
        )
    return name


def _untrained(what: str, place: Path) -> str:
    return (
        f"Expected a trained {what} in {place} but there is none; run `python train.py "
        f"data={place.parent.name}` first, with the same settings and runs_dir."
    )


def _recorded_data(
    config: Settings, settings: Settings, given: Sequence[str], home: Path
) -> dict[str, Any]:
    """The data settings of a training. Those that the user gave must agree."""
    named = [*given, "data._target_"]
    if "classifier" in given:  # The choice of a kind; its settings come with it.
        named.append("classifier._target_")
    _check_given(config, settings, named, home, ("data", "classifier"))
    own, recorded = settings["data"], config["data"]
    unknown = set(recorded) - set(own)
    if unknown:
        raise damaged(home, f"unknown settings {sorted(unknown)} of the data")
    # What a file says is never imported, nor does it say where anything is.
    here = ("_target_", "name", "root")
    return {**own, **recorded, **{key: own[key] for key in here if key in own}}


def _agreed(
    settings: Settings, config: Settings | None, given: Sequence[str], place: Path
) -> dict[str, Any]:
    """The recorded settings of a value function, with those that the user gave where possible."""
    if config is None:
        return dict(settings)
    recorded, free = config["value_function"], registry.free_settings(settings)
    if set(recorded) - set(settings):
        raise damaged(place, f"unknown settings {sorted(set(recorded) - set(settings))}")
    trained = registry.is_trained(settings)
    fixed = [key for key in settings if trained and key not in free]
    there, here = ({key: some.get(key) for key in fixed} for some in (recorded, settings))
    named = [*given, "value_function._target_"]
    _check_given({"value_function": there}, {"value_function": here}, named, place)
    chosen = [key for key in settings if f"value_function.{key}" in given or key == "_target_"]
    return {**settings, **recorded, **{key: settings[key] for key in chosen}}


def _check_given(
    there: Settings,
    here: Settings,
    given: Sequence[str],
    place: Path,
    groups: Sequence[str] = ("value_function",),
) -> None:
    """Raise ValueError if a setting that the user gave is another one than that of the run."""
    changes = [
        change
        for group in groups
        for change in differences(there[group], here[group], group)
        if change.split(":")[0] in given
    ]
    if changes:
        raise ValueError(
            f"Expected the settings that {place} was trained with, but this call says otherwise "
            f"({'; '.join(changes)}); leave them out, or train with them (runs_dir=... keeps both)."
        )
