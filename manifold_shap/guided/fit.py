"""Trains a guided surrogate: from an imputed value function to a `GuidedValue`."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_whole
from manifold_shap._progress import progress_bar
from manifold_shap.coalitions import SizeUniform
from manifold_shap.guided.network import GuidedNetwork
from manifold_shap.guided.value import GuidedValue
from manifold_shap.imputers import MixtureImputer, TableImputer
from manifold_shap.imputers.mixture import Mixture
from manifold_shap.models import Model
from manifold_shap.nn import check_hidden
from manifold_shap.spaces import as_space
from manifold_shap.surrogate.distillation import evaluate_teacher
from manifold_shap.surrogate.perceptron import elements_to_bin
from manifold_shap.tables.rows import codebook_of, encoded
from manifold_shap.tables.schema import Schema
from manifold_shap.training.rows import TrainingRows
from manifold_shap.training.task import (
    Task,
    TrainingOptions,
    center_of,
    centred,
    seeded,
    squared_error,
    train,
    training_options,
)
from manifold_shap.values import ImputedValue
from manifold_shap.values.seen import Seen

if TYPE_CHECKING:
    from manifold_shap.tables.codebook import Codebook

# Options of the training that depart from the defaults. With twice the epochs, the network
# overfits to targets of few draws.
_DEFAULTS: TrainingOptions = {"batch_size": 1024, "max_epochs": 6, "patience": None}

# Pairs for which hints are computed at a time, and those that scales are taken from.
_PAIRS_PER_CALL = 8192
_DESCRIBED = 16_384

# One in so many pairs is of a training row; and one is of a row that is kept to validate on.
_OWN = 8
_VALIDATION = 32


class GuidedTask(Task):
    """The network of a `GuidedValue`, by squared error.

    Batches are `(x, mask, E[X | x_S], hint, target)` of pairs, with rows as the model sees them.
    Errors are in the unit of those of a `SurrogateTask`.

    Settings: `event`, `index`, `elements`, `players`, `outputs`, `space`, `schema`, `hidden`,
    `activation`, `binned` and `center` as for a `SurrogateTask`; those of the `guide`, see
    `Mixture`; what tells the `teacher` from others; and the options of the training.
    """

    kind = "guided surrogate"
    base: Tensor
    extent: Tensor

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        own = self.settings
        (event, index), outputs = self.inputs, len(own["outputs"])
        on_simplex = as_space(**own["space"]).on_simplex
        self.guide = Mixture.of(own["guide"])
        layers = own["hidden"], own["activation"], own["binned"]
        self.network = GuidedNetwork(index, outputs, on_simplex, *layers)
        self.register_buffer("base", torch.zeros(outputs))
        self.register_buffer("extent", torch.zeros(2, *event))
        # Of the rows of batches; set by the training alone.
        self.schema: Schema | Codebook | None = None

    def seen(self, x: Tensor, *others: Tensor) -> Sequence[Tensor]:
        """What the network takes of pairs: rows are encoded."""
        return encoded(x, self.schema).flatten(1), *others

    def loss(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        *pairs, target = batch
        scale = None if self.network.on_simplex else self.network.target_scale
        return squared_error(self.network(*self.seen(*pairs)), target, scale).mean(1)


@torch.inference_mode(False)
def fit_guided(
    teacher: ImputedValue,
    *,
    teacher_pairs: int = 60_000,
    hidden: Sequence[int] = (128, 128),
    activation: str = "relu",
    **options: Unpack[TrainingOptions],
) -> GuidedValue:
    """Learn a value function of one model row a value that comes close to the imputer's.

    Rows are drawn from the teacher's imputer, so that none of them is known to it. For a half of
    them the teacher gives the values of two coalitions, each by draws of its own; those of the
    other half have the model's prediction as the target of both. An eighth of the pairs are of the
    teacher's reference rows, with their own predictions: they correct what the imputer has wrong.

    Args:
        teacher: `imputed_value(model, imputer)`, of a table; 8 draws are enough. Its mixture is the
            guide, where the imputer is one, and else a mixture that is fitted to its reference
            rows. Hints are computed where it is.
        teacher_pairs: values of the teacher.
        hidden, activation: layers of the network.
        options: of the training, see `TrainingOptions`; by default 6 epochs of batches of 1,024
            values and no early stopping.

    Returns:
        A value function on the CPU; `.to(device)` moves it.

    Raises:
        TypeError: `teacher` is not imputed.
        ValueError: an argument that is unknown or out of range, a training that diverges, a
            `directory` with another training; what a `MixtureImputer` raises.
        KeyboardInterrupt: on Ctrl-C; the same call with the same `directory` continues.

    >>> import manifold_shap as ms
    >>> x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> few = {"max_epochs": 1, "trainer": {"accelerator": "cpu", "limit_train_batches": 5}}
    >>> teacher = ms.imputed_value(lambda x: x[:, :2].softmax(-1), ms.MixtureImputer(x), draws=8)
    >>> value = fit_guided(teacher, teacher_pairs=100, hidden=[8], **few)
    >>> value(x[:1], torch.tensor([[[True, False, False]]])).shape
    torch.Size([1, 1, 2])
    """
    chosen = training_options(fit_guided, options, **_DEFAULTS)
    check_hidden(hidden)
    check_whole("teacher_pairs", teacher_pairs, least=_VALIDATION)
    if not isinstance(teacher, ImputedValue):
        raise TypeError(
            "Expected `teacher` to be a value function of an imputer, such as one of "
            f"`imputed_value`, but got {type(teacher).__name__}."
        )
    guide = _guide(teacher)
    reference, seed = teacher.imputer.reference, chosen["seed"]
    seen = encoded(reference, teacher.schema)
    rows = TrainingRows(teacher.players, reference, reference, teacher.schema)
    generator = torch.Generator().manual_seed(seed)
    settings = {
        **rows.settings,
        "outputs": teacher.outputs,
        "space": teacher.space.settings,
        "guide": guide.settings,
        "hidden": hidden,
        "activation": activation,
        "binned": elements_to_bin(seen),
        "center": center_of(teacher.prediction(reference[:1]), teacher.space),
        "teacher": {"pairs": teacher_pairs, **teacher.provenance},
    }
    with seeded(seed):
        task = GuidedTask({**settings, **chosen}).to(teacher.device)
    task.base.copy_(centred(teacher.expectation, task.center))
    task.guide.load_state_dict(guide.state_dict())
    value = guided_value(task, teacher.model, teacher.schema)
    if (known := Seen.of(seen)) is not None:
        task.extent.copy_(torch.stack(known))
    start = time.perf_counter()
    row, *pairs = _pairs(value, teacher, teacher_pairs, seed, chosen["progress"])
    seconds = time.perf_counter() - start
    task.cpu().schema = teacher.schema
    # Held out are rows: a pair whose row is met with another coalition would be no new one.
    rank = torch.randperm(int(row.max()) + 1, generator=generator)[row]
    is_held_out = rank <= rank.sort().values[len(rank) // _VALIDATION]
    held_out, left = is_held_out.nonzero()[:, 0], (~is_held_out).nonzero()[:, 0]
    number = left[torch.randperm(len(left), generator=generator)]
    *few, target = (part[number[:_DESCRIBED]] for part in pairs)
    task.network.standardise(task.seen(*few), target)
    # The guide is in double precision, which an accelerator may lack.
    guide = task.guide
    del task.guide
    task.train()
    parts, validation = (tuple(part[some] for part in pairs) for some in (left, held_out))
    record = train(task, parts, validation, chosen)
    task.guide = guide
    value = guided_value(task, teacher.model, teacher.schema)
    value.training_record = {**record, "teacher_seconds": seconds}
    return value


def guided_value(task: GuidedTask, model: Model, schema: "Schema | Codebook | None") -> GuidedValue:
    """The value function of a task that was trained for this model."""
    value = GuidedValue(
        task.guide,
        task.network,
        model,
        task.players,
        as_space(**task.settings["space"]),
        task.base,
        schema=schema,
        checkpoint=task.checkpoint(),
    )
    value.center_at(task.center)
    value.seen = Seen(*task.extent)
    return value


def _guide(teacher: ImputedValue) -> Mixture:
    """The mixture of the teacher, or one of its reference rows."""
    imputer = teacher.imputer
    inner = imputer.inner if isinstance(imputer, TableImputer) else imputer
    if not isinstance(inner, MixtureImputer):
        codebook = codebook_of(teacher.schema)
        players = teacher.players if codebook is None else codebook.elements
        inner = MixtureImputer(encoded(imputer.reference, teacher.schema), players)
    return inner.mixture


def _pairs(
    value: GuidedValue, teacher: ImputedValue, count: int, seed: int, progress: bool | None
) -> list[Tensor]:
    """As many pairs of drawn rows whose values are the teacher's, as many of other drawn rows with
    the model's predictions as targets, and an eighth of all of reference rows with theirs.

    Returns:
        The number of each pair's row, and a batch of a `GuidedTask` of all pairs.
    """
    drawn, half = teacher.drawn_rows(count, seed), count // 2
    center = value.center
    known = evaluate_teacher(teacher, drawn[:half], count, seed, progress, center=center)
    reference = teacher.imputer.reference
    own = 2 * count // (_OWN - 1) // 2
    x = torch.cat((drawn, reference)).cpu()
    generator = torch.Generator().manual_seed(seed + 1)
    single = torch.arange(half, count)
    again = torch.randint(len(reference), (own,), generator=generator) + count
    row = torch.cat((known.row, single, again))
    law = SizeUniform(len(teacher.players))
    others = torch.cat((single, again))
    masks = [law.sample_antithetic((len(o),), generator) for o in others.split(_PAIRS_PER_CALL)]
    parts = x[others].split(_PAIRS_PER_CALL)
    outputs = [centred(value.prediction(some), center).cpu() for some in parts]
    mask = torch.cat((known.mask, *masks))
    target = torch.cat((known.target, torch.cat(outputs)[:, None].expand(-1, 2, -1)))
    expected, hints = [], []
    with progress_bar(progress, 2 * len(row), "hints", "value") as bar:
        for some in torch.arange(len(row)).split(_PAIRS_PER_CALL // 2):
            mean, _, hint = value.hints(x[row[some]].to(value.device), mask[some].to(value.device))
            expected.append(mean.flatten(0, 1).cpu())
            hints.append(hint.flatten(0, 1).cpu())
            bar.update(2 * len(some))
    row = row.repeat_interleave(2)
    inputs = x[row], mask.flatten(0, 1), torch.cat(expected), torch.cat(hints)
    return [row, *inputs, target.flatten(0, 1)]
