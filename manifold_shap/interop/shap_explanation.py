"""Hands explanations to shap, for its plots."""

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from torch import Tensor

from manifold_shap._arrays import pandas_columns
from manifold_shap.interop.elements import by_element
from manifold_shap.shown import has_two_classes, output_of_all
from manifold_shap.tables.features import as_text

if TYPE_CHECKING:
    import shap

    from manifold_shap.explanation import Explanation


def to_shap(
    explanation: "Explanation",
    data: Sequence[Any] | None,
    elements: bool,
    output: str | int | None,
) -> "shap.Explanation":
    """A `shap.Explanation`; see `Explanation.to_shap`, which this is."""
    shap = _imported()
    k: Any = slice(None)
    if output is not None or len(explanation.outputs) == 1 or has_two_classes(explanation):
        k, _ = output_of_all(explanation, output)
    named = explanation.outputs[k]
    fields: dict[str, Any] = {
        "base_values": _copied(explanation.base[:, k]),
        "output_names": list(named) if isinstance(named, tuple) else named,
    }
    if elements:
        if data is not None:
            raise ValueError(
                "Expected `data` for players, or `elements=True`, of which `data` are the elements "
                "of `x`, but got both; leave one out."
            )
        pixels = _channels_last(by_element(explanation, shared=True))[..., k]
        x: Any = explanation.x
        cells: np.ndarray | None
        if isinstance(x, Tensor):
            cells = _copied(_channels_last(x[..., None])[..., 0])
        else:
            cells = _cells(pandas_columns(x))
        return shap.Explanation(values=_copied(pixels), data=cells, **fields)
    if data is not None and len(data) != len(explanation.phi):
        raise ValueError(
            f"Expected `data` of {len(explanation.phi)} rows, one for each of those explained, but "
            f"got {len(data)}."
        )
    names = list(explanation.players.names)
    # Of a list of no rows shap cannot tell that it is one.
    if explanation.players.by_row and len(explanation.phi) > 0:
        counts = explanation.counts.tolist()
        return shap.Explanation(
            values=_ragged(explanation.phi[..., k], counts),
            error_std=_ragged(explanation.standard_error[..., k], counts),
            data=_ragged_cells(explanation, data, counts),
            feature_names=_objects([np.array(names[:count], object) for count in counts]),
            **fields,
        )
    return shap.Explanation(
        values=_copied(explanation.phi[..., k]),
        error_std=_copied(explanation.standard_error[..., k]),
        data=_cells(explanation.data) if data is None else _given(data, len(names)),
        feature_names=names,
        **fields,
    )


def _imported() -> ModuleType:
    try:
        import shap
    except ImportError as error:
        raise ImportError(
            "Explanation.to_shap needs the package shap: pip install 'manifold_shap[shap]'."
        ) from error
    return shap


def _copied(values: Tensor) -> np.ndarray:
    return values.numpy().copy()


def _channels_last(values: Tensor) -> Tensor:
    """Pictures `[instances, channels, height, width, outputs]` as shap has them."""
    return values.movedim(1, 3) if values.ndim == 5 else values


def _cells(features: pd.DataFrame | None) -> np.ndarray | None:
    """Numbers as they are and all else as text, which plots of shap take for categories."""
    if features is None:
        return None
    numbers = [kind.kind in "biuf" for kind in features.dtypes]
    if all(numbers):
        return features.to_numpy()
    columns = {
        place: features.iloc[:, place] if number else features.iloc[:, place].map(as_text)
        for place, number in enumerate(numbers)
    }
    return pd.DataFrame(columns).astype(object).to_numpy()


def _given(data: Sequence[Any], players: int) -> np.ndarray:
    cells = np.asarray(data)
    if cells.shape[1:] != (players,):
        raise ValueError(
            f"Expected `data` to have one entry for each of {players} players in every row but got "
            f"shape {cells.shape}."
        )
    return cells


def _ragged(values: Tensor, counts: Sequence[int]) -> np.ndarray:
    return _objects([_copied(own[:count]) for own, count in zip(values, counts, strict=True)])


def _ragged_cells(
    explanation: "Explanation", data: Sequence[Any] | None, counts: Sequence[int]
) -> np.ndarray | None:
    cells = _cells(explanation.data) if data is None else data
    if cells is None:
        return None
    if short := [row for row, count in enumerate(counts) if len(cells[row]) < count]:
        raise ValueError(
            f"Expected `data` to have an entry for each player of a row but row {short[0]} has "
            f"{len(cells[short[0]])} for {counts[short[0]]} players."
        )
    return _objects([np.array(own[:count]) for own, count in zip(cells, counts, strict=True)])


def _objects(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of different lengths in one, as shap has rows of different lengths."""
    # numpy would stack those of one length.
    together = np.empty(len(parts), object)
    together[:] = parts
    return together
