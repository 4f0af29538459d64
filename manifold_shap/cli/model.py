"""Gives a run the model to explain: trained, reused, or the user's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from manifold_shap._messages import shown
from manifold_shap.cli.directory import (
    METRICS,
    Directory,
    differences,
    read_config,
    read_json,
    write_json,
)
from manifold_shap.cli.run import Run, classifier_part
from manifold_shap.training.classifier import fit_classifier, load_classifier, quality

Settings = Mapping[str, Any]


def train_model(run: Run, recipe: Any) -> None:
    """Give the run the classifier of its settings: reused if it is there, trained otherwise.

    Raises:
        ValueError: another one is there, value functions were trained for it, and `overwrite` is
            false.
    """
    config, directory = run.classifier_config, Directory(run.classifier)
    run.home.mkdir(parents=True, exist_ok=True)
    # The jobs of a sweep may run at once, and the first of them trains it.
    with FileLock(run.home / ".classifier.lock"):
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
        elif there is not None and run.own_model is None:
            run.model = load_classifier(run.classifier, run.data)
            kept = read_json(run.classifier / METRICS) or {}
            print(f"classifier: reused from {run.classifier}{_quality_text(kept)}")
            return
        run.classifier = directory.begin(config, overwrite=True)
        _train_classifier(run, recipe, directory)
        directory.finish()
        run.classifier = directory.path


def _train_classifier(run: Run, recipe: Any, directory: Directory) -> None:
    work, metrics = directory.work, read_json(directory.work / METRICS)
    if run.own_model is not None:
        write_json(work / METRICS, quality_of(run))
        which = run.own_model.get("path") or run.own_model.get("call")
        print(
            f"model: {which}, outputs {shown(run.model.classes, 5)}{_quality_text(quality_of(run))}"
        )
        return
    if not metrics:
        own = (recipe, run.data, work, run.trainer, run.progress)
        metrics = {"train_seconds": fit_classifier(*own)}
    run.model = load_classifier(work, run.data)
    metrics |= quality_of(run)
    write_json(work / METRICS, metrics)
    took = f"{metrics['train_seconds']:.1f} s, in {directory.path}"
    print(f"classifier: trained in {took}{_quality_text(metrics)}")


def quality_of(run: Run) -> dict[str, float]:
    """The accuracy, or R², of the model on the test rows; nothing where it is not known."""
    return {f"classifier_{name}": found for name, found in quality(run.model, run.data).items()}


def record_of(run: Run) -> dict[str, Any]:
    """What an explanation records of the model: its name, and its quality where that is known."""
    known = {"name": run.model.predictor.name}
    if run.own_model is not None:
        config = read_config(run.classifier) or {}
        if config.get("classifier") != run.settings["classifier"]:
            return known  # What was measured is of another model.
    metrics = read_json(run.classifier / METRICS) or {}
    measured = {
        name: metrics[f"classifier_{name}"]
        for name in ("accuracy", "r2")
        if f"classifier_{name}" in metrics
    }
    return {**known, **measured, **({"rows": len(run.data.y_test)} if measured else {})}


def _quality_text(metrics: Settings) -> str:
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
