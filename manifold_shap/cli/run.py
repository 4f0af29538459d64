"""Runs: folders with what was trained, and with the settings by which it is found and made again.

A run's `config.yaml` holds choices and values, and in place of a `_target_` the name of the code as
`code`, by which runs are compared and nothing is imported: what is instantiated is composed again
from `conf/`, so that a run from someone else executes nothing.
"""

import inspect
import json
import math
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.utils import instantiate
from omegaconf import OmegaConf, open_dict

from manifold_shap._checks import check_seed
from manifold_shap._messages import check_choice
from manifold_shap._stored import sample_of
from manifold_shap.cli import CONF, targets
from manifold_shap.data import Data
from manifold_shap.imputers import Imputer, table_imputer
from manifold_shap.io.files import digest
from manifold_shap.models import Model, as_model
from manifold_shap.saving import FILES, fingerprint, is_saved
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.training.classifier import fit_classifier, load_classifier, quality
from manifold_shap.values import ValueFunction, imputed_value

CONFIG, METRICS = "config.yaml", "metrics.json"
_GROUPS = ("data", "classifier", "model", "value_function")
_SHARED = ("seed", "players", "space", "zero_replacement")
# Settings of a value function that are not arguments of its target.
_NOT_ITS = ("name", "title", "draws")
# What is left of a training while it is under way.
_WORK, _LIGHTNING = "training", ("last.ckpt", "best.ckpt")


