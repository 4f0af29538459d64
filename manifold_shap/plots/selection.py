"""Selects what a figure shows, and says it: rows, players, titles, the quality of values."""

import datetime
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from pandas.api import types
from torch import Tensor

from manifold_shap import _messages, shown
from manifold_shap._checks import check_whole
from manifold_shap._messages import warn
from manifold_shap.explanation import Explanation, check_explanation
from manifold_shap.learning_error import other_rows, total_error
from manifold_shap.players import Players
from manifold_shap.quality import OFF_MANIFOLD, in_words
from manifold_shap.tables.features import as_text

Explained = Mapping[str, Any]
"""Explanations, or global values, by name."""


# -- explanations and their rows ------------------------------------------------------------------


def named(explanations: Any) -> dict[str, Explanation]:
    """Explanations by name; refused unless they are of the same rows, players and outputs."""
    if not isinstance(explanations, Mapping) or not explanations:
        explanations = {"explanation": explanations}
    first_name, first = next(iter(explanations.items()))
    for name, explanation in explanations.items():
        check_explanation(explanation)
        if explanation.phi.numel() == 0:
            raise ValueError(
                f"Expected {name!r} to hold at least one row, player and output but its `phi` has "
                f"shape {tuple(explanation.phi.shape)}; there is nothing to show."
            )
        if explanation is not first and (difference := _difference(first, explanation)):
            raise ValueError(
                f"Expected explanations of the same rows, players and outputs but {first_name!r} "
                f"and {name!r} differ in their {difference}, or plot them apart."
            )
    return {str(name): explanation for name, explanation in explanations.items()}


def check_one(explanation: Any) -> None:
    """Refuse several explanations, for a plot that shows one."""
    if isinstance(explanation, Mapping):
        raise TypeError(
            f"Expected one explanation but got several by name, {[*explanation]}; `bar`, "
            "`beeswarm`, `series`, `text` and `pixel_maps` take several, this plot one in a call."
        )
    named(explanation)


def _difference(first: Explanation, other: Explanation) -> str:
    if len(first) != len(other) or other_rows(first, other):
        return "rows; explain the same `x` with both"
    if first.players.names != other.players.names or not torch.equal(first.owner, other.owner):
        return "players; group both alike"
    if first.outputs != other.outputs:
        names = f"{_messages.shown(first.outputs)} and {_messages.shown(other.outputs)}"
        return f"outputs, {names}; name those of both models alike by `ms.as_model`"
    return "" if first.space == other.space else "output spaces; explain both in the same `space`"


def unaligned(explanation: Explanation) -> str:
    """What means over rows need, where players differ from row to row; nothing elsewhere."""
    words = "tokens=" * (not shown.has_words(explanation))
    of_texts = len(explanation.players.event) == 1
    means = f"`bar({words})` has means of words, and " if of_texts else ""
    need = f"the same players in every row; {means}`waterfall` and `bar(row=0)` draw one row"
    return need if explanation.players.by_row else ""


def picture_of(explanation: Explanation) -> Explanation:
    """Of several inputs, the first one that is a picture, with its players; or else all."""
    start, learned = 0, explanation.model_error
    for shape in map(tuple, explanation.made_by.get("inputs", {}).values()):
        part = slice(start, start := start + math.prod(shape))
        if len(shape) == 3 and min(shape[1:]) > 1 and explanation.players.fixed:
            players, index = explanation.players.index[part].unique(return_inverse=True)
            names = [explanation.players.names[k] for k in players.tolist()]
            return replace(
                explanation,
                phi=explanation.phi[:, players],
                standard_error=explanation.standard_error[:, players],
                x=explanation.x[:, part].unflatten(1, shape),
                players=Players(names, index.reshape(shape)),
                covariance=None,
                model_error=None if learned is None else learned[:, players],
            )
    return explanation


def check_aligned(explanation: Explanation) -> None:
    if need := unaligned(explanation):
        raise ValueError(f"Expected {need}.")


def row_of(explanation: Explanation, row: int | None = None, label: Any = None) -> int:
    """The position of a row: `row`, from the end where negative, or that of the row of a label.

    By default it is the first row. Warns of a position that is the label of another row.

    Raises:
        ValueError: no such row, several of this label, or a position and a label.
    """
    labels, rows = explanation.instances, len(explanation)
    if label is not None:
        where = [k for k, each in enumerate(labels) if each == label]
        if len(where) == 1 and row is None:
            return where[0]
        raise ValueError(
            "Expected the position or the label of one row but got "
            f"{f'row={row!r} and ' if row is not None else ''}label={label!r}, which is that of "
            f"{shown.count(len(where), 'row')}; labels are as in {list(labels[:3])}."
        )
    row = 0 if row is None else row
    fix = f"; label={row!r} is the row of that label" if row in labels else ""
    row = check_whole("row", row, -rows, rows - 1, f"{rows} rows are explained{fix}") % rows
    if row in labels and labels[row] != row:
        warn(
            f"row={row} is a position, of the row labelled {labels[row]!r}; label={row} is the row "
            "of that label."
        )
    return row


