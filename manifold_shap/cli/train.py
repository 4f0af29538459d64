"""Training a classifier and a value function into a run directory."""

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from manifold_shap import plots
from manifold_shap.cli import directories, report
from manifold_shap.cli.opening import open_value
from manifold_shap.cli.run import Run, Settings, classifier_directory, classifier_part
from manifold_shap.cli.value_functions import (
    TRAINED,
    Fitted,
    Source,
    Training,
    decisive_part,
    make,
    splicing,
)
from manifold_shap.io.files import load_checkpoint
from manifold_shap.metrics import Score, mean_squared_error, shapley_pairs
from manifold_shap.models import Model
from manifold_shap.spaces import as_space
from manifold_shap.training.classifier import accuracy, fit_classifier, load_classifier
from manifold_shap.values import ValueFunction

# Donors of the off-manifold figure in metrics.json.
_DRAWS = 64
# What only an interrupted training needs.
_TRAINING_STATE = ("best.ckpt", "last.ckpt", "lessons.ckpt")
_LEFT_BY_EXPLAIN = ("explanations.zarr", "plots", "summary.json")


def train(run: Run, recipe: Any) -> dict[str, Any]:
    """Train a classifier and a value function, or reuse what is there; return the metrics.

    Where an explainer is trained afterwards, `overwrite` is meant for that one, and a surrogate of
    these settings is reused.

    Args:
        run: what, and where.
        recipe: the classifier to train; see `fit_classifier`.

    Raises:
        ValueError: results of other settings are in the way and `overwrite` is false.
        KeyboardInterrupt: on Ctrl-C; the best checkpoint so far stays usable, and the same call
            goes on from there.
    """
    name, config = run.settings["value_function"]["name"], run.config
    anew = run.overwrite and "explainer" not in run.settings
    if directories.config_of(run.directory) == config and not anew:
        if _readable(run, name):
            print(f"{name}: already trained with these settings, in {run.directory}")
            return directories.read_json(run.directory / "metrics.json")
        print(f"{name}: the files in {run.directory} are damaged, so it is trained again")
    work = directories.begin(run.directory, config, run.overwrite, decisive_part)
    model = trained_classifier(run, recipe)
    classifier = classifier_directory(run.home, run.classifier_config, run.sweep)
    source = Source(run.data, model, classifier, run.settings["seed"], run.progress)
    fitted = fit_value(run, source, work)
    metrics = evaluate(fitted.value, source, fitted.record, work)
    if name in TRAINED:
        fitted.save(work / f"{name}.ckpt")
    for left in _TRAINING_STATE:
        directories.remove(work / left)
    directories.finish(run.directory)
    print(f"{name}: {_in_words(metrics)}; in {run.directory}")
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
        if name in TRAINED:
            load_checkpoint(run.directory / f"{name}.ckpt", name)
    except (ValueError, OSError):
        return False
    return True


def _check_unneeded(run: Run, changes: str) -> None:
    """Raise if replacing the classifier would orphan value functions that others trained."""
    if run.overwrite:
        return
    configs = {path.parent.name: path for path in sorted(run.home.glob("*/config.json"))}
    orphans = [
        name
        for name, path in configs.items()
        if _depends(directories.read_json(path), run.classifier_config)
    ]
    if orphans:
        raise ValueError(
            f"Expected the classifier for which {', '.join(orphans)} in {run.home} was trained, "
            f"but this call is for another one ({changes}). Give overwrite=true to replace the "
            "classifier, and train those again, or runs_dir=... to keep both."
        )


def _depends(config: Settings, classifier: Settings) -> bool:
    """Whether a value function of this configuration is lost with a classifier of this one."""
    kind = TRAINED.get(config.get("value_function", {}).get("name"))
    if kind is None:
        return False
    if kind.of_one_model:
        return classifier_part(config) != classifier
    return config["rows"] != classifier["rows"]


def fit_value(run: Run, source: Source, work: Path) -> Fitted:
    """Make the value function of the settings; checkpoints of a training go to `work`.

    One that does not depend on the classifier is trained once for all of them.
    """
    settings = run.settings["value_function"]
    name = settings["name"]
    if name not in TRAINED:
        value = make(source, settings)
        return Fitted(value, lambda path: None, {})
    if (kept := _kept(run, name)) is not None:
        print(f"{name}: the training in {run.directory} serves these settings, too; scored anew")
        fitted = TRAINED[name].load(run.directory / f"{name}.ckpt", source, settings, True)
        return fitted._replace(record=kept)
    if (work / "last.ckpt").exists():
        print(f"{name}: going on with an interrupted training")
    training = Training(work, run.trainer, _teacher(run, source))
    return TRAINED[name].fit(source, settings, training)


def _kept(run: Run, name: str) -> Settings | None:
    """The record of a finished training that these settings can use, if there is one."""
    there = directories.config_of(run.directory)
    if run.overwrite or there in (None, run.config) or not _readable(run, name):
        return None
    metrics = directories.read_json(run.directory / "metrics.json")
    return {key: metrics[key] for key in ("epochs", "train_seconds")}


def _teacher(run: Run, source: Source) -> ValueFunction | None:
    if run.teacher is None:
        return None
    settings = run.settings["value_function"]
    space = as_space(settings["output"], settings["zero_replacement"])
    opened = open_value(
        run.home,
        run.data,
        run.teacher["settings"],
        given=["value_function.draws"],
        source=source,
        space=space,
    )
    return opened.value


def evaluate(
    value: ValueFunction, source: Source, training: Settings, directory: Path
) -> dict[str, Any]:
    """Score a value function and splicing on the same test pairs: `metrics.json` and a plot."""
    data, model = source.data, source.model
    mask = shapley_pairs(len(data.x_test), len(data.players))
    with warnings.catch_warnings():
        # What the model's outputs give reason to say was said when `value` was made.
        warnings.simplefilter("ignore")
        off = splicing(model, data, value.space, _DRAWS)
    score = mean_squared_error(value, data.x_test, mask, progress=source.progress)
    score_off = mean_squared_error(off, data.x_test, mask, progress=source.progress)
    metrics = {
        **_figures(score),
        **_figures(score_off, "_off_manifold"),
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
    # Of marginal the two differ in their draws alone.
    curves = {value.name: score, "off manifold": score_off}
    figure = plots.mse_curve(curves, len(data.players))
    report.save_figures({"mse_by_size": figure}, directory / "plots")
    directories.write_json(directory / "metrics.json", metrics)
    return metrics


def _figures(score: Score, of: str = "") -> dict[str, Any]:
    figures = {
        f"mse{of}": score.mse,
        f"mse{of}_standard_error": score.standard_error,
        f"mse{of}_debiased": score.debiased,
        f"draws{of}": score.draws,
    }
    return figures if of else {**figures, "effective_draws": score.effective_draws}


def _in_words(metrics: Settings) -> str:
    draws = metrics["draws"]
    noise = f" with {draws} draws ({metrics['mse_debiased']:.5f} without their noise)"
    trained = f"; {metrics['epochs']} epochs in {metrics['train_seconds']:.1f} s"
    return (
        f"test MSE {metrics['mse']:.5f} ± {metrics['mse_standard_error']:.5f}"
        f"{noise if draws > 1 else ''}, off the manifold {metrics['mse_off_manifold']:.5f}"
        f"{trained if metrics['epochs'] else ''}"
    )
