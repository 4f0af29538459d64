"""What files in `conf` name where no class or function of the package will do."""

import os
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap._messages import check_choice
from manifold_shap._stored import PartRows, StoredRows, sample_of
from manifold_shap.amortized.explainer import network_of
from manifold_shap.data import Data
from manifold_shap.imputers import BaselineImputer, ContrastiveImputer
from manifold_shap.models.files import SUFFIXES
from manifold_shap.spaces import OutputSpace
from manifold_shap.tables.rows import encoded
from manifold_shap.training.classifier import load_estimator


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


def amortized(value: ms.ValueFunction, x: Any, path: str, **settings: Any) -> ms.Explanation:
    """Shapley values by the amortised explainer in a folder, see `amortized_shapley`."""
    explainer = ms.load(path, network_of(value).value.model)
    return ms.amortized_shapley(value, x, explainer=explainer, **settings)


def baseline(data: Data, point: str) -> BaselineImputer:
    """Imputes the elements of one reference point: the mean of the training rows, or zero.

    In a table, `zero` is meant in a column's own units, and binary and categorical columns take
    their most frequent category: a mean of categories is none.
    """
    check_choice("point", point, ("mean", "zero"))
    table, rows = data.table, encoded(sample_of(data.x_train), data.table)
    row = rows.mean(0) if point == "mean" or table is not None else torch.zeros_like(rows[0])
    if table is None:
        return BaselineImputer(row, data.players)
    first = 0
    for column in table.encodings:
        if column.kind in ("binary", "categorical"):
            distinct, counts = rows[:, first : first + column.width].unique(
                dim=0, return_counts=True
            )
            row[first : first + column.width] = distinct[counts.argmax()]
        elif point == "zero":
            row[first] = -column.mean / column.scale
        first += column.width
    codes = table.nearest(row[None], torch.full((1, len(table.names)), 0.5))
    made = BaselineImputer(codes[0], data.players)
    made.table = table
    return made


def contrastive(data: Data, against: str | int) -> ContrastiveImputer:
    """Imputes elements of the training rows of a class, to compare against.

    Raises:
        ValueError: there is no such class.
    """
    name, x = check_choice("against", str(against), data.classes), data.x_train
    of_class = (data.y_train == data.classes.index(name)).nonzero()[:, 0]
    chosen = PartRows(x, of_class).sample if isinstance(x, StoredRows) else x[of_class]
    imputer = ContrastiveImputer(chosen, data.players)
    imputer.table = data.table
    return imputer


def retrained(data: Data, classifier: Path, space: OutputSpace) -> ms.ValueFunction:
    """One classifier for each coalition, of the kind of the one to explain.

    Raises:
        FileNotFoundError: that one is no scikit-learn classifier.
    """
    from sklearn.base import clone

    estimator: Any = load_estimator(classifier)

    def fit(x: Tensor, y: Any) -> ms.Model:
        return ms.as_model(clone(estimator).fit(x.cpu().numpy(), y), x[:64], data.classes)

    x, y = data.x_train, data.y_train.numpy()
    return ms.retrained_value(fit, x, y, players=data.players, space=space, table=data.table)
