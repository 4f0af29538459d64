"""Trains and loads the classifiers of the command line: networks, or ones of scikit-learn."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from manifold_shap._messages import check_choice
from manifold_shap._saved import saved
from manifold_shap._stored import StoredRows, with_extremes
from manifold_shap.io.files import write_whole
from manifold_shap.models import Model, as_model
from manifold_shap.models.files import load_model
from manifold_shap.nn import MLP, options_given
from manifold_shap.players import Players
from manifold_shap.saving import load, save
from manifold_shap.surrogate.convolution import Convolution
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.transformer import Transformer, tokens_in
from manifold_shap.tables.rows import EncodedRows
from manifold_shap.training.rows import seen_rows
from manifold_shap.training.task import Task, TrainingOptions, learn

if TYPE_CHECKING:
    from manifold_shap.data.base import Data

_ESTIMATOR = "model.skops"
# Learning rates and epochs by the kind of network.
_USUAL = {"mlp": (3e-3, 10), "conv": (2e-3, 20), "transformer": (1e-3, 20)}


class WholeConvolution(Convolution):
    """The convolutional network of surrogates, without the mask as further channels."""

    def masked(
        self, x: Float[Tensor, "batch *event"], mask: Bool[Tensor, "batch m players"]
    ) -> Float[Tensor, "pairs channels *size"]:
        return (self.standardised(x)[:, None] * self.known(x, mask)).flatten(0, 1)

    @property
    def channels(self) -> int:
        return len(self.x_mean)


# The kinds of networks by name.
KINDS: dict[str, type[nn.Module]] = {
    "mlp": MLP,
    "conv": WholeConvolution,
    "transformer": Transformer,
}


class ClassifierNetwork(nn.Module):
    """A network from rows `[batch, *event]` to logits `[batch, classes]`.

    An `MLP` sees rows as they are, padding like any other number. The others are those of
    surrogates, on rows of which nothing is absent but their padding.

    >>> network = ClassifierNetwork({"kind": "conv", "hidden": [4]}, (3, 8, 6), 2, None)
    >>> network(torch.zeros(5, 3, 8, 6)).shape
    torch.Size([5, 2])

    Args:
        settings: the `kind`, one of `KINDS`, and its arguments: `hidden`, `activation` and so on.
        event: shape of a row.
        classes: how many.
        padding: see `Players`.

    Raises:
        ValueError: rows of another shape, tokens without a `vocabulary`, widths that differ.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        event: Sequence[int],
        classes: int,
        padding: float | None,
    ) -> None:
        super().__init__()
        options = {name: own for name, own in settings.items() if name != "kind"}
        self.classes, self.is_mlp = classes, settings["kind"] == "mlp"
        if self.is_mlp:
            options = {"hidden": [512], **options}
            self.layers: Any = MLP(math.prod(event), outputs=classes, **options)
        else:
            self.positions = _positions(event, padding)
            game = GameShape.of(self.positions, classes, on_simplex=False)
            self.layers = KINDS[settings["kind"]](game, **options)

    @torch.no_grad()
    def standardise(self, x: Float[Tensor, "rows *event"]) -> None:
        """Take means and scales from training rows; an MLP has none."""
        if not self.is_mlp:
            self.layers.standardise(x, torch.zeros(len(x), self.classes))

    def forward(self, x: Shaped[Tensor, "batch *event"]) -> Float[Tensor, "batch classes"]:
        if self.is_mlp:
            return self.layers(x)
        x = x.float()
        return self.layers.raw(x, self.positions.owned(x)[:, None])[:, 0]


def _positions(event: Sequence[int], padding: float | None) -> Players:
    """A player for each token, time point or pixel of a row, with its channels."""
    if len(event) == 1:
        return Players.tokens(event[0], padding)
    return Players.segments(event, 1, padding) if len(event) == 2 else Players.pixels(event)


