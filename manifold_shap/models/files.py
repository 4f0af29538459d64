"""Reads trained models from files, running no code from them."""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manifold_shap._messages import check_text

# A type of numbers, such as a `OneHotEncoder` has: no code.
_PLAIN = ("numpy.dtype",)


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
    file = Path(check_text("path", path)).expanduser()
    suffix = file.suffix.lower()
    if suffix not in _READERS:
        raise ValueError(
            f"Refused to load {file}: reading it can run code that is in it. Save the model as "
            "ONNX (.onnx; `skl2onnx.to_onnx`, `torch.onnx.export`), by skops (.skops) or in its "
            "library's own format (.ubj, .json, .txt, .cbm); or load the file in your own code, if "
            "you trust it, and pass the model. Weights are read into their network: on the command "
            "line by model=python model.call=package:Class model.weights=x.ckpt (.pt, "
            ".safetensors)."
        )
    content = file.read_bytes()
    library, is_whole, read = _READERS[suffix]
    importlib.import_module(library)
    try:
        # Of a file that is cut short these libraries read what is not there, or end this process.
        if not is_whole(content):
            raise ValueError("it is cut short")
        return read(file)
    except RefusedError:
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

    return lightgbm.Booster(model_file=path)


def _catboost(path: Path) -> Any:
    import catboost

    return catboost.CatBoost().load_model(str(path))


def _ends_as_catboost_says(content: bytes) -> bool:
    # After four letters a file says how long its main part is.
    return 8 <= len(content) >= 8 + int.from_bytes(content[4:8], "little")


def _has_both_braces(content: bytes) -> bool:
    return content.startswith(b"{") and content.endswith(b"}")


# By the end of a file's name: the library that reads it, whether a content is whole, and how it is
# read.
_READERS: dict[str, tuple[str, Callable[[bytes], bool], Callable[[Path], Any]]] = {
    ".onnx": ("onnxruntime", bool, _onnx),
    ".skops": ("skops.io", bool, _skops),
    ".ubj": ("xgboost", _has_both_braces, _xgboost),
    ".json": ("xgboost", _has_both_braces, _xgboost),
    ".txt": ("lightgbm", lambda content: b"end of parameters" in content, _lightgbm),
    ".cbm": ("catboost", _ends_as_catboost_says, _catboost),
}
# Ends of the names of files that `load_model` reads.
SUFFIXES = tuple(_READERS)
