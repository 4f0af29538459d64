"""Trains a classifier and a value function into the folder of a run, or finds them there."""

import warnings
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hydra.types import RunMode
from hydra.utils import instantiate
from jaxtyping import Bool
from torch import Tensor

from manifold_shap import plots
from manifold_shap._stored import sample_of
from manifold_shap.amortized.fit import fit_amortized
from manifold_shap.cli import report
from manifold_shap.cli.run import Run, composed, once, plain, typed_names
from manifold_shap.estimators import auto_shapley
from manifold_shap.metrics import errors_by_law, mean_squared_error, shapley_pairs
from manifold_shap.saving import fingerprint, save
from manifold_shap.training.classifier import quality
from manifold_shap.values import ValueFunction

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
        KeyboardInterrupt: on Ctrl-C; the same call continues from there.
    """
    typed, choices = typed_names(cfg, job), {**job.runtime.choices}
    if cfg.data.get("task") == "regression" and "classifier" not in typed:
        choices["classifier"] = "random_forest_regressor"
        cfg.classifier = composed("train", "classifier=random_forest_regressor").classifier
        cfg.classifier.random_state = cfg.seed
    is_sweep = job.mode == RunMode.MULTIRUN
    run = Run(cfg, choices, Path(job.runtime.output_dir) if is_sweep else None)
    trainer = partial(instantiate, cfg.trainer, _convert_="all")
    make = partial(_value_function, run, trainer, is_sweep)
    try:
        if cfg.get("model") is None:
            run.train_classifier(trainer)
        metrics = once(run.place, run.record, cfg.overwrite, make, run.name, run.decisive)
        if cfg.get("amortized") is not None:
            metrics["amortized"] = _train_amortized(run, trainer)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "What was finished is kept; the same command continues from here."
        ) from None
    for hint in metrics["hints"]:
        print(f"Note: {hint}")
    return metrics


def _value_function(run: Run, trainer: Any, is_sweep: bool, work: Path) -> dict[str, Any]:
    """Make the value function in a folder, score it beside one off the manifold, and draw both."""
    if run.cfg.overwrite:
        report.forget(run.place)
    value = run.value(work, trainer)
    training = getattr(getattr(value, "imputer", value), "training_record", None) or {}
    x = sample_of(run.data.x_test)
    mask = _pairs(value, x)
    with warnings.catch_warnings():
        # Warnings about the model's outputs were given when `value` was made.
        warnings.simplefilter("ignore")
        marginal = run.beside("marginal")
        marginal.cfg.value_function.draws = _DRAWS
        off = marginal.value()
    progress = run.cfg.progress
    score = mean_squared_error(value, x, mask, progress=progress)
    score_off = mean_squared_error(off, x, mask, progress=progress)
    # Of `marginal` the two differ in their draws alone.
    axes: Any = plots.mse_curve({value.name: score, "off manifold": score_off})
    axes.figure.savefig(work / report.CURVE, dpi=200)
    metrics = {
        **report.figures_of(score),
        **report.figures_of(score_off, "_off_manifold"),
        "mse_by_size": {"own": asdict(score.by_size), "off_manifold": asdict(score_off.by_size)},
        "hints": report.hints(value, score, off, score_off),
        "model": run.model.predictor.name,
        **{f"classifier_{k}": each for k, each in quality(run.model, run.data).items()},
        "train_seconds": training.get("train_seconds", 0.0),
        "epochs": training.get("epochs", 0),
    }
    law = value.spec.training_law
    if law is not None and len(law.parts) > 1:
        scores = errors_by_law(value, x, law, _PAIRS, progress=progress)
        metrics["mse_by_law"] = {name: report.figures_of(each) for name, each in scores.items()}
    if is_sweep:  # Test rows are for what a sweep has chosen.
        x = sample_of(run.data.x_validation)
        found = mean_squared_error(value, x, _pairs(value, x), progress=progress)
        metrics["mse_validation"] = found.mse
    print(f"{run.name}: {_text(metrics)}; in {run.place}")
    return metrics


def _pairs(value: ValueFunction, x: Tensor) -> Bool[Tensor, "rows m players"]:
    """Coalitions of the rows that an error is measured on."""
    counts = value.counts(x.to(value.device)).cpu() if value.players.by_row else None
    return shapley_pairs(len(x), len(value.players), _PAIRS, counts=counts)


def _text(metrics: dict[str, Any]) -> str:
    draws = metrics["draws"]
    noise = f" with {draws} draws ({metrics['mse_debiased']:.4g} without their noise)"
    trained = f"; {metrics['epochs']} epochs in {metrics['train_seconds']:.1f} s"
    own = {k: v for k, v in metrics.items() if k in ("classifier_accuracy", "classifier_r2")}
    model = "".join(f"; {k.replace('_', ' ')} {v:.2%}" for k, v in own.items())
    return (
        f"test MSE {metrics['mse']:.4g} ± {metrics['mse_standard_error']:.4g}"
        f"{noise if draws > 1 else ''}, off the manifold {metrics['mse_off_manifold']:.4g}"
        f"{trained if metrics['epochs'] else ''}{model}"
    )


def _train_amortized(run: Run, trainer: Any) -> dict[str, Any]:
    """Train an amortised explainer for the surrogate of the run, in a folder of the run."""
    value, own, data = run.value(), plain(run.cfg.get("amortized")), run.data
    network = value.one_network()
    if network is None:
        raise ValueError(
            "Expected value_function=surrogate together with `amortized`, which learns to explain "
            f"one, but got {run.name}; leave `amortized` out."
        )

    def make(work: Path) -> dict[str, Any]:
        explainer = fit_amortized(
            network.value,
            data.x_train,
            x_validation=data.x_validation,
            **own,
            seed=run.seed,
            directory=work,
            trainer=trainer(),
            progress=run.cfg.progress,
        )
        # Against a long run of an estimator, which is exact where players are few.
        evaluations = _EVALUATIONS * len(data.players)
        x = data.x_test[:_MEASURED_ROWS]
        error = explainer.measure(auto_shapley(value, x, evaluations=evaluations))
        save(explainer, work)
        print(f"amortized: relative error {error:.3f} on {len(x)} test rows")
        return {"relative_error": error, **explainer.training_record}

    surrogate = fingerprint(run.checkpoint)
    choices = {"amortized": "default"}
    record = {"choices": choices, "amortized": own, "seed": run.seed, "surrogate": surrogate}
    return once(run.place / "amortized", record, run.cfg.overwrite, make, "amortized")
