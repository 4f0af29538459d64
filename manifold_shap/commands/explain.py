"""Explaining test rows with what a run directory holds."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manifold_shap.commands import directories, report
from manifold_shap.commands.run import Run, Settings, marginal_value
from manifold_shap.data.base import TensorDataModule
from manifold_shap.training.classifier import load_classifier
from manifold_shap.training.surrogate import load_surrogate
from manifold_shap.values import ValueFunction


def recorded_data(home: Path, current: Settings, given: Sequence[str]) -> dict[str, Any]:
    """The data settings that a run was trained with, so that they need not be typed again.

    Args:
        home: the directory of the data set's runs.
        current: the data settings of this call; they decide the class and where files are.
        given: names of the settings that the user gave: these must agree with the run.

    Raises:
        FileNotFoundError: nothing was trained there.
        ValueError: a given setting disagrees.
    """
    config = directories.config_of(home / "classifier")
    if config is None:
        raise FileNotFoundError(
            f"Expected a trained classifier in {home / 'classifier'} but there is none; run "
            f"`python train.py data={current.get('name', home.name)}` first, with the same "
            "runs_dir."
        )
    kept = {key: entry for key, entry in config["data"].items() if key != "root"}
    _check_given({"data": kept}, {"data": current}, [*given, "data._target_"], home)
    # The class to build comes from this call alone: a file in a run directory runs no code.
    return {**kept, "_target_": current["_target_"], "root": current["root"]}


def open_value(
    run: Run,
    settings: Settings,
    given: Sequence[str] = (),
    checkpoint: str | Path | None = None,
) -> tuple[ValueFunction, Path]:
    """The value function of a run, and the directory that results go to.

    An interrupted training serves with its best checkpoint so far, and says so.

    Args:
        run: the run; its data as `recorded_data` says.
        settings: of the value function.
        given: names of the settings that the user gave; these must agree with the run.
        checkpoint: a surrogate's file, instead of the one of the run.

    Raises:
        FileNotFoundError: no value function was trained.
        ValueError: it was trained with other settings, on other data or for another classifier.
    """
    name, directory = settings["name"], run.home / settings["name"]
    trained_on = (directories.config_of(run.home / "classifier") or {}).get("rows")
    if trained_on != directories.fingerprint(run.data.x_train, run.data.y_train):
        raise ValueError(
            f"Expected the data on which the classifier in {run.home} was trained, but the "
            "training rows are others now; run train.py again, or bring the old file back."
        )
    model = load_classifier(run.home / "classifier", run.data)
    if name == "marginal":
        value = marginal_value(
            model, run.data, run.settings["seed"], settings["output"], settings["draws"]
        )
        return value, directory
    if checkpoint is not None:
        return load_surrogate(checkpoint, model), Path(checkpoint).parent
    file = f"{name}.ckpt"
    if not (directory / file).exists() and (directories.partial(directory) / "best.ckpt").exists():
        directory, file = directories.partial(directory), "best.ckpt"
        print(f"{name}: training was interrupted; its best checkpoint so far is used")
    if not (directory / file).exists():
        raise FileNotFoundError(
            f"Expected a trained value function in {run.home / name} but there is none; run "
            f"`python train.py data={run.data.name} value_function={name}` first, with the same "
            "runs_dir."
        )
    there = (directories.config_of(directory) or {}).get("value_function", {})
    _check_given({"value_function": there}, {"value_function": settings}, given, directory)
    return load_surrogate(directory / file, model), directory


def test_rows(data: TensorDataModule, instances: int | Sequence[int]) -> list[int]:
    """Numbers of the test rows to explain: the first `instances`, or those listed.

    Raises:
        ValueError: fewer than one, or a row that the test split does not have.
    """
    rows = list(range(instances)) if isinstance(instances, int) else [int(k) for k in instances]
    if not rows or min(rows) < 0 or max(rows) >= len(data.x_test):
        raise ValueError(
            f"Expected `instances` to be a count from 1 to {len(data.x_test)} or a list of test "
            f"rows from 0 to {len(data.x_test) - 1}, but got {instances}."
        )
    return rows


def explain(
    values: Mapping[str, ValueFunction],
    data: TensorDataModule,
    rows: Sequence[int],
    estimator: Any,
    directory: Path,
) -> dict[str, Any]:
    """Explain test rows by several value functions; store the first, draw all of them.

    Args:
        values: by name; the first one is what was asked for, the others are drawn beside it.
        data: where the rows come from.
        rows: numbers of test rows.
        estimator: from a value function and rows to an explanation.
        directory: receives `explanations.zarr`, `summary.json` and `plots/`.

    Returns:
        What `summary.json` holds.
    """
    directories.check_writable(directory)
    x = data.x_test[list(rows)]
    explanations, seconds = {}, []
    for name, value in values.items():
        start = time.perf_counter()
        explanation = estimator(value, x)
        seconds.append(time.perf_counter() - start)
        explanations[name] = explanation.with_labels(rows, data.schema)
    first = next(iter(explanations.values()))
    summary = {
        "instances": len(rows),
        "players": len(first.players),
        "outputs": len(first.outputs),
        "seconds": seconds[0],
        "rows_per_second": first.made_by["evaluations"] / seconds[0],
        "largest_standard_error": first.standard_error.max().item(),
        "efficiency_gap": first.efficiency_gap,
    }
    first.save(directory / "explanations.zarr")
    report.save_figures(report.figures(explanations), directory / "plots")
    directories.write_json(directory / "summary.json", summary)
    print(report.table(first))
    return summary


def _check_given(there: Settings, here: Settings, given: Sequence[str], place: Path) -> None:
    changes = [
        change
        for change in directories.differences(there, here)
        if change.split(":")[0].removesuffix(".") in given
    ]
    if changes:
        raise ValueError(
            f"Expected the settings that {place} was trained with, but this call says otherwise "
            f"({'; '.join(changes)}); leave them out, or train with them (runs_dir=... keeps both)."
        )
