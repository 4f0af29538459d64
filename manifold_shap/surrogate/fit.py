"""Trains a surrogate: from a model and unlabelled rows to a value function."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap.coalitions import SizeUniform
from manifold_shap.io.files import save_checkpoint
from manifold_shap.models import Model, as_model, whole_dtype
from manifold_shap.nn import check_hidden
from manifold_shap.players import Players
from manifold_shap.spaces import OutputSpace, as_space
from manifold_shap.surrogate.distillation import (
    TeacherTargets,
    check_same_game,
    check_teacher,
    disagreement,
    evaluate_teacher,
    rows_to_teach,
)
from manifold_shap.surrogate.network import squared_error
from manifold_shap.surrogate.perceptron import Perceptron, elements_to_bin
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.tables.rows import codebook_of, encoded, schema_from
from manifold_shap.tables.schema import Schema
from manifold_shap.training.loop import seeded, train
from manifold_shap.training.rows import training_rows
from manifold_shap.training.task import Task, TrainingOptions, load_task, training_options
from manifold_shap.values import ValueFunction, codebook_behind, model_for, reference_outputs
from manifold_shap.values.seen import Seen

if TYPE_CHECKING:
    from manifold_shap.tables.codebook import Codebook

# Training rows that are stored, to recognise the model of the training: half of them spread over
# all rows, half where the model is closest to its mean, since there trained models differ most.
_PROBE_ROWS = 32
# The file of a teacher's values, beside the checkpoints.
_TARGETS = "teacher.ckpt"


class SurrogateTask(Task):
    """A surrogate g(x_S), by squared error over coalitions of the Shapley sum (Eq. 17).

    Batches are `(x, T(f(x)))`, with x as the network sees it. Every row meets an antithetic pair of
    coalitions per step. Off the simplex errors are in standard deviations of the target, the root
    mean square of those of its outputs.

    Settings: `event`, the shape of one input row; `index`, the player that owns each of its
    flattened elements; `elements`, that of each element of a row of codes once it is encoded, or
    None; the names of `players` and `outputs`; `space`, the settings of the output space, see
    `as_space`; `dtype`, that of the model's rows where these are whole numbers, or None; the
    `schema` of the rows, as plain data, or None; `hidden`, `activation` and `binned`, see
    `Perceptron`; `teacher`, None or the `share` of a batch that it teaches and what else tells it
    from others; and the options of the training.

    Attributes:
        teacher_targets: values of a teacher that take the place of a share of every training batch.
    """

    kind = "surrogate"
    described = ("probe", "probe_outputs", "base")
    base: Tensor
    probe: Tensor
    probe_outputs: Tensor
    extent: Tensor

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        own = self.settings
        (event, index), outputs = self.inputs, len(own["outputs"])
        on_simplex = as_space(**own["space"]).on_simplex
        self.surrogate = Perceptron(
            event, index, outputs, on_simplex, own["hidden"], own["activation"], own["binned"]
        )
        self.register_buffer("base", torch.zeros(outputs))
        self.register_buffer("probe", torch.zeros(_PROBE_ROWS, *own["event"]))
        self.register_buffer("probe_outputs", torch.zeros(_PROBE_ROWS, outputs))
        self.register_buffer("extent", torch.zeros(2, *event))
        self.law = SizeUniform(len(own["players"]))
        self.teacher_targets: TeacherTargets | None = None

    @torch.no_grad()
    def describe(self, x: Tensor, seen: Tensor, target: Tensor) -> None:
        """Take scales, v(∅) and rows to recognise the model by from training rows and targets.

        Args:
            x: rows.
            seen: the same, as the network sees them.
            target: T(f(x)).
        """
        self.surrogate.standardise(seen, target)
        self.base.copy_(target.mean(0))
        if (known := Seen.of(seen)) is not None:
            self.extent.copy_(torch.stack(known))
        half = _PROBE_ROWS // 2
        spread = torch.arange(half) * len(x) // half
        undecided = (target - target.mean(0)).square().sum(1).argsort()
        rows = torch.cat((spread, undecided[torch.arange(half) % len(x)]))
        self.probe.copy_(x[rows])
        self.probe_outputs.copy_(target[rows])

    def loss(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        x, target = batch
        known = self.teacher_targets if self.training else None
        count = round(self.settings["teacher"]["share"] * len(x)) if known else 0
        sampled = known.sample(count, generator) if known else None
        x, targets = x[count:], target[count:, None].expand(-1, 2, -1)
        mask = self.law.sample_antithetic((len(x),), generator)
        if sampled is not None:
            x, mask, targets = map(torch.cat, zip(sampled, (x, mask, targets), strict=True))
        scale = None if self.surrogate.on_simplex else self.surrogate.target_scale
        return squared_error(self.surrogate(x, mask), targets, scale).mean((1, 2))


def fit_surrogate(
    model: Any,
    x_train: Any,
    *others: Any,
    output: str | OutputSpace = "probability",
    x_validation: Any = None,
    players: Players | Mapping[str, Any] | None = None,
    schema: "Schema | Codebook | None" = None,
    hidden: Sequence[int] = (512, 512),
    activation: str = "relu",
    teacher: ValueFunction | None = None,
    teacher_pairs: int = 240_000,
    teacher_share: float = 0.5,
    **options: Unpack[TrainingOptions],
) -> SurrogateValue:
    """Learn the on-manifold value function v(S) = E[T(f(X)) | x_S] of a model by regression.

    The network minimises the squared error over coalitions of the Shapley sum (Frye et al. 2021,
    Eq. 17).

    Args:
        model: a torch module, scikit-learn classifier or callable; see `as_model`.
        x_train: rows of the data distribution, `[rows, *event]`, or a frame, which the model then
            gets its rows as; labels are not needed.
        others: none; labels are not needed, and settings go by name.
        output: output space T, or its name: `probability`, `log_odds`, `ilr` or `identity`.
        x_validation: rows for early stopping; by default a tenth of `x_train`, held out.
        players: see `Players`; by default those of the teacher, the columns of the schema, or every
            element of a row. Of a frame also groups of columns, `{"size": ["length", "width"]}`.
        schema: columns of the table behind `x_train`, or the codebook whose codes its rows are;
            stored with the surrogate. By default that of the teacher or of a `Model`, and a new
            codebook for a frame.
        hidden, activation: layers of the network.
        teacher: a value function of the same game, such as `imputed_value(model, imputer)`, whose
            averaged predictions are targets of less variance than the single f(x). It helps where
            it is more accurate than a surrogate alone; 8 draws are enough.
        teacher_pairs: number of (row, coalition) pairs that the teacher evaluates before training.
            Where that is more than four for each row, an imputer draws new rows to evaluate, twice
            as many, and the predictions of single ones teach, too; the network then sees columns in
            bins besides (`Perceptron`). With fewer, an imputer that keeps rows should keep others
            than `x_train`: it finds its own again, and leans towards their f(x).
        teacher_share: share of every batch that comes from them.
        options: of the training, see `TrainingOptions`. `directory` keeps the teacher's values,
            too, in `teacher.ckpt`.

    Returns:
        A value function on the CPU; `.to(device)` moves it.

    Raises:
        TypeError, ValueError: inputs that are not finite or of another shape, outputs that are no
            distribution, an argument that is unknown or out of range, a training that diverges, a
            `directory` with another training.
        KeyboardInterrupt: on Ctrl-C; the best checkpoint so far stays in `directory`.

    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> few = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 5}}
    >>> value = fit_surrogate(lambda x: x[:, :2].softmax(-1), x, hidden=[8], **few)
    >>> value(x[:1], torch.tensor([[[True, False, False]]])).shape
    torch.Size([1, 1, 2])
    """
    if others:
        raise TypeError(
            f"Expected a model and rows but got {len(others)} more arguments; what is learned are "
            "the model's own outputs, not labels, and settings go by name, as in `max_epochs=5`."
        )
    chosen = training_options(fit_surrogate, options)
    check_hidden(hidden)
    if teacher is not None:
        check_teacher(teacher, teacher_pairs, teacher_share)
        players, schema = players or teacher.players, schema or teacher.schema
    schema = schema or codebook_behind(model)
    rows = training_rows(x_train, x_validation, chosen["seed"], players, schema)
    space, (seen, seen_validation) = as_space(output), rows.encoded
    few, dtype = rows.train[:64], whole_dtype(x_train)
    wrapped = model_for(model, few if dtype is None else few.to(dtype), space, rows.codebook)
    target = reference_outputs(wrapped, space, rows.train).float()
    settings = {
        **rows.settings,
        "outputs": space.outputs(wrapped.classes),
        "space": space.settings,
        "dtype": dtype and str(dtype).removeprefix("torch."),
        "hidden": hidden,
        "activation": activation,
        "binned": [],
        "teacher": None,
    }
    drawn = None
    if teacher is not None:
        check_same_game(teacher, rows.players, space, rows.train[:64], target[:64])
        about = {"pairs": teacher_pairs, "share": teacher_share, **teacher.provenance}
        settings["teacher"] = about
        drawn = rows_to_teach(teacher, rows.train, teacher_pairs, chosen["seed"])
        settings["binned"] = [] if drawn is None else elements_to_bin(seen)
    with seeded(chosen["seed"]):
        task = SurrogateTask({**settings, **chosen})
    task.describe(rows.train, seen, target)
    known = _teacher_targets(task, teacher, rows.train, drawn, chosen)
    task.teacher_targets = known and replace(known, x=encoded(known.x, rows.schema))
    check = seen_validation, space(wrapped(rows.validation, scale=space.takes)).float()
    record = train(task, (seen, target), check, chosen)
    value = surrogate_value(task, wrapped, rows.schema)
    value.training_record = record
    if task.teacher_targets is not None:
        value.training_record["teacher_seconds"] = task.teacher_targets.seconds
    return value


def _teacher_targets(
    task: SurrogateTask,
    teacher: ValueFunction | None,
    x: Tensor,
    drawn: Tensor | None,
    options: Mapping[str, Any],
) -> TeacherTargets | None:
    """The teacher's values, or those that an interrupted training has left in its directory."""
    directory, kept = options["directory"], None
    if directory is not None:
        # Before a teacher is evaluated, which may take longer than the training.
        task.interrupted(Path(directory, "last.ckpt"))
        kept = task.interrupted(Path(directory, _TARGETS), "teacher")
    if teacher is None:
        return None
    pairs, fresh = task.settings["teacher"]["pairs"], drawn is not None
    x = x if drawn is None else drawn
    found = evaluate_teacher(teacher, x, pairs, options["seed"], options["progress"], kept, fresh)
    if directory is not None and kept is None:
        values = {"kind": "teacher", "target": found.target, "seconds": found.seconds}
        save_checkpoint(Path(directory, _TARGETS), {**task.checkpoint(), **values})
    return found


