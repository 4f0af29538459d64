"""Selects what a figure shows, and labels it: rows, players and their feature values."""

import datetime
import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from pandas.api import types
from torch import Tensor

from manifold_shap import shown
from manifold_shap._checks import check_whole
from manifold_shap._messages import warn
from manifold_shap.explanation import Explanation
from manifold_shap.learning_error import other_rows
from manifold_shap.tables.features import as_text, row_text


def one(explanation: Any) -> Explanation:
    """A single explanation, of at least one row, player and output."""
    return named({"explanation": explanation})["explanation"]


def named(explanations: Any) -> dict[str, Explanation]:
    """Explanations by name; refused unless they are of the same rows, players and outputs."""
    if not isinstance(explanations, Mapping):
        explanations = {"Shapley values": explanations}
    first_name, first = next(iter(explanations.items()))
    for name, explanation in explanations.items():
        if not isinstance(explanation, Explanation):
            raise TypeError(
                f"Expected {name!r} to be an explanation, as of `ms.auto_shapley(value, x)`, but "
                f"got {type(explanation).__name__}."
            )
        if explanation.phi.numel() == 0:
            raise ValueError(
                f"Expected {name!r} to hold at least one row, player and output but its `phi` has "
                f"shape {tuple(explanation.phi.shape)}; there is nothing to show."
            )
        if explanation is not first and (difference := _difference(first, explanation)):
            raise ValueError(
                f"Expected explanations of the same rows, players and outputs but {first_name!r} "
                f"and {name!r} differ in their {difference}; explain the same `x` with both, or "
                "plot them apart."
            )
    return {str(name): explanation for name, explanation in explanations.items()}


def _difference(first: Explanation, other: Explanation) -> str:
    if len(first) != len(other) or other_rows(first, other):
        return "rows"
    if first.players.names != other.players.names or not torch.equal(first.owner, other.owner):
        return "players"
    same = first.space == other.space and first.outputs == other.outputs
    return "" if same else "outputs"


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


def rows_of(explanation: Explanation, rows: Any, labels: Any, most: int) -> list[int]:
    """Positions of rows, see `row_of`; by default the first."""
    if labels is not None:
        return [row_of(explanation, label=label) for label in labels]
    rows = range(min(len(explanation), most)) if rows is None else rows
    return [row_of(explanation, row) for row in rows]


def row_name(explanation: Explanation, row: int) -> str:
    """Its label and its position."""
    rows = len(explanation)
    name = f"row {as_text(explanation.instances[row])}"
    return f"{name} (position {row} of {rows})" if rows > 1 else name


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
    where = ", ".join(filter(None, (f"base {base}", row_name(explanation, row))))
    return [f"{what}: {prediction}", where, why]


def axis(explanation: Explanation, output: int, of: str = "", break_: str = " ") -> str:
    """Label of an axis or colour bar of Shapley values: of what and for which output."""
    name, unit = shown.quantity(explanation, output), shown.unit(explanation)
    values = " ".join([*shown.kinds(explanation), f"Shapley value{of}"])
    return f"{capital(values)}{break_}({', '.join(filter(None, (shown.shorten(name), unit)))})"


def capital(text: str) -> str:
    """With a capital first letter."""
    return text[:1].upper() + text[1:]


def largest(size: Float[Tensor, " players"], most: int) -> Int64[Tensor, " shown"]:
    """Players in order of size, the largest first; at most `most`, and none of size NaN.

    One player too many is shown all the same: its own line takes no more room than "1 other".
    """
    check_whole("max_display", most)
    order = size.nan_to_num(-1).argsort(descending=True, stable=True)
    order = order[size[order].isfinite()]
    return order if len(order) <= most + 1 else order[:most]


def with_rest(
    values: Float[Tensor, "several players"], chosen: Int64[Tensor, " shown"]
) -> Float[Tensor, "several lines"]:
    """The values of shown players and, if there are others, the sum of those."""
    others = values.index_fill(1, chosen, 0.0).nansum(1, keepdim=True)
    lines = values[:, chosen]
    return torch.cat((lines, others), 1) if hidden(values, chosen) else lines


