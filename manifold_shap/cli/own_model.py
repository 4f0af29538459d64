"""Finds a model of the user's own, in a file or by its name in Python."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manifold_shap.cli import registry
from manifold_shap.data.base import TensorDataModule
from manifold_shap.io.files import digest
from manifold_shap.models import Model, as_model

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

    Args:
        own: the settings of the model.
        data: after `setup`.

    Raises:
        FileNotFoundError, ModuleNotFoundError, TypeError, ValueError: see `load_model`, `as_model`.
    """
    found = {key: own[key] for key in own if key not in (*_HOW, "_target_")}
    model = registry.code(own["_target_"])(**found)
    names, returns = own["classes"], own["returns"]
    if data.task == "regression":
        returns = returns or "values"
        names = names or (data.outputs if len(data.y_test) else None)
    return as_model(model, data.few_rows, names, returns, own["batch_size"])
