"""Finds what the configuration names: files of settings, and the code behind their `_target_`.

A file in `conf/value_function` names a class or a function that makes a value function or an
imputer. It is called with the settings of the file, and with those of the following that it has a
parameter for:

- `data`, `reference` or `x_train`, `x_validation`, `players`, `schema`: the data module, and what
  it holds;
- `model`, `classifier`: the model to explain, and the directory that it was loaded from;
- `output`: the output space; `seed`, `progress`;
- where something is trained, `directory`, `trainer` and `teacher`.

What is trained names `_load_` besides, which reads the checkpoint: settings that it has a parameter
for can change without another training.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from manifold_shap._checks import check_choice
from manifold_shap._words import closest
from manifold_shap.cli import CONF, choices
from manifold_shap.imputers import Imputer, MarginalImputer
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.values import ImputedValue, ValueFunction, imputed_value

if TYPE_CHECKING:
    from manifold_shap.cli.run import Run

Settings = Mapping[str, Any]
# Settings of every value function, which are not arguments of its `_target_`.
_SHARED = ("_target_", "_load_", "name", "title", "output", "zero_replacement", "draws")

OmegaConf.register_new_resolver("stem", lambda path: Path(path).stem, replace=True)


def plain(cfg: Any, trained: bool = False) -> dict[str, Any]:
    """A configuration as nested dicts, every setting resolved.

    Args:
        cfg: the configuration.
        trained: whether settings that have no default may be those of an earlier training.

    Raises:
        ValueError: such a setting was not given.
    """
    groups = {"": cfg, **{f"{key}.": cfg[key] for key in cfg if OmegaConf.is_dict(cfg[key])}}
    missing = [
        f"{prefix}{key}=..."
        for prefix, group in groups.items()
        for key in group
        if OmegaConf.is_missing(group, key)
    ]
    try:
        return OmegaConf.to_container(cfg, resolve=True, throw_on_missing=not trained)  # type: ignore[return-value]
    except OmegaConfBaseException as error:
        if not missing:
            raise ValueError(f"Expected settings that can be read but {error}.") from error
        named = ", or data.name=... of a run that was trained" if trained else ""
        raise ValueError(
            f"Expected settings that have no default but got none: give {' '.join(missing)}{named}."
        ) from error


def defaults(group: str, name: str) -> dict[str, Any]:
    """The settings of one file of a group, unchanged.

    Raises:
        ValueError: there is no such file; the names that there are.
    """
    check_choice(group, name, choices(group))
    return OmegaConf.to_container(OmegaConf.load(CONF / group / f"{name}.yaml"))  # type: ignore[return-value]


def names_where(group: str, accept: Callable[[Settings], bool]) -> str:
    """The files of a group whose settings are accepted, for the text of an error."""
    return ", ".join(name for name in choices(group) if accept(defaults(group, name)))


def code(name: Any) -> Any:
    """The class or the function of this name.

    >>> code("manifold_shap.exact_shapley").__name__
    'exact_shapley'

    Raises:
        ValueError: there is none.
    """
    try:
        return resolve_name(name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ValueError(
            "Expected the name of a class or a function that can be imported, such as "
            f"manifold_shap.exact_shapley, but got {name!r} ({error})."
        ) from error


def has_parameter(settings: Settings, name: str) -> bool:
    """Whether the `_target_` takes an argument of this name."""
    return name in inspect.signature(code(settings["_target_"])).parameters


def makes(settings: Settings, kind: type) -> bool:
    """Whether the `_target_` is a class of this kind, or a function that returns one."""
    target = code(settings["_target_"])
    made = target if inspect.isclass(target) else inspect.signature(target).return_annotation
    return inspect.isclass(made) and issubclass(made, kind)


def is_trained(settings: Settings) -> bool:
    """Whether a value function comes from a checkpoint."""
    return settings.get("_load_") is not None


def free_settings(settings: Settings) -> set[str]:
    """Names of settings of a value function that no checkpoint depends on."""
    if not is_trained(settings):
        return {"title"}
    free = {"title", *inspect.signature(code(settings["_load_"])).parameters}
    return free | {"output", "zero_replacement", "draws"} if makes(settings, Imputer) else free


def settings_of_loading(settings: Settings) -> dict[str, Any]:
    """The settings of a value function that `_load_` takes."""
    takes = inspect.signature(code(settings["_load_"])).parameters
    return {key: settings[key] for key in settings if key in takes and key not in _SHARED}


def recorded(settings: Settings) -> dict[str, Any]:
    """What a run records of the settings of a value function."""
    return {key: entry for key, entry in settings.items() if key not in ("_load_", "title")}


def serves_any_model(settings: Settings) -> bool:
    """Whether a checkpoint is of the data alone: that of an imputer."""
    return is_trained(settings) and makes(settings, Imputer)


def teacher_settings(settings: Settings) -> dict[str, Any] | None:
    """The settings of the teacher that those of a value function name, if they do.

    Raises:
        ValueError: it names itself, or none that there is.
    """
    name = settings.get("teacher")
    if name is None:
        return None
    if name == settings["name"]:
        raise ValueError(
            f"Expected `teacher` to name another value function than {name!r}, which would learn "
            "from itself; choose e.g. vae."
        )
    own = defaults("value_function", name)
    return {**own, "draws": settings["teacher_draws"]} if "draws" in own else own


def space_of(settings: Settings) -> OutputSpace:
    """The output space that the settings of a value function name."""
    space = as_space(settings["output"])
    if not space.takes_logarithms:
        return space
    return as_space(settings["output"], zero_replacement=settings["zero_replacement"])


def make(settings: Settings, run: "Run", space: OutputSpace, **more: Any) -> Any:
    """What the `_target_` of a value function makes: a value function, or an imputer."""
    return _call("_target_", settings, _offered(run, space) | more)


def load(path: Path, settings: Settings, run: "Run", space: OutputSpace, anew: bool = True) -> Any:
    """What `_load_` reads.

    Args:
        path: the checkpoint.
        settings: of the value function.
        run: its data and model.
        space: the output space.
        anew: whether what suits the model is chosen anew, where the settings leave it open.
    """
    offered = {**_offered(run, space), "path": path}
    if not anew:
        del offered["x_validation"]
    return _call("_load_", settings, offered)


def as_value(made: Any, settings: Settings, run: "Run", space: OutputSpace) -> ValueFunction:
    """The value function that was made, or the one of an imputer that was made."""
    if not isinstance(made, Imputer):
        return made
    return imputed_value(run.model, made, space, settings.get("draws", 1), run.seed)


def off_manifold(run: "Run", space: OutputSpace, draws: int) -> ImputedValue:
    """The value function that others are compared with."""
    imputer = MarginalImputer(run.data.x_train, run.data.players)
    return imputed_value(run.model, imputer, space, draws)


def _offered(run: "Run", space: OutputSpace) -> dict[str, Any]:
    data = run.data
    return {
        "data": data,
        "reference": data.x_train,
        "x_train": data.x_train,
        "x_validation": data.x_validation,
        "players": data.players,
        "schema": data.schema,
        "model": run.model,
        "classifier": run.classifier_directory,
        "output": space,
        "seed": run.seed,
        "progress": run.progress,
    }


def _call(key: str, settings: Settings, offered: Mapping[str, Any]) -> Any:
    function = code(settings[key])
    parameters = inspect.signature(function).parameters
    forwards = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    apart = (*_SHARED, "teacher_draws")
    own = {name: entry for name, entry in settings.items() if name not in apart}
    if key == "_load_":
        own = settings_of_loading(settings)
    unknown = [] if forwards else [name for name in own if name not in parameters]
    if unknown:
        raise ValueError(
            f"Expected settings of value_function={settings['name']} but got "
            f"{', '.join(unknown)}{closest(unknown[0], list(parameters)) or '.'}"
        )
    trains = ("seed", "directory", "trainer", "progress")
    asked = {
        name: entry
        for name, entry in offered.items()
        if name in parameters or (forwards and name in trains)
    }
    return function(**{**own, **asked})
