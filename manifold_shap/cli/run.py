"""Runs: folders with what was trained, and with the settings from which it is composed again.

A run's `config.yaml` holds choices and values, and no `_target_`: what is instantiated is composed
again from `conf/`, so that a run from someone else executes nothing.
"""

import inspect
import json
import shutil
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.utils import get_method, instantiate
from omegaconf import OmegaConf, open_dict

import manifold_shap as ms
from manifold_shap._messages import check_choice, shown, warn
from manifold_shap._stored import sample_of
from manifold_shap.cli import CONF
from manifold_shap.data import Data
from manifold_shap.imputers import Imputer, table_imputer
from manifold_shap.io.files import digest
from manifold_shap.saving import SETTINGS
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.training.classifier import fit_classifier, load_classifier, quality

CONFIG, METRICS = "config.yaml", "metrics.json"
_SHARED = ("seed", "players", "space", "unit")
# Test rows whose labels tell whether the classes of a model are in order, at most.
_LABELLED = 512
# Settings of a value function that are not arguments of its target.
_NOT_ITS = ("name", "draws", "teacher", "teacher_draws")
# Completions of an imputer whose settings name no number, where it has as many.
_DRAWS = 32
# What is left of a training while it is under way, in a folder of this name.
_WORK, _LIGHTNING = "training", ("last.ckpt", "best.ckpt")


def data_of(cfg: Any) -> Data:
    """The data of the settings, split and encoded."""
    return _partial(plain(cfg.data))(groups=plain(cfg.players))


def model_of(cfg: Any, data: Data) -> ms.Model:
    """The model to explain: the user's own, or the classifier of these settings.

    One that is not there is trained.
    """
    own = plain(cfg.get("model"))
    if own is None:
        place = classifier_place(cfg, data)
        if read_config(place) is None:
            data.check_labels()
            # The jobs of a sweep may run at once, and the first of them trains it.
            place.mkdir(parents=True, exist_ok=True)
            with FileLock(place.with_name(f".{place.name}.lock")):
                once(place, _of_classifier(cfg, data), False, partial(_classifier, cfg, data))
        return load_classifier(place, data)
    classes, returns, size = (own.pop(name, None) for name in ("classes", "returns", "batch_size"))
    if data.task == "regression":
        returns = returns or "values"
        classes = classes or (data.outputs if len(data.y_test) else None)
    rows = data.x_test[:64]
    given = data.table or (rows.long() if data.kind == "texts" else rows)
    model = ms.as_model(_partial(own)(), given, classes, returns, size)
    nameless = classes is None and not model.predictor.classes and model.returns != "values"
    if nameless and len(model.classes) == len(data.classes):
        model.classes = data.classes
    fit, labelled = quality(model, data, _LABELLED), min(_LABELLED, len(data.y_test))
    if "r2" in fit and data.task == "regression":
        share = f"{100 * fit['r2']:.0f} % of the variance of the target"
        told = share if fit["r2"] > 0 else "less of the target than its mean does,"
        print(f"The model explains {told} of {labelled} test rows.")
    if (right := fit.get("accuracy")) is not None:
        agreement = f"agrees with {100 * right:.0f} % of the labels of {labelled} test rows"
        print(f"The model, of {shown(model.classes)}, {agreement}.")
        if right < 1 / len(data.classes):
            warn(
                f"The model {agreement}, less than by chance: check the order of its classes, "
                "and name them in order by model.classes=[...]."
            )
    return model


def trainer_of(cfg: Any) -> dict[str, Any]:
    """Arguments of `lightning.Trainer`, with a logger of their own."""
    return instantiate(cfg.trainer, _convert_="all")


def is_trained(cfg: Any) -> bool:
    """Whether the value function of the settings is one that `train.py` trains."""
    return "directory" in inspect.signature(get_method(cfg.value_function._target_)).parameters


