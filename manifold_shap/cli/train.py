"""Trains a classifier and a value function into a run directory, or reuses what is there."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hydra.utils import instantiate

from manifold_shap import plots
from manifold_shap._words import check_flag
from manifold_shap.amortized.explainer import fit_amortized
from manifold_shap.cli import registry, report
from manifold_shap.cli.directory import (
    BEST,
    CURVE,
    METRICS,
    PLOTS,
    STORE,
    SUMMARY,
    Directory,
    differences,
    read_config,
    read_json,
    write_json,
)
from manifold_shap.cli.registry import Source
from manifold_shap.cli.run import Run, classifier_part
from manifold_shap.estimators import auto_shapley
from manifold_shap.imputers import MarginalImputer
from manifold_shap.io.files import digest, remove
from manifold_shap.metrics import mean_squared_error, shapley_pairs
from manifold_shap.surrogate.fit import load_surrogate
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.training.classifier import fit_classifier, load_classifier, quality
from manifold_shap.values import ValueFunction, imputed_value

Settings = Mapping[str, Any]
# Draws behind the figure off the manifold.
_DRAWS = 64
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
            continues from there.
    """
    settings = registry.plain(cfg)
    run, recipe = Run(settings, sweep), instantiate(cfg.classifier)
    check_flag("overwrite", settings["overwrite"])
    amortized = settings.get("amortized")
    if amortized is not None and not registry.makes(run.source.settings, SurrogateValue):
        surrogates = partial(registry.makes, kind=SurrogateValue)
        raise ValueError(
            "Expected a surrogate together with `amortized`, which learns to explain one, but got "
            f"value_function={run.name}; leave `amortized` out, or choose value_function="
            f"{registry.names_where('value_function', surrogates)}."
        )
    try:
        with run.directory.locked():
            metrics = _train_value(run, recipe)
            return metrics if amortized is None else _train_amortized(run, amortized, metrics)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "What was finished is kept, and so is the best checkpoint of a training, if there is "
            "one: explain.py can use it, and the same command continues from here."
        ) from None


def _train_value(run: Run, recipe: Any) -> dict[str, Any]:
    """The metrics of the value function, which is trained, scored again or found as it is.

    Where an amortised explainer is trained afterwards, `overwrite` is meant for that one.
    """
    settings, source, name, directory = run.settings, run.source, run.name, run.directory
    named = source.teacher()
    teacher = None if named is None else run.find(named, ["value_function.draws"])
    config = _config(run, teacher)
    there, metrics = read_config(directory.path), read_json(directory.path / METRICS) or {}
    checkpoint = directory.path / f"{name}.ckpt"
    whole = bool(metrics) and metrics.get("checkpoint") == _digest(checkpoint)
    reuse = not settings["overwrite"] or settings.get("amortized") is not None
    if there == config and reuse:
        if whole:
            print(f"{name}: already trained with these settings, in {directory.path}")
            return metrics
        print(f"{name}: the files in {directory.path} are damaged, so it is trained again")
    decisive = partial(_decisive, free=source.free)
    with (
        directory.begin(config, settings["overwrite"], decisive) as work,
        _classifier(run, recipe),
    ):
        if source.is_trained and whole and there not in (None, config) and reuse:
            serves = f"the training in {directory.path} serves these settings, too"
            print(f"{name}: {serves}; scored again")
            made = run.made(Source(source.settings, checkpoint), source.space)
            record: Settings = metrics
        elif source.is_trained:
            if (work / "last.ckpt").exists():
                print(f"{name}: continuing an interrupted training")
            taught_by = None if teacher is None else run.value(teacher, source.space)
            more = {"directory": work, "trainer": settings["trainer"], "teacher": taught_by}
            made = trained = run.made(source, source.space, **more)
            record = trained.training_record
        else:
            made, record = run.made(source, source.space), {}
        for left in (STORE, PLOTS, SUMMARY):
            remove(work / left)  # Explained with the best checkpoint of an interrupted training.
        metrics = _evaluate(run.as_value(made, source, source.space), run, record, work)
        if source.is_trained:
            made.save(work / checkpoint.name)
        metrics["checkpoint"] = _digest(work / checkpoint.name)
        write_json(work / METRICS, metrics)
        for left in (BEST, "last.ckpt", "teacher.ckpt"):
            remove(work / left)
    directory.finish(config)
    print(f"{name}: {_in_words(metrics)}; in {directory.path}")
    for hint in metrics["hints"]:
        print(f"Note: {hint}")
    return metrics


def _config(run: Run, teacher: Source | None) -> dict[str, Any]:
    """What decides the value function, with checksums of the data and of a teacher."""
    config = run.classifier_config | {"value_function": run.source.record}
    if run.source.serves_any_model:
        config["serves_any_model"] = True
    if teacher is not None:
        # The surrogate decides on the output space.
        apart = ("output", "zero_replacement")
        kept = {key: entry for key, entry in teacher.record.items() if key not in apart}
        config["teacher"] = {"settings": kept, "checkpoint": _digest(teacher.path)}
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


