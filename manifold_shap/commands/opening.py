"""Opening what a run directory holds: a classifier, and a value function for it."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from manifold_shap.commands import directories
from manifold_shap.commands.run import (
    Settings,
    classifier_directory,
    classifier_part,
    fingerprint,
)
from manifold_shap.commands.value_functions import TRAINED, Source, Trained, make, own_part
from manifold_shap.data.base import TensorDataModule
from manifold_shap.outputs import Space
from manifold_shap.training.classifier import load_classifier
from manifold_shap.values import ValueFunction


class Opened(NamedTuple):
    """A value function, what it was made from, and where its results go."""

    value: ValueFunction
    source: Source
    directory: Path


def open_value(
    home: Path,
    data: TensorDataModule,
    settings: Settings,
    *,
    seed: int = 0,
    given: Sequence[str] = (),
    checkpoint: str | Path | None = None,
    source: Source | None = None,
    space: Space | None = None,
) -> Opened:
    """The value function of a run, or one made on the spot for the classifier of the run.

    An interrupted training serves with its best checkpoint so far, and says so.

    Args:
        home: the directory of the data set's runs.
        data: as `recorded_data` says, after `setup`.
        settings: of the value function.
        seed: of the draws of a sampled one.
        given: names of the settings that the user gave: these must agree with the run, or replace
            what it has where a checkpoint does not depend on them.
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
        return Opened(make(source, _in_space(settings, space)), source, home / name)
    path = Path(checkpoint) if checkpoint is not None else _trained(home, data, name)
    config = directories.config_of(path.parent)
    if config is not None:
        settings = _agreed(kind, config, settings, given, path.parent)
    source = source or _source(home, data, _wanted(kind, home, config), seed)
    if config is not None and config["rows"] != fingerprint(data.x_train, data.y_train):
        raise ValueError(
            f"Expected the data on which the value function in {path.parent} was trained, but the "
            "training rows are others now; train it again."
        )
    value = kind.load(path, source, _in_space(settings, space), False).value
    _check_players(value, data, path)
    return Opened(value, source, path.parent)


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


def _agreed(
    kind: Trained, config: Settings, settings: Settings, given: Sequence[str], place: Path
) -> Settings:
    """The settings of the run, with those that the user gave where they are free."""
    recorded = config["value_function"]
    fixed = {"value_function": own_part(recorded)}, {"value_function": own_part(settings)}
    check_given(*fixed, given, place)
    chosen = {key for key in kind.free if f"value_function.{key}" in given}
    return {**settings, **recorded, **{key: settings[key] for key in chosen}}


def _in_space(settings: Settings, space: Space | None) -> Settings:
    return settings if space is None else {**settings, "output": space}


def _check_players(value: ValueFunction, data: TensorDataModule, path: Path) -> None:
    if value.players.names != data.players.names:
        raise ValueError(
            f"Expected a value function for {data.name}, with {len(data.players)} players, but "
            f"the one in {path} is for {len(value.players)}: "
            f"{', '.join(value.players.names[:5])} ..."
        )


def _trained(home: Path, data: TensorDataModule, name: str) -> Path:
    path = home / name / f"{name}.ckpt"
    best = directories.partial(path.parent) / "best.ckpt"
    if not path.exists() and best.exists():
        print(f"{name}: training was interrupted; its best checkpoint so far is used")
        return best
    if not path.exists():
        raise FileNotFoundError(
            f"Expected a trained value function in {path.parent} but there is none; run "
            f"`python train.py data={data.name} value_function={name}` first, with the same "
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
