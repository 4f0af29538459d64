"""Selects what a figure shows, and labels it: rows, outputs, players and their feature values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._checks import check_whole
from manifold_shap.explanation import Explanation
from manifold_shap.learning_error import other_rows
from manifold_shap.plots import style
from manifold_shap.tables.features import as_text, row_text
from manifold_shap.values.selected import output_position


def one(explanation: Any) -> Explanation:
    """A single explanation, of at least one row, player and output."""
    return named({"explanation": explanation}).popitem()[1]


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
        # Rows may be large: none is compared with itself.
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
    if first.players.names != other.players.names or not torch.equal(owners(first), owners(other)):
        return "players"
    if first.space != other.space or first.outputs != other.outputs:
        return "outputs"
    return ""


def owners(explanation: Explanation) -> Int64[Tensor, "instances *event"]:
    """The player that owns each element of each row; -1 where none does."""
    return explanation.owner


def output_index(explanation: Explanation, output: str | int) -> int:
    """The position of an output, by name or by position; see `output_position`."""
    return output_position("output", output, explanation.outputs)


def outputs_of_rows(
    explanation: Explanation, output: str | int | None
) -> Int64[Tensor, " instances"]:
    """The output to explain for each row: the given one, or each row's predicted one.

    That is the most probable class; among outputs that are no probabilities, the one that the row
    moves furthest from the base.
    """
    if output is not None:
        return torch.full((len(explanation.phi),), output_index(explanation, output))
    return _weight(explanation).argmax(1)


def several_outputs_of_rows(
    explanation: Explanation, output: str | int | Sequence[str | int] | None, top: int
) -> Int64[Tensor, "instances outputs"]:
    """The outputs to explain for each row: the given ones, or its `top`, that of most weight first.

    The first is that of `outputs_of_rows`.
    """
    if output is None:
        check_whole("top", top, 1, len(explanation.outputs))
        return _weight(explanation).argsort(dim=1, descending=True, stable=True)[:, :top]
    names = [output] if isinstance(output, (str, int, np.integer)) else list(output)
    if top != 1 or not names:
        raise ValueError(
            f"Expected names of outputs, or how many of the `top` ones, but got `top={top}` and "
            f"`output={output!r:.100}`; leave one of the two out."
        )
    chosen = [output_index(explanation, name) for name in names]
    return torch.tensor(chosen).expand(len(explanation.phi), -1)


def _weight(explanation: Explanation) -> Float[Tensor, "instances outputs"]:
    """By what a row's outputs are ranked: probabilities, or else how far they are from the base."""
    if explanation.space.on_simplex:
        return explanation.prediction
    return (explanation.prediction - explanation.base).abs()


def why_of_row(explanation: Explanation, output: str | int | None) -> str:
    """Why `outputs_of_rows` is what it is, where that may not be clear."""
    several = len(explanation.outputs) > 1 and not explanation.space.on_simplex
    if output is None and several:
        return f"1 of {len(explanation.outputs)} outputs, the one that this row moves most"
    return ""


def output_of_all(explanation: Explanation, output: str | int | None) -> tuple[int, str]:
    """The output to explain for all rows, and why where that may not be clear.

    The given one, the only one, the second of two probabilities (the positive class), or else the
    class that is predicted for the most rows; among outputs that are no probabilities, the one that
    is moved most.
    """
    outputs = len(explanation.outputs)
    if output is not None or outputs == 1:
        return 0 if output is None else output_index(explanation, output), ""
    if not explanation.space.on_simplex:
        moved = int(explanation.phi.abs().nanmean((0, 1)).argmax())
        return moved, f"1 of {outputs} outputs, the most moved"
    if outputs == 2 and not explanation.selected:
        return 1, ""
    predicted = explanation.prediction.argmax(1).bincount(minlength=outputs)
    k = int(predicted.argmax())
    return k, f"1 of {outputs} outputs, predicted for {int(predicted[k])} rows"


def row_index(explanation: Explanation, row: int, argument: str) -> int:
    """A position among the rows, counted from the end where negative."""
    rows = len(explanation.phi)
    return check_whole(argument, row, -rows, rows - 1, f"{rows} rows are explained") % rows


def row_name(explanation: Explanation, row: int) -> str:
    """Its label, and of how many it is one."""
    rows = len(explanation.phi)
    return f"row {as_text(explanation.instances[row])}" + (
        f" (1 of {rows} rows)" if rows > 1 else ""
    )


