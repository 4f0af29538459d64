"""Makes training targets for a surrogate from a slower value function: its teacher.

A single f(x) is an unbiased but high-variance target for v(S): over the rows that share x_S it
varies as much as f does. A teacher that averages K completions gives v(S) with a K-th of that
variance plus a bias of its own, which the single targets in every batch limit.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from tqdm import tqdm

from manifold_shap import _random
from manifold_shap._checks import check_finite, check_number, check_whole
from manifold_shap.coalitions import SizeUniform
from manifold_shap.io.files import load_checkpoint, save_checkpoint
from manifold_shap.players import Players
from manifold_shap.spaces import OutputSpace
from manifold_shap.values import ValueFunction

LESSONS_KIND = "lessons"

# Model rows in one call of the teacher: changes memory, not the values.
_ROWS_PER_CALL = 8192
# Coalitions drawn at once: drawing them takes several times the memory that they take.
_PAIRS_PER_DRAW = 4096
# Largest difference between a model, or a teacher, and itself on another machine.
_TOLERANCE = 1e-3


class Lesson(NamedTuple):
    """Rows, two coalitions of each, and the teacher's values of these.

    Attributes:
        x: `[batch, *event]`.
        mask: `[batch, 2, players]`, an antithetic pair.
        target: `[batch, 2, outputs]`.
    """

    x: Tensor
    mask: Tensor
    target: Tensor


@dataclass(frozen=True)
class Lessons:
    """The teacher's values of pairs of coalitions, computed before the training.

    Attributes:
        x: training rows.
        row: number of the row of each pair of coalitions.
        mask: antithetic pairs of coalitions `[lessons, 2, players]`.
        target: the teacher's values `[lessons, 2, outputs]`.
        seconds: wall time that they took.
    """

    x: Tensor
    row: Int64[Tensor, " lessons"]
    mask: Bool[Tensor, "lessons 2 players"]
    target: Float[Tensor, "lessons 2 outputs"]
    seconds: float

    def __deepcopy__(self, memo: dict[int, Any]) -> "Lessons":
        # Lightning copies a task to average its weights; data that never change need no copy.
        return self

    def save(self, path: Path, record: dict[str, Any]) -> None:
        """Write the values and a record of the training to one file; `kept_lessons` reads it.

        Raises:
            OSError: no space or no permission.
        """
        kept = {"kind": LESSONS_KIND, "target": self.target, "seconds": self.seconds}
        save_checkpoint(path, {**kept, **record})

    def sample(self, count: int, generator: torch.Generator) -> Lesson:
        """A random sample of `count` lessons, with replacement, on the generator's device."""
        device = generator.device
        chosen = torch.randint(len(self.row), (count,), generator=generator, device=device).cpu()
        taken = self.x[self.row[chosen]], self.mask[chosen], self.target[chosen]
        return Lesson(*(tensor.to(device) for tensor in taken))


def check_teacher(teacher: Any, pairs: Any, share: Any) -> None:
    """Raise unless this is a value function, and the numbers are in range.

    Raises:
        TypeError: `teacher` is no value function, or `pairs` or `share` is no number.
        ValueError: `pairs` or `share` is out of range.
    """
    if not isinstance(teacher, ValueFunction):
        raise TypeError(
            "Expected `teacher` to be a value function, such as one of `imputed_value`, but got "
            f"{type(teacher).__name__}."
        )
    check_whole("teacher_pairs", pairs, least=2)
    check_number("teacher_share", share, above=0, high=1)


def check_same_game(
    teacher: ValueFunction,
    players: Players,
    space: OutputSpace,
    x: Float[Tensor, "rows *event"],
    target: Float[Tensor, "rows outputs"],
) -> None:
    """Raise unless the teacher's game is the one that the surrogate is to learn.

    Args:
        teacher: a value function.
        players, space: of the surrogate.
        x: a few rows.
        target: T(f(x)) of these rows.

    Raises:
        ValueError: the teacher has other players, another output space or another model.
    """
    theirs = teacher.players
    if theirs.names != players.names or not torch.equal(theirs.index, players.index):
        raise ValueError(
            f"Expected `teacher` to have the surrogate's {len(players)} players "
            f"{players.names[:5]} but it has {len(theirs)}, {theirs.names[:5]}, or they own other "
            "elements; give the same `players` to both."
        )
    if type(teacher.space) is not type(space):
        raise ValueError(
            f"Expected `teacher` to have output={space.name!r}, as the surrogate, but it has "
            f"{teacher.space.name!r}; choose one for both."
        )
    prediction = teacher.prediction(x).to(target.device)
    gap = _gap(prediction, target)
    if not gap <= _TOLERANCE * max(1.0, target.abs().max().item()):
        raise ValueError(
            "Expected `teacher` to explain the same model but it predicts otherwise (by up to "
            f"{gap:.3g}); make it with this model and this `zero_replacement`."
        )