@saved
class ClassifierTask(Task):
    """A network as classifier, by cross-entropy.

    Settings: `event`, the shape of one input row, and `padding`, see `Players`; the names of
    `classes`; `network`, see `ClassifierNetwork`; and the options of the training.
    """

    kind = "classifier"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        own = self.settings
        classes = len(own["classes"])
        self.network = ClassifierNetwork(own["network"], own["event"], classes, own["padding"])

    def loss(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        x, y = batch
        return F.cross_entropy(self.network(x), y, reduction="none")


@dataclass(kw_only=True)
class NetworkRecipe(TrainingOptions):
    """How to train a network as classifier: the network, and options of the training.

    Attributes:
        kind: `mlp` for any rows, `conv` for pictures and series, or `transformer` for tokens,
            patches of pictures and segments of series.
        hidden, activation, dropout, patch: of the network, see `MLP`, `Convolution` and
            `Transformer`; None for the usual ones of each.
        learning_rate: by default 3e-3, 2e-3 and 1e-3.
        max_epochs: by default 10 for an MLP, 20 for the others.

    Raises:
        TypeError, ValueError: an unknown kind, an option that it does not have, or a value out of
            range.

    >>> NetworkRecipe("mlp", hidden=[64], max_epochs=4).learning_rate
    0.003
    >>> NetworkRecipe("transformer").network(torch.tensor([[3.0, 1.0], [2.0, 0.0]]))
    {'kind': 'transformer', 'vocabulary': 4}
    """

    kind: str = field(kw_only=False)
    hidden: Sequence[int] | None = None
    activation: str | None = None
    dropout: float | None = None
    patch: int | None = None
    learning_rate: float | None = None  # type: ignore[assignment]
    max_epochs: int | None = None  # type: ignore[assignment]
    patience: int | None = 10

    def __post_init__(self) -> None:
        rate, epochs = _USUAL[check_choice("kind", self.kind, tuple(_USUAL))]
        self.learning_rate = rate if self.learning_rate is None else self.learning_rate
        self.max_epochs = epochs if self.max_epochs is None else self.max_epochs
        super().__post_init__()
        own = {name: getattr(self, name) for name in ("hidden", "activation", "dropout", "patch")}
        self._given = options_given(KINDS[self.kind], self.kind, own)

    def network(self, x: Float[Tensor, "rows *event"]) -> dict[str, Any]:
        """Settings of the network, for training rows like these."""
        tokens = self.kind == "transformer" and x.ndim == 2
        return {
            "kind": self.kind,
            **self._given,
            **({"vocabulary": tokens_in(x)} if tokens else {}),
        }


@torch.inference_mode(False)
def fit_classifier(
    recipe: NetworkRecipe | Any,
    data: "Data",
    directory: str | Path,
    trainer: Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> float:
    """Train the model to explain on a data module and write it to `directory`.

    Args:
        recipe: that of a network, an unfitted scikit-learn classifier or, where the task of the
            data is a regression, an unfitted scikit-learn regressor.
        data: a data module after `setup`.
        directory: receives what `ms.save` writes of a network, or `model.skops` (scikit-learn).
        trainer: arguments of `lightning.Trainer`, for a network.
        progress: whether a training of more than two seconds shows a progress bar; by default
            where a person looks.

    Returns:
        Wall time of the training in seconds.

    Raises:
        TypeError: `recipe` is none of these, or does not suit the task.
    """
    from sklearn.base import BaseEstimator, is_regressor

    directory = Path(directory).expanduser()
    is_regression = data.task == "regression"
    if is_regression and not (isinstance(recipe, BaseEstimator) and is_regressor(recipe)):
        raise TypeError(
            f"Expected `classifier` to be a scikit-learn regressor for {data.name}, which is a "
            f"regression, but got {type(recipe).__name__}; choose for example "
            "classifier=random_forest_regressor."
        )
    if isinstance(recipe, NetworkRecipe):
        return _fit_network(recipe, data, directory, trainer, progress)
    if not is_regression and not hasattr(recipe, "predict_proba"):
        raise TypeError(
            "Expected `classifier` to be the recipe of a network or a scikit-learn classifier with "
            f"`fit` and `predict_proba`, but got {type(recipe).__name__}; set `probability=True` "
            "where the class has that option."
        )
    # Networks are not kept by it, and it imports all of scikit-learn.
    import skops.io

    start = time.perf_counter()
    x_train = seen_rows(data.x_train, data.table)
    if isinstance(x_train, StoredRows):
        raise ValueError(
            f"Expected rows in memory for a {type(recipe).__name__}, which is fitted to all at "
            f"once, but those of {data.name} take more than suits it and stay on disk; choose "
            "classifier=conv, or smaller pictures by data.size."
        )
    recipe.fit(x_train.flatten(1).numpy(), data.y_train.numpy())
    write_whole(directory / _ESTIMATOR, lambda beside: skops.io.dump(recipe, beside))
    return time.perf_counter() - start


def load_classifier(directory: str | Path, data: "Data") -> Model:
    """The model that `fit_classifier` wrote, checked on rows of the data it was made for.

    Raises:
        FileNotFoundError: no classifier is there.
        ValueError: the file is damaged, foreign, or holds types that are not scikit-learn's.
    """
    directory = Path(directory).expanduser()
    model: Any
    if (directory / _ESTIMATOR).exists():
        model, returns = load_estimator(directory), None
    else:
        model, returns = load(directory).network, "logits"
    table = data.table
    seen = None if table is None else EncodedRows(table)
    return as_model(model, data.x_test[:64], data.outputs, returns, table=seen)


def quality(model: Model, data: "Data", most: int | None = None) -> dict[str, float]:
    """The accuracy on the test rows; of a regression "r2", the share of variance explained.

    Of these rows the first `most` are asked about, or all. Nothing where what is to be predicted
    is not known, or the model has other classes.
    """
    x, y = data.x_test[:most], data.y_test[:most]
    is_regression = model.returns == "values"
    if not len(y) or not (is_regression or set(model.classes) == set(data.classes)):
        return {}
    predicted = torch.cat([model(rows) for rows in x.split(8192)])
    if is_regression:
        errors, variance = predicted[:, 0] - y.double(), y.double().var(correction=0).item()
        return {"r2": 1 - errors.square().mean().item() / variance} if variance > 0 else {}
    place = torch.tensor([model.classes.index(name) for name in data.classes])
    return {"accuracy": (predicted.argmax(-1) == place[y]).double().mean().item()}


def _fit_network(
    recipe: NetworkRecipe,
    data: "Data",
    directory: Path,
    trainer: Mapping[str, Any] | None,
    progress: bool | None,
) -> float:
    options = replace(
        recipe,
        batch_size=data.batch_size,
        directory=directory,
        trainer=trainer,
        progress=progress,
    )
    parts = data.x_train, data.x_validation
    x_train, x_validation = (seen_rows(part, data.table) for part in parts)
    some = with_extremes(x_train)
    rows = {
        "event": x_train.shape[1:],
        "padding": data.players.padding,
        "classes": data.classes,
        "network": recipe.network(some),
    }
    task = ClassifierTask.initial({**rows, **options.settings})
    task.network.standardise(some)
    held_out = x_validation, data.y_validation
    learn(task, ((x_train, data.y_train), held_out), options)
    save(task, directory)
    for name in ("last.ckpt", "best.ckpt"):
        (directory / name).unlink()
    return task.record["train_seconds"]


def load_estimator(directory: str | Path) -> Any:
    """The scikit-learn estimator that `fit_classifier` wrote.

    Raises:
        FileNotFoundError: none is there; the classifier may be a network.
        ValueError: the file is damaged, foreign, or holds types that are not scikit-learn's.
    """
    return load_model(Path(directory) / _ESTIMATOR)
