"""Every value function of the commands, by its name in the configuration.

Some are trained, and come from a checkpoint afterwards; the others are made on the spot, from the
training rows. A new one is an entry in `TRAINED`, `IMPUTERS` or `MADE`, and a file of settings.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from torch import Tensor

from manifold_shap.cli.references import chosen_rows, point_of
from manifold_shap.cli.run import Settings, classifier_part
from manifold_shap.data.base import TensorDataModule
from manifold_shap.imputers import (
    BaselineImputer,
    ContrastiveImputer,
    CopulaImputer,
    EmpiricalImputer,
    ExactMatchImputer,
    GaussianImputer,
    Imputer,
    MarginalImputer,
)
from manifold_shap.io.files import load_checkpoint
from manifold_shap.models import Model, as_model
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.surrogate.fit import fit_surrogate, load_surrogate
from manifold_shap.training.classifier import load_estimator
from manifold_shap.vae import VAEImputer
from manifold_shap.vae.fit import VAETask, choose_temper, fit_imputer, load_imputer
from manifold_shap.values import ImputedValue, ValueFunction, imputed_value, retrained_value


@dataclass(frozen=True)
class Source:
    """What a value function is made from.

    Attributes:
        data: a data module after `setup`.
        model: the model to explain.
        classifier: the directory that the model was loaded from.
        seed: of a training, and of draws.
        progress: show bars on work of more than two seconds.
    """

    data: TensorDataModule
    model: Model
    classifier: Path
    seed: int = 0
    progress: bool = False


@dataclass(frozen=True)
class Training:
    """Where and how to train.

    Attributes:
        directory: receives checkpoints; an interrupted training found there goes on.
        trainer: arguments of `lightning.Trainer`.
        teacher: of a surrogate, if it has one.
    """

    directory: Path
    trainer: Settings
    teacher: ValueFunction | None = None


class Fitted(NamedTuple):
    """What came of a training.

    Attributes:
        value: the value function.
        save: writes its checkpoint.
        record: `epochs`, `train_seconds` and more.
    """

    value: ValueFunction
    save: Callable[[Path], None]
    record: Settings


@dataclass(frozen=True)
class Trained:
    """A value function that is trained.

    Attributes:
        fit: trains it.
        load: reads a checkpoint; the last argument is whether what suits the model is to be chosen
            anew, where the settings leave it open.
        free: settings that the checkpoint does not depend on.
        of_one_model: whether the checkpoint is for the model that it was trained with.
    """

    fit: Callable[[Source, Settings, Training], Fitted]
    load: Callable[[Path, Source, Settings, bool], Fitted]
    free: tuple[str, ...] = ()
    of_one_model: bool = True


def defaults(known: Mapping[str, Settings], name: str) -> Settings:
    """The settings of a value function where nobody has changed them.

    Args:
        known: those of every value function, by name.
        name: of one.

    Raises:
        ValueError: there is no such name; the names that there are.
    """
    if name not in known:
        raise ValueError(f"Expected a value function among {sorted(known)} but got {name!r}.")
    return known[name]


def teacher_settings(known: Mapping[str, Settings], settings: Settings) -> Settings | None:
    """The settings of the teacher that those of a surrogate name, if they do.

    Args:
        known: see `defaults`.
        settings: of the surrogate.

    Raises:
        ValueError: it names none that could teach.
    """
    name = settings.get("teacher")
    if name is None:
        return None
    if name == settings["name"]:
        raise ValueError(
            f"Expected `teacher` to name another value function than {name!r}, which would learn "
            "from itself; choose e.g. vae."
        )
    own = defaults(known, name)
    return {**own, "draws": settings["teacher_draws"]} if "draws" in own else own


def own_part(settings: Settings) -> dict[str, Any]:
    """The settings of a value function that its checkpoint depends on; all where it has none."""
    kind = TRAINED.get(settings["name"])
    free = kind.free if kind is not None else ()
    return {key: entry for key, entry in settings.items() if key not in free}


def decisive_part(config: Settings) -> dict[str, Any]:
    """The part of a run's configuration that its checkpoint depends on; all where it has none."""
    kind = TRAINED.get(config["value_function"]["name"])
    own = {**classifier_part(config), "value_function": own_part(config["value_function"])}
    if kind is not None and not kind.of_one_model:
        del own["classifier"]
    return {**own, "teacher": config["teacher"]} if "teacher" in config else own


def make(source: Source, settings: Settings) -> ValueFunction:
    """A value function that needs no training.

    Raises:
        TypeError, ValueError: the settings, or the data, do not suit it.
    """
    own = _own_arguments(settings)
    if settings["name"] in MADE:
        return MADE[settings["name"]](source, _space(settings), **own)
    imputer = IMPUTERS[settings["name"]](source.data, **own)
    draws = settings.get("draws", 1)
    return imputed_value(source.model, imputer, _space(settings), draws, source.seed)


