"""Trains a classifier and a value function into the folder of a run, or finds them there."""

import warnings
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import open_dict

from manifold_shap import plots
from manifold_shap._stored import sample_of
from manifold_shap.amortized.fit import fit_amortized
from manifold_shap.cli import report
from manifold_shap.cli.run import (
    Trainer,
    beside,
    chosen,
    data_of,
    keep,
    model_of,
    once,
    place_of,
    plain,
    record_of,
    value_of,
)
from manifold_shap.data import Data
from manifold_shap.estimators import auto_shapley
from manifold_shap.metrics import mean_squared_error, shapley_pairs
from manifold_shap.models import Model
from manifold_shap.quality import OFF_MANIFOLD
from manifold_shap.saving import save
from manifold_shap.training.classifier import quality

# Draws behind the figure off the manifold.
_DRAWS = 64
# Pairs of a row and a coalition that an error is a mean over, at least one of each row: with more
# of the same rows it would take as long as a training, and be hardly more certain.
_PAIRS = 2_000
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
    cfg = chosen(cfg, job.runtime.choices)
    is_sweep = job.mode == RunMode.MULTIRUN
    if is_sweep:
        with open_dict(cfg):
            cfg.run = job.runtime.output_dir
    trainer = partial(instantiate, cfg.trainer, _convert_="all")
    data, place = data_of(cfg), place_of(cfg)
    model = model_of(cfg, data, trainer)
    record = record_of(cfg, data)
    make = partial(_value_function, cfg, data, model, trainer, is_sweep)
    metrics = once(place, record, cfg.overwrite, make)
    if cfg.amortized is not None:
        own = {"choices": {"amortized": "default"}, "amortized": plain(cfg.amortized)}
        explainer = partial(_amortized, cfg, data, model, trainer)
        metrics["amortized"] = once(
            place / "amortized", {**own, "of": record}, cfg.overwrite, explainer
        )
    return metrics


def _value_function(
    cfg: Any, data: Data, model: Model, trainer: Trainer, is_sweep: bool, work: Path
) -> dict[str, Any]:
    """Make the value function in a folder, score it beside one off the manifold, and draw both."""
    value = value_of(cfg, data, model, work, trainer)
    with warnings.catch_warnings():
        # Warnings about the model's outputs were given when `value` was made.
        warnings.simplefilter("ignore")
        off = value_of(beside(cfg, OFF_MANIFOLD), data, model).with_draws(_DRAWS)

    def scored(of: Any, rows: Any) -> Any:
        x = sample_of(rows)
        counts = of.counts(x.to(of.device)).cpu() if of.players.by_row else None
        mask = shapley_pairs(len(x), len(of.players), _PAIRS, counts=counts)
        return mean_squared_error(of, x, mask, progress=cfg.progress)

    score, score_off = scored(value, data.x_test), scored(off, data.x_test)
    measured = report.quality_of({OFF_MANIFOLD: score_off, value.name: score}, value.name)
    value.update(quality=measured)
    keep(value, work)
    # Of `marginal` the two differ in their draws alone.
    axes: Any = plots.mse_curve({value.name: score, "off manifold": score_off})
    axes.figure.savefig(work / report.CURVE, dpi=200)
    training = getattr(getattr(value, "imputer", value), "training_record", None) or {}
    measured_model: dict[str, Any] = quality(model, data)
    if measured_model:
        measured_model["rows"] = len(data.y_test)
    metrics = {
        **report.figures_of(score),
        **report.figures_of(score_off, "_off_manifold"),
        "mse_by_size": {"own": asdict(score.by_size), "off_manifold": asdict(score_off.by_size)},
        "quality": measured,
        "model": {"name": model.predictor.name, **measured_model},
        "train_seconds": training.get("train_seconds", 0.0),
        "epochs": training.get("epochs", 0),
    }
    if is_sweep:  # Test rows are for what a sweep has chosen.
        metrics["mse_validation"] = scored(value, data.x_validation).mse
    print(
        f"{value.name}: test MSE {score.mse:.4g} ± {score.standard_error:.4g}, off the manifold "
        f"{score_off.mse:.4g}; of {metrics['model']}; in {work.parent}"
    )
    if warning := measured.get("warning"):
        print(f"Note: {warning}.")
    if cfg.overwrite:
        report.forget(work.parent)
    return metrics


def _amortized(cfg: Any, data: Data, model: Model, trainer: Trainer, work: Path) -> dict[str, Any]:
    """Train an amortised explainer for the surrogate of the run, in a folder of the run."""
    value = value_of(cfg, data, model)
    explainer = fit_amortized(
        value,
        data.x_train,
        x_validation=data.x_validation,
        **plain(cfg.amortized),
        seed=cfg.seed,
        directory=work,
        trainer=trainer(),
        progress=cfg.progress,
    )
    # Against a long run of an estimator, which is exact where players are few.
    x = data.x_test[:_MEASURED_ROWS]
    error = explainer.measure(auto_shapley(value, x, evaluations=_EVALUATIONS * len(data.players)))
    save(explainer, work)
    print(f"amortized: relative error {error:.3f} on {len(x)} test rows")
    return {"relative_error": error, **explainer.training_record}
