"""Makes the table of rows of any kind: of a frame, of texts, or of several tensors."""

from collections.abc import Iterable, Mapping
from typing import Any

from manifold_shap.tables.base import RowAdapter
from manifold_shap.tables.inputs import Inputs
from manifold_shap.tables.rows import is_inputs, is_texts
from manifold_shap.tables.table import Table
from manifold_shap.tables.texts import Texts


def fit_table(
    x: Any, players: Mapping[str, Any] | None = None, left_out: Iterable[Any] = ()
) -> RowAdapter:
    """The table of training rows.

    Args:
        x: a frame, texts, a tuple or a dictionary of tensors; anything else is rows of a frame.
        players: groups of the columns of a frame by name, or the players of single tensors.
        left_out: columns of a frame that the model is given but that are no players.

    >>> type(fit_table(["good", "not good"])).__name__
    'Texts'
    """
    if is_inputs(x):
        return Inputs.fit(x, players)
    if is_texts(x):
        return Texts.fit(x)
    return Table.fit(x, players, left_out)
