"""Checks arguments and words the errors: numbers, choices, seeds, rows and coalition masks.

Every check returns what it was given in the form that the package computes with, or raises an
error that says what was expected, what came and the usual fix. `name` is what the error calls the
argument: its name in the caller's signature, or an expression such as `value(x, mask)`.
"""

import math
import numbers
import operator
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manifold_shap._arrays import read_numbers
from manifold_shap._messages import shown

if TYPE_CHECKING:
    from manifold_shap.players import Players

_AS_NUMBERS = (
    "convert numbers by `numpy.asarray(rows, dtype='float32')`, and texts by `ms.text.Vocabulary`"
)
_Bound = float | int | None


def check_whole(
    name: str, value: Any, least: int = 1, most: int | None = None, fix: str = ""
) -> int:
    """A whole number from `least` to `most`, as `int`; bools, floats and text are refused.

    >>> check_whole("draws", np.int64(8))
    8

    Raises:
        TypeError: `value` is no whole number.
        ValueError: it is out of range.
    """
    span = f"of at least {least}" if most is None else f"from {least} to {most}"
    expected = f"Expected `{name}` to be a whole number {span}"
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise TypeError(f"{expected} but got {value!r:.100} ({type(value).__name__}){_end(fix)}")
    number = int(value)
    if number < least or (most is not None and number > most):
        raise ValueError(f"{expected} but got {number}{_end(fix)}")
    return number


def check_distinct(names: Iterable[Any], what: str, fix: str = "") -> None:
    """Refuse names of which one occurs more than once, by a ValueError that names all of these.

    >>> check_distinct(["a", "b"], "column names")
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"Expected distinct {what} but got {shown(twice)} more than once{_end(fix)}"
        )


def check_number(
    name: str,
    value: Any,
    low: _Bound = None,
    high: _Bound = None,
    *,
    above: _Bound = None,
    below: _Bound = None,
    fix: str = "",
) -> float:
    """A finite number as `float`, from `low` to `high`, greater than `above`, less than `below`.

    >>> check_number("validation", 0.25, above=0, below=1)
    0.25

    Raises:
        TypeError: `value` is no number.
        ValueError: it is NaN, infinite or out of range.
    """
    bounds = (
        ("above", above, operator.gt),
        ("of at least", low, operator.ge),
        ("below", below, operator.lt),
        ("of at most", high, operator.le),
    )
    span = " and ".join(f"{word} {bound:g}" for word, bound, _ in bounds if bound is not None)
    expected = f"Expected `{name}` to be a finite number {span}".rstrip()
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise TypeError(f"{expected} but got {value!r:.100} ({type(value).__name__}){_end(fix)}")
    number = float(value)
    inside = all(bound is None or holds(number, bound) for _, bound, holds in bounds)
    if not inside or not math.isfinite(number):
        raise ValueError(f"{expected} but got {value}{_end(fix)}")
    return number


def check_known(words: Iterable[Any], known: Collection[Any], what: str) -> None:
    """Refuse words that are not known, all at once.

    Args:
        words: keywords of a call, keys of a configuration, names of columns.
        known: those that there are.
        what: what the words should be, in the plural: "options of `fit_surrogate`".

    >>> check_known({"seed": 1}, ("seed", "patience"), "options of `fit_surrogate`")

    Raises:
        ValueError: one of `words` is not among `known`.
    """
    there = frozenset(known)
    unknown = [word for word in words if word not in there]
    if unknown:
        raise ValueError(f"Expected {what} among {shown(known)} but got {shown(unknown)}.")


def check_seed(seed: Any) -> int:
    """The seed of a random number generator: a whole number from 0 to 2^63 - 1.

    >>> check_seed(7)
    7

    Raises:
        TypeError: `seed` is no whole number.
        ValueError: it is negative or has more than 63 bits.
    """
    return check_whole("seed", seed, 0, 2**63 - 1, "0 is as good as any other")


def to_tensor(x: Any, name: str = "x", columns: Sequence[str] = ()) -> Tensor:
    """Numbers as a float32 tensor, detached from any graph.

    >>> to_tensor(np.array([[1, 2]])), to_tensor([[1, 2]])
    (tensor([[1., 2.]]), tensor([[1., 2.]]))

    Args:
        x: a tensor, an array, a list of rows, or a data frame of pandas, polars or pyarrow.
        name: what errors call it.
        columns: an order for the columns of a frame, where these are their names.

    Raises:
        TypeError: `x` is something else, or a table of other things than numbers.
        ValueError: a frame has missing cells.
    """
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"Expected `{name}` without a mask; fill it in by `.filled(value)`.")
    if not isinstance(x, Tensor | np.ndarray):
        x = read_numbers(x, name, columns)
    if isinstance(x, Tensor) and not x.is_complex():
        result = x.detach().float()
        if result.is_inference() and not torch.is_inference_mode_enabled():
            result = result.clone()  # Otherwise, no training takes it.
        return result
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        # A copy: torch warns of the read-only arrays of pandas, and refuses reversed ones.
        with np.errstate(over="ignore"):
            return torch.from_numpy(x.astype(np.float32, order="C"))
    raise TypeError(
        f"Expected `{name}` to be a tensor or an array of numbers but got {x.dtype}; {_AS_NUMBERS}."
    )


def check_returned(what: str, outputs: Any) -> Tensor:
    """What a function of the caller's returned, as a tensor; TypeError if it is no numbers."""
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biuf":
        return torch.from_numpy(outputs.copy())
    if not isinstance(outputs, Tensor) or outputs.is_complex():
        found = "complex numbers" if isinstance(outputs, Tensor) else type(outputs).__name__
        if isinstance(outputs, np.ndarray):
            found = (
                f"an array of {outputs.dtype}; names of classes are no numbers, `predict_proba` is"
            )
        raise TypeError(
            f"Expected {what} to return a tensor or an array of numbers but got {found}."
        )
    return outputs


