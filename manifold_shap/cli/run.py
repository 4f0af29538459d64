"""Opens a run: its settings, its directory, and the value function, data and model behind it."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from hydra.utils import instantiate

from manifold_shap._checks import check_seed
from manifold_shap._messages import check_flag
from manifold_shap._stored import sample_of
from manifold_shap.cli import component
from manifold_shap.cli.directory import CONFIG, Directory, damaged, differences, read_config
from manifold_shap.cli.registry import Settings, Source
from manifold_shap.data.base import TensorDataModule
from manifold_shap.imputers import Imputer
from manifold_shap.io.files import digest
from manifold_shap.models import Model, as_model
from manifold_shap.spaces import OutputSpace
from manifold_shap.tables.rows import codebook_of
from manifold_shap.training.classifier import load_classifier
from manifold_shap.values import ValueFunction, imputed_value

# What every record of a run has, and that of a value function besides.
_GROUPS = ("data", "classifier")
_OF_VALUE = (*_GROUPS, "value_function")


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
        classifier: the directory of the model to explain.
        source: the value function of the run.
        drawn: the value functions that are drawn, by name.

    Raises:
        TypeError, ValueError: settings that cannot be, such as a name that names no directory.
    """

    def __init__(self, settings: Settings, directory: Path | None = None) -> None:
        self.settings = dict(settings)
        self.seed = check_seed(settings["seed"])
        self.progress = check_flag("progress", settings["progress"])
        own = {**settings["value_function"]}
        self.own_model = settings.get("model")
        if self.own_model is not None:
            path = Path(str(self.own_model.get("path", "")))
            known = {key: entry for key, entry in self.own_model.items() if key != "batch_size"}
            known["checksum"] = digest(path.read_bytes()) if path.is_file() else None
            self.settings["classifier"] = known
        data = settings["data"]
        task = data.get("task") or resolve_name(data["_target_"]).task
        self.usual_space = "identity" if task == "regression" else "probability"
        own["space"] = own["space"] or self.usual_space
        self.name = component("value_function.name", own["name"])
        self.home = Path(settings["runs_dir"], component("data.name", data["name"]))
        self.directory = Directory(directory or self.home / self.name)
        self.is_sweep = directory is not None
        self.classifier = self.home / "classifier"
        self.source = Source(own)
        self.drawn: dict[str, Source] = {}

    def open(self, given: Sequence[str] = ()) -> None:
        """Find what was trained.

        Data and value function are those that were recorded, and need not be typed again.

        Args:
            given: names of the settings that the user gave: they must agree with the record, or
                replace it where no checkpoint depends on them.

        Raises:
            FileNotFoundError: nothing was trained.
            ValueError: a given setting disagrees, the data are others now, or a file is damaged.
        """
        checkpoint = self.settings["checkpoint"]
        if checkpoint is not None:
            self.directory = Directory(self._place_of(Path(checkpoint)))
        self.source = self.find(self.source.settings, given, checkpoint)
        config = self.source.config or self._of_model()
        if config is None:
            raise _untrained(f"classifier in {self.classifier}")
        self._take_data(config, given)
        self._choose_classifier(config)

    @property
    def trainer(self) -> Any:
        """Arguments of `lightning.Trainer`, for one training: what a `_target_` names is made."""
        return instantiate(self.settings["trainer"], _convert_="all")

    def find(
        self, settings: Settings, given: Sequence[str] = (), checkpoint: str | None = None
    ) -> Source:
        """The value function of a run on these data, in its directory or in a file.

        Raises:
            FileNotFoundError: it has to be trained first.
            ValueError: a setting that the user gave disagrees with the record.
        """
        name, place = settings["name"], self.home / settings["name"]
        if not Source(dict(settings)).is_trained:
            config = read_config(place, *_OF_VALUE)
            return Source(_agreed(settings, config, given, place))
        path = place / f"{name}.ckpt" if checkpoint is None else Path(checkpoint)
        if not path.exists():
            raise _untrained(f"value function in {place}")
        config = read_config(path.parent, *_OF_VALUE)
        return Source(_agreed(settings, config, given, path.parent), path, config)

    def made(self, source: Source, space: OutputSpace, **more: Any) -> Any:
        """A value function or an imputer: made or, if there is a checkpoint, loaded.

        Args:
            source: where it comes from.
            space: the output space.
            more: what is offered beside what the run has.
        """
        data = self.data
        offered = {
            "data": data,
            "reference": sample_of(data.x_train),
            "x_train": data.x_train,
            "x_validation": data.x_validation,
            "players": data.players,
            "schema": data.schema,
            "codebook": codebook_of(data.schema),
            "model": self.model,
            "classifier": self.classifier,
            "space": space,
            "seed": self.seed,
            "progress": self.progress,
            **more,
        }
        if source.path is None:
            return source.call("_target_", offered)
        if source.is_as_trained:
            # Validation rows decide on settings that were left open; they are in the checkpoint.
            del offered["x_validation"]
        return source.call("_load_", {**offered, "path": source.path})

    def value(self, source: Source, space: OutputSpace | None = None) -> ValueFunction:
        """A value function for the model of this run.

        Args:
            source: see `find`.
            space: instead of that of the settings, unless a training has decided it.
        """
        space = space or source.space
        value = self.as_value(self.made(source, space), source, space)
        names, expected = value.players.names, self.data.players.names
        if names != expected:
            raise ValueError(
                f"Expected a value function for {self.data.name}, with {len(expected)} players, "
                f"but the one in {source.path} is for {len(names)}: {', '.join(names[:5])} ..."
            )
        return value

    def as_value(self, made: Any, source: Source, space: OutputSpace) -> ValueFunction:
        """The value function that was made, or the one of an imputer that was made."""
        if not isinstance(made, Imputer):
            return made
        return imputed_value(self.model, made, space, source.settings.get("draws", 1), self.seed)

    @cached_property
    def data(self) -> TensorDataModule:
        """The data, after `setup`; their class is named by this call, not by a file of a run."""
        own = self.settings["data"]
        given = {key: own[key] for key in own if key != "_target_"}
        groups, of_user = self.settings.get("players"), self.own_model is not None
        data = resolve_name(own["_target_"])(**given, groups=groups, own_model=of_user)
        data.setup()
        return data

    @cached_property
    def rows(self) -> str:
        """A checksum of the training rows: the same settings on another file are another run."""
        return digest(*self.data.content)

    @cached_property
    def model(self) -> Model:
        """The model to explain."""
        own, data = self.own_model, self.data
        if own is None:
            return load_classifier(self.classifier, data)
        how = ("returns", "classes", "batch_size", "_target_")
        model = resolve_name(own["_target_"])(**{k: own[k] for k in own if k not in how})
        names, returns = own["classes"], own["returns"]
        if data.task == "regression":
            returns = returns or "values"
            names = names or (data.outputs if len(data.y_test) else None)
        return as_model(model, data.few_rows, names, returns, own["batch_size"])

    @property
    def classifier_config(self) -> dict[str, Any]:
        """The settings that decide the classifier, and the checksum of its training rows."""
        data = {key: entry for key, entry in self.settings["data"].items() if key != "root"}
        own = {"seed": self.seed, "data": data, "rows": self.rows}
        return {**own, "classifier": self.settings["classifier"]}

    def other_classifier(self, config: Settings) -> Path:
        """Where a classifier lives that a job of a sweep has trained beside the usual one."""
        return self.home / "classifiers" / digest(classifier_part(config))[:8]

    def _take_data(self, config: Settings, given: Sequence[str]) -> None:
        """Take the data settings of a training. Those that the user gave must agree."""
        if "classifier" in given:  # The choice of a kind; its settings come with it.
            given = [*given, "classifier._target_"]
        _check_same_model(config, self.settings, self.source.serves_any_model, self.home)
        _check_given({k: config[k] for k in _GROUPS}, self.settings, given, self.home)
        own, recorded = self.settings["data"], config["data"]
        if unknown := set(recorded) - set(own):
            raise damaged(self.home, f"unknown settings {sorted(unknown)} of the data")
        # What a file says is never imported, nor does it say where anything is.
        here = {key: own[key] for key in ("_target_", "name", "root") if key in own}
        self.settings["data"] = {**own, **recorded, **here}
        if "players" not in given:
            self.settings["players"] = config.get("players")
        elif self.source.config and self.settings["players"] != config.get("players"):
            raise ValueError(
                f"Expected the players that {self.source.path} was trained with, "
                f"{config.get('players')}, but got {self.settings['players']}; leave `players` "
                "out, or train with these (runs_dir=... keeps both)."
            )

    def _of_model(self) -> dict[str, Any] | None:
        """How the classifier was trained, or this call for a model of the user's own."""
        config = read_config(self.classifier, *_GROUPS)
        is_other = config is not None and config["classifier"] != self.settings["classifier"]
        if self.own_model is not None and (config is None or is_other):
            return {**self.classifier_config, "players": self.settings.get("players")}
        return config

    def _choose_classifier(self, config: Settings) -> None:
        """Take the classifier of a training, or the usual one if that is gone.

        A surrogate knows the classifier that it was trained for by its outputs.
        """
        if self.other_classifier(config).exists():
            self.classifier = self.other_classifier(config)
        usual = config
        if self.source.serves_any_model:
            usual = read_config(self.classifier, *_GROUPS) or {}
        if not config["rows"] == usual.get("rows") == self.rows:
            raise ValueError(
                f"Expected the data on which {self.source.path or self.classifier} was "
                "trained, but the training rows are others now; run train.py again, or bring the "
                "old file back."
            )

    def _place_of(self, checkpoint: Path) -> Path:
        """Where the results of a checkpoint go: beside it only if it is that of a run."""
        if not self.source.is_trained:
            raise ValueError(
                "Expected `checkpoint` together with value_function=surrogate or vae, which are "
                f"trained, but got value_function={self.name}; leave one of the two out."
            )
        if not checkpoint.is_file():
            raise FileNotFoundError(f"Expected a checkpoint at {checkpoint} but no file is there.")
        place = checkpoint.resolve().parent
        runs = Path(self.settings["runs_dir"]).resolve()
        if place.is_relative_to(runs) and (place / CONFIG).exists():
            return checkpoint.parent
        return self.home / f"{self.name}-{digest(checkpoint.read_bytes())[:8]}"


