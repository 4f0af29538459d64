"""What surrogates learn from: a model's outputs, labels, or the values of a slower value function.

A single f(x) is an unbiased but high-variance target for v(S): over the rows that share x_S it
varies as much as f does. A teacher that averages K completions gives v(S) with a K-th of that
variance plus a bias of its own, which the single targets in every batch limit.

Of a small table each row would be met by many coalitions. A surrogate overfits to such rows, and a
teacher that has seen them leans towards their own f(x). So the rows are drawn from the
teacher, too: as many as are wanted, and none of them known to it.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap.coalitions import Coalitions, Listed
from manifold_shap.laws import CoalitionLaw, SizeUniform
from manifold_shap.players import Players
from manifold_shap.spaces import OutputSpace
from manifold_shap.training.task import centred
from manifold_shap.values import ValueFunction
from manifold_shap.values.batches import Batches
from manifold_shap.values.model import disagreement

# Coalitions drawn at once: drawing them takes several times the memory that they take.
_PAIRS_PER_DRAW = 4096
# One in so many pairs of coalitions of a drawn row has the grand coalition in it.
_WHOLE = 8
# Share of padded rows that meet the empty coalition in a step.
_EMPTY_SHARE = 1 / 16
# Coalitions that one row may be met by before rows are drawn.
_MOST_PER_ROW = 4


@runtime_checkable  # So that types can be checked while tests run.
class TargetSource(Protocol):
    """Makes pairs of inputs and targets of a part of the training data, in every step anew.

    The part is `(x, target)` where a model or labels are learned. What a teacher has evaluated is
    kept by the source, which adds some of it; with a guide, arguments of the network are its
    expectations and hints besides, `(x, mask, expected, hint)` in place of `(x, mask)`.
    """

    def sample(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Arguments of the network, and targets `[rows, m, outputs]` of what it gives for them.

        Args:
            batch: a part of the training data.
            generator: the one source of random numbers.
        """