def check_rows(
    x: Any, players: "Players", name: str = "x", first_row: int = 0
) -> Float[Tensor, "rows *event"]:
    """Rows of the shape that `players` own, finite, as a float32 tensor.

    Args:
        x: see `to_tensor`.
        players: see `Players`.
        name: what errors call the rows.
        first_row: the number of the first of them, in errors.

    Raises:
        TypeError: `x` holds no numbers, see `to_tensor`.
        ValueError: no row, another shape than `[rows, *event]`, NaN or infinite entries, or a row
            that is padding alone or has padding before other elements.
    """
    rows = to_tensor(x, name, players.names)
    if tuple(rows.shape[1:]) != players.event or rows.ndim < 2:
        if sorted(rows.shape[1:]) == sorted(players.event):
            check_channels_first(rows.shape[1:])
        fix = "pass rows of the shape that `players` own"
        if tuple(rows.shape) == players.event:
            fix = f"one row is `{name}[None]`"
        elif players.padding is not None:
            fix += ", longer ones cut"
        raise ValueError(
            f"Expected `{name}` of shape (rows, {', '.join(map(str, players.event)) or '*event'}) "
            f"but got {tuple(rows.shape)}; {fix}."
        )
    if len(rows) == 0:
        raise ValueError(f"Expected at least one row in `{name}` but got none; pass some rows.")
    check_finite(rows, name, "impute or drop these rows first", first_row)
    return check_padding(rows, players, name, range(first_row, first_row + len(rows)))


def check_padding(
    rows: Float[Tensor, "rows *event"], players: "Players", name: str, numbers: Sequence[int]
) -> Float[Tensor, "rows *event"]:
    """The same rows, where what they are padded by stands behind their elements alone.

    Args:
        rows: of the shape that `players` own.
        players: see `Players`.
        name: what errors call the rows.
        numbers: those of the rows, in errors.

    Raises:
        ValueError: a row is padding alone, or has padding before other elements.
    """
    if players.padding is None:
        return rows
    lengths, used = players.lengths(rows), players.used(rows).sum(1)
    wrong = ((lengths == 0) | (used < lengths)).nonzero()[:, 0].tolist()
    if wrong:
        problem = "has it before others" if lengths[wrong[0]] else "is padding alone"
        raise ValueError(
            f"Expected padding ({players.padding:g}) at the end of rows alone, behind other "
            f"elements, but row {numbers[wrong[0]]} of `{name}` {problem}, one of {len(wrong)}; "
            "drop rows without elements, and move padding to the end (of a tokenizer, "
            "`padding_side='right'`), also for the model."
        )
    return rows


