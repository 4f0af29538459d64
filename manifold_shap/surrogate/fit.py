"""Trains a surrogate: from a model and unlabelled rows to a value function."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import Tensor, nn

from manifold_shap._stored import sample_of, stored, with_extremes
from manifold_shap.io.files import save_checkpoint
from manifold_shap.models import Model, as_model, whole_dtype
from manifold_shap.players import Players
from manifold_shap.spaces import LogRatios, OutputSpace, as_space
from manifold_shap.surrogate.distillation import (
    TeacherTargets,
    check_same_game,
    check_teacher,
    disagreement,
    evaluate_teacher,
    rows_to_teach,
    with_groups,
)
from manifold_shap.surrogate.kinds import (
    KINDS,
    check_network,
    kind_of,
    network_settings,
    warn_if_blind,
)
from manifold_shap.surrogate.targets import training_targets
from manifold_shap.surrogate.task import SurrogateOptions, SurrogateTask
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.tables.rows import codebook_of, encoded, schema_from
from manifold_shap.tables.schema import Schema
from manifold_shap.training.loop import seeded, train
from manifold_shap.training.rows import training_rows
from manifold_shap.training.task import center_of, centred, load_task, training_options
from manifold_shap.values import ValueFunction, codebook_behind, model_for, reference_space
from manifold_shap.values.seen import Seen

if TYPE_CHECKING:
    from manifold_shap.tables.codebook import Codebook

# Options of the networks; None for the usual ones of each.
OF_NETWORK: dict[str, Any] = dict.fromkeys(("hidden", "activation", "patch", "vocabulary", "layer"))

# The file of a teacher's values, beside the checkpoints.
_TARGETS = "teacher.ckpt"


@torch.inference_mode(False)
def fit_surrogate(
    model: Any,
    x_train: Any,
    *,
    output: str | OutputSpace = "probability",
    x_validation: Any = None,
    players: Players | Mapping[str, Any] | None = None,
    schema: "Schema | Codebook | None" = None,
    network: "str | nn.Module" = "mlp",
    teacher: ValueFunction | None = None,
    teacher_pairs: int = 240_000,
    teacher_share: float = 0.5,
    **options: Unpack[SurrogateOptions],
) -> SurrogateValue:
    """Learn the on-manifold value function v(S) = E[T(f(X)) | x_S] of a model by regression.

    The network minimises the squared error over coalitions of the Shapley sum (Frye et al. 2021,
    Eq. 17).

    Args:
        model: a torch module, scikit-learn classifier or callable; see `as_model`.
        x_train: rows of the data distribution, `[rows, *event]`, or a frame, which the model then
            gets its rows as; labels are not needed. Of a map-style data set, a `DataLoader` of one
            or an array in a file (`numpy.load(path, mmap_mode="r")`) rows are gathered batch by
            batch, by the loader's workers; an item is a row, or a tuple that begins with one.
        output: output space T, or its name: `probability`, `log_odds`, `ilr` or `identity`.
        x_validation: rows for early stopping; by default a tenth of `x_train`, held out.
        players: see `Players`; by default those of the teacher, the columns of the schema, or every
            element of a row. Of a frame also groups of columns, `{"size": ["length", "width"]}`,
            which a teacher of single columns then has, too.
        schema: columns of the table behind `x_train`, or the codebook whose codes its rows are;
            stored with the surrogate. By default that of the teacher or of a `Model`, and a new
            codebook for a frame.
        network: what is trained:
            - "mlp": a fully connected network, for tables and small pictures. Estimators are
              fastest on it;
            - "conv": a residual convolutional network, for pictures `(channels, height, width)` and
              series `(channels, time)` of any size;
            - "transformer": attention over tokens, which are rows of whole numbers, or over patches
              of pictures and segments of series;
            - "model": a copy of the model itself, a torch module, which gets what is absent and is
              fine-tuned (Covert et al. 2023): for a model with a good backbone. Its first layer,
              linear, a convolution or an embedding, sees rows as they are; another one that does is
              named by `layer="embedding"`;
            - a torch module of your own that gives outputs of T for `(x ⊙ mask, mask)` or, of a
              model in double precision, what is added to one of its outputs.
        teacher: a value function of the same game, such as `imputed_value(model, imputer)`, whose
            averaged predictions are targets of less variance than the single f(x). It helps where
            it is more accurate than a surrogate alone; 8 draws are enough.
        teacher_pairs: number of (row, coalition) pairs that the teacher evaluates before training.
            Where that is more than four for each row, an imputer draws new rows to evaluate, twice
            as many, and the predictions of single ones teach, too; the network then sees columns in
            bins besides (`Perceptron`). With fewer, an imputer that keeps rows should keep others
            than `x_train`: it finds its own again, and leans towards their f(x).
        teacher_share: share of every batch that comes from them.
        options: of the network and the training, see `SurrogateOptions`. `directory` keeps the
            teacher's values, too, in `teacher.ckpt`, and T(f(x)) of a data set in `targets.ckpt`.
            The latter are taken for those of the same data set and model by the number of rows, by
            64 rows spread over them, and by the model's outputs of these 64, no others: after a
            change that these may not show, name another directory.

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
    kind = kind_of(network)
    chosen = training_options(fit_surrogate, options, **OF_NETWORK, blocks=None)
    of_network = {name: chosen.pop(name) for name in OF_NETWORK}
    if teacher is not None:
        check_teacher(teacher, teacher_pairs, teacher_share)
        (teacher, players), schema = with_groups(teacher, players), schema or teacher.schema
    schema = schema or codebook_behind(model)
    x_train, x_validation = stored(x_train), stored(x_validation, "x_validation")
    rows = training_rows(x_train, x_validation, chosen["seed"], players, schema)
    space, (seen, seen_validation) = as_space(output), rows.encoded
    few, dtype = rows.train[:64], whole_dtype(x_train)
    wrapped = model_for(model, few if dtype is None else few.to(dtype), space, rows.codebook)
    if isinstance(space, LogRatios) and space.zero_replacement is None and teacher is not None:
        space = teacher.space if type(teacher.space) is type(space) else space
    space = reference_space(wrapped, space, rows.train)
    target, held_out = training_targets(wrapped, space, rows, chosen["directory"])
    whole, described = sample_of(rows.train), [*map(with_extremes, (seen, seen_validation))]
    settings = {
        **rows.settings,
        "outputs": space.outputs(wrapped.classes),
        "space": space.settings,
        "dtype": dtype and str(dtype).removeprefix("torch."),
        "network": network_settings(kind, of_network, described, wrapped, space),
        "center": center_of(target, space),
        "teacher": None,
    }
    drawn = None
    if teacher is not None:
        check_same_game(teacher, rows.players, space, rows.train[:64], target[:64])
        taught = {"pairs": teacher_pairs, "share": teacher_share}
        settings["teacher"] = taught | teacher.provenance
        drawn = rows_to_teach(teacher, whole, teacher_pairs, chosen["seed"])
        if drawn is not None:
            settings["network"] |= KINDS[kind].settings_for_drawn(sample_of(seen))
    with seeded(chosen["seed"]):
        task = SurrogateTask({**settings, **chosen}, KINDS[kind].module_behind(network, model))
    target, held_out = (centred(part, task.center) for part in (target, held_out))
    task.describe(rows.train, seen, target)
    check_network(task.surrogate, seen[:64])
    parts = (seen, target), (seen_validation, held_out)
    if chosen["directory"] is not None:
        task.recognise(*parts[0], *parts[1])
    known = _teacher_targets(task, teacher, whole, drawn, chosen)
    task.teacher_targets = known and replace(known, x=encoded(known.x, rows.schema))
    record = train(task, *parts, chosen)
    warn_if_blind(task.surrogate, seen_validation[:64], target)
    value = surrogate_value(task, wrapped, rows.schema)
    value.training_record = record | ({} if known is None else {"teacher_seconds": known.seconds})
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
    seed, shown = options["seed"], options["progress"]
    found = evaluate_teacher(teacher, x, pairs, seed, shown, kept, fresh, task.center)
    if directory is not None and kept is None:
        values = {"kind": "teacher", "target": found.target, "seconds": found.seconds}
        save_checkpoint(Path(directory, _TARGETS), {**task.checkpoint(), **values})
    return found


def load_surrogate(
    path: str | Path,
    model: Any,
    codebook: "Codebook | None" = None,
    network: "nn.Module | None" = None,
) -> SurrogateValue:
    """The value function that `SurrogateValue.save` or a training wrote.

    Args:
        path: the checkpoint; no code in it is run.
        model: the model that it was trained for: v(N) comes from the model itself.
        codebook: of the frame that it was trained on, where others share it; by default that of
            a `Model`, or the one in the file.
        network: the module of your own that was trained, where it was one; its weights are those
            in the file.

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

    def module(settings: Mapping[str, Any]) -> list[nn.Module | None]:
        kind = KINDS.get(settings.get("network", {}).get("kind"))
        return [None if kind is None else kind.module_behind(network, model)]

    task, _ = load_task(path, SurrogateTask, more=module)
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
    if gap := disagreement(centred(value.prediction(task.probe), task.center), task.probe_outputs):
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
    value = SurrogateValue(
        task.surrogate,
        model,
        task.players,
        as_space(**task.settings["space"]),
        task.base,
        schema=schema,
        checkpoint=task.checkpoint(),
    )
    value.center_at(task.center)
    value.seen, value.training_law = Seen(*task.extent), task.law
    return value
