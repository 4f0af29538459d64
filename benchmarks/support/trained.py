"""Trains, in memory, what the commands train: a data set's classifier and value functions of it."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from torch import Tensor

import manifold_shap as ms
from manifold_shap.cli import CONF
from manifold_shap.cli.run import plain as settings_of
from manifold_shap.coalitions import all_coalitions
from manifold_shap.data import Data
from manifold_shap.training.classifier import fit_classifier, load_classifier, quality

# Matrix products in half precision, for the trainings of one data set and all its methods alike.
PRECISION = {"mnist": "bf16-mixed"}


def settings(data: str, value_function: str, seed: int, *overrides: str) -> dict[str, Any]:
    """The settings of the commands, as plain values."""
    chosen = [f"data={data}", f"value_function={value_function}", f"seed={seed}", *overrides]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return settings_of(compose("train", chosen))


def shorter(epochs: int | None) -> dict[str, int]:
    """The change that another number of epochs is to a training; none where it is None."""
    return {} if epochs is None else {"max_epochs": epochs}


class Trained:
    """What the commands train with their default settings, in memory.

    Args:
        name: of the data set, as in `conf/data`.
        seed: of the split, of the classifier and, unless they are given another, of all trainings.
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
        self.data: Data = instantiate(chosen["data"])
        x, y = self.data.x_train, self.data.y_train
        self.fitted: Any = fit(x, y) if fit else self._classifier(chosen["classifier"])
        self.explain(self.fitted)

    def explain(self, model: Any) -> None:
        """From now on, this model of the same classes."""
        self.model: ms.Model = ms.as_model(model, self.data.x_train[:64], self.data.classes)
        self.accuracy = quality(self.model, self.data)["accuracy"]

    def tabulate(self) -> None:
        """From now on, the same model from a table of all rows of binary features."""
        features = len(self.data.players)
        power = 2 ** torch.arange(features)
        table = self.model(all_coalitions(features).float()).exp()
        self.explain(lambda x: table[(x.long() * power).sum(1)])

    def _classifier(self, recipe: dict[str, Any]) -> ms.Model:
        with tempfile.TemporaryDirectory() as place:
            fit_classifier(instantiate(recipe), self.data, place, {"accelerator": "cpu"})
            return load_classifier(Path(place), self.data)

    def off_manifold(self, draws: int) -> ms.ImputedValue:
        """By splices of training rows (Frye et al. 2021, Eq. 2)."""
        return self.imputed(
            ms.imputers.MarginalImputer(self.data.x_train, self.data.players), draws
        )

    def surrogate(self, **changes: Any) -> ms.SurrogateValue:
        """By supervised regression (Eq. 17); `changes` are to the settings of the command."""
        return self._fit("surrogate", (), changes)

    def vae(self, draws: int, *overrides: str, **changes: Any) -> ms.ImputedValue:
        """By a masked-encoder VAE (Eqs. 13-20).

        Args:
            draws: completions of a coalition.
            overrides: of the command line, such as `experiment=paper_vae`.
            changes: to the settings of the command.
        """
        return self.imputed(self._fit("vae", overrides, changes), draws)

    def _fit(self, kind: str, overrides: Sequence[str], changes: dict[str, Any]) -> Any:
        data = self.data
        chosen = settings(self.name, kind, self.seed, *overrides)["value_function"]
        others = ("_target_", "name", "title", "draws", "teacher", "teacher_draws")
        own = {key: chosen[key] for key in chosen if key not in others}
        rows = {"x_validation": data.x_validation, "players": data.players, "table": data.table}
        usual = {"trainer": self.trainer, "seed": self.seed}
        given = {**rows, **own, **usual, "model": self.model, **changes}
        if kind == "vae":
            return ms.fit_imputer(data.x_train, **given)
        return ms.fit_surrogate(x_train=data.x_train, **given)

    def imputed(self, imputer: ms.imputers.Imputer, draws: int) -> ms.ImputedValue:
        return ms.imputed_value(self.model, imputer, draws=draws, seed=self.seed)

    def explained(self, value: ms.ValueFunction, samples: int) -> ms.Explanation:
        """The first test rows by so many pairs of orders in all, one for each row or more."""
        x = self.data.x_test[:samples]
        permutations = 2 * (samples // len(x))
        return ms.permutation_shapley(value, x, permutations=permutations, seed=self.seed)

    def global_values(self, value: ms.ValueFunction, samples: int) -> dict[str, Any]:
        """Eq. (4) over test rows; standard errors are of these rows, as well as of orders."""
        explained = self.explained(value, samples)
        return plain(ms.global_values(explained, self.data.y_test[:samples]))


def brief_surrogate(
    name: str, epochs: int, device: str = "cpu", network: str = "mlp"
) -> tuple[ms.SurrogateValue, Data]:
    """A surrogate of a data set, briefly trained, on a device; and the data."""
    trained = Trained(name, seed=0)
    value = trained.surrogate(max_epochs=epochs, network=network, trainer={"accelerator": "cpu"})
    value.to(device)
    return value, trained.data


def plain(values: ms.GlobalValues) -> dict[str, Any]:
    """Global values as JSON holds them."""
    figures = {"phi": values.phi.tolist(), "standard_error": values.standard_error.tolist()}
    return {"players": list(values.players), **figures}


def by_player(found: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, tuple[float, float]]]:
    """Global values and their standard errors by player, by method, as `draw.dots` takes them."""
    pairs = {method: zip(v["phi"], v["standard_error"], strict=True) for method, v in found.items()}
    return {m: dict(zip(v["players"], pairs[m], strict=True)) for m, v in found.items()}
