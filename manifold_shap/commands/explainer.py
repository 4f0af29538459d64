"""Training an amortised explainer for the surrogate of a run."""

from typing import Any

from manifold_shap.commands import directories
from manifold_shap.commands.run import Run, Settings, classifier_directory
from manifold_shap.estimators import auto_shapley
from manifold_shap.estimators.amortized import AmortizedExplainer
from manifold_shap.training.classifier import load_classifier
from manifold_shap.training.explainer import fit_explainer
from manifold_shap.training.surrogate import load_surrogate
from manifold_shap.values import SurrogateValue

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


def train_explainer(run: Run, settings: Settings) -> dict[str, Any]:
    """Train an explainer for the surrogate of a finished run; return the run's metrics.

    It goes into the directory of the surrogate, and its error into `metrics.json` there. One that
    was trained with the same settings is reused.

    Raises:
        ValueError: an explainer of other settings is there, and `overwrite` is false.
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
    explainer = _trained(run, settings)
    record = {
        "relative_error": _measured(explainer, run),
        **explainer.training,
        "settings": dict(settings),
    }
    explainer.save(run.directory / _CHECKPOINT)
    directories.write_json(run.directory / "metrics.json", {**metrics, "explainer": record})
    print(
        f"explainer: relative error {record['relative_error']:.3f} on {_MEASURED_ROWS} test rows; "
        f"{record['epochs']} epochs in {record['train_seconds']:.1f} s; in {run.directory}"
    )
    return {**metrics, "explainer": record}


def _trained(run: Run, settings: Settings) -> AmortizedExplainer:
    own = {key: entry for key, entry in settings.items() if key != "name"}
    work = run.directory.with_name(f"{run.directory.name}.explainer.partial")
    if run.overwrite:
        directories.remove(work)
    if (work / "last.ckpt").exists():
        print("explainer: going on with an interrupted training")
    explainer = fit_explainer(
        surrogate_of(run),
        run.data.x_train,
        x_validation=run.data.x_validation,
        **own,
        seed=run.settings["seed"],
        directory=work,
        trainer=run.trainer,
        progress=run.progress,
    )
    directories.remove(work)
    return explainer


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