def value_of(cfg: Any, data: Data, model: ms.Model, work: Path | None = None) -> ms.ValueFunction:
    """The value function of the settings.

    Args:
        cfg: the settings.
        data, model: see `data_of` and `model_of`.
        work: the folder to train it in; None for one that was trained.

    Raises:
        FileNotFoundError: it was not trained, and is not to be.
        ValueError: it is of other players, or of another table, than the data.
    """
    own, space = plain(cfg.value_function), space_of(cfg, data)
    made: Any
    if cfg.get("checkpoint") or (work is None and is_trained(cfg)):
        place = value_place(cfg)
        made = ms.load(place, model)
        _share_table(made, data, place)
    else:
        target: Any = _partial({name: own[name] for name in own if name not in _NOT_ITS})
        rows = sample_of(data.x_train)
        kind: Any = target.func
        if inspect.isclass(kind) and data.table is not None:
            made = table_imputer(target.func, data.table, rows, **target.keywords)
        else:
            offered = {
                "model": model,
                "data": data,
                "classifier": None if cfg.get("model") else classifier_place(cfg, data),
                "reference": rows,
                "x_train": data.x_train,
                "x_validation": data.x_validation,
                "players": data.players,
                "table": data.table,
                "space": space,
                "seed": cfg.seed,
                "directory": work,
                "trainer": trainer_of(cfg) if work else None,
                "progress": cfg.progress,
            }
            if teacher := own.get("teacher"):
                taught = value_of(beside(cfg, teacher), data, model)
                offered["teacher"] = taught.with_draws(own.get("teacher_draws", 16))
            takes = inspect.signature(kind).parameters
            made = target(**{name: offered[name] for name in offered if name in takes})
    if isinstance(made, Imputer):
        return ms.imputed_value(model, made, space, own.get("draws", _DRAWS), cfg.seed)
    return made


def value_place(cfg: Any) -> Path:
    """The folder with a value function that was trained.

    Raises:
        FileNotFoundError: there is none.
    """
    place = Path(cfg.get("checkpoint") or cfg.run).expanduser()
    if not (place / SETTINGS).exists():
        raise FileNotFoundError(f"Expected {place / SETTINGS} to be there; run train.py first.")
    return place


def _share_table(made: Any, data: Data, place: Path) -> None:
    """Make what was loaded take codes of the table of the data, which has to be the same.

    Raises:
        ValueError: it has other columns or cells.
    """
    table: Any = data.table
    own = made.table if isinstance(made, Imputer) else made.spec.table
    rows, same = data.x_test[:64], made.players.names == data.players.names
    if same and own is not None:
        with warnings.catch_warnings(action="ignore"):  # Of cells: its training has given them.
            same = bool((own.rows(table.frame(rows)) == rows).all())
    if not same:
        raise ValueError(f"Expected {place} to be of {data.name} but it has other columns or cells")
    if isinstance(made, Imputer):
        made.table = table


def space_of(cfg: Any, data: Data) -> OutputSpace:
    """The output space of the settings, or else that of the task."""
    space = cfg.space or ("identity" if data.task == "regression" else "probability")
    return as_space(space, unit=cfg.unit)


def home_of(cfg: Any) -> Path:
    """The folder of all runs on the data of the settings."""
    return Path(cfg.runs_dir).expanduser() / str(cfg.data.name)


def place_of(cfg: Any) -> Path:
    """The folder of the run; of a checkpoint one that is named after it."""
    place = Path(cfg.run).expanduser()
    if not cfg.get("checkpoint"):
        return place
    checkpoint = Path(cfg.checkpoint).expanduser().resolve()
    return place.with_name(f"{place.name}-{digest(str(checkpoint))[:8]}")


def classifier_place(cfg: Any, data: Data) -> Path:
    """The folder of the classifier of the settings."""
    return home_of(cfg) / "classifiers" / digest(_of_classifier(cfg, data))[:8]


def _classifier(cfg: Any, data: Data, work: Path) -> dict[str, Any]:
    recipe = instantiate(cfg.classifier, _convert_="all")
    seconds = fit_classifier(recipe, data, work, trainer_of(cfg), cfg.progress)
    return {"train_seconds": seconds, **quality(load_classifier(work, data), data)}


