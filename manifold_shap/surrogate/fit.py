"""Training a surrogate: from a model and unlabelled rows to a value function."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import MeanMetric

from manifold_shap._checks import to_tensor
from manifold_shap.coalitions import SizeUniform
from manifold_shap.models import Model, as_model
from manifold_shap.nn import check_hidden
from manifold_shap.players import Players
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.surrogate.distillation import (
    LESSONS_KIND,
    Lessons,
    ask_teacher,
    check_same_game,
    check_teacher,
    kept_lessons,
)
from manifold_shap.surrogate.network import Surrogate, squared_error
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.tables.schema import Schema
from manifold_shap.training.loop import (
    Task,
    check_continues,
    load_task,
    seeded,
    train_on,
    training_rows,
)
from manifold_shap.values import ValueFunction, model_for, reference_outputs

# So many training rows go into the file, to tell whether a model is the one it was made for: half
# of them spread over all rows, half where the model is closest to its mean, since there two
# well-trained models differ most.
_PROBE_ROWS = 32
_PROBE_TOLERANCE = 1e-3
# What the file knows of data and model.
_DESCRIPTION = ("probe", "probe_outputs", "base")
# Where the values of a teacher are kept, beside the checkpoints.
_LESSONS = "lessons.ckpt"


class SurrogateTask(Task):
    """A surrogate g(x_S), by squared error over coalitions of the Shapley sum (Eq. 17).

    Batches are `(x, T(f(x)))`. Every row meets an antithetic pair of coalitions per step. The
    draws are a function of seed and step, so that a resumed training repeats them.

    Attributes:
        lessons: values of a teacher that stand in for a share of every batch, where there is one.

    Args:
        event: shape of one input row.
        index: player that owns each of the flattened input elements.
        players: names.
        outputs: names of the outputs of T.
        space: settings of the output space, see `as_space`.
        hidden, activation: see `Surrogate`.
        learning_rate, weight_decay, schedule: see `ClassifierTask`.
        seed: of the coalitions.
        schema: columns of the table, as plain data, where the rows come from one.
        loop: settings of the training loop, for the record.
        teacher: of a distilled surrogate: `share` of a batch, and what else tells it from others.
    """

    kind = "surrogate"
    base: Tensor
    probe: Tensor
    probe_outputs: Tensor
    lessons: Lessons | None = None

    def __init__(
        self,
        event: Sequence[int],
        index: Sequence[int],
        players: Sequence[str],
        outputs: Sequence[str],
        space: Mapping[str, Any],
        hidden: Sequence[int] = (512, 512),
        activation: str = "relu",
        learning_rate: float = 2e-3,
        weight_decay: float = 0.01,
        schedule: str = "one_cycle",
        seed: int = 0,
        schema: Mapping[str, Any] | None = None,
        loop: Mapping[str, Any] | None = None,
        teacher: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        on_simplex = as_space(**space).on_simplex
        self.surrogate = Surrogate(event, index, len(outputs), on_simplex, hidden, activation)
        self.register_buffer("base", torch.zeros(len(outputs)))
        self.register_buffer("probe", torch.zeros(_PROBE_ROWS, *event))
        self.register_buffer("probe_outputs", torch.zeros(_PROBE_ROWS, len(outputs)))
        self.law = SizeUniform(len(players))
        self.validation = MeanMetric()

    @torch.no_grad()
    def describe(self, x: Tensor, target: Tensor) -> None:
        """Take from training rows and their targets what the file must know of data and model."""
        self.surrogate.standardise(x, target)
        self.base.copy_(target.mean(0))
        half = _PROBE_ROWS // 2
        spread = torch.arange(half) * len(x) // half
        undecided = (target - target.mean(0)).square().sum(1).argsort()
        rows = torch.cat((spread, undecided[torch.arange(half) % len(x)]))
        self.probe.copy_(x[rows])
        self.probe_outputs.copy_(target[rows])

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        x, target = batch
        generator = self._generator(self.global_step)
        if self.lessons is not None:
            return self._distilled(x, target, self.lessons, generator)
        mask = self.law.sample_antithetic((len(x),), generator)
        return squared_error(self.surrogate(x, mask), target).mean()

    def _distilled(
        self,
        x: Tensor,
        target: Tensor,
        lessons: Lessons,
        generator: torch.Generator,
    ) -> Tensor:
        """The loss where lessons take the place of the first rows of a batch."""
        taught = round(self.hparams["teacher"]["share"] * len(x))
        lesson = lessons.sample(taught, generator)
        x, target = x[taught:], target[taught:]
        mask = self.law.sample_antithetic((len(x),), generator)
        targets = torch.cat((lesson.target, target[:, None].expand(-1, 2, -1)))
        prediction = self.surrogate(torch.cat((lesson.x, x)), torch.cat((lesson.mask, mask)))
        return (prediction - targets).square().mean()

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        x, target = batch
        # Negative numbers are never a training step: the same fixed coalitions every epoch.
        mask = self.law.sample_antithetic((len(x),), self._generator(-1 - batch_idx))
        self.validation.update(squared_error(self.surrogate(x, mask), target))

    def on_validation_epoch_end(self) -> None:
        self.log("validation", self.validation.compute())
        self.validation.reset()

    def _generator(self, step: int) -> torch.Generator:
        seed = (self.hparams["seed"] * 1_000_003 + step) % 2**63
        return torch.Generator(self.device).manual_seed(seed)


def fit_surrogate(
    model: Any,
    x_train: Tensor | np.ndarray,
    *,
    output: str | OutputSpace = "probability",
    x_validation: Tensor | np.ndarray | None = None,
    players: Players | None = None,
    hidden: Sequence[int] = (512, 512),
    activation: str = "relu",
    learning_rate: float = 2e-3,
    weight_decay: float = 0.01,
    schedule: str = "one_cycle",
    batch_size: int = 256,
    max_epochs: int = 30,
    patience: int = 20,
    weight_averaging: float | None = 0.99,
    teacher: ValueFunction | None = None,
    teacher_pairs: int = 240_000,
    teacher_share: float = 0.5,
    seed: int = 0,
    schema: Schema | None = None,
    directory: str | Path | None = None,
    trainer: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> SurrogateValue:
    """Learn the on-manifold value function v(S) = E[T(f(X)) | x_S] of a model by regression.

    Args:
        model: a torch module, scikit-learn classifier or callable; see `as_model`.
        x_train: rows of the data distribution, `[rows, *event]`; labels are not needed.
        output: output space T: `probability`, `log_odds`, `ilr` or `identity`.
        x_validation: rows for early stopping; by default a tenth of `x_train`, held out.
        players: who plays; by default those of the teacher, or every element of a row on its own.
        hidden, activation: layers of the network.
        learning_rate, weight_decay, schedule: AdamW; `one_cycle`, `cosine` or `constant`.
        batch_size: rows per step; each meets two coalitions.
        max_epochs: epochs, at most; on small data one is 100 batches long.
        patience: epochs without a smaller validation error before training stops.
        weight_averaging: decay of the averaged weights that are kept; None for plain ones.
        teacher: a value function of the same game, such as `imputed_value(model, imputer)`, whose
            averaged predictions are targets of less noise than the single f(x). It helps where it
            is more accurate than a surrogate alone. An imputer that keeps rows should keep others
            than `x_train`: it finds its own again, and leans towards their f(x).
        teacher_pairs: (row, coalition) pairs that the teacher is asked for, once, before training.
        teacher_share: share of every batch that comes from them.
        seed: of the initial weights, batches and coalitions.
        schema: columns of the table behind `x_train`; stored with the surrogate.
        directory: keeps checkpoints, and the teacher's values in `lessons.ckpt`, and continues an
            interrupted training found there.
        trainer: arguments of `lightning.Trainer`, such as `{"accelerator": "gpu"}`.
        progress: show a bar on work of more than two seconds.

    Returns:
        A value function on the CPU; `.to(device)` moves it.

    Raises:
        TypeError, ValueError: inputs that are not finite or of another shape, outputs that are no
            distribution, an argument out of range, a `directory` with another training.
        KeyboardInterrupt: on Ctrl-C; the best checkpoint so far stays in `directory`.
    """
    players = players or getattr(teacher, "players", None)
    players = players or Players.of_elements(to_tensor(x_train, "x_train").shape[1:])
    x_train, x_validation = training_rows(x_train, x_validation, players, seed)
    space = as_space(output)
    wrapped = model_for(model, x_train, space)
    target = reference_outputs(wrapped, space, x_train)
    check_hidden(hidden)
    loop: dict[str, Any] = {
        "batch_size": batch_size,
        "max_epochs": max_epochs,
        "patience": patience,
        "weight_averaging": weight_averaging,
    }
    game = _game(players, space, wrapped, schema)
    if teacher is not None:
        check_teacher(teacher, teacher_pairs, teacher_share)
        check_same_game(teacher, players, space, x_train[:64], target[:64])
        game["teacher"] = {"pairs": teacher_pairs, "share": teacher_share, **teacher.provenance}
    with seeded(seed):
        task = SurrogateTask(
            **game,
            hidden=list(hidden),
            activation=activation,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            schedule=schedule,
            seed=seed,
            loop=loop,
        )
    task.describe(x_train, target)
    _check_directory(task, directory)
    if teacher is not None:
        task.lessons = _lessons(task, teacher, x_train, teacher_pairs, directory, progress)
    training = train_on(
        task,
        (x_train, target),
        (x_validation, space(wrapped(x_validation))),
        directory,
        seed=seed,
        trainer=trainer,
        progress=progress,
        **loop,
    )
    value = _value(task, wrapped)
    value.training = training.record
    if task.lessons is not None:
        value.training["teacher_seconds"] = task.lessons.seconds
    return value


def _game(
    players: Players, space: OutputSpace, model: Model, schema: Schema | None
) -> dict[str, Any]:
    """What is explained, in plain numbers and strings."""
    return {
        "event": list(players.event),
        "index": players.index.flatten().tolist(),
        "players": list(players.names),
        "outputs": list(space.outputs(model.classes)),
        "space": space.settings,
        "schema": schema.to_dict() if schema else None,
    }


def _check_directory(task: SurrogateTask, directory: str | Path | None) -> None:
    """Raise ValueError if an interrupted training of other settings or data is there."""
    if directory is not None:
        for file, kind in (("last.ckpt", task.kind), (_LESSONS, LESSONS_KIND)):
            check_continues(Path(directory) / file, kind, task, _DESCRIPTION)


def _lessons(
    task: SurrogateTask,
    teacher: ValueFunction,
    x: Tensor,
    pairs: int,
    directory: str | Path | None,
    progress: bool,
) -> Lessons:
    """The teacher's values, or those that an interrupted training has left in `directory`."""
    seed = task.hparams["seed"]
    if directory is None:
        return ask_teacher(teacher, x, pairs, seed, progress)
    path = Path(directory) / _LESSONS
    if path.exists():
        return kept_lessons(path, teacher, x, pairs, seed)
    asked = ask_teacher(teacher, x, pairs, seed, progress)
    same = {name: getattr(task, name) for name in _DESCRIPTION}
    asked.save(path, {"hyper_parameters": dict(task.hparams), "state_dict": same})
    return asked