def largest(size: Float[Tensor, " players"], most: int) -> Int64[Tensor, " shown"]:
    """Players in order of size, the largest first; at most `most`, and none of size NaN.

    One player too many is shown all the same: its own line takes no more room than "1 other".
    """
    check_whole("most", most)
    order = size.nan_to_num(-1).argsort(descending=True, stable=True)
    order = order[size[order].isfinite()]
    return order if len(order) <= most + 1 else order[:most]


def with_rest(
    values: Float[Tensor, "several players"], shown: Int64[Tensor, " shown"]
) -> Float[Tensor, "several lines"]:
    """The values of shown players and, if there are others, the sum of those."""
    others = values.index_fill(1, shown, 0.0).nansum(1, keepdim=True)
    lines = values[:, shown]
    return torch.cat((lines, others), 1) if hidden(values, shown) else lines


def hidden(values: Float[Tensor, "several players"], shown: Int64[Tensor, " shown"]) -> int:
    """How many players that some row has are not shown."""
    return int(values.isfinite().any(0).sum()) - len(shown)


def labels(
    explanation: Explanation, row: int, players: Int64[Tensor, " shown"], most: int
) -> list[str]:
    """`name = value` of some players of a row, at most so many letters; the others' number.

    A group of columns has all of them: "size: Area = 3.1, Perimeter = 7".
    """
    found = []
    for player, columns in zip(
        players.tolist(), features(explanation[[row]], players), strict=True
    ):
        name, said = explanation.players.names[player], ""
        left = max(most // 2, most - len(name) - 3)
        if columns.shape[1] == 1:
            said = f" = {style.shorten(style.feature_value(columns.iloc[0, 0]), left)}"
        elif columns.shape[1]:
            sign = ": " if isinstance(columns.columns[0], str) else " = "
            said = sign + style.shorten(row_text(columns, 0).replace(" -", " −"), left)
        found.append(style.shorten(name, most - len(said)) + said)
    others = hidden(explanation.phi[row].T, players)
    return [*found, style.count(others, "other feature")] if others else found


def features(explanation: Explanation, players: Int64[Tensor, " some"]) -> list[pd.DataFrame]:
    """For each of some players the columns that it owns, see `Explanation.columns`."""
    return explanation.columns(players.tolist())


def kinds(explanation: Explanation) -> list[str]:
    """What distinguishes the values from ordinary ones: "asymmetric" (restricted orders), "causal".

    >>> import torch
    >>> import manifold_shap as ms
    >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
    >>> value = lambda x, mask: (x[:, None] * mask).sum(-1, True)
    >>> explanation = ms.permutation_shapley(value, x, ordering=[["x0"], ["x1"]])
    >>> kinds(explanation)
    ['asymmetric']
    """
    known = {"ordering": "asymmetric", "causal_ordering": "causal"}
    return [kind for key, kind in known.items() if key in explanation.made_by]


def quantity(explanation: Explanation, output: int) -> str:
    """What the Shapley values of one output share out, without its unit."""
    label = explanation.space.label(explanation.outputs[output])
    label = label.removesuffix(f" ({unit_of(explanation)})")
    return f"output {label}" if label.isdigit() else label


def title(explanation: Explanation, output: int) -> str:
    """What is explained, and of how many rows."""
    what = quantity(explanation, output)
    named = what == explanation.outputs[output]
    return f"{what if named else capital(what)}, {style.count(len(explanation.phi), 'row')}"


def unit_of(explanation: Explanation) -> str:
    """The unit of a regression that has one, such as "EUR"; nothing else."""
    return str(explanation.space.settings.get("unit", ""))


def amount(explanation: Explanation, value: float) -> str:
    """A base or prediction of an explanation."""
    said = explanation.space.amount(value) or style.number(value)
    return f"{said} {unit_of(explanation)}".rstrip()


def shapley_axis(explanation: Explanation, per: str = "", kinds: Sequence[str] = ()) -> str:
    """Label of an axis or colour bar of Shapley values, with their unit."""
    return capital(" ".join([*kinds, f"Shapley value{per} ({explanation.unit})"]))


def capital(text: str) -> str:
    """With a capital first letter."""
    return text[:1].upper() + text[1:]