@dataclass(frozen=True)
class OutputTargets:
    """T(f(x)) or the label of each row `(x, target)`, for an antithetic pair of coalitions.

    Attributes:
        law: of the coalitions.
        players: those of rows as the network sees them.
    """

    law: CoalitionLaw
    players: Players

    def sample(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        x, target = batch
        padded = self.players.padding is not None
        counts = self.players.owned(x).sum(1) if padded else None
        mask = self.law.sample_antithetic((len(x),), generator, counts)
        if padded:
            # v(∅) of padded rows, which depends on their length, is learned, too.
            number = torch.rand((len(x), 1), generator=generator, device=mask.device)
            mask[:, 0] &= number > _EMPTY_SHARE
        return (x, mask), target[:, None].expand(-1, 2, -1)


@dataclass(frozen=True)
class TeacherTargets:
    """The teacher's values of pairs of coalitions, computed before the training.

    Attributes:
        x: rows: those of the training, or drawn ones.
        row: number of the row of each pair of coalitions.
        mask: antithetic pairs of coalitions `[pairs, 2, players]`.
        target: the teacher's values `[pairs, 2, outputs]`.
        outputs: T(f(x)) of drawn rows, which teach any coalition; None for rows of the training.
        share: of a batch, in whose place they are.
        others: of the rest of the batch; None where the share is 1.
    """

    x: Tensor
    row: Int64[Tensor, " pairs"]
    mask: Bool[Tensor, "pairs 2 players"]
    target: Float[Tensor, "pairs 2 outputs"]
    outputs: Float[Tensor, "rows outputs"] | None = None
    share: float = 1.0
    others: TargetSource | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "TeacherTargets":
        # Lightning copies a task to average its weights; data that never change need no copy.
        return self

    def sample(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Antithetic pairs of coalitions, with replacement, before those of `others`.

        Of drawn rows every second one has coalitions that the teacher was not asked for, and its
        own T(f(x)) as the target: little is left open by large coalitions, and more rows count
        there more than a mean.

        >>> none = torch.zeros(1, dtype=torch.long), torch.zeros(1, 2, 3, dtype=torch.bool)
        >>> known = TeacherTargets(torch.zeros(5, 3), *none, torch.zeros(1, 2, 4))
        >>> (x, mask), target = known.sample((torch.zeros(8, 3),), torch.Generator())
        >>> len(x), mask.shape, target.shape
        (8, torch.Size([8, 2, 3]), torch.Size([8, 2, 4]))
        """
        count = round(self.share * len(batch[0]))
        taught = self._taught(count, generator)
        if self.others is not None:
            (x, mask), target = self.others.sample(tuple(own[count:] for own in batch), generator)
            taught = tuple(map(torch.cat, zip(taught, (x, mask, target), strict=True)))
        *inputs, target = taught
        return tuple(inputs), target

    def _taught(self, count: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        device, single = generator.device, 0 if self.outputs is None else count // 2

        def numbers(below: int, some: int) -> Tensor:
            return torch.randint(below, (some,), generator=generator, device=device).cpu()

        chosen = numbers(len(self.row), count - single)
        parts = self.x[self.row[chosen]], self.mask[chosen], self.target[chosen]
        x, mask, target = (part.to(device) for part in parts)
        if self.outputs is None or not single:
            return x, mask, target
        rows = numbers(len(self.x), single)
        own = SizeUniform(mask.shape[-1]).sample_antithetic((single,), generator)
        # The model itself, which is v(N), is learned beside the law of the Shapley sum.
        own[: single // _WHOLE, 1] = True
        outputs = self.outputs[rows, None].expand(-1, 2, -1).to(device)
        rows = self.x[rows].to(device)
        return torch.cat((x, rows)), torch.cat((mask, own)), torch.cat((target, outputs))


class HintedTargets:
    """Targets of a teacher or a model, beside a guide's hints: `(*inputs, target)`, made before."""

    def sample(
        self, batch: tuple[Tensor, ...], generator: torch.Generator
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        *inputs, target = batch
        return tuple(inputs), target


def check_same_game(
    teacher: ValueFunction,
    players: Players,
    space: OutputSpace,
    x: Float[Tensor, "rows *event"],
    target: Float[Tensor, "rows outputs"],
) -> None:
    """Raise ValueError unless the teacher has these players, this space and T(f(x)) = target."""
    theirs = teacher.players
    if not theirs.same_as(players):
        raise ValueError(
            f"Expected `teacher` to have the surrogate's {len(players)} players "
            f"{players.names[:5]} but it has {len(theirs)}, {theirs.names[:5]}, or they own other "
            "elements; give the same `players` to both."
        )
    if type(teacher.space) is not type(space):
        raise ValueError(
            f"Expected `teacher` to have space={space.name!r}, as the surrogate, but it has "
            f"{teacher.space.name!r}; choose one for both."
        )
    if gap := disagreement(teacher.prediction(x.to(teacher.device)).to(target.device), target):
        raise ValueError(
            "Expected `teacher` to explain the same model but it predicts otherwise (by up to "
            f"{gap:.3g}); make it with this model and this `zero_replacement`."
        )


def rows_to_teach(teacher: ValueFunction, x: Tensor, pairs: int, seed: int) -> Tensor | None:
    """Rows drawn for so many (row, coalition) pairs; None where those of the training will do.

    They are twice as many as the pairs: a row whose own prediction teaches costs a single one.
    """
    return teacher.draw_rows(2 * pairs, seed) if pairs > _MOST_PER_ROW * len(x) else None


def evaluate_teacher(
    teacher: ValueFunction,
    x: Tensor,
    pairs: int,
    seed: int,
    progress: bool | None = None,
    drawn: bool = False,
    center: Tensor | None = None,
) -> TeacherTargets:
    """Evaluate a teacher at random (row, coalition) pairs, each with draws of its own.

    Args:
        teacher: the value function.
        x: rows; each occurs equally often, up to one.
        pairs: number of (row, coalition) pairs, rounded up to an even one.
        seed: of the pairs and of the teacher's draws.
        progress: show a bar on work of more than two seconds; by default where a person looks.
        drawn: whether the rows are none of the training: then their T(f(x)) teaches, too.
        center: what is subtracted from all of them, see `center_of`.
    """
    row, mask = _sample_pairs(len(x), len(teacher.players), pairs, seed)
    keys = _random.fold(torch.arange(2 * len(row)).reshape(-1, 2), seed)

    def values(row: Tensor, some: Coalitions) -> Tensor:
        return centred(teacher(x[row], some.masks(), some.each_key()).cpu(), center)

    ask = Batches(teacher, progress=progress)
    ask.bar.total = 2 * len(row)
    with ask.bar:
        target = ask(values, row, Listed(mask, keys))
    outputs = None
    if drawn:
        outputs = ask.of_rows(
            lambda some: centred(teacher.prediction(some.to(teacher.device)).cpu(), center), x
        )
    return TeacherTargets(x, row, mask, target, outputs)


def _sample_pairs(
    rows: int, players: int, pairs: int, seed: int
) -> tuple[Int64[Tensor, " pairs"], Bool[Tensor, "pairs 2 players"]]:
    """Row numbers, and an antithetic pair of coalitions for each."""
    generator = torch.Generator().manual_seed(seed)
    count = -(-pairs // 2)
    passes = range(-(-count // rows))
    row = torch.cat([torch.randperm(rows, generator=generator) for _ in passes])[:count]
    law = SizeUniform(players)
    parts = [law.sample_antithetic((len(part),), generator) for part in row.split(_PAIRS_PER_DRAW)]
    return row, torch.cat(parts)
