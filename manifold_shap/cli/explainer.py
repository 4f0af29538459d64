"""Training an amortised explainer for the surrogate of a run, and reading it."""

import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from manifold_shap.amortized import amortized_shapley
from manifold_shap.amortized.explainer import AmortizedExplainer
from manifold_shap.amortized.fit import fit_amortized, load_amortized
from manifold_shap.cli import directories
from manifold_shap.cli.run import Run, Settings, classifier_directory
from manifold_shap.estimators import auto_shapley
from manifold_shap.explanation import Explanation
from manifold_shap.surrogate.fit import load_surrogate
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.training.classifier import load_classifier
from manifold_shap.values import ValueFunction

_CHECKPOINT = "explainer.ckpt"
# Test rows that it is measured on, and what is spent on the values of each: 16 times the usual.
_MEASURED_ROWS = 16
_EVALUATIONS_PER_PLAYER = 1024


def check_explained(run: Run) -> None:
    """Raise ValueError unless the value function is one that an explainer can be trained for."""
    name = run.settings["value_function"]["name"]
    if name != "surrogate":
        raise ValueError(
            f"Expected value_function=surrogate together with explainer=amortized but got {name}; "
            "leave `explainer` out, or train a surrogate."
        )


def with_explainer(
    estimator: Callable[..., Explanation], value: ValueFunction
) -> Callable[..., Explanation]:
    """The estimator; one that takes an explainer has it read here, once for all blocks of rows.

    Raises:
        FileNotFoundError: no explainer was trained.
        ValueError: it is damaged, or was trained for another surrogate.
    """
    function, settings = _unwrapped(estimator)
    # What to do without a surrogate, the estimator says.
    if function is not amortized_shapley or not isinstance(value, SurrogateValue):
        return estimator
    return partial(estimator, explainer=load_amortized(settings["explainer"], value))


def _unwrapped(
    estimator: Callable[..., Explanation],
) -> tuple[Callable[..., Explanation], Settings]:
    """The function, and the settings it is given; Hydra's partials are nested in others."""
    settings: Settings = {}
    while isinstance(estimator, partial):
        settings = {**estimator.keywords, **settings}
        estimator = estimator.func
    return estimator, settings


def train_explainer(run: Run, settings: Settings) -> dict[str, Any]:
    """Train an explainer for the surrogate of a finished run; return the run's metrics.

    It goes into the directory of the surrogate, and its error into `metrics.json` there. One that
    was trained with the same settings is reused.

    Raises:
        ValueError: an explainer of other settings is there, finished or not, and `overwrite` is
            false.
    """
    metrics = directories.read_json(run.directory / "metrics.json")
    recorded = metrics.get("explainer", {}).get("settings")
    if (run.directory / _CHECKPOINT).exists() and recorded == dict(settings) and not run.overwrite:
        print(f"explainer: already trained with these settings, in {run.directory}")
        return metrics
    if recorded not in (None, dict(settings)) and not run.overwrite:
        changes = "; ".join(directories.differences(recorded, dict(settings)))
        raise ValueError(
            f"Expected {run.directory} to hold an explainer of these settings, but it is another "
            f"one ({changes}). Give overwrite=true to replace it, or runs_dir=... to keep both."
        )
    work = _begin(run, settings)
    explainer = _trained(run, settings, work)
    record = {
        "relative_error": _measured(explainer, run),
        **explainer.training,
        "settings": dict(settings),
    }
    metrics = _saved(explainer, record, run, metrics)
    # Last, so that until then an interruption loses no training.
    directories.remove(work)
    print(
        f"explainer: relative error {record['relative_error']:.3f} on {_MEASURED_ROWS} test rows; "
        f"{record['epochs']} epochs in {record['train_seconds']:.1f} s; in {run.directory}"
    )
    return metrics


def _begin(run: Run, settings: Settings) -> Path:
    """Open the work in progress: new, or continued if it has these settings and this surrogate.

    Raises:
        ValueError: interrupted work of other settings is there, and `overwrite` is false.
    """
    place = run.directory.with_name(f"{run.directory.name}.explainer")
    surrogate = zlib.crc32((run.directory / "surrogate.ckpt").read_bytes())
    config = {"seed": run.settings["seed"], "explainer": dict(settings), "surrogate": surrogate}
    there = directories.config_of(directories.partial(place)) or {}
    if there.get("surrogate") != surrogate:
        # Nobody can use it: the surrogate that it is for has been replaced.
        directories.remove(directories.partial(place))
    return directories.begin(place, config, run.overwrite)


def _trained(run: Run, settings: Settings, work: Path) -> AmortizedExplainer:
    own = {key: entry for key, entry in settings.items() if key != "name"}
    if (work / "last.ckpt").exists():
        print("explainer: going on with an interrupted training")
    return fit_amortized(
        surrogate_of(run),
        run.data.x_train,
        x_validation=run.data.x_validation,
        **own,
        seed=run.settings["seed"],
        directory=work,
        trainer=run.trainer,
        progress=run.progress,
    )


def _saved(
    explainer: AmortizedExplainer, record: Settings, run: Run, metrics: Settings
) -> dict[str, Any]:
    """The metrics with this record, which are written, and so is the explainer."""
    others = {key: entry for key, entry in metrics.items() if key != "explainer"}
    # A new explainer never stands beside the settings and the error of an old one.
    directories.write_json(run.directory / "metrics.json", others)
    explainer.save(run.directory / _CHECKPOINT)
    metrics = {**others, "explainer": record}
    directories.write_json(run.directory / "metrics.json", metrics)
    return metrics


def surrogate_of(run: Run) -> SurrogateValue:
    """The surrogate of a finished run."""
    directory = classifier_directory(run.home, run.classifier_config, run.sweep)
    return load_surrogate(run.directory / "surrogate.ckpt", load_classifier(directory, run.data))


def _measured(explainer: AmortizedExplainer, run: Run) -> float:
    """Against a long run of an estimator, which is exact where players are few."""
    evaluations = _EVALUATIONS_PER_PLAYER * len(run.data.players)
    reference = auto_shapley(
        explainer.value,
        run.data.x_test[:_MEASURED_ROWS],
        evaluations=evaluations,
        progress=run.progress,
    )
    return explainer.measure(reference)