def check_channels_first(event: Sequence[int]) -> None:
    """Refuse the shape of a picture or a series whose channels seem to come last.

    These are at most four channels, where the axes before are closer to each other in size than
    those behind the first one, or far fewer channels than time points.

    >>> check_channels_first((3, 24, 24))

    Raises:
        ValueError: with the line to type.
    """
    *sides, last = event
    first, second = max(sides) / min(sides), max(event[1:]) / last if len(sides) > 1 else 0
    of_picture = last <= 4 <= min(sides) and first < second
    of_series = len(sides) == 1 and sides[0] >= 32 and sides[0] >= 8 * last
    if not of_picture and not of_series:
        return
    axes = len(event)
    forth = ", ".join(map(str, (0, axes, *range(1, axes))))
    back = ", ".join(map(str, (0, *range(2, axes + 1), 1)))
    raise ValueError(
        f"Expected rows whose channels come first, such as {(last, *sides)}, but the last axis of "
        f"{tuple(event)} looks like {last} channels; turn the rows by `x.permute({forth})`, and "
        f"for the model back: `lambda x: model(x.permute({back}))`. Players of another order of "
        "axes are made by `ms.Players(names, index)`."
    )


def check_mask(mask: Any, players: int) -> Bool[Tensor, "*batch players"]:
    """Coalitions as a bool tensor whose last axis has one entry per player.

    >>> check_mask(np.array([[True, False]]), players=2)
    tensor([[ True, False]])

    Raises:
        TypeError: `mask` is no bool tensor or array.
        ValueError: its last axis has another length.
    """
    if isinstance(mask, np.ndarray) and mask.dtype == bool:
        mask = torch.from_numpy(mask.copy())
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor | np.ndarray) else type(mask).__name__
        raise TypeError(
            "Expected `mask` to be a bool tensor or array (True = in the coalition) but got "
            f"{kind}; compare a number with a threshold, as in `mask > 0`."
        )
    if mask.ndim == 0 or mask.shape[-1] != players:
        raise ValueError(
            f"Expected `mask` with {players} players on its last axis but got shape "
            f"{tuple(mask.shape)}; a mask has one entry per player, not per input element."
        )
    return mask


def check_coalitions(mask: Any, rows: int, players: "Players") -> Bool[Tensor, "rows m players"]:
    """At least one coalition for each of so many rows.

    Raises:
        TypeError, ValueError: as `check_mask`, or not `[rows, m, players]`.
    """
    mask = check_mask(mask, len(players))
    if mask.ndim != 3 or len(mask) != rows or mask.shape[1] == 0:
        raise ValueError(
            f"Expected `mask` of shape ({rows}, m, {len(players)}), m >= 1 coalitions for "
            f"each row, but got {tuple(mask.shape)}; one per row is `mask[:, None]`."
        )
    return mask


def check_finite(
    values: Float[Tensor, "rows *event"], name: str, fix: str = "", first_row: int = 0
) -> Float[Tensor, "rows *event"]:
    """The same values, where all are finite; the error names the first row with one that is not.

    Raises:
        ValueError: a value is NaN or infinite.
    """
    bad = ~values.isfinite()
    if bool(bad.any()):
        first = bad.nonzero()[0].tolist()
        place = f"row {first_row + first[0]}"
        if values.ndim > 1:
            place += f", element {first[1] if values.ndim == 2 else tuple(first[1:])}"
        raise ValueError(
            f"Expected finite numbers but {int(bad.sum())} of {values.numel()} entries of "
            f"`{name}` are NaN or infinite, the first in {place} ({values[tuple(first)].item()})"
            f"{_end(fix)}"
        )
    return values


def _end(fix: str) -> str:
    return f"; {fix}." if fix else "."
