"""Hands explanations to shap, for its plots."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap._arrays import pandas_columns
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
    import shap

    names: Any = list(explanation.outputs)
    every: Any = ...
    if output is not None or len(names) == 1 or has_two_classes(explanation):
        every, _ = output_of_all(explanation, output)
        names = names[every]

    def chosen(values: Tensor) -> np.ndarray:
        return values[..., every].numpy().copy()

    about = {"base_values": chosen(explanation.base), "output_names": names}
    if elements:
        x, spread = explanation.x, by_element(explanation.phi, explanation.owner)
        if isinstance(x, Tensor):
            # Pictures [rows, channels, height, width], of which shap has the channels last.
            x, spread = (t.movedim(1, 3) if x.ndim == 4 else t for t in (x, spread))
        shown = x.numpy().copy() if isinstance(x, Tensor) else _cells(pandas_columns(x))
        return shap.Explanation(values=chosen(spread), data=shown, **about)
    counts, players = explanation.counts.tolist(), list(explanation.players.names)
    if data is not None and (
        len(data) != len(counts) or any(len(own) < n for own, n in zip(data, counts, strict=True))
    ):
        raise ValueError(
            f"Expected `data` of {len(counts)} rows, with an entry for each player of a row, but "
            f"got {[len(own) for own in data][:10]} entries for {counts[:10]} players."
        )
    cells: Any = data
    if data is None and explanation.data is not None:
        cells = _cells(explanation.data)
    parts: dict[str, Any] = {
        "values": chosen(explanation.phi),
        "error_std": chosen(explanation.standard_error),
        "data": cells,
        "feature_names": [players] * len(counts),
    }
    # Of a list of no rows shap cannot tell that it is one.
    if explanation.players.by_row and counts:
        for name, rows in parts.items():
            if rows is not None:
                # numpy would stack rows of one length.
                parts[name] = np.empty(len(counts), object)
                parts[name][:] = [np.array(own[:n]) for own, n in zip(rows, counts, strict=True)]
    else:
        parts |= {"data": None if cells is None else np.asarray(cells), "feature_names": players}
    return shap.Explanation(**parts, **about)


def by_element(
    phi: Float[Tensor, "rows players outputs"], owner: Int64[Tensor, "rows *event"]
) -> Float[Tensor, "rows *event outputs"]:
    """For every element of a row its share of its player's value; zero where nobody owns it.

    >>> by_element(torch.tensor([[[2.0], [5.0]]]), torch.tensor([[0, 0, 1]]))[0, :, 0].tolist()
    [1.0, 1.0, 5.0]
    """
    player = owner.flatten(1).clamp(min=0)
    elements = torch.zeros(phi.shape[:2], dtype=phi.dtype)
    elements.scatter_add_(1, player, (owner.flatten(1) >= 0).to(phi.dtype))
    shares = phi / elements.clamp(min=1)[..., None]
    found = shares.gather(1, player[..., None].expand(-1, -1, phi.shape[2]))
    return found.unflatten(1, owner.shape[1:]).where(owner[..., None] >= 0, 0.0)


def _cells(frame: pd.DataFrame) -> np.ndarray:
    """Numbers as they are and all else as text, which plots of shap take for categories."""
    if all(dtype.kind in "biuf" for dtype in frame.dtypes):
        return frame.to_numpy()
    columns = [frame[name] for name in frame]
    return pd.concat(
        [own if own.dtype.kind in "biuf" else own.map(as_text) for own in columns], axis=1
    ).to_numpy(object)
