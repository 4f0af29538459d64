"""The classifiers of the command line: an MLP by Lightning, or any of scikit-learn."""

import importlib
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric
from torchmetrics.classification import MulticlassAccuracy

from manifold_shap.data.base import TensorDataModule
from manifold_shap.io.files import write_whole
from manifold_shap.models import Model, SklearnClassifier, as_model
from manifold_shap.nn import MLP
from manifold_shap.training.loop import Task, load_task, seeded, train

_ESTIMATOR = "model.skops"


class ClassifierTask(Task):
    """An MLP classifier, by cross-entropy.

    Args:
        event: shape of one input row.
        classes: names.
        hidden, activation, dropout: see `MLP`.
        learning_rate: highest learning rate.
        weight_decay: of AdamW.
        schedule: one of `SCHEDULES`.
    """

    kind = "classifier"

    def __init__(
        self,
        event: Sequence[int],
        classes: Sequence[str],
        hidden: Sequence[int] = (512,),
        activation: str = "relu",
        dropout: float = 0.0,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.01,
        schedule: str = "one_cycle",
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        inputs = int(torch.tensor(list(event)).prod())
        self.network = MLP(inputs, hidden, len(classes), activation, dropout)
        self.loss = nn.CrossEntropyLoss()
        self.validation = MeanMetric()
        self.accuracy = MulticlassAccuracy(len(classes), average="micro")

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        return self.loss(self.network(x), y)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        x, y = batch
        logits = self.network(x)
        self.validation.update(self.loss(logits, y), len(y))
        self.accuracy.update(logits, y)

    def on_validation_epoch_end(self) -> None:
        self.log("validation", self.validation.compute())
        self.log("accuracy", self.accuracy.compute())
        self.validation.reset()
        self.accuracy.reset()


@dataclass(frozen=True)
class MLPClassifier:
    """How to train an MLP classifier: a recipe, in plain numbers.

    Attributes:
        hidden, activation, dropout: see `MLP`.
        learning_rate, weight_decay, schedule: see `ClassifierTask`.
        max_epochs, patience, weight_averaging: see `train`.
        seed: of the initial weights.
    """

    hidden: Sequence[int] = (512,)
    activation: str = "relu"
    dropout: float = 0.0
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    schedule: str = "one_cycle"
    max_epochs: int = 10
    patience: int = 10
    weight_averaging: float | None = 0.99
    seed: int = 0


def fit_classifier(
    recipe: MLPClassifier | Any,
    data: TensorDataModule,
    directory: str | Path,
    trainer: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> float:
    """Train a classifier on a data module and write it to `directory`.

    Args:
        recipe: an `MLPClassifier`, or an unfitted scikit-learn classifier.
        data: a data module after `setup`.
        directory: receives `model.ckpt` (a network) or `model.skops` (scikit-learn).
        trainer: arguments of `lightning.Trainer`, for a network.
        progress: show a bar on work of more than two seconds.

    Returns:
        Wall time of the training in seconds.

    Raises:
        TypeError: `recipe` is neither.
    """
    directory = Path(directory)
    if isinstance(recipe, MLPClassifier):
        return _fit_network(recipe, data, directory, trainer, progress)
    if not (hasattr(recipe, "fit") and hasattr(recipe, "predict_proba")):
        raise TypeError(
            "Expected `classifier` to be an MLP recipe or a scikit-learn classifier with `fit` "
            f"and `predict_proba`, but got {type(recipe).__name__}; set `probability=True` where "
            "the class has that option."
        )
    start = time.perf_counter()
    recipe.fit(data.x_train.flatten(1).numpy(), data.y_train.numpy())
    _save_sklearn(recipe, directory / _ESTIMATOR)
    return time.perf_counter() - start


def load_classifier(directory: str | Path, data: TensorDataModule) -> Model:
    """The classifier that `fit_classifier` wrote, checked on rows of the data it was made for.

    Raises:
        FileNotFoundError: no classifier is there.
        ValueError: the file is damaged, foreign, or holds types that are not scikit-learn's.
    """
    directory = Path(directory)
    model: nn.Module | SklearnClassifier
    if (directory / _ESTIMATOR).exists():
        model = load_estimator(directory)
    else:
        model = load_task(directory / "model.ckpt", ClassifierTask)[0].network
    return as_model(model, data.x_test[:64], data.classes)


def accuracy(model: Model, x: Tensor, y: Tensor) -> float:
    """Share of rows whose most probable class is the label."""
    predicted = torch.cat([model(rows).argmax(-1) for rows in x.split(8192)])
    return (predicted == y).double().mean().item()


def _fit_network(
    recipe: MLPClassifier,
    data: TensorDataModule,
    directory: Path,
    trainer: Mapping[str, Any] | None,
    progress: bool,
) -> float:
    with seeded(recipe.seed):
        task = ClassifierTask(
            list(data.x_train.shape[1:]),
            list(data.classes),
            list(recipe.hidden),
            recipe.activation,
            recipe.dropout,
            recipe.learning_rate,
            recipe.weight_decay,
            recipe.schedule,
        )
        training = train(
            task,
            data.train_dataloader(),
            data.val_dataloader(),
            directory,
            max_epochs=recipe.max_epochs,
            patience=recipe.patience,
            weight_averaging=recipe.weight_averaging,
            trainer=trainer,
            progress=progress,
        )
    training.checkpoint.replace(directory / "model.ckpt")
    (directory / "last.ckpt").unlink()
    return training.seconds


def _save_sklearn(estimator: Any, path: Path) -> None:
    import skops.io

    write_whole(path, lambda beside: skops.io.dump(estimator, beside))


def load_estimator(directory: str | Path) -> SklearnClassifier:
    """The scikit-learn classifier that `fit_classifier` wrote.

    Raises:
        FileNotFoundError: none is there; the classifier may be a network.
        ValueError: the file is damaged, foreign, or holds types that are not scikit-learn's.
    """
    import skops.io

    path = Path(directory) / _ESTIMATOR
    if not path.exists():
        raise FileNotFoundError(
            f"Expected a scikit-learn classifier at {path} but no file is there; train one, e.g. "
            "by classifier=random_forest."
        )
    try:
        unknown = skops.io.get_untrusted_types(file=path)
        foreign = [name for name in unknown if not _is_sklearn_class(name)]
        if foreign:
            raise ValueError(
                f"Refused to load {path}: it names types that are not scikit-learn's own "
                f"({', '.join(foreign)}), and loading them could run code. Train the classifier "
                "again, or choose one that consists of scikit-learn's classes."
            )
        return skops.io.load(path, trusted=unknown)
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        raise ValueError(
            f"Expected a scikit-learn classifier written by skops at {path} but the file is "
            f"damaged ({error}). Train the classifier again."
        ) from error


def _is_sklearn_class(name: str) -> bool:
    # Some of scikit-learn's compiled classes, such as its trees, are not on skops' own list.
    module, _, attribute = name.rpartition(".")
    if not module.startswith("sklearn."):
        return False
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return False
    # A module also holds what it imports from elsewhere.
    return isinstance(found, type) and found.__module__.startswith("sklearn.")
