"""What files in `conf` name where no class or function of the package will do."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import torch
from torch import Tensor, nn

from manifold_shap._messages import check_choice, shown
from manifold_shap._stored import PartRows, StoredRows, sample_of
from manifold_shap.amortized.explainer import amortized_shapley, network_of
from manifold_shap.amortized.fit import fingerprint
from manifold_shap.data import Data
from manifold_shap.explanation import Explanation
from manifold_shap.imputers import BaselineImputer, ContrastiveImputer
from manifold_shap.models import Model, as_model
from manifold_shap.models.files import SUFFIXES
from manifold_shap.saving import load
from manifold_shap.spaces import OutputSpace
from manifold_shap.tables.rows import encoded
from manifold_shap.training.classifier import load_estimator
from manifold_shap.values import ValueFunction, retrained_value


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
    """Shapley values by the amortised explainer in a folder, see `amortized_shapley`.

    Raises:
        ValueError: it was trained for another surrogate.
    """
    own: Any = network_of(value).value
    device = own.device
    explainer = load(path, own.to("cpu").model)
    own.to(device)
    if fingerprint(explainer.value.surrogate) != fingerprint(own.surrogate):
        raise ValueError(
            f"Expected the surrogate for which the explainer in {path} was trained, but this is "
            "another one; train the explainer again."
        )
    explainer.value = own
    return amortized_shapley(value, x, explainer=explainer, **settings)


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


def contrastive(
    data: Data, against: str | int | None = None, rows: int | Sequence[int] | None = None
) -> ContrastiveImputer:
    """Imputes elements of training rows to compare against: those of a class, or those listed.

    Raises:
        ValueError: neither or both are given, or there is no such class or row.
    """
    if (against is None) == (rows is None):
        raise ValueError(
            "Expected one of `against` and `rows` for the contrastive value function but got "
            f"{against!r} and {rows!r}: value_function.against=CLASS, one of "
            f"{shown(data.classes)}, or value_function.rows=[...]."
        )
    if rows is None:
        name, x = check_choice("against", str(against), data.classes), data.x_train
        of_class = (data.y_train == data.classes.index(name)).nonzero()[:, 0]
        chosen = PartRows(x, of_class).sample if isinstance(x, StoredRows) else x[of_class]
    else:
        chosen, _ = data.find("rows", [rows] if isinstance(rows, int) else rows, "training")
    imputer = ContrastiveImputer(chosen, data.players)
    imputer.table = data.table
    return imputer


def retrained(
    data: Data, classifier: Path, space: OutputSpace, progress: bool | None
) -> ValueFunction:
    """One classifier for each coalition, of the kind of the one to explain.

    Raises:
        FileNotFoundError: that one is no scikit-learn classifier.
    """
    from sklearn.base import clone

    estimator: Any = load_estimator(classifier)

    def fit(x: Tensor, y: Any) -> Model:
        fitted = clone(estimator).fit(x.cpu().numpy(), y)
        return as_model(fitted, x[:64], data.classes)

    return retrained_value(
        fit,
        data.x_train,
        data.y_train.numpy(),
        players=data.players,
        space=space,
        table=data.table,
    )