def ask_teacher(
    teacher: ValueFunction, x: Tensor, pairs: int, seed: int, progress: bool = False
) -> Lessons:
    """Evaluate a teacher at random (row, coalition) pairs, each with draws of its own.

    Args:
        teacher: the value function.
        x: rows; each occurs equally often, up to one.
        pairs: number of (row, coalition) pairs, rounded up to an even one.
        seed: of the pairs and of the teacher's draws.
        progress: whether work of more than two seconds shows a progress bar.

    Raises:
        ValueError: the values are not finite.
    """
    row, mask = _questions(len(x), len(teacher.players), pairs, seed)
    start = time.perf_counter()
    target = _ask(teacher, x, row, mask, seed, progress)
    return Lessons(x, row, mask, target, time.perf_counter() - start)


def kept_lessons(path: Path, teacher: ValueFunction, x: Tensor, pairs: int, seed: int) -> Lessons:
    """Read what `Lessons.save` wrote, for the arguments that `ask_teacher` was given.

    Raises:
        ValueError: the file is damaged or of something else, or holds values of another teacher.
    """
    kept = load_checkpoint(path, LESSONS_KIND)
    row, mask = _questions(len(x), len(teacher.players), pairs, seed)
    # The first call again, of the same size, so that rounding is the same, too.
    some = slice(_step(teacher))
    target, again = kept["target"], _ask(teacher, x, row[some], mask[some], seed)
    gap = _gap(again, target[some])
    if not gap <= _TOLERANCE * max(1.0, target.abs().max().item()):
        raise ValueError(
            f"Expected {path.parent} to be empty or to hold an interrupted training of this "
            f"surrogate, but its teacher was another one (whose values differ by up to {gap:.3g}). "
            "Name another `directory`, or remove that one."
        )
    return Lessons(x, row, mask, target, kept["seconds"])


def _questions(
    rows: int, players: int, pairs: int, seed: int
) -> tuple[Int64[Tensor, " lessons"], Bool[Tensor, "lessons 2 players"]]:
    """Row numbers, and an antithetic pair of coalitions for each."""
    generator = torch.Generator().manual_seed(seed)
    count = -(-pairs // 2)
    passes = range(-(-count // rows))
    row = torch.cat([torch.randperm(rows, generator=generator) for _ in passes])[:count]
    law = SizeUniform(players)
    parts = [law.sample_antithetic((len(part),), generator) for part in row.split(_PAIRS_PER_DRAW)]
    return row, torch.cat(parts)


def _ask(
    teacher: ValueFunction,
    x: Tensor,
    row: Int64[Tensor, " lessons"],
    mask: Bool[Tensor, "lessons 2 players"],
    seed: int,
    progress: bool = False,
) -> Float[Tensor, "lessons 2 outputs"]:
    pairs = 2 * len(row)
    keys = _random.fold(torch.arange(pairs).reshape(-1, 2), seed)
    values = []
    with tqdm(total=pairs, desc="teacher", unit="value", delay=2, disable=not progress) as bar:
        for some in torch.arange(len(row)).split(_step(teacher)):
            values.append(teacher(x[row[some]], mask[some], keys[some]).cpu().float())
            bar.update(2 * len(some))
    return check_finite(torch.cat(values), "teacher(x, mask)", "look for an overflow in it")


def _step(teacher: ValueFunction) -> int:
    return max(1, _ROWS_PER_CALL // (2 * teacher.draws))


def _gap(one: Tensor, other: Tensor) -> float:
    return (one - other).abs().max().item() if one.shape == other.shape else torch.inf
