"""What files in `conf` name where no class of the package will do."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from manifold_shap._messages import check_choice, shown
from manifold_shap._stored import PartRows, StoredRows, sample_of
from manifold_shap.amortized.explainer import amortized_shapley, network_of
from manifold_shap.explanation import Explanation
from manifold_shap.imputers import BaselineImputer, ContrastiveImputer, Imputer, TableImputer
from manifold_shap.models import Model, as_model
from manifold_shap.models.files import SUFFIXES
from manifold_shap.saving import is_saved, load, save
from manifold_shap.surrogate.fit import fit_surrogate
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.tables.rows import encoded
from manifold_shap.training.classifier import load_estimator
from manifold_shap.vae.fit import VAETask, choose_temper, fit_imputer
from manifold_shap.values import ValueFunction, retrained_value

if TYPE_CHECKING:
    from manifold_shap.cli.run import Run


def named(call: str, weights: str | None = None) -> Any:
    """A model of the user's own, by its name in Python: importing it runs the code of its module.

    Args:
        call: of a function of rows, an estimator, a network, or the class of one.
        weights: `.ckpt`, `.pt` or `.safetensors` with the weights of the network; no code in it is
            run. Keys of a Lightning checkpoint may begin with the name of an attribute.

    Raises:
        AttributeError, ImportError: there is none.
        RuntimeError: weights of another network.
        ValueError: the name of a file.
    """
    if ":" not in call or Path(call).suffix in SUFFIXES:
        raise ValueError(
            f"Expected `model.call` to be a name in Python, package.module:name, but got {call!r}; "
            "a file is model=file model.path=..."
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # An installed command does not look there.
    found = resolve_name(call)
    model = found() if isinstance(found, type) else found
    if weights is None:
        return model
    if Path(weights).suffix == ".safetensors":
        from safetensors.torch import load_file

        state: Any = load_file(weights)
    else:
        state = torch.load(weights, map_location="cpu", weights_only=True)
    state = state.get("state_dict", state)
    if isinstance(model, nn.Module) and not state.keys() & model.state_dict().keys():
        state = {name.partition(".")[2]: weight for name, weight in state.items()}
    model.load_state_dict(state)
    return model


def amortized(value: ValueFunction, x: Any, path: str, **settings: Any) -> Explanation:
    """Shapley values by the amortised explainer in a folder, see `amortized_shapley`."""
    explainer = load(path, network_of(value).value.model)
    return amortized_shapley(value, x, explainer=explainer, **settings)


def baseline(run: "Run", point: str) -> BaselineImputer:
    """Imputes the elements of one reference point: the mean, median or zero of the training rows.

    In a table, `zero` is meant in a column's own units, and binary and categorical columns take
    their most frequent category: a mean of categories is none.
    """
    check_choice("point", point, ("mean", "median", "zero"))
    data = run.data
    table = data.table
    rows = encoded(sample_of(data.x_train), table)
    if point == "median":
        row = rows.flatten(1).median(0).values.reshape(rows.shape[1:])
    else:
        row = rows.mean(0) if point == "mean" else torch.zeros_like(rows[0])
    first = 0
    for column in table.encodings if table else ():
        block = slice(first, first + column.width)
        first = block.stop
        if column.kind in ("binary", "categorical"):
            distinct, counts = rows[:, block].unique(dim=0, return_counts=True)
            row[block] = distinct[counts.argmax()]
        elif point == "zero":
            row[block.start] = -column.mean / column.scale
    if table is None:
        return BaselineImputer(row, data.players)
    point_of = table.nearest(row[None], torch.full((1, len(table.names)), 0.5))
    made = BaselineImputer(point_of[0], data.players)
    made.table = table
    return made


def contrastive(
    run: "Run", against: str | int | None = None, rows: int | Sequence[int] | None = None
) -> ContrastiveImputer:
    """Imputes elements of training rows to compare against: those of a class, or those listed.

    Raises:
        ValueError: neither or both are given, or there is no such class or row.
    """
    data = run.data
    if (against is None) == (rows is None):
        raise ValueError(
            "Expected one of `against` and `rows` for the contrastive value function but got "
            f"{against!r} and {rows!r}: value_function.against=CLASS, one of "
            f"{shown(data.classes)}, or value_function.rows=[...]. In `compare` it takes what "
            "train.py has recorded of it."
        )
    if rows is None:
        name, x = check_choice("against", str(against), data.classes), data.x_train
        of_class = (data.y_train == data.classes.index(name)).nonzero()[:, 0]
        chosen = PartRows(x, of_class).sample if isinstance(x, StoredRows) else x[of_class]
    else:
        chosen = data.find("rows", [rows] if isinstance(rows, int) else rows, "training")
    imputer = ContrastiveImputer(chosen, data.players)
    imputer.table = data.table
    return imputer


def retrained(run: "Run") -> ValueFunction:
    """One classifier for each coalition, of the kind of the one to explain.

    Raises:
        ValueError: that one is no scikit-learn classifier.
    """
    from sklearn.base import clone

    data = run.data
    try:
        estimator: Any = load_estimator(run.classifier)
    except FileNotFoundError as error:
        raise ValueError(
            "Expected a scikit-learn classifier, which can be fitted again to the features of each "
            f"coalition, but the one in {run.classifier} is none; train one by "
            "`python train.py classifier=random_forest`."
        ) from error

    def fit(x: Tensor, y: Any) -> Model:
        fitted = clone(estimator).fit(x.cpu().numpy(), y)
        return as_model(fitted, x[:64], data.classes)

    return retrained_value(
        fit,
        data.x_train,
        data.y_train.numpy(),
        players=data.players,
        space=run.space,
        progress=bool(run.cfg.progress),
        table=data.table,
    )


def surrogate(
    run: "Run",
    path: Path,
    trainer: Any,
    teacher: str | None = None,
    teacher_draws: int = 16,
    **options: Any,
) -> SurrogateValue:
    """The surrogate in a folder or, where it is not there, one that is trained into it.

    Args:
        run: its data, model, space and seed.
        path: of the folder.
        trainer: makes arguments of `lightning.Trainer`.
        teacher: the name of the value function that it learns from.
        teacher_draws: completions behind each of its values.
        options: see `fit_surrogate`.
    """
    data = run.data
    if is_saved(path):
        return _loaded(path, SurrogateValue, run.model)
    taught: ValueFunction | None = None
    if teacher is not None:
        taught = run.beside(teacher).value().with_draws(teacher_draws)
    made = fit_surrogate(
        run.model,
        data.x_train,
        x_validation=data.x_validation,
        players=data.players,
        table=data.table,
        space=run.space,
        teacher=taught,
        seed=run.seed,
        directory=path,
        trainer=trainer(),
        progress=run.cfg.progress,
        **options,
    )
    save(made, path)
    return made


def vae(
    run: "Run",
    path: Path,
    trainer: Any,
    posterior: str,
    temper: float | None,
    importance: bool,
    bank_size: int | None,
    **options: Any,
) -> Imputer:
    """The VAE in a folder or, where it is not there, one that is trained into it.

    The folder has no rows: those of the data are drawn from.

    Args:
        run: its data, and the model whose outputs decide on `temper`.
        path: of the folder.
        trainer: makes arguments of `lightning.Trainer`; None where nothing is to be written.
        posterior, temper, importance, bank_size, options: see `fit_imputer`. The first four can
            change without a training.
    """
    data = run.data
    chosen: dict[str, Any] = {"posterior": posterior, "importance": importance}
    chosen["bank_size"] = bank_size
    if not is_saved(path):
        made: Any = fit_imputer(
            data.x_train,
            x_validation=data.x_validation,
            players=data.players,
            table=data.table,
            temper=temper,
            model=run.model,
            space=run.space,
            seed=run.seed,
            directory=path,
            trainer=trainer(),
            progress=run.cfg.progress,
            **chosen,
            **options,
        )
        _save_task(made, path)
        return made
    task = _loaded(path, VAETask)
    recorded = run.recorded or {}
    settings = task.settings.get("drawn", {})
    if recorded.get("value_function") == run.record["value_function"]:
        return task.imputer(data.x_train, data.table, **settings)
    settings = {**settings, **chosen, "temper": 1.0 if temper is None else temper}
    made = task.imputer(data.x_train, data.table, **settings)
    inner = made.inner if isinstance(made, TableImputer) else made
    if temper is None and inner.is_weighted:
        inner.temper = choose_temper(made, data.x_validation, run.model, run.space, run.seed)
    if trainer is not None:
        _save_task(made, path)
    return made


def _loaded(path: Path, kind: type, model: Model | None = None) -> Any:
    """What was saved in the folder of a run, or by `ms.save`."""
    found = load(path, model)
    inner = getattr(found, "inner", found)
    for one in (inner, getattr(inner, "task", None)):
        if isinstance(one, kind):
            return one
    raise ValueError(
        f"Expected the checkpoint {path} to be of another kind than {type(inner).__name__}, as "
        "`value_function` says; choose the one that it was trained as."
    )


def _save_task(made: Any, path: Path) -> None:
    """What was trained, and how codes are drawn, without the rows."""
    inner: Any = made.inner if isinstance(made, TableImputer) else made
    inner.task.settings["drawn"] = inner.settings
    save(inner.task, path)


# Value functions that are trained, and which of their settings can change without a training.
TRAINED: Mapping[Any, tuple[str, ...]] = {
    surrogate: (),
    vae: ("posterior", "temper", "importance", "bank_size"),
}
