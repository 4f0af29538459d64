"""Trains a classifier and a value function into the folder of a run, or finds them there."""

import warnings
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hydra.types import RunMode
from omegaconf import open_dict

import manifold_shap as ms
from manifold_shap.cli import report, run
from manifold_shap.data import Data
from manifold_shap.quality import OFF_MANIFOLD, measured
from manifold_shap.training.classifier import quality as accuracies

# Test rows on which an amortised explainer is measured, and evaluations per player of each: 16
# times the usual.
_MEASURED_ROWS, _EVALUATIONS = 16, 1024


def train(cfg: Any, job: Any) -> dict[str, Any]:
    """Train what the settings say, or find it; return what `metrics.json` holds.

    Args:
        cfg: composed from `conf/train.yaml`.
        job: Hydra's own settings of this call.

    Raises:
        TypeError, ValueError: settings that cannot be; or results of other settings are in the way,
            and `overwrite` is false.
    """
    cfg, is_sweep = run.chosen(cfg, job.runtime.choices), job.mode == RunMode.MULTIRUN
    if is_sweep:
        with open_dict(cfg):
            cfg.run = job.runtime.output_dir
    data, place = run.data_of(cfg), run.place_of(cfg)
    model, record = run.model_of(cfg, data), run.record_of(cfg, data)
    if run.read_config(place) == record:
        print(f"Made before with these settings: {place}")
    make = partial(_value_function, cfg, data, model, is_sweep)
    metrics = run.once(place, record, cfg.overwrite, make)
    if amortized := run.plain(cfg.get("amortized")):
        own = {"choices": {"amortized": "default"}, "amortized": amortized, "of": record}
        make = partial(_amortized, cfg, data, model)
        metrics["amortized"] = run.once(place / "amortized", own, cfg.overwrite, make)
    return metrics


def _value_function(
    cfg: Any, data: Data, model: ms.Model, is_sweep: bool, work: Path
) -> dict[str, Any]:
    """Make the value function in a folder, score it beside one off the manifold, and draw both."""
    with warnings.catch_warnings():
        # Below it is said of test rows.
        warnings.filterwarnings("ignore", ".* is not clearly better than off the manifold")
        value = run.value_of(cfg, data, model, work)
    with warnings.catch_warnings():
        # Warnings about the model's outputs were given when `value` was made.
        warnings.simplefilter("ignore")
        off = run.value_of(run.beside(cfg, OFF_MANIFOLD), data, model)
    score, score_off = (report.scored(each, data.x_test, cfg.progress) for each in (value, off))
    quality = measured({OFF_MANIFOLD: score_off, value.name: score}, value.name, report.FITS)
    value.update(quality=quality.to_dict())
    made = getattr(value, "imputer", value)  # An imputer serves any model.
    training = getattr(made, "training_record", None) or {}
    if training:
        ms.save(made, work)
    axes: Any = ms.plots.mse_curve({value.name: score, "off manifold": score_off})
    axes.figure.savefig(work / report.CURVE, dpi=200)
    of_model: dict[str, Any] = {"name": model.predictor.name}
    if accuracy := accuracies(model, data):
        of_model |= {**accuracy, "rows": len(data.y_test)}
    metrics = {
        **report.figures_of(score),
        **report.figures_of(score_off, "_off_manifold"),
        "mse_by_size": {"own": asdict(score.by_size), "off_manifold": asdict(score_off.by_size)},
        "quality": quality.to_dict(),
        "model": of_model,
        "train_seconds": training.get("train_seconds", 0.0),
        "epochs": training.get("epochs", 0),
    }
    if is_sweep:  # Test rows are for what a sweep has chosen.
        metrics["mse_validation"] = report.scored(value, data.x_validation, cfg.progress).mse
    print(f"{quality}\nin {work.parent}\n{report.advice(cfg, data, quality.warning)}", end="")
    if cfg.overwrite:
        report.forget(work.parent)
    return metrics


def _amortized(cfg: Any, data: Data, model: ms.Model, work: Path) -> dict[str, Any]:
    """Train an amortised explainer for the surrogate of the run, in a folder of the run."""
    value = run.value_of(cfg, data, model)
    explainer = ms.fit_amortized(
        value,
        data.x_train,
        x_validation=data.x_validation,
        **run.plain(cfg.amortized),
        seed=cfg.seed,
        directory=work,
        trainer=run.trainer_of(cfg),
        progress=cfg.progress,
    )
    # Against a long run of an estimator, which is exact where players are few.
    x = data.x_test[:_MEASURED_ROWS]
    long = ms.auto_shapley(value, x, evaluations=_EVALUATIONS * len(data.players))
    error = explainer.measure(long)
    ms.save(explainer, work)
    print(f"amortized: relative error {error:.3f} on {len(x)} test rows")
    return {"relative_error": error, **explainer.training_record}