def _own_arguments(settings: Settings) -> dict[str, Any]:
    """Settings that are arguments of an imputer, or of its training."""
    shared = ("name", "output", "zero_replacement", "draws")
    return {key: entry for key, entry in settings.items() if key not in shared}


def _space(settings: Settings) -> OutputSpace:
    return as_space(settings["output"], settings["zero_replacement"])


def splicing(
    model: Model, data: TensorDataModule, output: str | OutputSpace, draws: int
) -> ImputedValue:
    """The off-manifold value function that others are compared with."""
    return imputed_value(model, MarginalImputer(data.x_train, data.players), output, draws)


def _fit_surrogate(source: Source, settings: Settings, training: Training) -> Fitted:
    other = ("name", "output", "zero_replacement", "teacher_draws")
    own = {key: entry for key, entry in settings.items() if key not in other}
    value = fit_surrogate(
        source.model,
        output=_space(settings),
        **{**own, "teacher": training.teacher},
        **_common(source, training),
    )
    return Fitted(value, value.save, value.training)


def _load_surrogate(path: Path, source: Source, settings: Settings, anew: bool) -> Fitted:
    value = load_surrogate(path, source.model)
    return Fitted(value, value.save, {})


def _fit_vae(source: Source, settings: Settings, training: Training) -> Fitted:
    own = {**_own_arguments(settings), "output": _space(settings)}
    imputer = fit_imputer(model=source.model, **own, **_common(source, training))
    return Fitted(_of_vae(imputer, source, settings), imputer.save, imputer.training_record)


def _load_vae(path: Path, source: Source, settings: Settings, anew: bool) -> Fitted:
    chosen = {key: settings[key] for key in ("posterior", "importance", "bank_size")}
    kept = load_checkpoint(path, VAETask.kind).get("imputer", {})
    temper = settings["temper"]
    if temper is None and not anew and chosen.items() <= kept.items():
        temper = kept["temper"]
    known = {} if temper is None else {"temper": temper}
    imputer = load_imputer(path, source.data.x_train, **chosen, **known)
    if temper is None:
        rows = source.data.x_validation
        if imputer.is_weighted:
            space = _space(settings)
            imputer.temper = choose_temper(imputer, rows, source.model, space, source.seed)
        imputer.checkpoint["imputer"]["temper"] = imputer.temper
    return Fitted(_of_vae(imputer, source, settings), imputer.save, {})


def _of_vae(imputer: VAEImputer, source: Source, settings: Settings) -> ImputedValue:
    draws = settings["draws"]
    return imputed_value(source.model, imputer, _space(settings), draws, source.seed)


def _common(source: Source, training: Training) -> dict[str, Any]:
    return {
        "x_train": source.data.x_train,
        "x_validation": source.data.x_validation,
        "players": source.data.players,
        "schema": source.data.schema,
        "seed": source.seed,
        "directory": training.directory,
        "trainer": training.trainer,
        "progress": source.progress,
    }


def _retrained(source: Source, space: OutputSpace) -> ValueFunction:
    try:
        estimator: Any = load_estimator(source.classifier)
    except FileNotFoundError as error:
        raise ValueError(
            "Expected a scikit-learn classifier for value_function=retrained, which fits it anew "
            f"to the features of each coalition, but the one in {source.classifier} is a network; "
            "train one by `python train.py classifier=random_forest`, with another runs_dir or "
            "overwrite=true."
        ) from error

    def fit(x: Tensor, y: np.ndarray) -> Model:
        fitted = clone(estimator).fit(x.cpu().numpy(), y)
        return as_model(fitted, x[:64], source.data.classes)

    data = source.data
    return retrained_value(
        fit,
        data.x_train,
        data.y_train.numpy(),
        players=data.players,
        output=space,
        progress=source.progress,
    )


TRAINED: Mapping[str, Trained] = {
    "surrogate": Trained(_fit_surrogate, _load_surrogate),
    "vae": Trained(
        _fit_vae,
        _load_vae,
        free=(
            "output",
            "zero_replacement",
            "draws",
            "posterior",
            "temper",
            "importance",
            "bank_size",
        ),
        of_one_model=False,
    ),
}


def _from_rows(kind: type) -> Callable[..., Imputer]:
    return lambda data, **own: kind(data.x_train, data.players, **own)


# From the data, and settings of its own, to an imputer.
IMPUTERS: Mapping[str, Callable[..., Imputer]] = {
    "marginal": _from_rows(MarginalImputer),
    "gaussian": _from_rows(GaussianImputer),
    "copula": _from_rows(CopulaImputer),
    "empirical": _from_rows(EmpiricalImputer),
    "exact_match": _from_rows(ExactMatchImputer),
    "baseline": lambda data, point: BaselineImputer(point_of(data, point), data.players),
    "contrastive": lambda data, **own: ContrastiveImputer(chosen_rows(data, **own), data.players),
}

MADE: Mapping[str, Callable[..., ValueFunction]] = {"retrained": _retrained}
