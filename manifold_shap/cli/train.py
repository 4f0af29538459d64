"""Trains a classifier and a value function into a run directory, or reuses what is there."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hydra.utils import instantiate

from manifold_shap import plots
from manifold_shap.amortized.explainer import fit_amortized
from manifold_shap.cli import registry, report
from manifold_shap.cli.directories import (
    CURVE,
    METRICS,
    PLOTS,
    STORE,
    SUMMARY,
    begin,
    check_writable,
    differences,
    finish,
    in_progress,
    locked,
    read_config,
    read_json,
    write_json,
)
from manifold_shap.cli.run import BEST, Found, Run, classifier_part
from manifold_shap.estimators import auto_shapley
from manifold_shap.imputers import Imputer
from manifold_shap.io.files import digest, remove
from manifold_shap.metrics import Score, mean_squared_error, shapley_pairs
from manifold_shap.models import Model
from manifold_shap.surrogate.fit import load_surrogate
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.training.classifier import fit_classifier, load_classifier, quality
from manifold_shap.values import ValueFunction

Settings = Mapping[str, Any]
# Draws behind the figure off the manifold.
_DRAWS = 64
# What only an interrupted training needs, and what was explained with it.
_TRAINING_STATE = (BEST, "last.ckpt", "lessons.ckpt")
_EXPLAINED = (STORE, PLOTS, SUMMARY)
_AMORTIZED = "amortized.ckpt"
# Test rows on which an amortised explainer is measured, and evaluations per player of each: 16
# times the usual.
_MEASURED_ROWS, _EVALUATIONS = 16, 1024


def train(cfg: Any, sweep: Path | None = None) -> dict[str, Any]:
    """Train what the configuration says, or reuse it; return what `metrics.json` holds.

    Args:
        cfg: composed from `conf/train.yaml`.
        sweep: where one job of a multirun writes; by default `<runs_dir>/<data>/<value function>`.

    Raises:
        ValueError: settings that cannot be; or results of other settings are in the way, and
            `overwrite` is false.
        KeyboardInterrupt: on Ctrl-C; the best checkpoint so far stays usable, and the same call
            goes on from there.
    """
    settings = registry.plain(cfg)
    run, recipe = Run(settings, sweep), instantiate(cfg.classifier)
    amortized = settings.get("amortized")
    if amortized is not None and not registry.makes(run.found.settings, SurrogateValue):
        surrogates = partial(registry.makes, kind=SurrogateValue)
        raise ValueError(
            "Expected a surrogate together with `amortized`, which learns to explain one, but got "
            f"value_function={run.name}; leave `amortized` out, or choose value_function="
            f"{registry.names_where('value_function', surrogates)}."
        )
    check_writable(run.home)
    try:
        with locked(run.directory):
            metrics = _train_value(run, recipe)
            return metrics if amortized is None else _train_amortized(run, amortized, metrics)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "What was finished is kept, and so is the best checkpoint of a training, if there is "
            "one: explain.py can use it, and the same command goes on from here."
        ) from None


def _train_value(run: Run, recipe: Any) -> dict[str, Any]:
    """The metrics of the value function, which is trained, scored anew or found as it is.

    Where an amortised explainer is trained afterwards, `overwrite` is meant for that one.
    """
    settings, own, name = run.settings, run.found.settings, run.name
    named = registry.teacher_settings(own)
    teacher = None if named is None else run.find(named, ["value_function.draws"])
    config = _config(run, teacher)
    there, metrics = read_config(run.directory), read_json(run.directory / METRICS) or {}
    checkpoint = run.directory / f"{name}.ckpt"
    whole = bool(metrics) and metrics.get("checkpoint") == _digest(checkpoint)
    reuse = not settings["overwrite"] or settings.get("amortized") is not None
    if there == config and reuse:
        if whole:
            print(f"{name}: already trained with these settings, in {run.directory}")
            return metrics
        print(f"{name}: the files in {run.directory} are damaged, so it is trained again")
    decisive = partial(_decisive, free=registry.free_settings(own))
    work = begin(run.directory, config, settings["overwrite"], decisive)
    run.model = _classifier(run, recipe)
    space = registry.space_of(own)
    if registry.is_trained(own) and whole and there not in (None, config) and reuse:
        print(f"{name}: the training in {run.directory} serves these settings, too; scored anew")
        made: Any = registry.load(checkpoint, own, run, space)
        record: Settings = {key: metrics[key] for key in ("epochs", "train_seconds")}
    elif registry.is_trained(own):
        if (work / "last.ckpt").exists():
            print(f"{name}: going on with an interrupted training")
        taught_by = None if teacher is None else run.value(teacher, space)
        more = {"directory": work, "trainer": settings["trainer"], "teacher": taught_by}
        made = registry.make(own, run, space, **more)
        trained: Any = made
        record = trained.training_record if isinstance(made, Imputer) else trained.training
    else:
        made, record = registry.make(own, run, space), {}
    for left in _EXPLAINED:
        remove(work / left)
    metrics = _evaluate(registry.as_value(made, own, run, space), run, record, work)
    if registry.is_trained(own):
        made.save(work / checkpoint.name)
    metrics["checkpoint"] = _digest(work / checkpoint.name)
    write_json(work / METRICS, metrics)
    for left in _TRAINING_STATE:
        remove(work / left)
    finish(run.directory, config)
    print(f"{name}: {_in_words(metrics)}; in {run.directory}")
    for hint in metrics["hints"]:
        print(f"Note: {hint}")
    return metrics


def _config(run: Run, teacher: Found | None) -> dict[str, Any]:
    """What decides the value function, with checksums of the data and of a teacher."""
    own = run.found.settings
    config = run.classifier_config | {"value_function": registry.recorded(own)}
    if registry.serves_any_model(own):
        config["serves_any_model"] = True
    if teacher is not None:
        kept = registry.recorded(teacher.settings)
        # The surrogate decides on the output space.
        of = {key: kept[key] for key in kept if key not in ("output", "zero_replacement")}
        config["teacher"] = {"settings": of, "checkpoint": _digest(teacher.path)}
    return config


def _decisive(config: Settings, free: set[str]) -> dict[str, Any]:
    """The part of a configuration that a checkpoint depends on."""
    own = config["value_function"]
    part = {**config, "value_function": {key: own[key] for key in own if key not in free}}
    if config.get("serves_any_model"):
        del part["classifier"]
    return part


def _digest(path: Path | None) -> str | None:
    return digest(path.read_bytes()) if path is not None and path.exists() else None


def _classifier(run: Run, recipe: Any) -> Model:
    """The classifier of these settings: reused if it is there, trained otherwise.

    Raises:
        ValueError: another one is there, value functions were trained for it, and `overwrite` is
            false.
    """
    config, usual = run.classifier_config, run.classifier_directory
    with locked(usual, wait=True):
        there = read_config(usual)
        # The jobs of a sweep may differ in their classifier.
        if run.is_sweep and there not in (None, config):
            run.classifier_directory = run.other_classifier(config)
            there = read_config(run.classifier_directory)
        directory = run.classifier_directory
        if there == config:
            try:
                kept = read_json(directory / METRICS) or {}
                model = load_classifier(directory, run.data)
                print(f"classifier: reused from {directory}{_quality_of(kept)}")
                return model
            except (ValueError, OSError) as error:
                print(f"classifier: trained again, for its files are damaged: {error}")
        elif there is not None:
            changes = "; ".join(differences(there, config)[:4])
            _check_unneeded(run, config, changes)
            print(f"classifier: settings changed ({changes}), so it is trained again")
        work = begin(directory, config, overwrite=True)
        seconds = fit_classifier(recipe, run.data, work, run.settings["trainer"], run.progress)
        model = load_classifier(work, run.data)
        name, found = quality(model, run.data)
        metrics = {f"classifier_{name}": found, "train_seconds": seconds}
        write_json(work / METRICS, metrics)
        finish(directory, config)
    print(f"classifier: trained in {seconds:.1f} s, in {directory}{_quality_of(metrics)}")
    return model


def _quality_of(metrics: Settings) -> str:
    """What the metrics say of the model to explain, for a line of output."""
    names = {"classifier_accuracy": "accuracy", "classifier_r2": "R²"}
    known = {names[key]: value for key, value in metrics.items() if key in names}
    return "".join(f", test {name} {value:.2%}" for name, value in known.items())


def _check_unneeded(run: Run, config: Settings, changes: str) -> None:
    """Raise if replacing the classifier would orphan value functions that others trained."""
    trained = {path.parent for path in run.home.glob("*/*.ckpt")} - {run.classifier_directory}
    orphans = [place.name for place in sorted(trained) if _is_for_another(place, config)]
    if orphans and not run.settings["overwrite"]:
        raise ValueError(
            f"Expected the classifier for which {', '.join(orphans)} in {run.home} was trained, "
            f"but this call is for another one ({changes}). Give overwrite=true to replace the "
            "classifier, and train those again, or runs_dir=... to keep both."
        )


def _is_for_another(place: Path, classifier: Settings) -> bool:
    """Whether the value function in a directory would be lost with another classifier."""
    config = read_config(place)
    if config is None or "value_function" not in config:
        return False
    if config.get("serves_any_model"):
        return config["rows"] != classifier["rows"]
    return classifier_part(config) != classifier


def _evaluate(
    value: ValueFunction, run: Run, training: Settings, directory: Path
) -> dict[str, Any]:
    """Score a value function and one off the manifold on the same test pairs, and draw both."""
    data = run.data
    mask = shapley_pairs(len(data.x_test), len(data.players))
    with warnings.catch_warnings():
        # What the model's outputs give reason to say was said when `value` was made.
        warnings.simplefilter("ignore")
        off = registry.off_manifold(run, value.space, _DRAWS)
    score = mean_squared_error(value, data.x_test, mask, progress=run.progress)
    score_off = mean_squared_error(off, data.x_test, mask, progress=run.progress)
    # Of `marginal` the two differ in their draws alone.
    curves = {value.name: score, "off manifold": score_off}
    report.save_figures({CURVE: plots.mse_curve(curves, len(data.players))}, directory / PLOTS)
    name, found = quality(run.model, data)
    return {
        **_figures(score),
        "effective_draws": score.effective_draws,
        **_figures(score_off, "_off_manifold"),
        "mse_by_size": {
            value.name: asdict(score.by_size),
            "off_manifold": asdict(score_off.by_size),
        },
        "hints": report.hints(value, score, off, score_off),
        f"classifier_{name}": found,
        "train_seconds": training.get("train_seconds", 0.0),
        "epochs": training.get("epochs", 0),
    }


def _figures(score: Score, of: str = "") -> dict[str, Any]:
    return {
        f"mse{of}": score.mse,
        f"mse{of}_standard_error": score.standard_error,
        f"mse{of}_debiased": score.debiased,
        f"draws{of}": score.draws,
    }


def _in_words(metrics: Settings) -> str:
    draws = metrics["draws"]
    noise = f" with {draws} draws ({metrics['mse_debiased']:.5f} without their noise)"
    trained = f"; {metrics['epochs']} epochs in {metrics['train_seconds']:.1f} s"
    return (
        f"test MSE {metrics['mse']:.5f} ± {metrics['mse_standard_error']:.5f}"
        f"{noise if draws > 1 else ''}, off the manifold {metrics['mse_off_manifold']:.5f}"
        f"{trained if metrics['epochs'] else ''}"
    )


def _train_amortized(run: Run, own: Settings, metrics: Settings) -> dict[str, Any]:
    """Train an amortised explainer for the surrogate of the run; return the metrics of both.

    It lies beside the surrogate. One that was trained with the same settings is reused.

    Raises:
        ValueError: one of other settings is there, finished or not, and `overwrite` is false.
    """
    path, overwrite = run.directory / _AMORTIZED, run.settings["overwrite"]
    recorded = metrics.get("amortized", {}).get("settings")
    if path.exists() and recorded == own and not overwrite:
        print(f"amortized: already trained with these settings, in {run.directory}")
        return dict(metrics)
    if recorded not in (None, own) and not overwrite:
        changes = "; ".join(differences(recorded, own))
        raise ValueError(
            f"Expected {run.directory} to hold an amortised explainer of these settings, but it "
            f"is another one ({changes}). Give overwrite=true to replace it, or runs_dir=... to "
            "keep both."
        )
    place = run.directory.with_name(f"{run.directory.name}.amortized")
    config = {"seed": run.seed, "amortized": dict(own), "surrogate": metrics["checkpoint"]}
    work = in_progress(place)
    if (read_config(work) or config)["surrogate"] != config["surrogate"]:
        remove(work)  # No surrogate that it could be for is left.
    begin(place, config, overwrite)
    if (work / "last.ckpt").exists():
        print("amortized: going on with an interrupted training")
    value = load_surrogate(run.directory / f"{run.name}.ckpt", run.model)
    explainer = fit_amortized(
        value,
        run.data.x_train,
        x_validation=run.data.x_validation,
        **own,
        seed=run.seed,
        directory=work,
        trainer=run.settings["trainer"],
        progress=run.progress,
    )
    # Against a long run of an estimator, which is exact where players are few.
    evaluations = _EVALUATIONS * len(run.data.players)
    x = run.data.x_test[:_MEASURED_ROWS]
    long = auto_shapley(value, x, evaluations=evaluations, progress=run.progress)
    record = {"relative_error": explainer.measure(long), **explainer.training, "settings": own}
    others = {key: entry for key, entry in metrics.items() if key != "amortized"}
    # A new explainer never stands beside the settings and the error of an old one.
    write_json(run.directory / METRICS, others)
    explainer.save(path)
    metrics = others | {"amortized": record}
    write_json(run.directory / METRICS, metrics)
    # Last, so that until then an interruption loses no training.
    remove(work)
    print(
        f"amortized: relative error {record['relative_error']:.3f} on {_MEASURED_ROWS} test rows; "
        f"{record['epochs']} epochs in {record['train_seconds']:.1f} s; in {run.directory}"
    )
    return metrics
