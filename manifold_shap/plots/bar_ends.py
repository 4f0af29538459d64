"""Writes the numbers of level bars beyond their ends."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Real
from matplotlib.axes import Axes

from manifold_shap.plots import style

# Points, before and after a number.
_GAP = 3.0
_MINUS = "−"


def write(
    axes: Axes,
    lines: Real[np.ndarray, " bars"],
    values: Float[np.ndarray, " bars"],
    texts: Sequence[str],
    whiskers: float | Float[np.ndarray, " bars"] = 0.0,
    size: float = style.TEXT,
) -> None:
    """Numbers beyond bars and their whiskers: on the left those with a minus sign.

    Args:
        lines: where bars stand.
        values: where they end.
        size: of numbers, in points.
    """
    for line, value, text, whisker in zip(
        lines, values, texts, np.broadcast_to(whiskers, values.shape), strict=True
    ):
        side = -1 if text.startswith(_MINUS) else 1
        axes.annotate(
            text, (value + side * whisker, line), (side * _GAP, 0), textcoords="offset points",
            ha="left" if side > 0 else "right", va="center_baseline", fontsize=size,
            color=style.INK,
        )  # fmt: skip


def reach(
    axes: Axes, low: float, high: float, texts: Sequence[str], room: float, size: float = style.TEXT
) -> None:
    """Limits from the lowest to the highest end of bars, with place for their numbers beyond.

    Args:
        texts: what is written beyond the ends.
        room: points, how wide the axes will be.
        size: of numbers, in points.
    """
    beside = max(style.text_width(text, size) for text in texts) + 2 * _GAP
    negative = [text.startswith(_MINUS) for text in texts]
    left, right = beside * any(negative), beside * (not all(negative))
    point = (high - low or 1.0) / max(room - left - right, 0.3 * room)
    axes.set_xlim(low - left * point, high + right * point)