def rows_of(explanation: Explanation, row: Any, label: Any, most: int) -> list[int]:
    """Positions of one row or several, see `row_of`; by default the first."""
    if label is not None:
        labels = label if isinstance(label, list | tuple) else [label]
        return [row_of(explanation, label=each) for each in labels]
    rows = range(min(len(explanation), most)) if row is None else np.atleast_1d(row).tolist()
    return [row_of(explanation, each) for each in rows]


# -- players, a line each -------------------------------------------------------------------------


class Lines(NamedTuple):
    """The lines of a figure: players, the largest first, and one for all others together.

    Attributes:
        players: with a line of their own.
        others: how many share the last line; none has no line.
    """

    players: Int64[Tensor, " shown"]
    others: int = 0

    @classmethod
    def of(cls, size: Float[Tensor, " players"], most: int) -> "Lines":
        """In order of size, at most `most`; players whose size is not finite are not there.

        One player too many is shown all the same: its own line takes no more room than "1 other".
        """
        check_whole("max_display", most)
        order = size.nan_to_num(-1).argsort(descending=True, stable=True)
        order = order[size[order].isfinite()]
        chosen = order if len(order) <= most + 1 else order[:most]
        return cls(chosen, len(order) - len(chosen))

    def sums(self, values: Float[Tensor, "several players"]) -> Float[Tensor, "several lines"]:
        """The values of the players, and the sum of all others."""
        others = values.index_fill(1, self.players, 0.0).nansum(1, keepdim=True)
        return torch.cat((values[:, self.players], others), 1)[:, : len(self)]

    def errors(self, error: Float[Tensor, "several players"]) -> Float[Tensor, "several lines"]:
        """The errors of the players; that of the sum of all others is unknown."""
        unknown = error.new_full((len(error), 1), torch.nan)
        return torch.cat((error[:, self.players], unknown), 1)[:, : len(self)]

    def __len__(self) -> int:
        return len(self.players) + (self.others > 0)

    def names(self, players: Any, room: int = 30, noun: str = "feature") -> list[str]:
        """Of players, at most so many letters each, and how many others there are."""
        found = [shown.shorten(players[k], room) for k in self.players.tolist()]
        return [*found, shown.count(self.others, f"other {noun}")] if self.others else found

    def names_with_values(self, explanation: Explanation, row: int, room: int = 40) -> list[str]:
        """`name = value` of the players of a row, at most so many letters each."""
        noun = shown.noun(explanation)
        others = self.names(explanation.players.names, noun=noun)[len(self.players) :]
        return [*shown.players_with_values(explanation, row, self.players.tolist(), room), *others]


def mean(
    values: Float[Tensor, "rows *several"],
) -> tuple[Float[Tensor, " *several"], Float[Tensor, " *several"]]:
    """The mean over the rows that have a value, and its standard error."""
    there = values.isfinite().sum(0)
    mean = values.nanmean(0)
    spread = ((values - mean).square().nansum(0) / (there - 1)).sqrt()
    return mean, torch.where(there > 1, spread / there.sqrt(), torch.nan)


class Column(NamedTuple):
    """What a column holds, as numbers to draw; NaN where a cell is missing.

    Attributes:
        names: of categories, whose numbers are 0, 1, ...; none of what is measured.
        ordered: whether larger numbers mean more.
        dates: whether numbers are days since 1970.
    """

    numbers: Float[np.ndarray, " rows"]
    names: tuple[str, ...] = ()
    ordered: bool = True
    dates: bool = False

    @classmethod
    def of(cls, column: pd.Series, most: int = 12) -> "Column":
        """Read a column; what is text or a category has names, in their order or by the alphabet.

        >>> Column.of(pd.Series(["yes", "no", None]))
        Column(numbers=array([ 1.,  0., nan]), names=('no', 'yes'), ordered=True, dates=False)

        Args:
            most: categories, of which the rarest are one where they are more.
        """
        column = column.reset_index(drop=True)
        there = column.dropna()
        is_category = isinstance(column.dtype, pd.CategoricalDtype)
        if is_category and column.cat.ordered:
            names = tuple(map(as_text, column.cat.categories))
            return cls(column.cat.codes.where(column.notna()).to_numpy(float), names)
        if types.is_datetime64_any_dtype(column.dtype) or _all(there, datetime.date):
            days = pd.to_datetime(column, utc=True) - pd.Timestamp(0, tz="UTC")
            return cls((days / pd.Timedelta(days=1)).to_numpy(float), dates=True)
        if _all(there, numbers.Real) and not _all(there, (bool, np.bool_)) and not is_category:
            return cls(column.astype(object).where(column.notna(), np.nan).to_numpy(float))
        texts = there.astype(object).map(as_text)
        count = texts.value_counts()
        kept = sorted(count.index[: most if len(count) <= most else most - 1])
        place = {name: k for k, name in enumerate(kept)}
        codes = texts.map(lambda text: place.get(text, len(kept))).reindex(column.index)
        names = (*kept, *[f"{len(count) - len(kept)} rare ones"] * (len(kept) < len(count)))
        return cls(codes.to_numpy(float), names, len(count) <= 2)

    @property
    def rank(self) -> Float[np.ndarray, " rows"]:
        """Between low (0) and high (1); NaN where there is no order, or one value."""
        rank = pd.Series(self.numbers).rank(method="dense") - 1
        return (rank / (rank.max() if self.ordered else np.nan)).to_numpy()


