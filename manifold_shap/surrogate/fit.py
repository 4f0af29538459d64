"""Trains a surrogate: from a model and unlabelled rows, or from labels, to a value function."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._checks import check_number, check_whole
from manifold_shap._messages import warn
from manifold_shap._saved import Passed, saved
from manifold_shap._stored import StoredRows, sample_of, stored, with_extremes
from manifold_shap.imputers import Imputer, MarginalImputer
from manifold_shap.imputers.mixture import Mixture
from manifold_shap.io.files import digest
from manifold_shap.laws import laws_for
from manifold_shap.metrics import mean_squared_error, shapley_pairs
from manifold_shap.models import Model, as_model, whole_dtype
from manifold_shap.models.outputs import check_outputs
from manifold_shap.nn import Network, evaluated, kind_of, options_given
from manifold_shap.players import Players
from manifold_shap.quality import OFF_MANIFOLD, Quality, measured
from manifold_shap.spaces import LogRatios, OutputSpace, Probability, as_space
from manifold_shap.surrogate.adapted import AdaptedModel, OwnNetwork
from manifold_shap.surrogate.convolution import Convolution
from manifold_shap.surrogate.game import GameShape
from manifold_shap.surrogate.guided import GuidedNetwork, GuidedValue, mixture_of, pairs_with_hints
from manifold_shap.surrogate.network import SurrogateNetwork
from manifold_shap.surrogate.perceptron import Perceptron
from manifold_shap.surrogate.targets import (
    HintedTargets,
    OutputTargets,
    TargetSource,
    check_same_game,
    evaluate_teacher,
    rows_to_teach,
)
from manifold_shap.surrogate.transformer import Transformer
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.tables.inputs import Inputs
from manifold_shap.tables.rows import encoded
from manifold_shap.training.batches import Parts
from manifold_shap.training.rows import TrainingRows, training_rows
from manifold_shap.training.task import (
    Task,
    TrainingOptions,
    center_of,
    centred,
    learn,
    squared_error,
)
from manifold_shap.values import (
    ImputedValue,
    ValueFunction,
    model_for,
    reference_outputs,
    reference_space,
    table_behind,
)
from manifold_shap.values.spec import TrainingRange

if TYPE_CHECKING:
    from manifold_shap.tables.base import RowAdapter

# Training rows that are stored, to recognise the model of the training: half of them spread over
# all rows, half where the model is closest to its mean, since there trained models differ most.
_PROBE_ROWS = 32
# Held-out rows on which a surrogate is compared with the marginal, at most; pairs of a row and a
# coalition, at least; and draws of the marginal: as few as tell their own variance.
_COMPARED_ROWS, _COMPARED_PAIRS, _COMPARED_DRAWS = 1024, (256, 2048), 2
# Pairs with hints that scales are taken from; and one in so many is held out.
_DESCRIBED, _VALIDATION = 16_384, 32

# The kinds of networks by name: "own" is a module of the user's, which is not called by a name.
KINDS: dict[str, type[SurrogateNetwork]] = {
    "mlp": Perceptron,
    "conv": Convolution,
    "transformer": Transformer,
    "model": AdaptedModel,
    "own": OwnNetwork,
}
NAMED = tuple(name for name in KINDS if name != "own")


def network_settings(
    kind: str,
    options: Mapping[str, Any],
    rows: Sequence[Tensor],
    model: Model,
    space: OutputSpace,
    drawn: bool = False,
) -> dict[str, Any]:
    """The kind of a network, and its arguments, as plain data.

    Args:
        kind: one of `KINDS`.
        options: `hidden`, `activation`, `patch`, `vocabulary` and `layer`; None for the usual ones
            of this kind.
        rows, model, space, drawn: see `SurrogateNetwork.settings_for`.

    Raises:
        ValueError: an option that this kind does not have; rows that are no tokens.
    """
    given = options_given(KINDS[kind], kind, options)
    return {"kind": kind, **KINDS[kind].settings_for(rows, model, space, drawn), **given}


@torch.no_grad()
def check_network(network: SurrogateNetwork, x: Tensor) -> None:
    """Raise ValueError unless a network gives finite outputs and, on the simplex, distributions.

    Args:
        network: to be asked about coalitions of half of the players, and about all of them.
        x: a few rows, as it sees them.
    """
    half = torch.arange(network.players) % 2 == 0
    mask = torch.stack((half, torch.ones_like(half))).expand(len(x), 2, -1)
    found = network.eval()(x, mask).flatten(0, 1)
    network.train()
    try:
        check_outputs(found, "probabilities" if network.game.on_simplex else "values")
    except ValueError as error:
        raise ValueError(
            str(error).replace("model(x)", "network(x, mask)").replace("the model", "`network`")
        ) from error


@saved
class SurrogateTask(Task):
    """A surrogate g(x_S), by squared error over coalitions of the Shapley sum (Eq. 17).

    Batches are `(x, T(f(x)))`, with x as the network sees it; with a guide they are pairs of a row
    and a coalition, `(x, mask, E[X | x_S], hint, target)`. Off the simplex errors are in standard
    deviations of the target, the root mean square of those of its outputs.

    Settings: `event`, the shape of one input row; `index`, the player that owns each of its
    flattened elements; `elements`, that of each element of a row of codes once it is encoded, or
    None; the names of `players` and `outputs`; `space`, the settings of the output space, see
    `as_space`; `dtype`, that of the model's rows where these are whole numbers, or None;
    `network`, see `network_settings`; the share of
    `blocks` among the coalitions, None for the network's usual one; `padding`, that of the players;
    `center`, what was subtracted from the targets, see `center_of`; `teacher`, None or the `share`
    of a batch that it teaches and what else tells it from others; those of the `guide`, see
    `Mixture`, or None; and the options of the training.

    Attributes:
        surrogate: the network.
        guide: of a `GuidedNetwork`; not there while it is trained.
        source: of targets, in training.
        held_out: of targets, in validation.

    Args:
        settings: those.
        module: what the network is made of, where it is the user's own or the model itself.
    """

    kind = "surrogate"
    base: Tensor
    probe: Tensor
    probe_outputs: Tensor
    extent: Tensor

    def __init__(self, settings: Mapping[str, Any], module: Any = None) -> None:
        super().__init__(settings)
        own, outputs = self.settings, len(self.settings["outputs"])
        on_simplex = as_space(**own["space"]).on_simplex
        game = GameShape(*self.inputs, outputs, on_simplex, own["padding"], own.get("center"))
        self.guide: Any = None if own["guide"] is None else Mixture.of(own["guide"])
        options = dict(own["network"])
        kind: Any = KINDS[options.pop("kind")]
        if module is not None:
            options["module"] = module
        self.surrogate: Any = (GuidedNetwork if own["guide"] else kind)(game, **options)
        self.register_buffer("base", torch.zeros(outputs))
        self.register_buffer("probe", torch.zeros(_PROBE_ROWS, *own["event"]))
        self.register_buffer("probe_outputs", torch.zeros(_PROBE_ROWS, outputs))
        self.register_buffer("extent", torch.zeros(2, *game.event))
        share = self.surrogate.blocks if own["blocks"] is None else own["blocks"]
        self.law = laws_for(self.players, blocks=share)
        own_targets = OutputTargets(self.law, self.surrogate.game.players)
        self.held_out: TargetSource = HintedTargets() if own["guide"] else own_targets
        self.source: TargetSource = self.held_out

    @classmethod
    def made_of(cls, settings: Mapping[str, Any], passed: Passed) -> tuple[Any, ...]:
        return (KINDS[settings["network"]["kind"]].module_behind(passed.network, passed.model),)

    def value(self, model: Model, table: "RowAdapter | None") -> SurrogateValue:
        """The value function that was trained for this model."""
        kind: Any = SurrogateValue if self.guide is None else partial(GuidedValue, guide=self.guide)
        value: SurrogateValue = kind(
            self.surrogate,
            model,
            self.players,
            as_space(**self.settings["space"]),
            self.base,
            task=self,
            table=table,
            training_range=TrainingRange(*self.extent) if bool(self.extent.any()) else None,
            training_law=self.law,
        )
        value.center_at(self.center)
        return value

    @torch.no_grad()
    def fit_statistics(
        self, x: Tensor | StoredRows, seen: Tensor | StoredRows, target: Tensor
    ) -> None:
        """Take v(∅) and rows to recognise the model by from training rows and targets.

        Args:
            x: rows, of which those in a file are described by some that stand for all.
            seen: the same, as the network sees them.
            target: T(f(x)).
        """
        self.base.copy_(target.mean(0))
        # Numbers of tokens have no distance.
        known = None if self.surrogate.of_tokens else TrainingRange.of(seen)
        if known is not None:
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
        source = self.source if self.training else self.held_out
        inputs, target = source.sample(batch, generator)
        scale = None if self.surrogate.game.on_simplex else self.surrogate.target_scale
        return squared_error(self.surrogate(*inputs), target, scale).flatten(1).mean(1)


@torch.inference_mode(False)
def fit_surrogate(
    model: Any,
    x_train: Any,
    *,
    space: str | OutputSpace = "probability",
    x_validation: Any = None,
    players: Players | Mapping[str, Any] | str | None = None,
    table: "RowAdapter | None" = None,
    network: Network | None = None,
    hidden: Sequence[int] | None = None,
    activation: str | None = None,
    patch: int | None = None,
    vocabulary: int | None = None,
    layer: str | None = None,
    blocks: float | None = None,
    teacher: ValueFunction | None = None,
    guide: Imputer | None = None,
    teacher_pairs: int | None = None,
    teacher_share: float = 0.5,
    learning_rate: float = 2e-3,
    weight_decay: float = 0.01,
    schedule: str = "one_cycle",
    batch_size: int | None = None,
    max_epochs: int | None = None,
    least_batches: int = 100,
    patience: int | None = 20,
    weight_averaging: float | None = 0.99,
    seed: int = 0,
    directory: str | Path | None = None,
    trainer: Mapping[str, Any] | None = None,
    progress: bool | None = None,
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
        space: output space T, or its name: `probability`, `log_odds`, `ilr` or `identity`.
        x_validation: rows for early stopping; by default a tenth of `x_train`, held out.
        players: see `Players`; by default those of the teacher, the columns of the table, the
            pixels of pictures `(channels, height, width)`, or every element of a row. Of a frame
            also groups of columns, `{"size": ["length", "width"]}`; of texts "words" or
            "sentences".
        table: columns of the table behind `x_train`, or the table whose codes its rows are;
            stored with the surrogate. By default that of the teacher or of a `Model`, and a new
            table for a frame.
        network: what is trained; by default "conv" for pictures `(channels, height, width)`, else
            "mlp":
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
              model in double precision, what is added to one of its outputs; or a function that
              makes one of the shapes of a row and of its outputs, `network((3, 32, 32), (10,))`.
        hidden: widths of the layers of a perceptron, by default 512 and 512; channels of the layers
            of a convolutional network, see `Convolution`; widths of those of a transformer, by
            default 128, 128 and 128.
        activation: `relu`, `gelu`, `silu` or `elu`; by default `gelu` for transformers, else
            `relu`.
        patch: of a transformer, the side of a patch or the length of a segment; by default such
            that a row has at most 64.
        vocabulary: how many tokens there are for a transformer of tokens, numbered from 0; by
            default those up to the largest in the rows of the training. Rows with others are
            refused, so give that of the model.
        layer: of network="model", the name of the layer that sees rows as they are, see
            `AdaptedModel`; by default the first Linear, Conv1d, Conv2d or Embedding.
        blocks: share of the coalitions in training that are blocks of neighbours, rather than
            scattered players, see `laws_for`: for superpixels, words and other groups of the
            players. By default a half where players have neighbours, and none for a perceptron.
        teacher: a value function of the same game, such as `imputed_value(model, imputer)`, whose
            averaged predictions are targets of less variance than the single f(x). It helps where
            it is more accurate than a surrogate alone; 8 draws are enough.
        guide: a `MixtureImputer`, or of a table a `table_imputer` of one, which makes a
            `GuidedValue` beside an imputed teacher: one model row a value, which comes close to the
            imputer's. Its network is an "mlp", by default of two layers of 128, and rows to
            validate on are drawn: leave `network` and `x_validation` out. Rows are drawn from the
            teacher's imputer, which has not seen them. For a half of them the teacher gives the
            values of two coalitions; those of the other half have the model's prediction as the
            target of both. An eighth of the pairs are of training rows. Of all pairs some rows are
            held out.
        teacher_pairs: number of (row, coalition) pairs that the teacher evaluates before training,
            by default 240,000, or 60,000 with a guide.
            Where that is more than four for each row, an imputer draws new rows to evaluate, twice
            as many, and the predictions of single ones teach, too; the network then sees columns in
            bins besides (`Perceptron`). With fewer, an imputer that keeps rows should keep others
            than `x_train`: it finds its own again, and leans towards their f(x).
        teacher_share: share of every batch that comes from them; of no effect with a guide.
        batch_size: see `TrainingOptions`; by default 256 or, with a guide, 1,024 values.
        max_epochs: see `TrainingOptions`; by default 30 or, with a guide, 6.
        patience: see `TrainingOptions`; of no effect with a guide, which trains all epochs: with
            more of them, the network overfits to targets of few draws.
        learning_rate, weight_decay, schedule, least_batches: see `TrainingOptions`.
        weight_averaging, seed, trainer, progress: see `TrainingOptions`.
        directory: see `TrainingOptions`. A training that is continued asks the teacher again.

    Returns:
        A value function on the CPU; `.to(device)` moves it. But for one with a guide, its
        `quality` says how good it is on at most 1,024 rows of those for early stopping, beside
        completions off the manifold, about which the model is asked 512 to 2,048 times and, where
        that does not tell which is better, at most 8,192 times more, for no more than all rows.

    Warns where it is not clearly better than these.

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
    guided = guide is not None
    usual_batch, usual_epochs = (1024, 6) if guided else (256, 30)
    batch_size = usual_batch if batch_size is None else batch_size
    max_epochs = usual_epochs if max_epochs is None else max_epochs
    patience = None if guided else patience
    options = TrainingOptions.among(locals())
    if teacher_pairs is None:
        teacher_pairs = 60_000 if guided else 240_000
    if teacher is not None:
        check_whole("teacher_pairs", teacher_pairs, least=2)
        check_number("teacher_share", teacher_share, above=0, high=1)
        players = teacher.players if players is None else players
        table = table or teacher.spec.table
    if guided and (network not in (None, "mlp") or x_validation is not None):
        raise ValueError(
            "Expected no `network` and no `x_validation` with a `guide`, whose network is an 'mlp' "
            f"and for which drawn rows are held out, but got network={network!r:.100} and "
            f"{'no' if x_validation is None else 'an'} `x_validation`; leave both out."
        )
    table = table or table_behind(model)
    x_train = stored(x_train)
    held_out = x_train if guided else x_validation
    rows, space = training_rows(x_train, held_out, seed, players, table), as_space(space)
    if network is None:
        network = "conv" if len(rows.players.event) == 3 and not guided else "mlp"
    kind = kind_of(network, NAMED)
    if isinstance(rows.table, Inputs) and kind not in ("mlp", "own"):
        raise ValueError(
            "Expected network='mlp' or a module for a model of several tensors, which networks see "
            f"joined, but got {kind!r}; others take a model of one tensor that computes the rest, "
            "such as the mask of token ids (docs/text.md)."
        )
    few, dtype = rows.train[:64], whole_dtype(x_train)
    wrapped = model_for(model, few if dtype is None else few.to(dtype), space, rows.table)
    if isinstance(space, LogRatios) and space.zero_replacement is None and teacher is not None:
        space = teacher.space if type(teacher.space) is type(space) else space
    space = reference_space(wrapped, space, rows.train)
    target = reference_outputs(wrapped, space, rows.train)
    if not guided:
        # Now, while no rows of the training are held in memory.
        parts = rows.validation.split(len(rows.validation))
        of_held_out = torch.cat([space(wrapped(part, scale=space.takes)) for part in parts])
    settings: dict[str, Any] = {
        **options.settings,
        "blocks": blocks,
        "dtype": dtype and str(dtype).removeprefix("torch."),
    }
    whole, drawn = sample_of(rows.train), None
    if teacher is not None:
        check_same_game(teacher, rows.players, space, rows.train[:64], target[:64])
        taught = {"pairs": teacher_pairs, "share": teacher_share}
        settings["teacher"] = taught | teacher.provenance
    if guided:
        mixture = mixture_of(guide, teacher, rows.players)
        settings["guide"] = mixture.settings
    elif teacher is not None:
        drawn = rows_to_teach(teacher, whole, teacher_pairs, seed)
    of_network = {
        "hidden": hidden,
        "activation": activation,
        "patch": patch,
        "vocabulary": vocabulary,
        "layer": layer,
    }
    seen = rows.encoded
    described, binned = [*map(with_extremes, seen)], guided or drawn is not None
    settings["network"] = network_settings(kind, of_network, described, wrapped, space, binned)
    module = KINDS[kind].module_behind(network, model)
    task = _task(rows, seen[0], wrapped, space, target, settings, module)
    begun = time.perf_counter()
    if guided:
        task.guide.load_state_dict(mixture.state_dict())
        data = _pairs(task, wrapped, teacher, whole, rows.table, teacher_pairs, progress)
    else:
        data = _outputs(task, seen, (target, of_held_out))
        if teacher is not None:
            x, fresh = (whole, False) if drawn is None else (drawn, True)
            known = evaluate_teacher(teacher, x, teacher_pairs, seed, progress, fresh, task.center)
            seen_too = encoded(known.x, rows.table)
            task.source = replace(known, x=seen_too, share=teacher_share, others=task.held_out)
            task.settings["teacher"]["values"] = digest(known.target)
    seconds = {} if teacher is None else {"teacher_seconds": time.perf_counter() - begun}
    # A guide is in double precision, which an accelerator may lack.
    mixture, task.guide = task.guide, None
    learn(task, data, options)
    task.guide, task.source = mixture, task.held_out
    value = task.value(wrapped, rows.table)
    task.settings["record"] |= seconds
    if not guided:
        quality = _compared(value, rows, whole, of_held_out)
        value.update(quality=quality.to_dict())
        if quality.warning:
            warn(f"{quality.warning}.")
    return value


def _compared(value: SurrogateValue, rows: TrainingRows, whole: Tensor, outputs: Tensor) -> Quality:
    """A surrogate beside the value function off the manifold, on rows held out of its training.

    Args:
        value: the surrogate.
        rows: of the training.
        whole: the training rows, or some that stand for all.
        outputs: T(f(x)) of the rows held out.
    """
    count = min(_COMPARED_ROWS, len(rows.validation))
    some = torch.arange(count) * len(rows.validation) // count
    x, truth = rows.validation[some], outputs[some]
    counts = value.counts(x) if value.players.by_row else None
    imputer = MarginalImputer(whole, value.players)
    imputer.table = rows.table
    off = ImputedValue(imputer, value.model, value.space, value.expectation, _COMPARED_DRAWS)
    # More pairs where few do not tell which is better, for as many model rows as the training took.
    few, many = _COMPARED_PAIRS
    for pairs in dict.fromkeys((few, max(few, min(many, len(rows.train) // 4)))):
        mask = shapley_pairs(count, len(value.players), pairs, counts=counts)
        score = partial(mean_squared_error, x=x, mask=mask, progress=False, truth=truth)
        scores = {value.name: score(value)}
        # A model may refuse rows that never occur; what was learned is not lost for that.
        with suppress(Exception):
            scores[OFF_MANIFOLD] = score(off)
        quality = measured(scores, value.name, f"a fit to {len(rows.train)} rows")
        if not quality.warning:
            break
    return quality


def _task(
    rows: TrainingRows,
    seen: Tensor | StoredRows,
    model: Model,
    space: OutputSpace,
    target: Tensor,
    settings: Mapping[str, Any],
    module: Any = None,
) -> SurrogateTask:
    """The task of learning `target`, T(f(x)) of training rows, with initial weights."""
    of_game = {"outputs": space.outputs(model.classes), "space": space.settings}
    usual = {"center": center_of(target, space), "dtype": None, "teacher": None, "guide": None}
    task = SurrogateTask.initial({**rows.settings, **of_game, **usual, **settings}, module)
    task.fit_statistics(rows.train, seen, centred(target, task.center))
    return task


def _outputs(
    task: SurrogateTask, seen: tuple[Any, Any], targets: tuple[Tensor, Tensor]
) -> tuple[Parts, Parts]:
    """Rows and their targets to train and to validate on; the network takes its units from them."""
    target, of_held_out = (centred(own, task.center) for own in targets)
    task.surrogate.standardise(with_extremes(seen[0]), target)
    check_network(task.surrogate, seen[0][:64])
    return (seen[0], target), (seen[1], of_held_out)


def _pairs(
    task: SurrogateTask,
    model: Model,
    teacher: Any,
    x: Tensor,
    table: "RowAdapter | None",
    count: int,
    progress: bool | None,
) -> tuple[Parts, Parts]:
    """Pairs with hints to train and to validate on; see `pairs_with_hints`."""
    value: Any = task.to(teacher.device).value(model, table)
    seed = task.settings["seed"]
    row, *parts = pairs_with_hints(value, teacher, x, task.law, count, seed, progress)
    task.cpu().train()
    generator = torch.Generator().manual_seed(seed)
    # Held out are rows: a pair whose row is met with another coalition would be no new one.
    rank = torch.randperm(int(row.max()) + 1, generator=generator)[row]
    is_held_out = rank <= rank.sort().values[len(rank) // _VALIDATION]
    held_out, left = is_held_out.nonzero()[:, 0], (~is_held_out).nonzero()[:, 0]
    number = left[torch.randperm(len(left), generator=generator)]
    *few, target = (part[number[:_DESCRIBED]] for part in parts)
    task.surrogate.standardise(few, target)
    train, validation = (tuple(part[some] for part in parts) for some in (left, held_out))
    return train, validation


@torch.inference_mode(False)
def fit_label_surrogate(
    rows: TrainingRows,
    labels: Int64[Tensor, " rows"],
    classes: Sequence[str],
    network: str = "mlp",
    **options: Any,
) -> SurrogateValue:
    """Learn the distribution of labels given some of a row, h(x_S) = P(Y | X_S = x_S).

    As `fit_surrogate`, with labels in place of a model's outputs: their conditional probabilities
    are what minimises the squared error. The value function explains data, and no model: its v(N)
    is the network's own.

    Args:
        rows: those in `train` are learned from, a tenth of them held out for early stopping.
        labels: positions among the classes.
        classes: their names.
        network: "mlp", "conv" or "transformer".
        options: of the network and the training, as of `fit_surrogate`.
    """
    chosen = TrainingOptions.among(options)
    of_network = {name: own for name, own in options.items() if name not in vars(chosen)}
    target, space = F.one_hot(labels, len(classes)).float(), Probability()
    few, share = rows.train[:2], target.mean(0)
    start = as_model(lambda x: share.expand(len(x), -1), few, classes, "probabilities")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(chosen.seed))
    held_out, own = order.tensor_split([max(1, round(0.1 * len(order)))])
    rows = rows._replace(train=rows.train[own], validation=rows.train[held_out])
    seen = rows.encoded
    of_network = network_settings(network, of_network, seen, start, space)
    settings = {**chosen.settings, "blocks": None, "network": of_network}
    task = _task(rows, seen[0], start, space, target[own], settings)
    learn(task, _outputs(task, seen, (target[own], target[held_out])), chosen)

    def whole(x: Tensor) -> Float[Tensor, "batch classes"]:
        every = torch.ones(len(x), 1, len(rows.players), dtype=torch.bool, device=x.device)
        with evaluated(task.surrogate):
            return task.surrogate(encoded(x, rows.table), every)[:, 0]

    model = as_model(whole, few, classes, "probabilities")
    return task.value(model, rows.table)
