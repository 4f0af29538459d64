"""Gathers what a page says of each of its rows, as plain data and lines of a table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from manifold_shap import simplex
from manifold_shap.explanation import Explanation
from manifold_shap.interactions import Interactions
from manifold_shap.learning_error import total_error
from manifold_shap.plots import selection, style
from manifold_shap.plots.text_layout import Word, owners_of_tokens, words_of
from manifold_shap.report.shown import Shown
from manifold_shap.spaces import Probability
from manifold_shap.tables.features import as_text, row_text

# Players of a row with a line of their own, or one more where that is all. Of texts, whose words
# are coloured, the values of the others are in the page, too.
_SHOWN = 12
# Characters of a name or a value, and of the text in a line of the table.
short = partial(style.shorten, most=80)
_LISTED = 3
_PAIRS = 6


@dataclass(frozen=True)
class Rows:
    """Data of some rows, for the script of a page, and lines for its table.

    Attributes:
        kind: "table", "pictures", "texts" or "series".
        data: of each row; see `_row`. `words` are those of a text, `values` what players were.
        lines: of the table.
    """

    kind: str
    data: list[dict[str, Any]]
    lines: list[dict[str, Any]]


def rows_of(
    shown: Shown, rows: Sequence[int], tokens: Sequence[Sequence[str]] | None, kind: str
) -> Rows:
    """Data of rows, by position.

    Args:
        shown: what is shown of the explanation.
        rows: positions.
        tokens: of rows that are texts.
        kind: what rows are, see `Rows`.
    """
    some = shown.explanation[list(rows)]
    errors = total_error(some)
    outputs = Shown(some, (), ()).outputs_of_rows
    data = [_row(some, k, outputs[k], errors, kind == "texts") for k in range(len(rows))]
    if tokens is not None:
        owners = selection.owners(some)
        for k, row in enumerate(rows):
            data[k]["words"] = _words(tokens[row], owners[k], row)
            data[k]["values"] = _named_by_words(data[k]["words"])
    elif kind == "table":
        _add_values(some, data)
    return Rows(kind, data, [_line(some, k, row) for k, row in enumerate(data)])


def _row(
    some: Explanation, k: int, outputs: Sequence[int], errors: Tensor, every: bool
) -> dict[str, Any]:
    """Of a row: its label, and for each of its outputs the base, the prediction and the steps.

    A step is `[player, value, standard error, both as text]`, the largest first; so many as `lines`
    are shown, and `every` step is there for the colours of words, or these alone. `rest` is
    how many players have no line, the sum of their values, and that as text.
    """
    found = []
    for j in outputs:
        phi = some.phi[k, :, j].double()
        order = selection.largest(phi.abs(), len(phi))
        shown = len(selection.largest(phi.abs(), _SHOWN))
        others, rest = len(order) - shown, float(phi[order[shown:]].sum())
        order = order if every else order[:shown]
        said = style.signed(phi[order].tolist())
        steps = [
            [i, float(phi[i]), error, said[place], _error(error)]
            for place, (i, error) in enumerate(
                zip(order.tolist(), errors[k, order, j].tolist(), strict=True)
            )
        ]
        base, prediction = (float(each[k, j]) for each in (some.base, some.prediction))
        found.append(
            {
                "output": j,
                "base": base,
                "prediction": prediction,
                "said": [selection.amount(some, base), selection.amount(some, prediction)],
                "steps": steps,
                "lines": shown,
                "rest": [others, rest, style.signed([steps[0][1], rest])[1] if others else ""],
            }
        )
    label = short(as_text(some.instances[k]))
    return {"label": label, "outputs": found, "words": [], "values": {}}


def _error(error: float) -> str:
    """A standard error in two digits, or what is known of it."""
    if math.isnan(error):
        return "unknown"
    return style.number(float(f"{error:.2g}")) if error else "exact"


def players_of(row: Mapping[str, Any]) -> set[int]:
    """Players that are named in the data of a row."""
    found = {step[0] for each in row["outputs"] for step in each["steps"]}
    found |= {step["player"] for step in row.get("path", []) if "player" in step}
    return found | {i for each in row.get("pairs", []) for pair in each for i in pair[:2]}


def _add_values(some: Explanation, data: Sequence[dict[str, Any]]) -> None:
    """Add what players were in each row, as text, where it can be said."""
    needed = sorted(set().union(*map(players_of, data)))
    players = torch.tensor(needed, dtype=torch.long)
    for player, columns in zip(needed, selection.features(some, players), strict=True):
        for k, row in enumerate(data):
            if columns.shape[1] == 1:
                row["values"][player] = short(style.feature_value(columns.iloc[k, 0]))
            elif columns.shape[1] > 1:
                row["values"][player] = short(row_text(columns, k))


def _words(tokens: Sequence[str], owners: Tensor, row: int) -> list[list[Any]]:
    """`[what stands before it, text, player]` of each word."""
    found: list[Word] = words_of(tokens, owners_of_tokens(tokens, owners, row), None)
    return [[word.before, word.text, word.player] for word in found]


def _named_by_words(words: Sequence[Sequence[Any]]) -> dict[int, str]:
    """What the players of a text were: their words."""
    found: dict[int, str] = {}
    for before, text, player in words:
        if player >= 0:
            gap = " " if before else ""
            found[player] = f"{found[player]}{gap}{text}" if player in found else text
    return {player: short(text) for player, text in found.items()}


def _line(some: Explanation, k: int, row: Mapping[str, Any]) -> dict[str, Any]:
    """Of the table: the predicted output, its prediction and base, and the largest values."""
    main, said = row["outputs"][0], row["values"]
    steps = main["steps"]
    largest = []
    for player, _, _, words, _ in steps[:_LISTED]:
        value = f" = {style.shorten(said[player], 30)}" if said.get(player) else ""
        name = style.shorten(some.players.names[player], 40)
        largest.append((name + value, words))
    base, prediction = main["said"]
    output = short(some.outputs[main["output"]])
    if some.partition is not None:
        output, prediction, base = _of_composition(some, k)
    return {
        "label": row["label"],
        "output": output,
        "prediction": prediction,
        "base": base,
        "largest": largest,
        "text": _passage(row["words"]),
    }


def _of_composition(some: Explanation, k: int) -> tuple[str, str, str]:
    """The most probable class, its probability and that at the base."""
    states = torch.stack((some.prediction[k], some.base[k])).double()
    after, before = simplex.ilr_inv(states, some.basis).exp()
    top = int(after.argmax())
    prediction, base = (Probability().amount(float(each[top])) for each in (after, before))
    return short(some.classes[top]), prediction, base


def _passage(words: Sequence[Sequence[Any]]) -> str:
    """The start of a text."""
    return style.shorten(
        "".join(f"{' ' if before else ''}{word}" for before, word, _ in words), 120
    )


def pairs_of_row(
    interactions: Interactions, row: int, outputs: Sequence[int]
) -> list[list[list[Any]]]:
    """Of a row, by position, the largest pairs of outputs.

    A pair is `[one, other, value, standard error, both as text]`.
    """
    values, errors = interactions.values[row], interactions.standard_error[row]
    first, second = torch.triu_indices(len(values), len(values), 1)
    found = []
    for j in outputs:
        each = values[first, second, j]
        order = each.abs().nan_to_num(-1).argsort(descending=True, stable=True)[:_PAIRS]
        order = order[each[order].isfinite()]
        error, said = errors[first, second, j], style.signed(each[order].tolist())
        found.append(
            [
                [int(first[p]), int(second[p]), float(each[p]), off, text, _error(off)]
                for p, off, text in zip(order.tolist(), error[order].tolist(), said, strict=True)
            ]
        )
    return found