def _of_classifier(cfg: Any, data: Data) -> dict[str, Any]:
    """What decides the model to explain: settings, and a checksum of the rows."""
    groups = ("data", "model" if cfg.get("model") else "classifier")
    chosen = {group: cfg.choices[group] for group in groups}
    found = {group: _inert(plain(cfg[group])) for group in groups}
    return {"choices": chosen, "seed": cfg.seed, **found, "rows": digest(*data.content)[:16]}


def record_of(cfg: Any, data: Data) -> dict[str, Any]:
    """What `config.yaml` says: all that decides the value function, as plain data."""
    record = _of_classifier(cfg, data)
    record["choices"]["value_function"] = cfg.choices["value_function"]
    record |= {name: plain(cfg[name]) for name in _SHARED} | {"space": space_of(cfg, data).name}
    record["value_function"] = _inert(plain(cfg.value_function))
    return json.loads(json.dumps(record))


def opened(cfg: Any, job: Any) -> tuple[Any, dict[str, Any] | None]:
    """The settings of a call of `explain`: those of the run that it means, and what was typed.

    Where there is no run, data and classifier are those of other runs on these data, if they agree.

    Args:
        cfg: the settings of the call.
        job: Hydra's own, which have the choices and what was typed.

    Returns:
        The settings, and what the run recorded, with which they should agree; None without a run.
    """
    typed = [word.lstrip("+~").partition("=")[0] for word in job.overrides.task]
    run = None if cfg.checkpoint else read_config(place_of(cfg))
    known, home = run or _of_others(home_of(cfg)), home_of(cfg)
    if known is None:
        if OmegaConf.is_missing(cfg.data, "path") and not home.is_dir():
            there = sorted(path.name for path in home.parent.glob("*/") if path.is_dir())
            raise FileNotFoundError(
                f"Expected a run in {home} but there is none; below {home.parent} are "
                f"{shown(there)}: name one by data.name=..., or a file by data.path=..."
            )
        return chosen(cfg, job.runtime.choices), None
    choices = {
        group: check_choice(f"choices.{group}", choice, _options(group))
        for group, choice in known["choices"].items()
        if (group not in typed or job.runtime.choices[group] == choice)
        and not (group == "classifier" and cfg.get("model"))
    }
    words = [f"{group}={choice}" for group, choice in choices.items() if group not in typed]
    again = composed("explain", *words, *job.overrides.task)
    with open_dict(again):
        # A name in Python is code, and has to be typed again.
        for group in [group for group in choices if choices[group] != "python"]:
            for name, entry in known[group].items():
                if f"{group}.{name}" not in typed and name != "code":
                    again[group][name] = entry
        for name in _SHARED:
            if name not in typed and name in known:
                again[name] = known[name]
        again.run = cfg.run
    return chosen(again, {**job.runtime.choices, **choices}), run


def chosen(cfg: Any, choices: Mapping[str, Any]) -> Any:
    """The settings, with the names of the files that they were composed from."""
    with open_dict(cfg):
        groups = ("data", "classifier", "model", "value_function")
        cfg.choices = {group: choices.get(group) for group in groups}
    return cfg


def beside(cfg: Any, name: str) -> Any:
    """Settings of another value function of the same data and model: those of its run, if any.

    Raises:
        ValueError: there is no such value function.
    """
    if name == cfg.value_function.name:
        return cfg
    check_choice("value_function", name, _options("value_function"))
    other, place = cfg.copy(), home_of(cfg) / name
    with open_dict(other):
        other.value_function = composed("train", f"value_function={name}").value_function
        known = (read_config(place) or {}).get("value_function", {})
        other.value_function.update({k: own for k, own in known.items() if k != "code"})
        other.choices.value_function, other.run, other.checkpoint = name, str(place), None
    return other


def _of_others(home: Path) -> dict[str, Any] | None:
    """What the runs on the same data say of data and model, where they agree."""
    names = ("choices", "seed", "players", "unit", "data", "classifier", "model")
    found = list[dict[str, Any]]()
    for path in [*home.glob(f"*/{CONFIG}")] or [*home.glob(f"classifiers/*/{CONFIG}")]:
        record = read_config(path.parent) or {}
        record["choices"].pop("value_function", None)
        found.append({name: record[name] for name in names if name in record})
    return found[0] if found and all(each == found[0] for each in found) else None


