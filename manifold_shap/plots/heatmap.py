"""Draws the Shapley values of many rows as a heat map: a line per feature, a column per row."""

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from manifold_shap.explanation import Explanation
from manifold_shap.plots import canvas, selection, style
from manifold_shap.plots.titles import headline
from manifold_shap.tables.features import as_text

# The share of the axes' height that the curve of predictions takes, and the gap below it.
_CURVE, _GAP = 0.22, 0.04
# So few rows are named one by one.
_NAMED = 20


def heatmap(
    explanation: Explanation,
    output: str | int | None = None,
    most: int = 12,
    ax: Axes | None = None,
) -> Axes:
    """Draws the value of each feature in each row as a colour, rows in order of their prediction.

    Red raises the output and blue lowers it; the most important feature, by mean |phi|, is at the
    top. Over it is the prediction, with a dashed line at the mean base. One percent of the values
    may lie beyond the ends of the colour scale, which are then pointed. Players that a row lacks
    are grey.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> ms.plots.heatmap(explanation).images[0].get_array().tolist()
        [[1.0, 3.0], [-2.0, 1.0]]

    Args:
        explanation: of any rows.
        output: name or position of the output; by default as of `beeswarm`.
        most: features to show; the others are summed, row by row.
        ax: axes to draw in; by default a new figure.

    Raises:
        TypeError: `explanation` is none.
        ValueError: nothing to plot, `most` is not positive, or no such output.
    """
    selection.one(explanation)
    k, why = selection.output_of_all(explanation, output)
    phi = explanation.phi[..., k].double()
    shown = selection.largest(phi.abs().nanmean(0), most)
    names = [style.shorten(explanation.players.names[p]) for p in shown.tolist()]
    if others := selection.hidden(phi, shown):
        names.append(style.count(others, "other feature"))
    order = explanation.prediction[:, k].argsort(stable=True)
    values = selection.with_rest(phi, shown)[order].T.numpy()
    ax = canvas.one_panel(ax, 1.7 + 0.2 * max(len(names), 4), grid="y")
    ax.grid(visible=False)
    label = selection.shapley_axis(explanation, kinds=selection.kinds(explanation))
    _draw_map(ax, values, label)
    style.write_lines(ax, names)
    _name_rows(ax, [as_text(explanation.instances[row]) for row in order.tolist()])
    _draw_curve(
        ax, explanation.prediction[order, k].double().numpy(),
        float(explanation.base[:, k].double().mean()),
    )  # fmt: skip
    headline(ax, {"": explanation}, selection.title(explanation, k), why)
    return ax


def _draw_map(ax: Axes, values: Float[np.ndarray, "lines rows"], label: str) -> None:
    colours, ends = canvas.signed_scale(values, 0.99)
    cmap = style.DIVERGING.with_extremes(bad=style.NEUTRAL)
    look: dict[str, Any] = {"cmap": cmap, "norm": colours.norm, "interpolation": "nearest"}
    image = ax.imshow(values, aspect="auto", **look)
    canvas.colour_bar(ax, image, label, extend=ends)


def _name_rows(ax: Axes, names: list[str]) -> None:
    style.scale(ax.xaxis, "rows in order of their prediction" if len(names) > 1 else "row")
    if len(names) <= _NAMED:
        short = [style.plain(style.shorten(name, 14)) for name in names]
        ax.set_xticks(range(len(names)), short, **style.below_axis(short))


def _draw_curve(ax: Axes, prediction: Float[np.ndarray, " rows"], base: float) -> None:
    """The predictions over their columns."""
    above = ax.inset_axes((0, 1 + _GAP, 1, _CURVE), sharex=ax)
    style.strip(above, grid="y")
    above.tick_params(labelbottom=False, bottom=False)
    above.spines["bottom"].set_visible(False)
    rows = np.arange(len(prediction))
    look: dict[str, Any] = {"color": style.INK, "linewidth": 1.0}
    above.step(rows, prediction, where="mid", marker="" if len(rows) > 1 else "o", **look)
    above.axhline(base, color=style.NEUTRAL, linewidth=0.8, linestyle=(0, (3, 2)))
    style.scale(above.yaxis, "prediction", ticks=2)
