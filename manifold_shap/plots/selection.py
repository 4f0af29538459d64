"""Selects what a figure shows, and labels it: rows, outputs, players and their feature values."""

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._checks import check_whole
from manifold_shap._words import check_choice
from manifold_shap._words import shown as listed
from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues
from manifold_shap.plots import style
from manifold_shap.tables.features import player_columns, row_text


def named(explanations: Explanation | Mapping[str, Explanation]) -> dict[str, Explanation]:
    """Explanations by name; refused unless they are of the same rows, players and outputs."""
    if isinstance(explanations, Explanation):
        explanations = {"Shapley values": explanations}
    by_name = dict(explanations)
    if not by_name:
        raise ValueError(
            "Expected at least one named explanation but got none; pass for example "
            "{'on manifold': explanation}."
        )
    first_name, first = next(iter(by_name.items()))
    for name, explanation in by_name.items():
        if explanation.phi.numel() == 0:
            raise ValueError(
                f"Expected {name!r} to hold at least one row, player and output but its `phi` has "
                f"shape {tuple(explanation.phi.shape)}; there is nothing to plot."
            )
        if difference := _difference(first, explanation):
            raise ValueError(
                f"Expected explanations of the same rows, players and outputs but {first_name!r} "
                f"and {name!r} differ in their {difference}; explain the same `x` with both, or "
                "plot them apart."
            )
    return by_name


def _difference(first: Explanation, other: Explanation) -> str:
    if first.x.shape != other.x.shape:
        return f"rows ({len(first.x)} and {len(other.x)})"
    if not torch.allclose(first.x, other.x, atol=1e-6, equal_nan=True):
        return f"rows (`x` by up to {(first.x - other.x).abs().max():.3g})"
    if first.players.names != other.players.names or not torch.equal(owners(first), owners(other)):
        return f"players ({len(first.players)} and {len(other.players)})"
    if first.space != other.space or first.outputs != other.outputs:
        one, two = (f"{e.space.name} of {listed(e.outputs, 10)}" for e in (first, other))
        return f"outputs ({one} and {two})"
    return ""


def owners(explanation: Explanation) -> Int64[Tensor, "instances *event"]:
    """The player that owns each element of each row; -1 where none does."""
    if explanation.owners is None:
        return explanation.players.index.expand(explanation.x.shape)
    return explanation.owners


def output_index(explanation: Explanation, output: str) -> int:
    """The position of an output, by name."""
    return explanation.outputs.index(check_choice("output", output, explanation.outputs))


def outputs_of_rows(explanation: Explanation, output: str | None) -> Int64[Tensor, " instances"]:
    """The output to explain for each row: the named one, or each row's predicted one.

    The predicted output is the largest; among log-ratio coordinates, which have no largest class,
    the one that the row moves furthest from the base.
    """
    if output is not None:
        return torch.full((len(explanation.phi),), output_index(explanation, output))
    if explanation.partition is not None:
        return (explanation.prediction - explanation.base).abs().argmax(1)
    return explanation.prediction.argmax(1)


def row_index(explanation: Explanation, row: int, argument: str) -> int:
    """A position among the rows, counted from the end where negative."""
    rows = len(explanation.phi)
    return check_whole(argument, row, -rows, rows - 1, f"{rows} rows are explained") % rows


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
    explanation: Explanation, row: int, players: Int64[Tensor, " shown"], room: float
) -> list[str]:
    """`name = value` of some players of a row, at most `room` points wide; the others' number.

    A group of columns has all of them: "size: Area = 3.1, Perimeter = 7".
    """
    found = []
    for player, columns in zip(
        players.tolist(), features(explanation[[row]], players), strict=True
    ):
        name, said = " ".join(explanation.players.names[player].split()), ""
        if columns.shape[1]:
            named = isinstance(columns.columns[0], str) and columns.shape[1] > 1
            sign = ": " if named else " = "
            left = room - style.text_width(name + sign)
            values = (
                row_text(columns, 0).replace(" -", " −")
                if columns.shape[1] > 1
                else style.feature_value(columns.iloc[0, 0])
            )
            said = sign + style.shorten(values, max(0.6 * room, left))
        found.append(style.shorten(name, room - style.text_width(said)) + said)
    others = hidden(explanation.phi[row].T, players)
    return [*found, style.count(others, "other feature")] if others else found


def features(explanation: Explanation, players: Int64[Tensor, " some"]) -> list[pd.DataFrame]:
    """For each of some players the columns that it owns, as `player_columns` tells them."""
    return player_columns(
        explanation.x, explanation.players, players.tolist(), explanation.schema,
        explanation.owners,
    )  # fmt: skip


def kinds(explanation: Explanation) -> list[str]:
    """What distinguishes the values from ordinary ones: "asymmetric" (restricted orders), "causal".

    >>> import torch
    >>> import manifold_shap as ms
    >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
    >>> value = lambda x, mask: (x[:, None] * mask).sum(-1, True)
    >>> explanation = ms.permutation_shapley(value, x, ordering=[["x0"], ["x1"]])
    >>> ms.plots.kinds(explanation)
    ['asymmetric']
    """
    known = {"ordering": "asymmetric", "causal_ordering": "causal"}
    return [kind for key, kind in known.items() if key in explanation.made_by]


def quantity(explanation: Explanation, output: int) -> str:
    """What the Shapley values of one output share out."""
    label = explanation.space.label(explanation.outputs[output])
    return f"output {label}" if label.isdigit() else label


def amount(explanation: Explanation, value: float) -> str:
    """A base or prediction of an explanation."""
    return explanation.space.amount(value) or style.number(value)


def shapley_axis(explanation: Explanation, per: str = "", kinds: Sequence[str] = ()) -> str:
    """Label of an axis or colour bar of Shapley values, with their unit."""
    label = " ".join([*kinds, f"Shapley value{per} ({explanation.unit})"])
    return label[0].upper() + label[1:]


def cautions(by_name: Mapping[str, Explanation | GlobalValues]) -> list[str]:
    """A line that names the value functions whose training was interrupted, if there are any."""
    names = [name for name, each in by_name.items() if each.made_by.get("half_trained")]
    which = f": {', '.join(names)}" if len(by_name) > 1 else ""
    return [f"Caution: half-trained value function{which}"] if names else []