def load_surrogate(path: str | Path, model: Any) -> SurrogateValue:
    """The value function that `SurrogateValue.save` or a training wrote.

    Args:
        path: the checkpoint; no code in it is run.
        model: the model that it was trained for: v(N) comes from the model itself.

    Raises:
        FileNotFoundError: no file is there.
        ValueError: it is damaged or foreign, or was trained for another model.
    """
    task, _ = load_task(path, SurrogateTask)
    returns = "values" if as_space(**task.hparams["space"]).regression else None
    try:
        wrapped = as_model(model, task.probe, returns=returns)
    except RuntimeError as error:
        raise ValueError(
            f"Expected a model for rows of shape {tuple(task.probe.shape[1:])}, as the surrogate "
            f"in {path} has them, but this one fails on them "
            f"({str(error).splitlines()[0]}); pass the model that it was trained for."
        ) from error
    value = _value(task, wrapped)
    _check_same_model(value, task, path)
    return value


def _value(task: SurrogateTask, model: Model) -> SurrogateValue:
    settings = task.hparams
    players = Players(
        tuple(settings["players"]), torch.tensor(settings["index"]).reshape(settings["event"])
    )
    schema = settings["schema"]
    return SurrogateValue(
        task.surrogate,
        model,
        players,
        as_space(**settings["space"]),
        task.base,
        schema=Schema.from_dict(schema) if schema else None,
        checkpoint={
            "kind": task.kind,
            "hyper_parameters": dict(settings),
            "state_dict": task.state_dict(),
        },
    )


def _check_same_model(value: SurrogateValue, task: SurrogateTask, path: str | Path) -> None:
    outputs = list(value.outputs)
    if outputs != list(task.hparams["outputs"]):
        raise ValueError(
            f"Expected a model with outputs {task.hparams['outputs']}, for which the surrogate in "
            f"{path} was trained, but got {outputs}; pass that model, with its `classes`."
        )
    gap = (value.prediction(task.probe) - task.probe_outputs).abs().max().item()
    scale = max(1.0, task.probe_outputs.abs().max().item())
    if not gap <= _PROBE_TOLERANCE * scale:
        raise ValueError(
            f"Expected the model for which the surrogate in {path} was trained, but this one "
            f"predicts otherwise (by up to {gap:.3g} on the rows kept for that check); pass the "
            "original model, or train a surrogate for this one."
        )