@contextmanager
def _classifier(run: Run, recipe: Any) -> Iterator[None]:
    """Give the run the classifier of its settings: reused if it is there, trained otherwise.

    One of other settings is replaced when the work that needs the new one is done or interrupted:
    what fails leaves the old one in its place, with all that was trained for it.

    Raises:
        ValueError: another one is there, value functions were trained for it, and `overwrite` is
            false.
    """
    config, directory = run.classifier_config, Directory(run.classifier)
    with directory.locked(wait=True):
        there = read_config(directory.path)
        # The jobs of a sweep may differ in their classifier.
        if run.is_sweep and there not in (None, config):
            directory = Directory(run.other_classifier(config))
            there = read_config(directory.path)
        run.classifier = directory.path
        if there not in (None, config):
            changes = "; ".join(differences(there, config)[:4])
            _check_unneeded(run, config, changes)
            print(f"classifier: settings changed ({changes}), so it is trained again")
            with directory.begin(config, overwrite=True) as run.classifier:
                _train_classifier(run, recipe, directory)
                try:
                    yield
                except KeyboardInterrupt:
                    directory.finish(config)
                    raise
            directory.finish(config)
            return
        if there is None or not _is_reused(run):
            with directory.begin(config, overwrite=True) as run.classifier:
                _train_classifier(run, recipe, directory)
            directory.finish(config)
            run.classifier = directory.path
    yield


def _is_reused(run: Run) -> bool:
    try:
        run.model = load_classifier(run.classifier, run.data)
    except (ValueError, OSError) as error:
        print(f"classifier: trained again, for its files are damaged: {error}")
        return False
    kept = read_json(run.classifier / METRICS) or {}
    print(f"classifier: reused from {run.classifier}{_quality_of(kept)}")
    return True


def _train_classifier(run: Run, recipe: Any, directory: Directory) -> None:
    work, metrics = directory.work, read_json(directory.work / METRICS)
    if not metrics:
        own = (recipe, run.data, work, run.settings["trainer"], run.progress)
        metrics = {"train_seconds": fit_classifier(*own)}
    run.model = load_classifier(work, run.data)
    name, found = quality(run.model, run.data)
    metrics[f"classifier_{name}"] = found
    write_json(work / METRICS, metrics)
    took = f"{metrics['train_seconds']:.1f} s, in {directory.path}"
    print(f"classifier: trained in {took}{_quality_of(metrics)}")


def _quality_of(metrics: Settings) -> str:
    """What the metrics say of the model to explain, for a line of output."""
    names = {"classifier_accuracy": "accuracy", "classifier_r2": "R²"}
    known = {names[key]: value for key, value in metrics.items() if key in names}
    return "".join(f", test {name} {value:.2%}" for name, value in known.items())


def _check_unneeded(run: Run, config: Settings, changes: str) -> None:
    """Raise if replacing the classifier would orphan value functions that others trained."""
    trained = {path.parent for path in run.home.glob("[!.]*/*.ckpt")} - {run.classifier}
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


def _evaluate(value: ValueFunction, run: Run, training: Settings, place: Path) -> dict[str, Any]:
    """Score a value function and one off the manifold on the same test pairs, and draw both."""
    data = run.data
    mask = shapley_pairs(len(data.x_test), len(data.players))
    with warnings.catch_warnings():
        # Warnings about the model's outputs were given when `value` was made.
        warnings.simplefilter("ignore")
        imputer = MarginalImputer(data.x_train, data.players)
        off = imputed_value(run.model, imputer, value.space, _DRAWS)
    score = mean_squared_error(value, data.x_test, mask, progress=run.progress)
    score_off = mean_squared_error(off, data.x_test, mask, progress=run.progress)
    # Of `marginal` the two differ in their draws alone.
    curves = {value.name: score, "off manifold": score_off}
    figure = plots.mse_curve(curves, len(data.players))
    report.save_figures({CURVE: figure}, place / PLOTS)
    name, found = quality(run.model, data)
    return {
        **report.figures_of(score),
        **report.figures_of(score_off, "_off_manifold"),
        "mse_by_size": {
            value.name: asdict(score.by_size),
            "off_manifold": asdict(score_off.by_size),
        },
        "hints": report.hints(value, score, off, score_off),
        f"classifier_{name}": found,
        "train_seconds": training.get("train_seconds", 0.0),
        "epochs": training.get("epochs", 0),
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
    place, overwrite = run.directory.path, run.settings["overwrite"]
    path, recorded = place / "amortized.ckpt", metrics.get("amortized", {}).get("settings")
    if path.exists() and recorded == own and not overwrite:
        print(f"amortized: already trained with these settings, in {place}")
        return dict(metrics)
    if recorded not in (None, own) and not overwrite:
        raise ValueError(
            f"Expected {place} to hold an amortised explainer of these settings, but it is "
            f"another one ({'; '.join(differences(recorded, own))}). Give overwrite=true to "
            "replace it, or runs_dir=... to keep both."
        )
    directory = Directory(place.with_name(f"{place.name}.amortized"))
    config = {"seed": run.seed, "amortized": dict(own), "surrogate": metrics["checkpoint"]}
    if (read_config(directory.work) or config)["surrogate"] != config["surrogate"]:
        remove(directory.work)  # No surrogate that it could be for is left.
    with directory.begin(config, overwrite) as work:
        if (work / "last.ckpt").exists():
            print("amortized: continuing an interrupted training")
        value = load_surrogate(place / f"{run.name}.ckpt", run.model)
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
        error = explainer.measure(long)
        record = {"relative_error": error, **explainer.training_record, "settings": own}
        others = {key: entry for key, entry in metrics.items() if key != "amortized"}
        # A new explainer never stands beside the settings and the error of an old one.
        write_json(place / METRICS, others)
        explainer.save(path)
        metrics = others | {"amortized": record}
        write_json(place / METRICS, metrics)
        # Last, so that until then an interruption loses no training.
        remove(work)
    print(
        f"amortized: relative error {record['relative_error']:.3f} on {_MEASURED_ROWS} test rows; "
        f"{record['epochs']} epochs in {record['train_seconds']:.1f} s; in {place}"
    )
    return metrics