def load_surrogate(
    path: str | Path, model: Any, codebook: "Codebook | None" = None
) -> SurrogateValue:
    """The value function that `PerceptronValue.save` or a training wrote.

    Args:
        path: the checkpoint; no code in it is run.
        model: the model that it was trained for: v(N) comes from the model itself.
        codebook: of the frame that it was trained on, where others share it; by default that of
            a `Model`, or the one in the file.

    Raises:
        FileNotFoundError: no file is there.
        ValueError: it is damaged or of something else, or was trained for another model.

    >>> import tempfile
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> few = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 5}}
    >>> model = as_model(lambda x: x[:, :2].softmax(-1), x)
    >>> path = Path(tempfile.mkdtemp()) / "surrogate.ckpt"
    >>> fit_surrogate(model, x, hidden=[8], **few).save(path)
    >>> load_surrogate(path, model).players.names
    ('x0', 'x1', 'x2')
    """
    task, _ = load_task(path, SurrogateTask)
    returns = "values" if as_space(**task.settings["space"]).regression else None
    schema = codebook or codebook_behind(model) or schema_from(task.settings["schema"])
    codebook = None if isinstance(model, Model) else codebook_of(schema)
    try:
        kind = task.settings["dtype"]
        probe = task.probe.numpy().astype(kind) if kind else task.probe
        wrapped = as_model(model, codebook or probe, returns=returns)
    except RuntimeError as error:
        raise ValueError(
            f"Expected a model for rows of shape {tuple(task.probe.shape[1:])}, as the surrogate "
            f"in {path} has them, but this one fails on them "
            f"({str(error).splitlines()[0]}); pass the model that it was trained for."
        ) from error
    value = surrogate_value(task, wrapped, schema)
    expected, outputs = task.settings["outputs"], list(value.outputs)
    if outputs != expected:
        raise ValueError(
            f"Expected a model with outputs {expected}, for which the surrogate in {path} was "
            f"trained, but got {outputs}; pass that model, with its `classes`."
        )
    if gap := disagreement(value.prediction(task.probe), task.probe_outputs):
        raise ValueError(
            f"Expected the model for which the surrogate in {path} was trained, but this one "
            f"predicts otherwise (by up to {gap:.3g} on the rows kept for that check); pass the "
            "original model, or train a surrogate for this one."
        )
    return value


def surrogate_value(
    task: SurrogateTask, model: Model, schema: "Schema | Codebook | None"
) -> SurrogateValue:
    """The value function of a task that was trained for this model."""
    own = task.settings
    value = SurrogateValue(
        task.surrogate,
        model,
        task.players,
        as_space(**own["space"]),
        task.base,
        schema=schema,
        checkpoint=task.checkpoint(),
    )
    value.seen = Seen(*task.extent)
    return value
