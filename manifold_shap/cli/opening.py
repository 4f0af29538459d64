"""Opening what a run directory holds: a classifier, and a value function for it."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from manifold_shap.cli import directories
from manifold_shap.cli.run import (
    Settings,
    classifier_directory,
    classifier_part,
    fingerprint,
)
from manifold_shap.cli.value_functions import TRAINED, Source, Trained, make, own_part
from manifold_shap.data.base import TensorDataModule
from manifold_shap.spaces import OutputSpace
from manifold_shap.training.classifier import load_classifier
from manifold_shap.values import ValueFunction

# What an interrupted training leaves.
_BEST = "best.ckpt"


class Opened(NamedTuple):
    """A value function, what it was made from, and where its results go.

    Attributes:
        value: the value function.
        source: its data and model.
        directory: of its run.
        settings: by which it was made, `name` included; of a checkpoint that lies beside no record
            of its training, those that it does not depend on.
    """

    value: ValueFunction
    source: Source
    directory: Path
    settings: Settings


def open_value(
    home: Path,
    data: TensorDataModule,
    settings: Settings,
    *,
    seed: int = 0,
    given: Sequence[str] = (),
    checkpoint: str | Path | None = None,
    source: Source | None = None,
    space: OutputSpace | None = None,
) -> Opened:
    """The value function of a run, or one made on the spot for the classifier of the run.

    An interrupted training serves with its best checkpoint so far, and says so.

    Args:
        home: the directory of the data set's runs.
        data: as `recorded_data` says, after `setup`.
        settings: of the value function.
        seed: of the draws of a sampled one.
        given: names of the settings that the user gave: these must agree with the run, or replace
            what it has where no checkpoint depends on them. The others are those of the run.
        checkpoint: a file to use instead of the one of the run.
        source: the model to explain and its data; by default those of the run.
        space: to use instead of the `output` of the settings, unless a training has decided it.

    Raises:
        FileNotFoundError: no value function was trained.
        ValueError: it was trained with other settings, on other data or for another classifier.
    """
    name = settings["name"]
    kind = TRAINED.get(name)
    if kind is None:
        if checkpoint is not None:
            raise ValueError(
                "Expected `checkpoint` together with a value function that is trained "
                f"({' or '.join(TRAINED)}), but value_function={name} has none; leave one of the "
                "two out."
            )
        source = source or _source(home, data, directories.config_of(home / "classifier"), seed)
        settings = _in_space(_agreed(home / name, settings, given), space)
        return Opened(make(source, settings), source, home / name, settings)
    path = Path(checkpoint) if checkpoint is not None else _trained(home, name)
    if checkpoint is None and path.name == _BEST:
        print(f"{name}: training was interrupted; its best checkpoint so far is used")
    config = directories.config_of(path.parent)
    settings = _agreed(path.parent, settings, given)
    source = source or _source(home, data, _wanted(kind, home, config), seed)
    if config is not None and config["rows"] != fingerprint(data.x_train, data.y_train):
        raise ValueError(
            f"Expected the data on which the value function in {path.parent} was trained, but the "
            "training rows are others now; train it again."
        )
    value = kind.load(path, source, _in_space(settings, space), False).value
    _check_players(value, data, path)
    known = ("name", *kind.free) if config is None else settings
    return Opened(value, source, path.parent, {key: settings[key] for key in known})


def teacher_of(home: Path, settings: Settings) -> dict[str, Any]:
    """What a surrogate's teacher is: its settings, and a checksum of its checkpoint if it has one.

    Args:
        home: the directory of the data set's runs.
        settings: of the teacher; only its number of draws comes before what its own run recorded.

    Raises:
        FileNotFoundError: it has to be trained first.
    """
    name = settings["name"]
    path = _trained(home, name) if name in TRAINED else None
    place = path.parent if path is not None else home / name
    agreed = _agreed(place, settings, ["value_function.draws"])
    # The surrogate decides on the space.
    own = {key: agreed[key] for key in agreed if key not in ("output", "zero_replacement")}
    return {"settings": own, "checkpoint": path and zlib.crc32(path.read_bytes())}


def check_given(there: Settings, here: Settings, given: Sequence[str], place: Path) -> None:
    """Raise ValueError if a setting that the user gave is another one than that of the run."""
    changes = [
        change
        for change in directories.differences(there, here)
        if change.split(":")[0].removesuffix(".") in given
    ]
    if changes:
        raise ValueError(
            f"Expected the settings that {place} was trained with, but this call says otherwise "
            f"({'; '.join(changes)}); leave them out, or train with them (runs_dir=... keeps both)."
        )


def _agreed(place: Path, settings: Settings, given: Sequence[str]) -> Settings:
    """The settings of the run in `place`, with those that the user gave where they are free.

    Those that its record does not have, as one of an earlier version, are taken as they come.
    """
    config = directories.config_of(place)
    if config is None:
        return settings
    recorded, kind = config["value_function"], TRAINED.get(settings["name"])
    if kind is not None:
        fixed = {"value_function": own_part(recorded)}, {"value_function": own_part(settings)}
        check_given(*fixed, given, place)
    free = settings if kind is None else kind.free
    chosen = {key for key in free if f"value_function.{key}" in given}
    return {**settings, **recorded, **{key: settings[key] for key in chosen}}


def _in_space(settings: Settings, space: OutputSpace | None) -> Settings:
    if space is None:
        return settings
    return {**settings, **space.settings}


def _check_players(value: ValueFunction, data: TensorDataModule, path: Path) -> None:
    if value.players.names != data.players.names:
        raise ValueError(
            f"Expected a value function for {data.name}, with {len(data.players)} players, but "
            f"the one in {path} is for {len(value.players)}: "
            f"{', '.join(value.players.names[:5])} ..."
        )


def _trained(home: Path, name: str) -> Path:
    """The checkpoint of a run, or the best one so far of an interrupted training."""
    path = home / name / f"{name}.ckpt"
    best = directories.partial(path.parent) / _BEST
    if not path.exists() and best.exists():
        return best
    if not path.exists():
        raise FileNotFoundError(
            f"Expected a trained value function in {path.parent} but there is none; run "
            f"`python train.py data={home.name} value_function={name}` first, with the same "
            "runs_dir."
        )
    return path


def _wanted(kind: Trained, home: Path, config: Settings | None) -> Settings | None:
    """The configuration whose classifier a value function is opened for.

    One that serves every classifier is opened for that of its run, as long as it is there.
    """
    usual = directories.config_of(home / "classifier")
    if config is None:
        return usual
    directory = classifier_directory(home, classifier_part(config), sweep=True)
    there = directories.config_of(directory) == classifier_part(config)
    return config if kind.of_one_model or there else usual


def _source(home: Path, data: TensorDataModule, config: Settings | None, seed: int) -> Source:
    """The classifier that a value function of this configuration was trained for."""
    usual = directories.config_of(home / "classifier") or {}
    wanted = classifier_part(config) if config is not None else usual
    directory = classifier_directory(home, wanted, sweep=True)
    there = directories.config_of(directory)
    if there != wanted:
        changes = "; ".join(directories.differences(wanted, there or usual)[:4])
        raise ValueError(
            f"Expected the classifier for which the value function was trained, but the one in "
            f"{home} is another ({changes}); train the value function again."
        )
    if wanted.get("rows") != fingerprint(data.x_train, data.y_train):
        raise ValueError(
            f"Expected the data on which the classifier in {directory} was trained, but the "
            "training rows are others now; run train.py again, or bring the old file back."
        )
    return Source(data, load_classifier(directory, data), directory, seed)