def hidden(values: Float[Tensor, "several players"], chosen: Int64[Tensor, " shown"]) -> int:
    """How many players that some row has are not shown."""
    return int(values.isfinite().any(0).sum()) - len(chosen)


def names(
    explanation: Explanation, chosen: Int64[Tensor, " shown"], others: int, room: int = 30
) -> list[str]:
    """Of players, at most so many letters each, and how many others there are."""
    found = [shown.shorten(explanation.players.names[k], room) for k in chosen.tolist()]
    return [*found, shown.count(others, "other feature")] if others else found


def names_with_values(
    explanation: Explanation, row: int, chosen: Int64[Tensor, " shown"], room: int = 40
) -> list[str]:
    """`name = value` of players of a row, at most so many letters each, and how many others."""
    found = names(explanation, chosen, hidden(explanation.phi[row].T, chosen), room)
    for place, columns in enumerate(explanation[[row]].columns(chosen.tolist())):
        name, said = explanation.players.names[int(chosen[place])], ""
        left = max(room // 2, room - len(name) - 3)
        if columns.shape[1] == 1:
            said = f" = {shown.shorten(feature_value(columns.iloc[0, 0]), left)}"
        elif columns.shape[1]:
            # A group of columns has all of them: "size: Area = 3.1, Perimeter = 7".
            sign = ": " if isinstance(columns.columns[0], str) else " = "
            said = sign + shown.shorten(row_text(columns, 0).replace(" -", " −"), left)
        found[place] = shown.shorten(name, room - len(said)) + said
    return found


def feature_value(cell: Any) -> str:
    """A cell as a person would write it, with a minus sign."""
    said = as_text(cell)
    return said.replace("-", "−", 1) if isinstance(cell, numbers.Real) else said


class Ordered(NamedTuple):
    """A feature as numbers, NaN where a cell is missing or has no order.

    Attributes:
        ends: names of the lowest and the highest value, where it is one of two texts.
        dates: whether numbers are days since 1970.
    """

    numbers: Float[np.ndarray, " rows"]
    ends: tuple[str, ...] = ()
    dates: bool = False

    @property
    def known(self) -> bool:
        """Whether there is any order."""
        return bool(np.isfinite(self.numbers).any())


def ordered(column: pd.Series) -> Ordered:
    """A column as numbers; all NaN for text of more than two values, which has no order.

    >>> ordered(pd.Series(["yes", "no", None]))
    Ordered(numbers=array([ 1.,  0., nan]), ends=('no', 'yes'), dates=False)
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        if column.cat.ordered:
            codes = column.cat.codes.to_numpy(dtype=float)
            return Ordered(np.where(codes < 0, np.nan, codes))
        column = column.astype(object)
    there = column.dropna()
    if types.is_datetime64_any_dtype(column.dtype) or _all(there, datetime.date):
        moments = pd.to_datetime(column, utc=True).dt.tz_localize(None)
        days = (moments - pd.Timestamp(0)) / pd.Timedelta(days=1)
        return Ordered(days.to_numpy(dtype=float), dates=True)
    if _all(there, (numbers.Real, np.bool_)):
        return Ordered(column.astype(object).where(column.notna(), np.nan).to_numpy(dtype=float))
    ends = tuple(sorted(map(str, there.unique())))
    if len(ends) > 2:
        return Ordered(np.full(len(column), np.nan))
    places = {end: float(place) for place, end in enumerate(ends)}
    codes = column.map(lambda value: places.get(str(value))).to_numpy(dtype=float)
    return Ordered(codes, ends if len(ends) == 2 else ())


def _all(values: pd.Series, kinds: Any) -> bool:
    return len(values) > 0 and all(isinstance(value, kinds) for value in values)
