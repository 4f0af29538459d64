"""A data set, the classifier of the commands on it, and value functions of that classifier."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from hydra.utils import instantiate
from torch import Tensor

import manifold_shap as ms
from benchmarks.imputers import PRECISION, keep, settings
from manifold_shap.data.base import TensorDataModule
from manifold_shap.training.classifier import accuracy, fit_classifier, load_classifier


class Trained:
    """What the commands train with their default settings, in memory.

    Args:
        name: of the data set, as in `conf/data`.
        seed: of the split and of all trainings.
        fit: from training rows and labels to the model to explain; by default the classifier of
            the data set.

    Attributes:
        data: the data module.
        fitted: what `fit` returned.
        model: the classifier.
        accuracy: of it, on the test split.
    """

    def __init__(
        self, name: str, seed: int, fit: Callable[[Tensor, Tensor], Any] | None = None
    ) -> None:
        self.name, self.seed = name, seed
        self.trainer = {"accelerator": "cpu", "precision": PRECISION.get(name, "32-true")}
        chosen = settings(name, "surrogate", seed)
        self.data: TensorDataModule = instantiate(chosen["data"])
        self.data.setup()
        x, y = self.data.x_train, self.data.y_train
        self.fitted = fit(x, y) if fit else self._classifier(chosen["classifier"])
        self.explain(self.fitted)

    def explain(self, model: Any) -> None:
        """From now on, this model of the same classes."""
        self.model: ms.Model = ms.as_model(model, self.data.x_train[:64], self.data.classes)
        self.accuracy = accuracy(self.model, self.data.x_test, self.data.y_test)

    def _classifier(self, recipe: dict[str, Any]) -> ms.Model:
        with tempfile.TemporaryDirectory() as place:
            fit_classifier(instantiate(recipe), self.data, place, {"accelerator": "cpu"})
            return load_classifier(Path(place), self.data)

    def off_manifold(self, draws: int) -> ms.ImputedValue:
        """By splices of training rows (Frye et al. 2021, Eq. 2)."""
        return self.imputed(ms.MarginalImputer(self.data.x_train, self.data.players), draws)

    def surrogate(self, **changes: Any) -> ms.SurrogateValue:
        """By supervised regression (Eq. 17)."""
        chosen = keep(settings(self.name, "surrogate", self.seed)["value_function"]) | changes
        return ms.fit_surrogate(self.model, **self._rows(), **chosen, **self._run())

    def vae(self, draws: int, **changes: Any) -> ms.ImputedValue:
        """By a masked-encoder VAE (Eqs. 13-20)."""
        chosen = keep(settings(self.name, "vae", self.seed)["value_function"], "zero_replacement")
        own = {"model": self.model} | chosen | changes
        return self.imputed(ms.fit_imputer(**self._rows(), **own, **self._run()), draws)

    def imputed(self, imputer: ms.Imputer, draws: int) -> ms.ImputedValue:
        return ms.imputed_value(self.model, imputer, draws=draws, seed=self.seed)

    def global_values(self, value: ms.ValueFunction, samples: int) -> ms.GlobalValues:
        """Eq. (4) over test rows, each of them with pairs of orders of its own."""
        x, y = self.data.x_test, self.data.y_test
        rows = torch.arange(samples) % len(x)
        found = ms.permutation_shapley(value, x[rows], permutations=2, seed=self.seed)
        return ms.global_values(found, y[rows])

    def _rows(self) -> dict[str, Any]:
        return {
            "x_train": self.data.x_train,
            "x_validation": self.data.x_validation,
            "players": self.data.players,
            "schema": self.data.schema,
        }

    def _run(self) -> dict[str, Any]:
        return {"seed": self.seed, "trainer": self.trainer}
