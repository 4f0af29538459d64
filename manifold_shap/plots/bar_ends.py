"""Writes the numbers of level bars beyond their ends."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Real
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation

from manifold_shap.plots import style

# Points, before and after a number; and how far the ground around it covers lines.
_GAP = 3.0
_HALO = 1.5
_MINUS = "−"


def write(
    axes: Axes,
    lines: Real[np.ndarray, " bars"],
    values: Float[np.ndarray, " bars"],
    texts: Sequence[str],
    whiskers: float | Float[np.ndarray, " bars"] = 0.0,
    size: float = style.TEXT,
    halo: bool = False,
) -> None:
    """Numbers beyond bars and their whiskers: on the left those with a minus sign.

    Args:
        lines: where bars stand.
        values: where they end.
        size: of numbers, in points.
        halo: whether they cover the lines that they stand on, for which bars need some distance.
    """
    effects = [withStroke(linewidth=2 * _HALO, foreground=style.GROUND)] if halo else None
    for line, value, text, whisker in zip(
        lines, values, texts, np.broadcast_to(whiskers, values.shape), strict=True
    ):
        side = -1 if text.startswith(_MINUS) else 1
        axes.annotate(
            text, (value + side * whisker, line), (side * _GAP, 0), textcoords="offset points",
            ha="left" if side > 0 else "right", va="center_baseline", fontsize=size,
            color=style.INK, path_effects=effects,
        )  # fmt: skip


def set_limits(axes: Axes, room: float) -> None:
    """Limits that hold all bars, with place for the numbers that `write` put beyond their ends.

    Axes that share theirs with others hold the bars and numbers of all of them.

    Args:
        room: points, how wide the axes will be.
    """
    together = axes.get_shared_x_axes().get_siblings(axes)
    low = min(0.0, *(each.dataLim.x0 for each in together))
    high = max(0.0, *(each.dataLim.x1 for each in together))
    left = right = 0.0
    for number in (text for each in together for text in each.texts):
        if isinstance(number, Annotation):
            beside = style.text_width(number.get_text(), float(number.get_fontsize())) + 2 * _GAP
            if number.get_text().startswith(_MINUS):
                left = max(left, beside)
            else:
                right = max(right, beside)
    point = (high - low or 1.0) / max(room - left - right, 0.3 * room)
    axes.set_xlim(low - left * point, high + right * point)