def _all(values: pd.Series, kinds: Any) -> bool:
    return len(values) > 0 and all(isinstance(value, kinds) for value in values)


# -- words ----------------------------------------------------------------------------------------


def row_name(explanation: Explanation, row: int) -> str:
    """Its label and, where that is another, its position."""
    label, rows = explanation.instances[row], len(explanation)
    name = f"row {as_text(label)}"
    return name if rows == 1 or label == row else f"{name} (position {row} of {rows})"


def title(explanation: Explanation, output: int) -> str:
    """What is explained, and of how many rows."""
    return f"{_quantity(explanation, output)}, {shown.count(len(explanation), 'row')}"


def _quantity(explanation: Explanation, output: int) -> str:
    """What is explained, as it begins a line; the name of an output is left as it is."""
    what = shown.quantity(explanation, output)
    return what if what == explanation.outputs[output] else capital(what)


def title_of_row(explanation: Explanation, row: int, output: int, asked: Any) -> list[str]:
    """What is explained of a row: its prediction and base, and why this output where none is asked.

    Args:
        asked: for `output`; None if it was chosen.
    """
    prediction, base = (
        shown.amount(explanation, each[row, output].item())
        for each in (explanation.prediction, explanation.base)
    )
    several = len(explanation.outputs) > 1 and not shown.has_two_classes(explanation)
    kind = "predicted class" if explanation.space.on_simplex else "output that this row moves most"
    why = f"the {kind} of {len(explanation.outputs)}" if several and asked is None else ""
    what = _quantity(explanation, output)
    return [f"{what}: {prediction}", f"base {base}, {row_name(explanation, row)}", why]


def axis(explanation: Explanation, output: int | None, of: str = "", break_: str = " ") -> str:
    """Label of an axis or colour bar of Shapley values: of what, for which output, or the unit."""
    name, unit = explanation.unit, ""
    if output is not None:
        name, unit = shown.shorten(shown.quantity(explanation, output)), shown.unit(explanation)
    values = " ".join([*shown.kinds(explanation), f"Shapley value{of}"])
    return f"{capital(values)}{break_}({', '.join(filter(None, (name, unit)))})"


def whiskers(explanations: Iterable[Explanation], row: Any, player: Any = slice(None)) -> str:
    """What the whiskers of some rows and players reach, and what they leave out."""
    several = list(explanations)
    found = [total_error(each)[row, player][each.present[row, player]] for each in several]
    errors = torch.cat([each.flatten() for each in found])
    return shown.of_errors(several, errors, "whiskers: 2 standard errors")


def capital(text: str) -> str:
    """With a capital first letter."""
    return text[:1].upper() + text[1:]


# -- the quality of value functions ---------------------------------------------------------------


def cautions(by_name: Explained) -> list[str]:
    """Lines that warn of value functions that are half-trained, or no better than the marginal."""
    found = []
    for of, each, quality in _measured(by_name):
        if each.made_by.get("half_trained"):
            found.append(f"Caution: {of}half-trained value function")
        if warning := quality.get("warning"):
            # What follows a colon are causes, for which a figure has no room.
            found.append(f"Caution: {of}{str(warning).partition(':')[0]}")
    return found


def notes(by_name: Explained, brief: bool = False) -> list[str]:
    """A line on each value function, if one was measured: how good it is."""
    found = []
    compared = {name for *_, quality in _measured(by_name) for name in quality.get("mse", {})}
    for of, each, quality in _measured(by_name):
        if chosen := quality.get("chosen"):
            unit = each.unit if isinstance(each, Explanation) else ""
            said = in_words(quality, None if brief else unit)
            rows = f", measured on {shown.count(quality.get('rows', 0), 'row')}"
            rows = rows if "rows" in quality and not (brief and said) else ""
            errors = quality.get("mse", {})
            if not said and math.isfinite(errors.get(chosen, math.nan)):
                # An estimate without bias may be below zero.
                roots = {k: shown.number(max(e, 0.0) ** 0.5) for k, e in errors.items()}
                off = f" ({roots[OFF_MANIFOLD]} off the manifold)" if OFF_MANIFOLD in roots else ""
                said = f"has a root mean squared error of {roots[chosen]}{off}"
            found.append(f"{of or 'value function: '}{chosen} {said}{rows}")
        elif each.made_by.get("value_function") in compared & {OFF_MANIFOLD}:
            continue  # It stands beside that of another.
        elif said := shown.unmeasured(each.made_by) or "has an unknown error" * bool(compared):
            found.append(f"{of or 'value function '}{said}")
    return found


def _measured(by_name: Explained) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """The name where there are several, and what was measured of the value function."""
    for name, each in by_name.items():
        quality = each.made_by.get("quality")
        yield f"{name}: " * (len(by_name) > 1), each, quality if quality else {}
