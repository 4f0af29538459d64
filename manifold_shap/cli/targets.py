"""Makes what files in `conf/value_function` name where no class of the package will do."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import torch
from torch import Tensor

from manifold_shap._messages import check_choice, shown
from manifold_shap._stored import PartRows, StoredRows, sample_of
from manifold_shap.data.base import TensorDataModule
from manifold_shap.imputers import (
    BaselineImputer,
    ContrastiveImputer,
    Imputer,
    TableImputer,
)
from manifold_shap.models import Model, as_model
from manifold_shap.spaces import OutputSpace
from manifold_shap.surrogate import fit
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.tables.codebook import Codebook
from manifold_shap.tables.rows import codebook_of, encoded
from manifold_shap.training.classifier import load_estimator
from manifold_shap.vae.fit import choose_temper, load_imputer
from manifold_shap.values import ValueFunction, retrained_value


def baseline(data: TensorDataModule, point: str) -> BaselineImputer:
    """Imputes the elements of one reference point: the mean, median or zero of the training rows.

    In a table, `zero` is meant in a column's own units, and binary and categorical columns take
    their most frequent category: a mean of categories is none.

    Raises:
        ValueError: another word.
    """
    check_choice("point", point, ("mean", "median", "zero"))
    codebook = codebook_of(data.schema)
    rows, schema = encoded(sample_of(data.x_train), data.schema), data.schema
    if codebook is not None:
        schema = codebook.schema
    if point == "median":
        row = rows.flatten(1).median(0).values.reshape(rows.shape[1:])
    else:
        row = rows.mean(0) if point == "mean" else torch.zeros_like(rows[0])
    first = 0
    for column in schema.columns if schema else ():
        block = slice(first, first + column.width)
        first = block.stop
        if column.kind in ("binary", "categorical"):
            distinct, counts = rows[:, block].unique(dim=0, return_counts=True)
            row[block] = distinct[counts.argmax()]
        elif point == "zero":
            row[block.start] = -column.mean / column.scale
    if codebook is None:
        return BaselineImputer(row, data.players)
    point_of = codebook.nearest(row[None], torch.full((1, len(codebook.names)), 0.5))
    made = BaselineImputer(point_of[0], data.players)
    made.codebook = codebook
    return made


def contrastive(
    data: TensorDataModule,
    against: str | int | None = None,
    rows: int | Sequence[int] | None = None,
) -> ContrastiveImputer:
    """Imputes elements of training rows to compare against: those of a class, or those listed.

    Raises:
        ValueError: neither or both are given, or there is no such class or row.
    """
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
    imputer.codebook = codebook_of(data.schema)
    return imputer


def named(call: str) -> Any:
    """A model of the user's own, by its name in Python: importing it runs the code of its module.

    Raises:
        ValueError: there is none.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # An installed command does not look there.
    return resolve_name(call)


def load_surrogate(path: Path, model: Model, codebook: Codebook | None = None) -> SurrogateValue:
    """The surrogate of a checkpoint, whose network no setting changes; see `fit.load_surrogate`."""
    return fit.load_surrogate(path, model, codebook)


def load_vae(
    path: Path,
    x_train: Tensor | StoredRows,
    model: Model,
    space: OutputSpace,
    seed: int,
    x_validation: Tensor | StoredRows | None = None,
    codebook: Codebook | None = None,
    *,
    posterior: str,
    temper: float | None,
    importance: bool,
    bank_size: int | None,
) -> Imputer:
    """The VAE of a checkpoint.

    Args:
        path, codebook: see `load_imputer`.
        x_train: the reference rows.
        model, space, seed: see `choose_temper`.
        x_validation: rows that decide on `temper` where that is None; None for the settings that
            are in the checkpoint.
        posterior, temper, importance, bank_size: see `load_imputer`.
    """
    if x_validation is None:
        return load_imputer(path, x_train, codebook)
    own: dict[str, Any] = {"posterior": posterior, "importance": importance, "bank_size": bank_size}
    if temper is not None:
        return load_imputer(path, x_train, codebook, **own, temper=temper)
    imputer = load_imputer(path, x_train, codebook, **own)
    vae: Any = imputer.inner if isinstance(imputer, TableImputer) else imputer
    if vae.is_weighted:
        vae.temper = choose_temper(imputer, x_validation, model, space, seed)
    imputer.checkpoint["imputer"]["temper"] = vae.temper
    return imputer


def retrained(
    data: TensorDataModule, classifier: Path, space: OutputSpace, progress: bool = False
) -> ValueFunction:
    """One classifier for each coalition, of the kind of the one to explain.

    Raises:
        ValueError: that one is no scikit-learn classifier.
    """
    from sklearn.base import clone

    try:
        estimator: Any = load_estimator(classifier)
    except FileNotFoundError as error:
        raise ValueError(
            "Expected a scikit-learn classifier, which can be fitted again to the features of each "
            f"coalition, but the one in {classifier} is none; train one by "
            "`python train.py classifier=random_forest`, with another runs_dir or overwrite=true."
        ) from error

    def fit(x: Tensor, y: Any) -> Model:
        fitted = clone(estimator).fit(x.cpu().numpy(), y)
        return as_model(fitted, x[:64], data.classes)

    return retrained_value(
        fit,
        data.x_train,
        data.y_train.numpy(),
        players=data.players,
        space=space,
        progress=progress,
        schema=data.schema,
    )
