"""Reads trained models from files, running no code from them."""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manifold_shap._messages import check_text

_CODE = (
    "reading it can run code that is in it. Save the model as ONNX (.onnx; `skl2onnx.to_onnx`, "
    "`torch.onnx.export`), by skops (.skops) or in its library's own format (.ubj, .json, .txt, "
    ".cbm); or load the file in your own code, if you trust it, and pass the model. "
)
_WEIGHTS = (
    "Weights are read into their network: on the command line by model=python "
    "model.call=package:Class model.weights=x.ckpt (.pt, .safetensors)."
)
# A type of numbers, such as a `OneHotEncoder` has: no code.
_PLAIN = ("numpy.dtype",)
_PICKLED = (".pickle", ".pkl", ".joblib", ".pt", ".pth", ".ckpt", ".pt2", ".dill", ".cloudpickle")


def load_model(path: Any) -> Any:
    """A trained model from a file, running no code from it.

    Args:
        path: the end of its name tells what it is: `.onnx` (read by onnxruntime), `.skops`
            (scikit-learn), `.ubj` or `.json` (xgboost), `.txt` (lightgbm), `.cbm` (catboost).

    Returns:
        The model as its library has it: a session of onnxruntime, an estimator, a `Booster`.
        `as_model` takes it, or the path itself.

    Raises:
        FileNotFoundError: no file is there.
        ModuleNotFoundError: the library that reads it is not installed.
        ValueError: it is of another kind, could run code (pickle, joblib, and torch's formats,
            `.pt2` among them: torch evaluates text in it), is damaged, or is a `.skops` file with
            types that are not scikit-learn's.

    >>> load_model("model.pkl")
    Traceback (most recent call last):
    ValueError: Refused to load model.pkl: reading it can run code that is in it. Save the model ...
    """
    file = Path(check_text("path", path))
    suffix = file.suffix.lower()
    if suffix in _PICKLED:
        raise ValueError(f"Refused to load {file}: {_CODE}{_WEIGHTS}")
    if suffix not in _READERS:
        raise ValueError(
            f"Expected a model file that ends in one of {list(_READERS)} but got {str(file)!r}. "
            f"{_WEIGHTS}"
        )
    if not file.is_file():
        raise FileNotFoundError(f"Expected a model at {file} but no file is there; correct `path`.")
    library, read = _READERS[suffix]
    try:
        importlib.import_module(library)
    except ImportError as error:
        extra = "'manifold_shap[onnx]'" if library == "onnxruntime" else library
        raise ModuleNotFoundError(
            f"Expected {library}, which reads {file.name}, to be installed; `pip install {extra}`."
        ) from error
    try:
        return read(file)
    except (PermissionError, RefusedError):
        raise
    except Exception as error:  # A damaged file makes the readers fail in any way.
        raise ValueError(
            f"Expected a model that {library} can read at {file} but the file is damaged or of "
            f"another format ({(str(error).splitlines() or [type(error).__name__])[0][:300]})."
        ) from error


class RefusedError(ValueError):
    """A file that is sound, and not read all the same."""


def _onnx(path: Path) -> Any:
    # Its import would open a session of its vendor's telemetry.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def _skops(path: Path) -> Any:
    """An estimator that consists of scikit-learn's own types."""
    import skops.io

    unknown = skops.io.get_untrusted_types(file=path)
    foreign = [name for name in unknown if name not in _PLAIN and not _is_sklearn_class(name)]
    if foreign:
        raise RefusedError(
            f"Refused to load {path}: it names types that are not scikit-learn's own "
            f"({', '.join(foreign)}), and loading them could run code. If you trust them, load it "
            "yourself, by `skops.io.load(path, trusted=[...])` with these names, and pass the "
            "model; or choose one that consists of scikit-learn's classes."
        )
    return skops.io.load(path, trusted=unknown)


def _is_sklearn_class(name: str) -> bool:
    # Some of scikit-learn's compiled classes, such as its trees, are not on skops' own list.
    module, _, attribute = name.rpartition(".")
    if not module.startswith("sklearn."):
        return False
    try:
        found = vars(importlib.import_module(module)).get(attribute)
    except ImportError:
        return False
    # A module also holds what it imports from elsewhere.
    return isinstance(found, type) and found.__module__.startswith("sklearn.")


def _xgboost(path: Path) -> Any:
    import xgboost

    # It would end this process where a file is cut short.
    content = path.read_bytes()
    if not (content.startswith(b"{") and content.endswith(b"}")):
        raise ValueError("it is cut short")
    booster = xgboost.Booster(model_file=path)
    # What an estimator has saved is read back as one: it keeps its best iteration.
    saved = booster.attr("scikit_learn") or ""
    for name, kind in (("classifier", xgboost.XGBClassifier), ("regressor", xgboost.XGBRegressor)):
        if name in saved:
            estimator = kind()
            estimator.load_model(path)
            return estimator
    return booster


def _lightgbm(path: Path) -> Any:
    import lightgbm

    # Of a file that ends before, lightgbm reads what is not there, and this process may end.
    content = path.read_bytes()
    if not all(mark in content for mark in (b"end of trees", b"end of parameters")):
        raise ValueError("it is cut short")
    return lightgbm.Booster(model_file=path)


def _catboost(path: Path) -> Any:
    import catboost

    # After four letters a file says how long its main part is; catboost takes its word for it.
    content = path.read_bytes()
    if len(content) < 8 or len(content) - 8 < int.from_bytes(content[4:8], "little"):
        raise ValueError("it is cut short")
    return catboost.CatBoost().load_model(str(path))


_READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    ".onnx": ("onnxruntime", _onnx),
    ".skops": ("skops.io", _skops),
    ".ubj": ("xgboost", _xgboost),
    ".json": ("xgboost", _xgboost),
    ".txt": ("lightgbm", _lightgbm),
    ".cbm": ("catboost", _catboost),
}
# Ends of the names of files that `load_model` reads.
SUFFIXES = tuple(_READERS)