class Run:
    """What one of the commands works on: settings, folders, data and model.

    Args:
        cfg: of the command, composed.
        choices: the names of the files of `conf` that it was composed from, by group.
        place: of its results; by default that of its data and value function.

    Attributes:
        home: the folder of all runs on these data.
        name: of the value function.
        checkpoint: the folder in which the value function was saved.
        recorded: what `config.yaml` of the run says; None where there is none.

    Raises:
        ValueError: a name that names no folder.
    """

    def __init__(self, cfg: Any, choices: Mapping[str, Any], place: Path | None = None) -> None:
        self.cfg, self.choices = cfg, choices
        self.name = _folder("value_function.name", cfg.value_function.name)
        self.home = Path(cfg.runs_dir).expanduser() / _folder("data.name", cfg.data.name)
        self.place = place or self.home / self.name
        self.checkpoint = Path(cfg.get("checkpoint") or self.place)
        self.recorded = read_config(self.place)
        self.seed = check_seed(cfg.seed)

    @cached_property
    def data(self) -> Data:
        """The data, split and encoded."""
        load = instantiate(self.cfg.data, _partial_=True, _convert_="all")
        return load(groups=plain(self.cfg.players), own_model=self.cfg.get("model") is not None)

    @cached_property
    def model(self) -> Model:
        """The model to explain: the user's own, or the classifier that was trained here.

        Raises:
            FileNotFoundError: none was trained with these settings.
        """
        own, data = plain(self.cfg.get("model")), self.data
        if own is None:
            if not (self.classifier / CONFIG).exists():
                raise _untrained("classifier", self.classifier)
            return load_classifier(self.classifier, data)
        how = [own.pop(name) for name in ("classes", "returns", "batch_size")]
        made = instantiate(own, _partial_=True)()
        if data.task == "regression":
            how[1] = how[1] or "values"
            how[0] = how[0] or (data.outputs if len(data.y_test) else None)
        return as_model(made, data.few_rows, *how)

    @property
    def classifier(self) -> Path:
        """The folder of the classifier of these settings."""
        return self.home / "classifiers" / digest(self._of_classifier)[:8]

    def train_classifier(self, trainer: Any) -> None:
        """Train the classifier of the settings, unless it is there."""

        def make(work: Path) -> dict[str, Any]:
            recipe = instantiate(self.cfg.classifier, _convert_="all")
            seconds = fit_classifier(recipe, self.data, work, trainer(), self.cfg.progress)
            found = quality(load_classifier(work, self.data), self.data)
            return {"train_seconds": seconds, **found}

        # The jobs of a sweep may run at once, and the first of them trains it.
        self.classifier.mkdir(parents=True, exist_ok=True)
        with FileLock(self.classifier.with_name(f".{self.classifier.name}.lock")):
            once(self.classifier, self._of_classifier, False, make, "classifier")

    @cached_property
    def target(self) -> Any:
        """What makes the value function, or its imputer: a `functools.partial`."""
        own = {k: each for k, each in self.cfg.value_function.items() if k not in _NOT_ITS}
        return instantiate(own, _partial_=True, _convert_="all")

    @property
    def is_trained(self) -> bool:
        """Whether the value function is trained, and saved."""
        return self.target.func in targets.TRAINED

    @property
    def title(self) -> str:
        """What figures and tables call the value function."""
        return self.cfg.value_function.get("title") or self.name

    @cached_property
    def space(self) -> OutputSpace:
        """The output space of the value function."""
        usual = "identity" if self.data.task == "regression" else "probability"
        return as_space(self.cfg.space or usual, zero_replacement=self.cfg.zero_replacement)

    def value(self, path: Path | None = None, trainer: Any = None) -> ValueFunction:
        """The value function, from its folder where it is trained.

        Args:
            path: of the folder, to be trained where it is not there.
            trainer: arguments of `lightning.Trainer` for a training.

        Raises:
            FileNotFoundError: it is not there, and no `path` is named.
        """
        target, draws = self.target, self.cfg.value_function.get("draws", 1)
        if self.is_trained:
            if path is None and not is_saved(self.checkpoint):
                raise _untrained("value function", self.checkpoint)
            made = target(self, path or self.checkpoint, trainer)
        elif inspect.isclass(target.func):
            made = self._imputer(target)
        else:
            made = target(self)
        if isinstance(made, Imputer):
            return imputed_value(self.model, made, self.space, draws, self.seed)
        return made

    def _imputer(self, target: Any) -> Imputer:
        reference, table = sample_of(self.data.x_train), self.data.table
        if table is None:
            offered = {"reference": reference, "players": self.data.players}
            takes = inspect.signature(target.func).parameters
            return target(**{name: offered[name] for name in offered if name in takes})
        return table_imputer(target.func, table, reference, **target.keywords)

    def beside(self, name: str) -> "Run":
        """Another value function of the same data and model, with the settings of its run, if any.

        Raises:
            ValueError: there is no such value function.
        """
        if name == self.name:
            return self
        check_choice("value_function", name, options("value_function"))
        found = composed("train", f"value_function={name}").value_function
        _merge(found, (read_config(self.home / name) or {}).get("value_function", {}))
        other = copy(self)
        vars(other).pop("target", None)
        other.cfg = self.cfg.copy()
        other.cfg.value_function = found
        other.choices = {**self.choices, "value_function": name}
        other.name, other.place = name, self.home / name
        other.checkpoint = other.place
        other.recorded = read_config(other.place)
        return other

    @property
    def _of_classifier(self) -> dict[str, Any]:
        """What decides the model to explain: settings, and checksums of rows and files."""
        groups = ("data", "classifier") if self.cfg.get("model") is None else ("data", "model")
        found = {group: inert(plain(self.cfg.get(group))) for group in groups}
        for name in ("root", "batch_size") if self.cfg.get("model") is not None else ("root",):
            found["data"].pop(name, None)
        if "model" in found:
            files = [found["model"].get(name) for name in ("path", "weights")]
            found["model"]["checksums"] = [
                digest(Path(file).read_bytes()) for file in files if file and Path(file).is_file()
            ]
        chosen = {group: self.choices[group] for group in groups}
        return {"choices": chosen, "seed": self.seed, **found, "rows": self._rows}

    @cached_property
    def _rows(self) -> str:
        return digest(*self.data.content)

    @property
    def record(self) -> dict[str, Any]:
        """What `config.yaml` says: all that decides the value function, as plain data."""
        record = self._of_classifier
        record["choices"]["value_function"] = self.choices["value_function"]
        record |= {name: plain(self.cfg[name]) for name in _SHARED} | {"space": self.space.name}
        record["value_function"] = inert(plain(self.cfg.value_function))
        if teacher := self.cfg.value_function.get("teacher"):
            if teacher == self.name:
                raise ValueError(f"Expected `teacher` to be another value function than {teacher}.")
            other = self.beside(teacher)
            settings = other.record["value_function"]
            record["teacher"] = {"settings": settings, "checkpoint": fingerprint(other.checkpoint)}
        return json.loads(json.dumps(record))

    def decisive(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a record that what was trained depends on: all, but for an imputer.

        An imputer is of the data alone: it serves any model, in any space.
        """
        own = dict(record.get("value_function", {}))
        free = targets.TRAINED.get(self.target.func, ())
        apart = {"title", *free, *({"draws"} if free else ())}
        part = {**record, "value_function": {k: own[k] for k in own if k not in apart}}
        part["choices"] = {**record.get("choices", {})}
        if free:
            for name in ("classifier", "model", "space", "zero_replacement"):
                part.pop(name, None)
                part["choices"].pop(name, None)
        return part


def opened(cfg: Any, job: Any) -> Run:
    """The run that a call of `explain` means, with the settings that were recorded.

    Settings that are typed have to agree with those of a training. Without one, data and classifier
    are those of the other runs on these data, where these agree.

    Args:
        cfg: the settings of the call.
        job: Hydra's own, which have the choices and what was typed.

    Raises:
        ValueError: a setting that is typed is another one than that of the run.
    """
    typed = typed_names(cfg, job)
    run = Run(cfg, job.runtime.choices, _place_of(cfg))
    known = run.recorded or _of_others(run.home)
    if known is None:
        return run
    choices = {
        group: check_choice(f"choices.{group}", choice, options(group))
        for group, choice in known["choices"].items()
        if group in _GROUPS and (group not in typed or job.runtime.choices[group] == choice)
    }
    if cfg.get("model") is not None:  # Another one, which need not be that of other runs.
        choices.pop("classifier", None)
    if choices.get("model") == "python" and cfg.get("model") is None:
        raise ValueError(
            f"Expected the model that was explained, {known['model']['call']}, to be named again, "
            "since it is code: model=python model.call=..."
        )
    words = [f"{group}={choice}" for group, choice in choices.items() if group not in typed]
    again = composed("explain", *words, *job.overrides.task)
    for group in choices:
        own = [name.split(".")[1] for name in typed if name.startswith(f"{group}.")]
        _merge(again[group], known.get(group, {}), own)
    for name in _SHARED if run.recorded else ("seed", "players"):
        if name not in typed:
            again[name] = known.get(name)
    found = Run(again, {**job.runtime.choices, **choices}, run.place)
    if found.recorded and found.is_trained:
        _check_same(run.place, found.decisive(found.recorded), found.decisive(found.record))
    return found


def typed_names(cfg: Any, job: Any) -> list[str]:
    """The names of the settings that were typed.

    Raises:
        ValueError: two models are named.
    """
    names = [word.lstrip("+~").partition("=")[0] for word in job.overrides.task]
    if "classifier" in {name.partition(".")[0] for name in names} and cfg.get("model") is not None:
        raise ValueError("Expected settings of a `model` or of a `classifier` but got both.")
    return names


def _place_of(cfg: Any) -> Path | None:
    """Where the results of a checkpoint go: beside it only if it is that of a run."""
    if cfg.checkpoint is None:
        return None
    path = Path(cfg.checkpoint).expanduser()
    if not is_saved(path):
        raise FileNotFoundError(f"Expected a checkpoint at {path} but nothing was saved there.")
    runs = Path(cfg.runs_dir).expanduser().resolve()
    if path.resolve().is_relative_to(runs) and (path / CONFIG).exists():
        return path
    name = f"{cfg.value_function.name}-{fingerprint(path)[:8]}"
    return runs / cfg.data.name / name


def _of_others(home: Path) -> dict[str, Any] | None:
    """What the runs on the same data say of data and model, where they agree."""
    records = [read_config(path.parent) or {} for path in sorted(home.glob(f"*/{CONFIG}"))]
    records = records or [
        read_config(path.parent) or {} for path in home.glob(f"classifiers/*/{CONFIG}")
    ]
    names = ("choices", "seed", "players", "data", "classifier", "model")
    some = [{name: each[name] for name in names if name in each} for each in records]
    for each in some:
        each["choices"] = {k: v for k, v in each["choices"].items() if k != "value_function"}
    return some[0] if some and all(each == some[0] for each in some) else None


def once(
    place: Path,
    record: dict[str, Any],
    overwrite: bool,
    make: Callable[[Path], dict[str, Any]],
    name: str,
    decisive: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
) -> dict[str, Any]:
    """The metrics of what was made in a folder with these settings, or is made now.

    It is made in a folder inside, where an interrupted training continues; what stands in the
    folder stays until then.

    Args:
        place: the folder.
        record: the settings.
        overwrite: replace what was made with others.
        make: makes files in a folder, and returns metrics.
        name: of what is made.
        decisive: the part of a record that has to be the same.

    Raises:
        ValueError: other settings are there, and `overwrite` is false.
    """
    there, work = read_config(place), place / _WORK
    if there == record and (metrics := read_json(place / METRICS)):
        print(f"{name}: made before with these settings, in {place}")
        return metrics
    if not any(work.glob("*.ckpt")):
        shutil.rmtree(work, ignore_errors=True)  # It failed before anything was trained.
    for folder in (place, work):
        if (known := read_config(folder)) is not None and decisive(known) != decisive(record):
            _check_same(folder, decisive(known), decisive(record), overwrite)
            if folder == work:
                shutil.rmtree(work)
    work.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(OmegaConf.create(record), work / CONFIG)
    if there is not None and decisive(there) == decisive(record):
        for path in place.glob("*"):
            if path.name in FILES:
                shutil.copy(path, work)
        print(f"{name}: what was trained in {place} serves these settings, too")
    metrics = make(work)
    (work / METRICS).write_text(to_json(metrics))
    (place / CONFIG).unlink(missing_ok=True)
    # Last, so that until then an interruption leaves no run.
    for path in sorted(work.iterdir(), key=lambda path: path.name == CONFIG):
        if path.name not in _LIGHTNING:
            path.replace(place / path.name)
    shutil.rmtree(work)
    return metrics


def read_config(place: Path) -> dict[str, Any] | None:
    """The settings of a run; None where there is none.

    Raises:
        ValueError: the file is damaged, or names code.
    """
    path = place / CONFIG
    if not path.is_file():
        return None
    found = plain(OmegaConf.load(path), resolve=False)
    groups = [group for group in ("choices", *_GROUPS) if group == "choices" or group in found]
    if any(not isinstance(found.get(group), dict) for group in groups):
        raise ValueError(f"Expected the settings of a run in {path} but it is damaged.")
    if "_target_" in path.read_text():
        raise ValueError(
            f"Refused {path}: it names code to run (`_target_`), which no run of ours does."
        )
    return found


def read_json(path: Path) -> dict[str, Any]:
    """What a JSON file holds; nothing where there is none."""
    return json.loads(path.read_text()) if path.is_file() else {}


def to_json(content: Any) -> str:
    """JSON, in which NaN and infinities are null."""

    def finite(entry: Any) -> Any:
        if isinstance(entry, Mapping):
            return {key: finite(each) for key, each in entry.items()}
        if isinstance(entry, list | tuple):
            return [finite(each) for each in entry]
        return None if isinstance(entry, float) and not math.isfinite(entry) else entry

    return json.dumps(finite(content), indent=2) + "\n"


def plain(cfg: Any, resolve: bool = True) -> Any:
    """Settings as dicts, lists, numbers and text."""
    if not OmegaConf.is_config(cfg):
        return cfg
    return OmegaConf.to_container(cfg, resolve=resolve, throw_on_missing=resolve)


def inert(settings: Any) -> Any:
    """Settings that name code as `code`, which nothing instantiates."""
    if isinstance(settings, list):
        return [inert(each) for each in settings]
    if not isinstance(settings, dict):
        return settings
    return {"code" if k == "_target_" else k: inert(each) for k, each in settings.items()}


def options(group: str) -> list[str]:
    """The names of the files of a group in `conf`."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def composed(command: str, *words: str) -> Any:
    """The settings of a command, as typed so."""
    if GlobalHydra.instance().is_initialized():
        return compose(command, list(words))
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(command, list(words))


def _merge(settings: Any, recorded: Mapping[str, Any], typed: Sequence[str] = ()) -> None:
    """Take what was recorded, but for what is typed, and for code."""
    with open_dict(settings):
        for name, entry in recorded.items():
            if name not in ("code", "checksums", *typed):
                settings[name] = entry


def _check_same(
    place: Path, there: Mapping[str, Any], here: Mapping[str, Any], overwrite: bool = False
) -> None:
    if (changes := _differences(there, here)) and not overwrite:
        raise ValueError(
            f"Expected the settings of the run in {place} but these differ: "
            f"{'; '.join(changes[:8])}. Leave them out, or train with them: train.py "
            "overwrite=true replaces the run, and runs_dir=... keeps both."
        )


def _differences(there: Any, here: Any, name: str = "") -> list[str]:
    """What two nested configurations disagree on, as `name: there -> here`."""
    if not (isinstance(there, Mapping) and isinstance(here, Mapping)):
        return [] if there == here else [f"{name}: {there!r} -> {here!r}"]
    return [
        change
        for key in dict.fromkeys([*there, *here])
        for change in _differences(there.get(key), here.get(key), f"{name}.{key}".lstrip("."))
    ]


def _folder(setting: str, name: Any) -> str:
    """A name of one folder inside another one, and no way out of it."""
    if name == "classifiers" or not re.fullmatch(r"[^./\\:\0\s][^/\\:\0]*", str(name or "")):
        raise ValueError(
            f"Expected `{setting}` to be the name of one folder, without slashes and with no dot "
            f"in front, but got {name!r}; runs_dir=... says where runs lie."
        )
    return str(name)


def _untrained(what: str, place: Path) -> FileNotFoundError:
    return FileNotFoundError(
        f"Expected a trained {what} at {place} but there is none; run train.py first, with the "
        "same settings."
    )
