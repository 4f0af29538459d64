"""Explaining test rows with what a run directory holds."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manifold_shap.classifiers import Model
from manifold_shap.commands import directories, report
from manifold_shap.commands.run import (
    Settings,
    classifier_directory,
    classifier_part,
    fingerprint,
    marginal_value,
)
from manifold_shap.data.base import TensorDataModule
from manifold_shap.training.classifier import load_classifier
from manifold_shap.training.surrogate import load_surrogate
from manifold_shap.values import ValueFunction


def recorded_data(
    home: Path, current: Settings, given: Sequence[str], checkpoint: str | Path | None = None
) -> dict[str, Any]:
    """The data settings that a run was trained with, so that they need not be typed again.

    Args:
        home: the directory of the data set's runs.
        current: the `data` and `classifier` settings of this call.
        given: names of the settings that the user gave: these must agree with the run.
        checkpoint: a surrogate's file, which may be of a run with other settings.

    Returns:
        Arguments of the data module. Its class is for this call to say: nothing that a file in a
        run directory holds is ever imported or called.

    Raises:
        FileNotFoundError: nothing was trained there.
        ValueError: a given setting disagrees.
    """
    config = directories.config_of(home / "classifier")
    if checkpoint is not None:
        config = directories.config_of(Path(checkpoint).parent) or config
    if config is None:
        raise FileNotFoundError(
            f"Expected a trained classifier in {home / 'classifier'} but there is none; run "
            f"`python train.py data={current['data'].get('name', home.name)}` first, with the "
            "same runs_dir."
        )
    named = [*given, "data._target_"]
    if "classifier" in given:  # The choice of a kind; its settings come with it.
        named.append("classifier._target_")
    _check_given(config, current, named, home)
    kept = {key: entry for key, entry in config["data"].items() if not key.startswith("_")}
    return {**kept, "root": current["data"]["root"]}


def open_value(
    home: Path,
    data: TensorDataModule,
    settings: Settings,
    *,
    seed: int = 0,
    given: Sequence[str] = (),
    checkpoint: str | Path | None = None,
    model: Model | None = None,
) -> tuple[ValueFunction, Path]:
    """The value function of a run, and the directory that results go to.

    An interrupted training serves with its best checkpoint so far, and says so.

    Args:
        home: the directory of the data set's runs.
        data: as `recorded_data` says, after `setup`.
        settings: of the value function.
        seed: of the donors of an off-manifold value function.
        given: names of the settings that the user gave; these must agree with the run.
        checkpoint: a surrogate's file, instead of the one of the run.
        model: the model to explain; by default the classifier of the run.

    Raises:
        FileNotFoundError: no value function was trained.
        ValueError: it was trained with other settings, on other data or for another classifier.
    """
    name = settings["name"]
    if name == "marginal":
        if checkpoint is not None:
            raise ValueError(
                "Expected `checkpoint` together with value_function=surrogate, but value_function="
                "marginal has none; leave one of the two out."
            )
        model = model or _classifier(home, data, directories.config_of(home / "classifier"))
        value = marginal_value(model, data, seed, settings["output"], settings["draws"])
        return value, home / name
    path = Path(checkpoint) if checkpoint is not None else _trained(home, data, name)
    config = directories.config_of(path.parent)
    if config is not None:
        there = {"value_function": config["value_function"]}
        _check_given(there, {"value_function": settings}, given, path.parent)
    model = model or _classifier(home, data, config)
    surrogate = load_surrogate(path, model)
    if surrogate.players.names != data.players.names:
        raise ValueError(
            f"Expected a surrogate for {data.name}, with {len(data.players)} players, but "
            f"the one in {path} is for {len(surrogate.players)}: "
            f"{', '.join(surrogate.players.names[:5])} ..."
        )
    return surrogate, path.parent


def _trained(home: Path, data: TensorDataModule, name: str) -> Path:
    path = home / name / f"{name}.ckpt"
    best = directories.partial(path.parent) / "best.ckpt"
    if not path.exists() and best.exists():
        print(f"{name}: training was interrupted; its best checkpoint so far is used")
        return best
    if not path.exists():
        raise FileNotFoundError(
            f"Expected a trained value function in {path.parent} but there is none; run "
            f"`python train.py data={data.name} value_function={name}` first, with the same "
            "runs_dir."
        )
    return path


def _classifier(home: Path, data: TensorDataModule, config: Settings | None) -> Model:
    """The classifier that a value function of this configuration was trained for."""
    usual = directories.config_of(home / "classifier") or {}
    wanted = classifier_part(config) if config is not None else usual
    directory = classifier_directory(home, wanted, sweep=True)
    there = directories.config_of(directory)
    if there != wanted:
        changes = "; ".join(directories.differences(wanted, there or usual)[:4])
        raise ValueError(
            f"Expected the classifier for which the value function was trained, but the one in "
            f"{home} is another ({changes}); train the value function again."
        )
    if wanted.get("rows") != fingerprint(data.x_train, data.y_train):
        raise ValueError(
            f"Expected the data on which the classifier in {directory} was trained, but the "
            "training rows are others now; run train.py again, or bring the old file back."
        )
    return load_classifier(directory, data)


def test_rows(data: TensorDataModule, instances: int | Sequence[int]) -> list[int]:
    """Numbers of the test rows to explain: the first `instances`, or those listed.

    Raises:
        ValueError: fewer than one, or a row that the test split does not have.
    """
    listed = range(instances) if isinstance(instances, int) else instances
    rows = list(listed) if all(isinstance(row, int) for row in listed) else []
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
    _check_one_space(values)
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
    figures = report.figures(explanations)
    first.save(directory / "explanations.zarr")
    report.save_figures(figures, directory / "plots")
    report.remove_other_figures(figures, directory / "plots")
    directories.write_json(directory / "summary.json", summary)
    print(report.table(first))
    return summary


def _check_one_space(values: Mapping[str, ValueFunction]) -> None:
    spaces = {name: value.space.name for name, value in values.items()}
    if len(set(spaces.values())) > 1:
        raise ValueError(
            f"Expected value functions in one output space to draw side by side but got {spaces}; "
            "train them with the same `output`, or leave one out of `compare`."
        )


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
