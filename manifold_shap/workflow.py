"""What the two commands do, as functions of plain settings: train, and explain."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manifold_shap import plots, runs
from manifold_shap.checkpoints import write_whole
from manifold_shap.classifiers import Model
from manifold_shap.data.base import TensorDataModule
from manifold_shap.explanation import Explanation
from manifold_shap.imputers import MarginalImputer
from manifold_shap.metrics import Score, mean_squared_error, shapley_pairs
from manifold_shap.training.classifier import accuracy, fit_classifier, load_classifier
from manifold_shap.training.surrogate import fit_surrogate, load_surrogate
from manifold_shap.values import ImputedValue, ValueFunction, imputed_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Settings = Mapping[str, Any]

# Donors of the off-manifold figure in metrics.json.
_DRAWS = 64
_TITLES = {"surrogate": "on manifold", "marginal": "off manifold"}
_LEFT_BY_EXPLAIN = ("explanations.zarr", "plots", "summary.json")


@dataclass(frozen=True)
class Run:
    """One training: its data, its settings and its place.

    Attributes:
        data: a data module after `setup`.
        settings: `data`, `classifier`, `value_function` and `seed`, as plain values: what makes
            two runs the same.
        directory: of the value function; the classifier lives beside it.
        trainer: arguments of `lightning.Trainer`; where to train is not part of what a run is.
        overwrite: replace what was made with other settings.
        progress: show bars on work of more than two seconds.
    """

    data: TensorDataModule
    settings: Settings
    directory: Path
    home: Path
    trainer: Settings
    overwrite: bool = False
    progress: bool = True

    @property
    def config(self) -> dict[str, Any]:
        """The settings that decide the result, and a checksum of the data."""
        return {**self.classifier_config, "value_function": self.settings["value_function"]}

    @property
    def classifier_config(self) -> dict[str, Any]:
        """The part of it that decides the classifier."""
        data = {key: entry for key, entry in self.settings["data"].items() if key != "root"}
        return {
            "seed": self.settings["seed"],
            "data": data,
            "rows": runs.fingerprint(self.data.x_train, self.data.y_train),
            "classifier": self.settings["classifier"],
        }


def train(run: Run, recipe: Any) -> dict[str, Any]:
    """Train a classifier and a value function, or reuse what is there; return the metrics.

    Args:
        run: what, and where.
        recipe: the classifier to train; see `fit_classifier`.

    Raises:
        ValueError: results of other settings are in the way and `overwrite` is false.
        KeyboardInterrupt: on Ctrl-C; the best checkpoint so far stays usable, and the same call
            goes on from there.
    """
    name, config = run.settings["value_function"]["name"], run.config
    if runs.config_of(run.directory) == config and not run.overwrite:
        print(f"{name}: already trained with these settings, in {run.directory}")
        return runs.read_json(run.directory / "metrics.json")
    work = runs.begin(run.directory, config, run.overwrite)
    model = trained_classifier(run, recipe)
    if (work / "last.ckpt").exists():
        print(f"{name}: going on with an interrupted training")
    value = fit_value(run, model, work)
    metrics = evaluate(value, model, run.data, work)
    if (work / "best.ckpt").exists():
        (work / "best.ckpt").replace(work / f"{name}.ckpt")
        (work / "last.ckpt").unlink()
    runs.finish(run.directory)
    print(
        f"{name}: test MSE {metrics['mse']:.5f} ± {metrics['mse_standard_error']:.5f}, off the "
        f"manifold {metrics['mse_off_manifold']:.5f}; {metrics['epochs']} epochs in "
        f"{metrics['train_seconds']:.1f} s; in {run.directory}"
    )
    return metrics


def trained_classifier(run: Run, recipe: Any) -> Model:
    """The classifier of these settings: reused if it is there, trained otherwise."""
    directory, config = run.home / "classifier", run.classifier_config
    there = runs.config_of(directory)
    if there == config:
        kept = runs.read_json(directory / "metrics.json")["classifier_accuracy"]
        print(f"classifier: reused from {directory}, test accuracy {kept:.2%}")
        return load_classifier(directory, run.data)
    if there is not None:
        changes = "; ".join(runs.differences(there, config)[:4])
        print(f"classifier: settings changed ({changes}), so it is trained again")
    runs.remove(runs.partial(directory))
    work = runs.begin(directory, config, overwrite=True)
    seconds = fit_classifier(recipe, run.data, work, run.trainer, run.progress)
    model = load_classifier(work, run.data)
    found = accuracy(model, run.data.x_test, run.data.y_test)
    runs.write_json(work / "metrics.json", {"classifier_accuracy": found, "train_seconds": seconds})
    runs.finish(directory)
    print(f"classifier: test accuracy {found:.2%}, trained in {seconds:.1f} s, in {directory}")
    return model


def fit_value(run: Run, model: Model, work: Path) -> ValueFunction:
    """Make the value function of the settings; checkpoints of a training go to `work`."""
    settings = dict(run.settings["value_function"])
    if settings.pop("name") == "marginal":
        return marginal_value(model, run.data, run.settings["seed"], **settings)
    return fit_surrogate(
        model,
        run.data.x_train,
        x_validation=run.data.x_validation,
        players=run.data.players,
        schema=run.data.schema,
        seed=run.settings["seed"],
        directory=work,
        trainer=run.trainer,
        progress=run.progress,
        **settings,
    )


def marginal_value(
    model: Model, data: TensorDataModule, seed: int, output: str, draws: int
) -> ImputedValue:
    """The off-manifold value function with donors from the training rows."""
    imputer = MarginalImputer(data.x_train, data.players)
    return imputed_value(model, imputer, output, draws, seed)


def evaluate(
    value: ValueFunction, model: Model, data: TensorDataModule, directory: Path
) -> dict[str, Any]:
    """Score a value function and splicing on the same test pairs: `metrics.json` and a plot."""
    mask = shapley_pairs(len(data.x_test), len(data.players))
    off = marginal_value(model, data, 0, value.space.name, _DRAWS)
    score = mean_squared_error(value, data.x_test, mask)
    score_off = mean_squared_error(off, data.x_test, mask)
    training = getattr(value, "training", {})
    metrics = {
        "mse": score.mse,
        "mse_standard_error": score.standard_error,
        "mse_off_manifold": score_off.mse,
        "mse_off_manifold_standard_error": score_off.standard_error,
        "mse_off_manifold_debiased": score_off.debiased,
        "draws_off_manifold": score_off.draws,
        "mse_by_size": _curves({value.name: score, "off_manifold": score_off}),
        "classifier_accuracy": accuracy(model, data.x_test, data.y_test),
        "train_seconds": training.get("train_seconds", 0.0),
        "epochs": training.get("epochs", 0),
    }
    for stale in _LEFT_BY_EXPLAIN:
        runs.remove(directory / stale)
    _save_figures(
        {"mse_by_size": plots.mse_curve({value.name: score, "off manifold": score_off})},
        directory / "plots",
    )
    runs.write_json(directory / "metrics.json", metrics)
    return metrics


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
    config = runs.config_of(home / "classifier")
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
    trained_on = (runs.config_of(run.home / "classifier") or {}).get("rows")
    if trained_on != runs.fingerprint(run.data.x_train, run.data.y_train):
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
    if not (directory / file).exists() and (runs.partial(directory) / "best.ckpt").exists():
        directory, file = runs.partial(directory), "best.ckpt"
        print(f"{name}: training was interrupted; its best checkpoint so far is used")
    if not (directory / file).exists():
        raise FileNotFoundError(
            f"Expected a trained value function in {run.home / name} but there is none; run "
            f"`python train.py data={run.data.name} value_function={name}` first, with the same "
            "runs_dir."
        )
    there = (runs.config_of(directory) or {}).get("value_function", {})
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
    runs.check_writable(directory)
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
    _save_figures(_figures(explanations), directory / "plots")
    runs.write_json(directory / "summary.json", summary)
    print(table(first))
    return summary


def table(explanation: Explanation, most: int = 10, players: int = 3) -> str:
    """A short table: for each row the predicted output and the players that moved it most."""
    lines = [f"{'row':>6}  {'output':<12}{'base':>8}{'prediction':>12}  largest Shapley values"]
    for k in range(min(most, len(explanation.phi))):
        output = int(explanation.prediction[k].argmax())
        phi = explanation.phi[k, :, output]
        error = explanation.standard_error[k, :, output]
        largest = phi.abs().argsort(descending=True)[:players].tolist()
        named = [f"{explanation.players.names[i]} {phi[i]:+.3f} ± {error[i]:.3f}" for i in largest]
        lines.append(
            f"{explanation.instances[k]:>6}  {explanation.outputs[output]:<12.12}"
            f"{explanation.base[output]:>8.3f}{explanation.prediction[k, output]:>12.3f}  "
            f"{', '.join(named)}"
        )
    if len(explanation.phi) > most:
        lines.append(f"   ... {len(explanation.phi) - most} more rows in explanations.zarr")
    return "\n".join(lines)


def _check_given(there: Settings, here: Settings, given: Sequence[str], place: Path) -> None:
    changes = [
        change
        for change in runs.differences(there, here)
        if change.split(":")[0].removesuffix(".") in given
    ]
    if changes:
        raise ValueError(
            f"Expected the settings that {place} was trained with, but this call says otherwise "
            f"({'; '.join(changes)}); leave them out, or train with them (runs_dir=... keeps both)."
        )


def _figures(explanations: Mapping[str, Explanation]) -> dict[str, "Figure"]:
    named = {_TITLES.get(name, name): explanation for name, explanation in explanations.items()}
    first = next(iter(explanations.values()))
    if first.x.ndim == 4:
        return {"pixel_maps": plots.pixel_maps(named)}
    figures = {
        f"bars_{label}": plots.bars(named, instance=k)
        for k, label in enumerate(first.instances[:8])
    }
    return {**figures, "summary": plots.sina(first)}


def _save_figures(figures: Mapping[str, "Figure"], directory: Path) -> None:
    for name, figure in figures.items():
        write_whole(directory / f"{name}.png", partial(figure.savefig, format="png", dpi=200))


def _curves(scores: Mapping[str, Score]) -> dict[str, Any]:
    return {name: asdict(score.by_size) for name, score in scores.items()}
