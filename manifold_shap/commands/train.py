"""Training a classifier and a value function into a run directory."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from manifold_shap import plots
from manifold_shap.checkpoints import load_checkpoint
from manifold_shap.classifiers import Model
from manifold_shap.commands import directories, report
from manifold_shap.commands.run import (
    Run,
    classifier_directory,
    classifier_part,
    marginal_value,
)
from manifold_shap.data.base import TensorDataModule
from manifold_shap.metrics import mean_squared_error, shapley_pairs
from manifold_shap.training.classifier import accuracy, fit_classifier, load_classifier
from manifold_shap.training.surrogate import fit_surrogate
from manifold_shap.values import ValueFunction

# Donors of the off-manifold figure in metrics.json.
_DRAWS = 64
_LEFT_BY_EXPLAIN = ("explanations.zarr", "plots", "summary.json")


def train(run: Run, recipe: Any) -> dict[str, Any]:
    """Train a classifier and a value function, or reuse what is there; return the metrics.

    Args:
        run: what, and where.
        recipe: the classifier to train; see `fit_classifier`.

    Raises:
        ValueError: results of other settings are in the way and `overwrite` is false.
        KeyboardInterrupt: on Ctrl-C; the best checkpoint so far stays usable, and the same call
            goes on from there.
    """
    name, config = run.settings["value_function"]["name"], run.config
    if directories.config_of(run.directory) == config and not run.overwrite:
        if _readable(run, name):
            print(f"{name}: already trained with these settings, in {run.directory}")
            return directories.read_json(run.directory / "metrics.json")
        print(f"{name}: the files in {run.directory} are damaged, so it is trained again")
    work = directories.begin(run.directory, config, run.overwrite)
    model = trained_classifier(run, recipe)
    if (work / "last.ckpt").exists():
        print(f"{name}: going on with an interrupted training")
    value = fit_value(run, model, work)
    metrics = evaluate(value, model, run.data, work, run.progress)
    if (work / "best.ckpt").exists():
        (work / "best.ckpt").replace(work / f"{name}.ckpt")
        (work / "last.ckpt").unlink()
    directories.finish(run.directory)
    print(
        f"{name}: test MSE {metrics['mse']:.5f} ± {metrics['mse_standard_error']:.5f}, off the "
        f"manifold {metrics['mse_off_manifold']:.5f}; {metrics['epochs']} epochs in "
        f"{metrics['train_seconds']:.1f} s; in {run.directory}"
    )
    return metrics


def trained_classifier(run: Run, recipe: Any) -> Model:
    """The classifier of these settings: reused if it is there, trained otherwise.

    Raises:
        ValueError: another one is there, value functions were trained for it, and `overwrite` is
            false.
    """
    config = run.classifier_config
    directory = classifier_directory(run.home, config, run.sweep)
    there = directories.config_of(directory)
    if there == config and (model := _reused(directory, run)) is not None:
        return model
    if there not in (None, config):
        changes = "; ".join(directories.differences(there, config)[:4])
        _check_unneeded(run, changes)
        print(f"classifier: settings changed ({changes}), so it is trained again")
    work = directories.begin(directory, config, overwrite=True)
    seconds = fit_classifier(recipe, run.data, work, run.trainer, run.progress)
    model = load_classifier(work, run.data)
    found = accuracy(model, run.data.x_test, run.data.y_test)
    directories.write_json(
        work / "metrics.json", {"classifier_accuracy": found, "train_seconds": seconds}
    )
    directories.finish(directory)
    print(f"classifier: test accuracy {found:.2%}, trained in {seconds:.1f} s, in {directory}")
    return model


def _reused(directory: Path, run: Run) -> Model | None:
    try:
        model = load_classifier(directory, run.data)
        kept = directories.read_json(directory / "metrics.json")["classifier_accuracy"]
    except (ValueError, OSError) as error:
        print(f"classifier: trained again, for its files are damaged: {error}")
        return None
    print(f"classifier: reused from {directory}, test accuracy {kept:.2%}")
    return model


def _readable(run: Run, name: str) -> bool:
    try:
        directories.read_json(run.directory / "metrics.json")
        if name != "marginal":
            load_checkpoint(run.directory / f"{name}.ckpt", name)
    except (ValueError, OSError):
        return False
    return True


def _check_unneeded(run: Run, changes: str) -> None:
    """Raise if replacing the classifier would orphan value functions that others trained."""
    if run.overwrite:
        return
    config = run.classifier_config
    orphans = [
        path.parent.name
        for path in sorted(run.home.glob("*/config.json"))
        if "value_function" in (other := directories.read_json(path))
        and classifier_part(other) != config
    ]
    if orphans:
        raise ValueError(
            f"Expected the classifier for which {', '.join(orphans)} in {run.home} was trained, "
            f"but this call is for another one ({changes}). Give overwrite=true to replace the "
            "classifier, and train those again, or runs_dir=... to keep both."
        )


def fit_value(run: Run, model: Model, work: Path) -> ValueFunction:
    """Make the value function of the settings; checkpoints of a training go to `work`."""
    settings = dict(run.settings["value_function"])
    if settings.pop("name") == "marginal":
        return marginal_value(model, run.data, run.settings["seed"], **settings)
    return fit_surrogate(
        model,
        run.data.x_train,
        x_validation=run.data.x_validation,
        players=run.data.players,
        schema=run.data.schema,
        seed=run.settings["seed"],
        directory=work,
        trainer=run.trainer,
        progress=run.progress,
        **settings,
    )


def evaluate(
    value: ValueFunction,
    model: Model,
    data: TensorDataModule,
    directory: Path,
    progress: bool = False,
) -> dict[str, Any]:
    """Score a value function and splicing on the same test pairs: `metrics.json` and a plot."""
    mask = shapley_pairs(len(data.x_test), len(data.players))
    off = marginal_value(model, data, 0, value.space, _DRAWS)
    score = mean_squared_error(value, data.x_test, mask, progress=progress)
    score_off = mean_squared_error(off, data.x_test, mask, progress=progress)
    training = getattr(value, "training", {})
    metrics = {
        "mse": score.mse,
        "mse_standard_error": score.standard_error,
        "mse_off_manifold": score_off.mse,
        "mse_off_manifold_standard_error": score_off.standard_error,
        "mse_off_manifold_debiased": score_off.debiased,
        "draws_off_manifold": score_off.draws,
        "mse_by_size": {
            value.name: asdict(score.by_size),
            "off_manifold": asdict(score_off.by_size),
        },
        "classifier_accuracy": accuracy(model, data.x_test, data.y_test),
        "train_seconds": training.get("train_seconds", 0.0),
        "epochs": training.get("epochs", 0),
    }
    for stale in _LEFT_BY_EXPLAIN:
        directories.remove(directory / stale)
    report.save_figures(
        {
            "mse_by_size": plots.mse_curve(
                {value.name: score, "off manifold": score_off}, len(data.players)
            )
        },
        directory / "plots",
    )
    directories.write_json(directory / "metrics.json", metrics)
    return metrics
