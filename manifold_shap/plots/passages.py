"""What a coloured text shows: rows as words, with a value for each player of each explanation."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from manifold_shap.explanation import Explanation
from manifold_shap.plots import selection, style
from manifold_shap.plots.text_layout import Word, check_tokens, owners_of_tokens, words_of

# Rows that are shown where none are named.
_ROWS = 8


class Column(NamedTuple):
    """A row under one explanation.

    Attributes:
        heading: its base, and the name of the explanation where there are several.
        values: of the players; NaN where the row lacks them.
    """

    heading: str
    values: Float[np.ndarray, " players"]

    def value(self, word: Word) -> float:
        """Of the player that owns a word; NaN where none does."""
        return float(self.values[word.player]) if word.player >= 0 else float("nan")


class Passage(NamedTuple):
    """A row.

    Attributes:
        lines: the output and its prediction, and which row it is.
        words: of the row, in order.
        columns: one for each explanation.
    """

    lines: list[str]
    words: list[Word]
    columns: list[Column]


def passages(
    by_name: Mapping[str, Explanation],
    tokens: Sequence[Sequence[str]],
    rows: Sequence[int] | None,
    output: str | int | None,
    separator: str | None,
) -> list[Passage]:
    """Of some rows, see `text`."""
    first, *_ = by_name.values()
    check_tokens(tokens, len(first.phi))
    rows = range(min(len(first.phi), _ROWS)) if rows is None else rows
    if len(rows) == 0:
        raise ValueError("Expected `rows` to name at least one row but got none.")
    chosen = [selection.row_index(first, int(row), "rows") for row in rows]
    owners = selection.owners(first)
    of_row = selection.outputs_of_rows(first, output).tolist()
    found = []
    for row in chosen:
        players = owners_of_tokens(tokens[row], owners[row], row)
        said = selection.amount(first, first.prediction[row, of_row[row]].item())
        title = f"Predicted {selection.quantity(first, of_row[row])}: {said}"
        why = selection.why_of_row(first, output)
        found.append(
            Passage(
                [title, selection.row_name(first, row) + (f"; {why}" if why else "")],
                words_of(tokens[row], players, separator),
                [_column(by_name, name, row, of_row[row]) for name in by_name],
            )
        )
    return found


def _column(by_name: Mapping[str, Explanation], name: str, row: int, output: int) -> Column:
    explanation = by_name[name]
    base = selection.amount(explanation, explanation.base[row, output].item())
    heading = f"{' '.join(name.split())}: base {base}" if len(by_name) > 1 else f"base {base}"
    return Column(heading, explanation.phi[row, :, output].double().numpy())


class Coloured(NamedTuple):
    """All that a coloured text says.

    Attributes:
        by_name: the explanations.
        passages: the rows that are shown.
    """

    by_name: Mapping[str, Explanation]
    passages: list[Passage]

    @property
    def limit(self) -> float:
        """The largest value of all, at which colours are the strongest."""
        values = np.concatenate(
            [column.values for each in self.passages for column in each.columns]
        )
        return float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) or 1.0

    @property
    def ends(self) -> list[str]:
        """Of the colour scale, in words."""
        return style.signed([-self.limit, self.limit])

    @property
    def label(self) -> str:
        """Of the colour scale."""
        first, *_ = self.by_name.values()
        return selection.shapley_axis(first, kinds=selection.kinds(first))
