"""Records the curves of a training by the loggers of Lightning that are known by name."""

import os
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger

from manifold_shap._messages import check_choice

# The folder of a training's directory that they write to.
LOGS = "logs"
NAMES = ("csv", "tensorboard", "mlflow")


def named_logger(name: Any, kind: str, directory: Path) -> Logger:
    """The logger of this name, which writes to `<directory>/logs`.

    Each start of a training, and so each time that it is continued, has curves of its own, whose
    steps go on counting: `logs/<kind>/version_0`, `version_1` and so on for "csv" and
    "tensorboard". For "mlflow" they are runs of the experiment `<kind>` in `logs/mlflow.db`, or
    wherever the environment variable `MLFLOW_TRACKING_URI` says.

    Args:
        name: one of `NAMES`.
        kind: what is trained, such as "surrogate".
        directory: of the training.

    Raises:
        ImportError: its package is not installed.
        ValueError: another name.
    """
    check_choice("trainer['logger']", name, NAMES, "False, or a logger of Lightning, is one, too")
    place, kind = directory / LOGS, kind.replace(" ", "_")
    if name == "csv":
        return CSVLogger(place, kind)
    try:
        if name == "tensorboard":
            return TensorBoardLogger(place, kind)
        return _mlflow(kind, place)
    except ImportError as error:
        raise ImportError(
            f"trainer={{'logger': {name!r}}} needs the package {name}: "
            f"pip install 'manifold_shap[{name}]'."
        ) from error


def _mlflow(kind: str, place: Path) -> Logger:
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    if uri:
        return MLFlowLogger(kind, tracking_uri=uri)
    # Newer versions of mlflow refuse to write plain files.
    place.mkdir(parents=True, exist_ok=True)
    whole = place.resolve()
    return MLFlowLogger(
        kind,
        tracking_uri=f"sqlite:///{whole / 'mlflow.db'}",
        artifact_location=str(whole / "artifacts"),
    )
