"""Finds a model of the user's own, in a file or by its name in Python."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manifold_shap.cli import registry
from manifold_shap.data.base import TensorDataModule
from manifold_shap.io.files import digest
from manifold_shap.models import Model, as_model
from manifold_shap.tables.identifiers import unused_identifiers
from manifold_shap.tables.rows import codebook_of

Settings = Mapping[str, Any]
# Settings that say how a model is called, not which one it is.
_HOW = ("returns", "classes", "batch_size")


def record(own: Settings) -> dict[str, Any]:
    """What a run records of the model: its settings, and a checksum of its file."""
    path = Path(str(own.get("path", "")))
    known = {key: own[key] for key in own if key != "batch_size"}
    return {**known, "checksum": digest(path.read_bytes()) if path.is_file() else None}


def wrapped(own: Settings, data: TensorDataModule) -> Model:
    """The model, of the codes of the data's rows, or of the rows themselves where these are none.

    Columns that identify the rows are taken out of the game where no prediction depends on them.

    Args:
        own: the settings of the model.
        data: before `setup`.

    Raises:
        FileNotFoundError, ModuleNotFoundError, TypeError, ValueError: see `load_model`, `as_model`.
    """
    found = {key: own[key] for key in own if key not in (*_HOW, "_target_")}
    model = registry.code(own["_target_"])(**found)
    # Their warnings are given below, when it is known which columns play.
    with _quiet():
        data.setup()
    codebook = codebook_of(data.schema)
    if codebook is None:
        return _as_model(model, own, data)
    with _quiet():
        every = _as_model(model, own, data)
    data.leave_out(unused_identifiers(every, codebook, data.x_train, data.seed, data.described))
    return _as_model(model, own, data)


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _as_model(model: Any, own: Settings, data: TensorDataModule) -> Model:
    names, returns = own["classes"], own["returns"]
    if data.task == "regression":
        returns = returns or "values"
        names = names or (data.outputs if len(data.y_test) else None)
    return as_model(model, data.few_rows, names, returns, own["batch_size"])
