"""Trains a classifier and a value function into a run directory, or reuses what is there."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from jaxtyping import Bool
from omegaconf import OmegaConf
from torch import Tensor

from manifold_shap import plots
from manifold_shap._messages import check_flag
from manifold_shap._stored import sample_of
from manifold_shap.amortized.fit import fit_amortized
from manifold_shap.cli import CONF, registry, report
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
from manifold_shap.cli.model import quality_of, train_model
from manifold_shap.cli.registry import Source
from manifold_shap.cli.run import Run
from manifold_shap.estimators import auto_shapley
from manifold_shap.io.files import digest, remove
from manifold_shap.metrics import errors_by_law, mean_squared_error, shapley_pairs
from manifold_shap.surrogate.fit import load_surrogate
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.values import ValueFunction

Settings = Mapping[str, Any]
# Among the metrics of a job of a sweep, what is to be made small.
OBJECTIVE = "mse_validation"
# Draws behind the figure off the manifold.
_DRAWS = 64
# Pairs of a row and a coalition that an error is a mean over, at least one of each row: with more
# of the same rows it would take as long as a training, and be hardly more certain.
_PAIRS = 2_000
# Test rows on which an amortised explainer is measured, and evaluations per player of each: 16
# times the usual.
_MEASURED_ROWS, _EVALUATIONS = 16, 1024


def train(cfg: Any, sweep: Path | None = None, given: Sequence[str] = ()) -> dict[str, Any]:
    """Train what the configuration says, or reuse it; return what `metrics.json` holds.

    Args:
        cfg: composed from `conf/train.yaml`.
        sweep: where one job of a multirun writes; by default `<runs_dir>/<data>/<value function>`.
        given: names of the settings that the user gave. Where no classifier is among them, that of
            a regression is a regressor.

    Raises:
        ValueError: settings that cannot be; or results of other settings are in the way, and
            `overwrite` is false.
        KeyboardInterrupt: on Ctrl-C; the best checkpoint so far stays usable, and the same call
            continues from there.
    """
    if (count := os.environ.get("WORLD_SIZE", "1")) != "1":
        raise ValueError(
            f"Expected one process of this command but {count} were started, as by torchrun; give "
            "trainer.devices=2, for which a training starts the others itself."
        )
    usual = cfg.classifier.get("_target_") == registry.defaults("classifier", "mlp")["_target_"]
    chosen = any(name.partition(".")[0] == "classifier" for name in given)
    if usual and not chosen and cfg.data.get("task") == "regression":
        cfg.classifier = OmegaConf.load(CONF / "classifier" / "random_forest_regressor.yaml")
    settings = registry.plain(cfg)
    run = Run(settings, sweep)
    recipe = None if run.own_model else instantiate(cfg.classifier)
    check_flag("overwrite", settings["overwrite"])
    amortized = settings.get("amortized")
    if amortized is not None and not registry.makes(run.source.settings, SurrogateValue):
        raise ValueError(
            "Expected value_function=surrogate together with `amortized`, which learns to explain "
            f"one, but got {run.name}; leave `amortized` out."
        )
    try:
        metrics = _train_value(run, recipe)
        return metrics if amortized is None else _train_amortized(run, amortized, metrics)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "What was finished is kept; the same command continues from here."
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
    reuse = not settings["overwrite"] or settings.get("amortized") is not None
    if there == config and reuse:
        print(f"{name}: already trained with these settings, in {directory.path}")
        return metrics
    decisive = partial(_decisive, free=source.free)
    work = directory.begin(config, settings["overwrite"], decisive)
    train_model(run, recipe)
    if source.is_trained and there is not None and reuse:
        serves = f"the training in {directory.path} serves these settings, too"
        print(f"{name}: {serves}; scored again")
        made = run.made(Source(source.settings, checkpoint), source.space)
        record: Settings = metrics
    elif source.is_trained:
        if (work / "last.ckpt").exists():
            print(f"{name}: continuing an interrupted training")
        taught_by = None if teacher is None else run.value(teacher, source.space)
        more = {"directory": work, "trainer": run.trainer, "teacher": taught_by}
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
    # Without the last checkpoint a training begins anew; with it, it needs the best one.
    for left in ("last.ckpt", BEST):
        remove(work / left)
    directory.finish()
    print(f"{name}: {_metrics_text(metrics)}; in {directory.path}")
    for hint in metrics["hints"]:
        print(f"Note: {hint}")
    return metrics


def _config(run: Run, teacher: Source | None) -> dict[str, Any]:
    """What decides the value function, with checksums of the data and of a teacher."""
    config = run.classifier_config | {"value_function": run.source.record}
    if run.settings.get("players"):
        config["players"] = run.settings["players"]
    if run.source.serves_any_model:
        config["serves_any_model"] = True
    if teacher is not None:
        # The surrogate decides on the output space.
        apart = ("space", "zero_replacement")
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


def _evaluate(value: ValueFunction, run: Run, training: Settings, place: Path) -> dict[str, Any]:
    """Score a value function and one off the manifold on the same test pairs, and draw both."""
    x = sample_of(run.data.x_test)
    mask = _pairs(value, x)
    with warnings.catch_warnings():
        # Warnings about the model's outputs were given when `value` was made.
        warnings.simplefilter("ignore")
        marginal = Source(registry.defaults("value_function", "marginal") | {"draws": _DRAWS})
        off = run.as_value(run.made(marginal, value.space), marginal, value.space)
    score = mean_squared_error(value, x, mask, progress=run.progress)
    score_off = mean_squared_error(off, x, mask, progress=run.progress)
    # Of `marginal` the two differ in their draws alone.
    curves = {value.name: score, "off manifold": score_off}
    figure = plots.mse_curve(curves)
    report.save_figures({CURVE: figure}, place / PLOTS)
    return {
        **report.figures_of(score),
        **report.figures_of(score_off, "_off_manifold"),
        "mse_by_size": {
            value.name: asdict(score.by_size),
            "off_manifold": asdict(score_off.by_size),
        },
        **_by_law(value, run),
        **(_of_choices(value, run) if run.is_sweep else {}),
        "hints": report.hints(value, score, off, score_off),
        **quality_of(run),
        "train_seconds": training.get("train_seconds", 0.0),
        "epochs": training.get("epochs", 0),
    }


def _pairs(value: ValueFunction, x: Tensor) -> Bool[Tensor, "rows m players"]:
    """Coalitions of the rows that an error is measured on."""
    counts = value.counts(x.to(value.device)).cpu() if value.players.by_row else None
    return shapley_pairs(len(x), len(value.players), _PAIRS, counts=counts)


def _of_choices(value: ValueFunction, run: Run) -> dict[str, float]:
    """The error on validation rows, by which a sweep chooses: test rows are for what is chosen."""
    x = sample_of(run.data.x_validation)
    found = mean_squared_error(value, x, _pairs(value, x), progress=run.progress)
    return {OBJECTIVE: found.mse}


def _by_law(value: ValueFunction, run: Run) -> dict[str, Any]:
    """The error under each law of coalitions, where the training was on a mixture of several."""
    law, x = value.training_law, sample_of(run.data.x_test)
    if law is None or len(law.parts) == 1:
        return {}
    scores = errors_by_law(value, x, law, _PAIRS, progress=run.progress)
    return {"mse_by_law": {name: report.figures_of(each) for name, each in scores.items()}}


def _metrics_text(metrics: Settings) -> str:
    draws = metrics["draws"]
    noise = f" with {draws} draws ({metrics['mse_debiased']:.4g} without their noise)"
    trained = f"; {metrics['epochs']} epochs in {metrics['train_seconds']:.1f} s"
    laws = {name: each["mse"] for name, each in metrics.get("mse_by_law", {}).items()}
    by_law = "".join(f", {name} {mse:.4g}" for name, mse in laws.items())
    return (
        f"test MSE {metrics['mse']:.4g} ± {metrics['mse_standard_error']:.4g}"
        f"{noise if draws > 1 else ''}, off the manifold {metrics['mse_off_manifold']:.4g}{by_law}"
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
    work = directory.begin(config, overwrite)
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
        trainer=run.trainer,
        progress=run.progress,
    )
    # Against a long run of an estimator, which is exact where players are few.
    evaluations = _EVALUATIONS * len(run.data.players)
    x = run.data.x_test[:_MEASURED_ROWS]
    long = auto_shapley(value, x, evaluations=evaluations, progress=run.progress)
    error = explainer.measure(long)
    record = {"relative_error": error, **explainer.training_record, "settings": own}
    explainer.save(path)
    metrics = {**metrics, "amortized": record}
    write_json(place / METRICS, metrics)
    # Last, so that until then an interruption loses no training.
    remove(work)
    print(
        f"amortized: relative error {record['relative_error']:.3f} on {_MEASURED_ROWS} test rows; "
        f"{record['epochs']} epochs in {record['train_seconds']:.1f} s; in {place}"
    )
    return metrics
