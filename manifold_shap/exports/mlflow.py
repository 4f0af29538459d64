"""Loads a saved explainer as an MLflow model, of the flavour `python_function`.

A folder that `Explainer.save(folder, model_file=...)` wrote is one by

    mlflow.pyfunc.save_model(path, data_path=folder, loader_module="manifold_shap.exports.mlflow")

without anything pickled: `python_model`, MLflow's other way, would pickle the explainer.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manifold_shap.explainer import Explainer
from manifold_shap.io.frames import wide_frame


class ExplainedFrames:
    """What MLflow asks: from a frame to the frame of its explanation, see `wide_frame`.

    Args:
        explainer: its explainer.
        settings: of its calls, such as `{"evaluations": 200}`.
    """

    def __init__(self, explainer: Explainer, settings: Mapping[str, Any]) -> None:
        self.explainer, self.settings = explainer, settings

    def predict(self, frame: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Predictions, base values, Shapley values and standard errors, a line for each row.

        Args:
            frame: rows with the columns of the training.
            params: settings of this call, in place of those of the model.
        """
        given = {**self.settings, **(params or {})}
        return wide_frame(self.explainer(frame, progress=False, **given))


def _load_pyfunc(folder: str, model_config: Mapping[str, Any] | None = None) -> ExplainedFrames:
    """What MLflow calls.

    Args:
        folder: the copy that MLflow has made of an explainer's folder.
        model_config: settings of the explainer's calls, such as `{"evaluations": 200}`.

    Raises:
        ValueError: the folder is damaged, or was saved without its model.
    """
    return ExplainedFrames(Explainer.load(Path(folder)), dict(model_config or {}))
