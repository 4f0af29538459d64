"""Finds what the configuration names: files of settings, and the code behind their `_target_`."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple, get_args

from omegaconf import OmegaConf

from manifold_shap._checks import check_known
from manifold_shap._messages import check_choice
from manifold_shap.cli import CONF
from manifold_shap.imputers import Imputer, table_imputer
from manifold_shap.spaces import OutputSpace, as_space

Settings = Mapping[str, Any]
# Settings of every value function, which are not arguments of its `_target_`.
_SHARED = {"_target_", "_load_", "name", "title", "space", "zero_replacement", "draws"}
_SHARED |= {"teacher_draws"}
# Of what is offered, those that a training forwards as options.
_OF_TRAINING = ("seed", "directory", "trainer", "progress")


def plain(cfg: Any, trained: bool = False) -> dict[str, Any]:
    """A configuration as nested dicts, every setting resolved.

    Args:
        cfg: the configuration.
        trained: whether settings that have no default may be those of an earlier training.

    Raises:
        OmegaConfBaseException: such a setting was not given.
    """
    return OmegaConf.to_container(cfg, resolve=True, throw_on_missing=not trained)  # type: ignore[return-value]


def defaults(group: str, name: str) -> dict[str, Any]:
    """The settings of one file of a group, unchanged.

    Raises:
        ValueError: there is no such file; the names that there are.
    """
    check_choice(group, name, sorted(path.stem for path in (CONF / group).glob("*.yaml")))
    return OmegaConf.to_container(OmegaConf.load(CONF / group / f"{name}.yaml"))  # type: ignore[return-value]


def makes(settings: Settings, kind: type) -> bool:
    """Whether the `_target_` is a class of this kind, or a function that returns one."""
    target = resolve_name(settings["_target_"])
    made = target if inspect.isclass(target) else inspect.signature(target).return_annotation
    # One that may be of several kinds names them all.
    kinds = get_args(made) or (made,)
    return all(inspect.isclass(each) and issubclass(each, kind) for each in kinds)


class Source(NamedTuple):
    """Where a value function comes from.

    A file in `conf/value_function` names a class or a function that makes a value function or an
    imputer. It is called with the settings of the file, and with those of the following that it
    has a parameter for:

    - `data`, `x_train`, `x_validation`, `players`, `schema`: the data module, and what it holds;
      `reference`, its training rows or, where they are on disk, some that stand for all;
      `codebook`, where its rows are codes;
    - `model`, `classifier`: the model to explain, and the directory that it was loaded from;
    - `space`: the output space; `seed`, `progress`;
    - where something is trained, `directory`, `trainer` and `teacher`.

    What is trained names `_load_` besides, which reads the checkpoint: settings that it has a
    parameter for can change without another training.

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
        return self.settings["title"] or self.settings["name"]

    @property
    def is_trained(self) -> bool:
        """Whether it comes from a checkpoint."""
        return self.settings.get("_load_") is not None

    @property
    def is_as_trained(self) -> bool:
        """Whether it was completed with the settings that it is to be loaded with."""
        recorded = (self.config or {}).get("value_function", {})
        own = self._own("_load_")
        return all(recorded.get(key) == own[key] for key in own)

    @property
    def serves_any_model(self) -> bool:
        """Whether a checkpoint is of the data alone: that of an imputer."""
        return self.is_trained and makes(self.settings, Imputer)

    @property
    def free(self) -> set[str]:
        """Names of settings that no checkpoint depends on."""
        if not self.is_trained:
            return {"title"}
        free = {"title", *inspect.signature(resolve_name(self.settings["_load_"])).parameters}
        return free | {"space", "zero_replacement", "draws"} if self.serves_any_model else free

    @property
    def record(self) -> dict[str, Any]:
        """What a run records of the settings."""
        return {k: entry for k, entry in self.settings.items() if k not in ("_load_", "title")}

    @property
    def space(self) -> OutputSpace:
        """The output space that the settings name."""
        zeros = self.settings["zero_replacement"]
        return as_space(self.settings["space"], zero_replacement=zeros)

    def teacher(self) -> dict[str, Any] | None:
        """The settings of the value function that this one learns from, if they name one.

        Raises:
            ValueError: it names itself, or none that there is.
        """
        name = self.settings.get("teacher")
        if name is None:
            return None
        if name == self.settings["name"]:
            raise ValueError(
                f"Expected `teacher` to name another value function than {name!r}, which would "
                "learn from itself, such as vae."
            )
        own = defaults("value_function", name)
        return {**own, "draws": self.settings["teacher_draws"]} if "draws" in own else own

    def call(self, key: str, offered: Settings) -> Any:
        """What `_target_` makes, or `_load_` reads: a value function, or an imputer.

        Args:
            key: which of the two.
            offered: arguments beside the settings; those that it has a parameter for are taken.
        """
        parameters = inspect.signature(resolve_name(self.settings[key])).parameters
        forwards = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        own = self._own(key)
        if not forwards:
            check_known(own, parameters, f"settings of value_function={self.settings['name']}")
        target, codebook = resolve_name(self.settings[key]), offered.get("codebook")
        if inspect.isclass(target) and issubclass(target, Imputer) and codebook is not None:
            return table_imputer(target, codebook, offered["reference"], **own)
        takes = {*parameters, *(_OF_TRAINING if forwards else ())}
        asked = {name: entry for name, entry in offered.items() if name in takes}
        return target(**{**own, **asked})

    def _own(self, key: str) -> dict[str, Any]:
        """The settings that are arguments of `_target_`, or of `_load_`."""
        own = {name: self.settings[name] for name in self.settings if name not in _SHARED}
        if key == "_target_":
            return own
        takes = inspect.signature(resolve_name(self.settings[key])).parameters
        return {name: entry for name, entry in own.items() if name in takes}