def _untrained(what: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"Expected a trained {what} but there is none; run train.py first, with the same settings."
    )


def classifier_part(config: Settings) -> dict[str, Any]:
    """The part of a configuration that decides the classifier."""
    return {key: config.get(key) for key in ("seed", "data", "rows", "classifier")}


def _agreed(
    settings: Settings, config: Settings | None, given: Sequence[str], place: Path
) -> dict[str, Any]:
    """The recorded settings of a value function, with those that the user gave where possible."""
    if config is None:
        return dict(settings)
    recorded = config["value_function"]
    if unknown := set(recorded) - set(settings):
        raise damaged(place, f"unknown settings {sorted(unknown)}")
    if (source := Source(dict(settings))).is_trained:
        fixed = set(settings) - source.free
        there, here = ({key: some.get(key) for key in fixed} for some in (recorded, settings))
        _check_given({"value_function": there}, {"value_function": here}, given, place)
    # What a file says is never imported.
    chosen = [key for key in settings if f"value_function.{key}" in given or key.startswith("_")]
    return {**settings, **recorded, **{key: settings[key] for key in chosen}}


def _check_given(there: Settings, here: Settings, given: Sequence[str], place: Path) -> None:
    """Raise ValueError if a setting that the user gave is another one than that of the run."""
    changes = [
        change
        for group in there
        for change in differences(there[group], here[group], group)
        if change.split(":")[0] in (*given, "data._target_", "value_function._target_")
    ]
    if changes:
        raise ValueError(
            f"Expected the settings that {place} was trained with, but this call says otherwise "
            f"({'; '.join(changes)}); leave them out, or train with them (runs_dir=... keeps both)."
        )


def _check_same_model(there: Settings, here: Settings, serves_any_model: bool, place: Path) -> None:
    """Raise ValueError unless a run was for the same model of the user's own, or for none."""
    recorded, own = there["classifier"], here["classifier"]
    if serves_any_model or "checksum" not in {**recorded, **own} or recorded == own:
        return
    of = {key: entry for key, entry in recorded.items() if key in ("path", "call")}
    raise ValueError(
        f"Expected the model that {place} was made for ({of or 'one that was trained there'}) but "
        f"got {own.get('path') or own.get('call') or 'no `model`'}, or its file has changed; give "
        "model=file model.path=... of the same one, or another runs_dir or data.name."
    )