def once(
    place: Path,
    record: dict[str, Any],
    overwrite: bool,
    make: Callable[[Path], dict[str, Any]],
) -> dict[str, Any]:
    """The metrics of what was made in a folder with these settings, or is made now.

    It is made in a folder inside, where an interrupted training continues; what stands in the
    folder stays until then.

    Args:
        place: the folder.
        record: the settings.
        overwrite: replace what was made with others.
        make: makes files in a folder, and returns metrics.

    Raises:
        ValueError: other settings are there, and `overwrite` is false.
    """
    work = place / _WORK
    if read_config(place) == record:
        return read_json(place / METRICS)
    if not overwrite:
        check_same(place, read_config(place) or record, record)
    # One of other settings is refused by the training itself.
    if read_config(work) != record and (overwrite or not any(work.glob("*.ckpt"))):
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(OmegaConf.create(record), work / CONFIG)
    metrics = make(work)
    (work / METRICS).write_text(to_json(metrics))
    (place / CONFIG).unlink(missing_ok=True)
    # Last, so that until then an interruption leaves no run.
    for path in sorted(work.iterdir(), key=lambda path: path.name == CONFIG):
        if path.name not in _LIGHTNING:
            path.replace(place / path.name)
    shutil.rmtree(work)
    return metrics


def check_same(place: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise ValueError unless settings are those of a run."""
    if changes := _differences(there, here):
        raise ValueError(
            f"Expected the settings of the run in {place} but these differ: {'; '.join(changes)}. "
            "Leave them out; or train with them: overwrite=true replaces the run, run=... keeps it."
        )


def _differences(there: Any, here: Any, name: str = "") -> list[str]:
    """What two nested configurations disagree on, as `name: there -> here`."""
    if not (isinstance(there, Mapping) and isinstance(here, Mapping)):
        return [] if there == here else [f"{name}: {there!r} -> {here!r}"]
    return [
        change
        for key in {**there, **here}
        for change in _differences(there.get(key), here.get(key), f"{name}.{key}".lstrip("."))
    ]


def read_config(place: Path) -> dict[str, Any] | None:
    """The settings of a run; None where there is none.

    Raises:
        ValueError: the file is damaged, or names code.
    """
    path = place / CONFIG
    if not path.is_file():
        return None
    found: Any = OmegaConf.to_container(OmegaConf.load(path))
    if "_target_" in str(found):
        raise ValueError(
            f"Refused {path}: it names code to run (`_target_`), which no run of ours does."
        )
    groups = found.get("choices") if isinstance(found, dict) else None
    if not isinstance(groups, dict) or not all(isinstance(found.get(k), dict) for k in groups):
        raise ValueError(f"Expected the settings of a run in {path} but it is damaged.")
    return found


def read_json(path: Path) -> dict[str, Any]:
    """What a JSON file holds; nothing where there is none."""
    return json.loads(path.read_text()) if path.is_file() else {}


def to_json(content: Any) -> str:
    """JSON, in which NaN and infinities are null."""
    finite = json.loads(json.dumps(content), parse_constant=lambda _: None)
    return json.dumps(finite, indent=2) + "\n"


def plain(cfg: Any) -> Any:
    """Settings as dicts, lists, numbers and text."""
    if not OmegaConf.is_config(cfg):
        return cfg
    return OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)


def composed(command: str, *words: str) -> Any:
    """The settings of a command, as typed so."""
    if GlobalHydra.instance().is_initialized():
        return compose(command, list(words))
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(command, list(words))


def _partial(cfg: Any) -> Any:
    """What a target makes, to be called: then its errors are as they are."""
    return instantiate(cfg, _partial_=True, _convert_="all")


def _inert(settings: Any) -> Any:
    """Settings that name code as `code`, which nothing instantiates."""
    if isinstance(settings, list):
        return [_inert(each) for each in settings]
    if not isinstance(settings, dict):
        return settings
    return {"code" if k == "_target_" else k: _inert(each) for k, each in settings.items()}


def _options(group: str) -> list[str]:
    """The names of the files of a group in `conf`."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))
