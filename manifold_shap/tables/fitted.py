"""Makes the table of rows of any kind: of a frame, of texts, or of several tensors."""

from collections.abc import Iterable, Mapping
from typing import Any

from manifold_shap._arrays import is_frame
from manifold_shap._messages import shown
from manifold_shap.tables.base import RowAdapter
from manifold_shap.tables.inputs import Inputs
from manifold_shap.tables.rows import is_inputs, is_texts
from manifold_shap.tables.table import Table
from manifold_shap.tables.texts import Texts


def fit_table(
    x: Any, players: Mapping[str, Any] | str | None = None, left_out: Iterable[Any] = ()
) -> RowAdapter:
    """The table of training rows.

    Args:
        x: a frame, texts, a tuple or a dictionary of tensors; anything else is rows of a frame.
        players: groups of the columns of a frame by name, or the players of single tensors, or the
            parts of texts: "words" or "sentences".
        left_out: columns of a frame that the model is given but that are no players.

    Raises:
        TypeError, ValueError: players of another kind of rows; a frame whose one column holds
            texts.

    >>> type(fit_table(["good", "not good"])).__name__
    'Texts'
    """
    out = [left_out] if isinstance(left_out, str) else list(left_out)
    of_texts = is_texts(x) or isinstance(x, str)  # A text alone is told to be put in a list.
    if out and (of_texts or is_inputs(x)):
        raise ValueError(
            f"Expected `left_out` for columns of a frame alone but got {shown(out)} for "
            f"{'texts' if of_texts else 'tensors'}; leave it out."
        )
    if of_texts:
        return Texts.fit(x, players or "words")
    if not isinstance(players, Mapping | None):
        raise TypeError(
            "Expected `players` by name, such as {'size': ['length', 'width']}, but got "
            f"{players!r:.100}."
        )
    if is_inputs(x):
        return Inputs.fit(x, players)
    if is_frame(x) and x.shape[1] == 1:
        import narwhals as nw

        (column,) = nw.from_native(x, eager_only=True).iter_columns()
        if column.dtype == nw.String:
            raise ValueError(
                f"Expected texts, or a frame of several columns, but the one column "
                f"{column.name!r} holds texts; pass `frame[{column.name!r}]`, or make categories "
                "of it."
            )
    return Table.fit(x, players, out)
