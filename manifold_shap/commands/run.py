"""A run: its data, its settings and its place."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manifold_shap.classifiers import Model
from manifold_shap.commands import directories
from manifold_shap.data.base import TensorDataModule
from manifold_shap.imputers import MarginalImputer
from manifold_shap.values import ImputedValue, imputed_value

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One training: its data, its settings and its place.

    Attributes:
        data: a data module after `setup`.
        settings: `data`, `classifier`, `value_function` and `seed`, as plain values: what makes
            two runs the same.
        directory: of the value function; the classifier lives beside it.
        trainer: arguments of `lightning.Trainer`; where to train is not part of what a run is.
        overwrite: replace what was made with other settings.
        progress: show bars on work of more than two seconds.
    """

    data: TensorDataModule
    settings: Settings
    directory: Path
    home: Path
    trainer: Settings
    overwrite: bool = False
    progress: bool = True

    @property
    def config(self) -> dict[str, Any]:
        """The settings that decide the result, and a checksum of the data."""
        return {**self.classifier_config, "value_function": self.settings["value_function"]}

    @property
    def classifier_config(self) -> dict[str, Any]:
        """The part of it that decides the classifier."""
        data = {key: entry for key, entry in self.settings["data"].items() if key != "root"}
        return {
            "seed": self.settings["seed"],
            "data": data,
            "rows": directories.fingerprint(self.data.x_train, self.data.y_train),
            "classifier": self.settings["classifier"],
        }


def marginal_value(
    model: Model, data: TensorDataModule, seed: int, output: str, draws: int
) -> ImputedValue:
    """The off-manifold value function with donors from the training rows."""
    imputer = MarginalImputer(data.x_train, data.players)
    return imputed_value(model, imputer, output, draws, seed)
