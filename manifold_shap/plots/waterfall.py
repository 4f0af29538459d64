"""Draws how the Shapley values of one row add up from the base to its prediction."""

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from manifold_shap.explanation import Explanation
from manifold_shap.learning_error import total_error
from manifold_shap.plots import canvas, selection, style
from manifold_shap.plots.titles import headline

# Letters of names with their values.
_LABEL = 40
# Of a bar, as a share of its line.
_THICK = 0.72
# Share of the axis that is left for numbers on each side.
_BEYOND = 0.25


def waterfall(
    explanation: Explanation,
    row: int = 0,
    output: str | int | None = None,
    most: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Draws how the features of one row lead from the base, at the bottom, to the prediction.

    Each bar starts where the one below ends: red bars raise the output and blue ones lower it, the
    smallest first. Numbers are Shapley values. Whiskers reach two standard errors to each side;
    exact values have none, nor has the sum of the other features.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> axes = ms.plots.waterfall(explanation, row=0)
        >>> [label.get_text() for label in axes.get_yticklabels()]
        ['x1 = −2', 'x0 = 1']

    Args:
        explanation: of any rows.
        row: position of the row.
        output: name or position of the output; by default the predicted class or, among outputs
            that are no probabilities, the one that the row moves furthest from its base.
        most: features to show; the rest is summed.
        ax: axes to draw in; by default a new figure.

    Raises:
        TypeError: `explanation` is none.
        ValueError: `most` is not positive, or `row` or `output` name something that is not there.
    """
    selection.one(explanation)
    row = selection.row_index(explanation, row, "row")
    k = int(selection.outputs_of_rows(explanation, output)[row])
    phi = explanation.phi[row, :, k].double()
    shown = selection.largest(phi.abs(), most)
    steps = selection.with_rest(phi[None], shown)[0].numpy()
    errors = np.full(len(steps), np.nan)
    errors[: len(shown)] = total_error(explanation)[row, shown, k]
    base = explanation.base[row, k].item()
    labels = selection.labels(explanation, row, shown, _LABEL)
    width = max(style.WIDTH, 2.8 + 0.07 * max(map(len, labels)))
    ax = canvas.one_panel(ax, 1.3 + 0.23 * len(steps), "x", width)
    _draw(ax, base, steps, errors, rest=len(steps) > len(shown))
    style.write_lines(ax, labels)
    ax.set_ylim(len(steps) + 0.05, -1.05)
    said = {
        "base": selection.amount(explanation, base),
        "prediction": selection.amount(explanation, explanation.prediction[row, k].item()),
    }
    _mark(ax, len(steps) - 0.3, base, f"base {said['base']}")
    _mark(ax, -0.7, base + steps.sum(), f"prediction {said['prediction']}")
    quantity = selection.quantity(explanation, k)
    kinds = [f"{kind} Shapley values" for kind in selection.kinds(explanation)]
    unit = selection.unit_of(explanation)
    label = "; ".join([f"{quantity} ({unit})" if unit else quantity, *kinds])
    style.scale(ax.xaxis, style.shorten(label, 40), ticks=5)
    title = f"Predicted {quantity}: {said['prediction']}"
    why = selection.why_of_row(explanation, output)
    headline(ax, {"": explanation}, title, selection.row_name(explanation, row), why)
    return ax


def _draw(
    ax: Axes,
    base: float,
    steps: Float[np.ndarray, " lines"],
    errors: Float[np.ndarray, " lines"],
    rest: bool,
) -> None:
    """Bars from the base, the last one first; that of the rest is grey."""
    lines, ends = np.arange(len(steps)), base + steps[::-1].cumsum()[::-1]
    colours = [style.RAISES if step >= 0 else style.LOWERS for step in steps]
    if rest:
        colours[-1] = style.NEUTRAL
    look: dict[str, Any] = {"left": ends - steps, "height": _THICK, "color": colours}
    canvas.bars(ax, lines, steps, errors, style.signed(steps.tolist()), **look)
    # From the end of each to the start of the one above.
    ax.vlines(ends[1:], lines[1:] - 1, lines[1:], style.NEUTRAL, linewidth=0.6, zorder=1)
    ax.use_sticky_edges = False
    ax.margins(x=_BEYOND)


def _mark(ax: Axes, line: float, x: float, text: str) -> None:
    """Words at the base and at the prediction, towards the wider side."""
    low, high = ax.get_xlim()
    left = x > (low + high) / 2
    ax.plot([x], [line], marker="|", markersize=7, color=style.INK, zorder=3)
    ax.annotate(
        style.plain(text), (x, line), (-5 if left else 5, 0), textcoords="offset points",
        ha="right" if left else "left", va="center_baseline", fontsize=style.TEXT,
    )  # fmt: skip
