"""Draws how the Shapley values of one row add up from the base to its prediction."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import Polygon

from manifold_shap.explanation import Explanation
from manifold_shap.learning_error import total_error
from manifold_shap.plots import canvas, selection, style
from manifold_shap.plots.titles import headline

# Points: the most and the usual room for names, the tip of a bar, the gap before its number.
_LABEL = 200.0
_USUAL = 150.0
_TIP = 4.0
_GAP = 3.0
_THICK = 0.36


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
        TypeError: `explanation` is none, or `ax` is no axes.
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
    labels = selection.labels(explanation, row, shown, _LABEL)
    base = explanation.base[row, k].item()
    left = max(map(style.text_width, labels))
    width = style.WIDTH + max(left - _USUAL, 0.0) / 72
    ax = canvas.one_panel(ax, 1.3 + 0.23 * len(steps), "x", width)
    left = left if canvas.is_own(ax) else 0.0
    room = canvas.width_of(ax) - left - 4 * style.MARGIN
    _draw(ax, _Steps(base, steps, errors), rest=len(steps) > len(shown), room=room)
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
    label = "; ".join([quantity + _in_unit(explanation), *kinds])
    style.scale(ax.xaxis, style.shorten(label, room), style.ticks(room, *ax.get_xlim()))
    title = f"Predicted {quantity}: {said['prediction']}"
    why = selection.why_of_row(explanation, output)
    headline(ax, {"": explanation}, title, selection.row_name(explanation, row), why)
    return ax


def _in_unit(explanation: Explanation) -> str:
    unit = selection.unit_of(explanation)
    return f" ({unit})" if unit else ""


class _Steps(NamedTuple):
    """The base, and what each line adds, the last one first."""

    base: float
    sizes: Float[np.ndarray, " lines"]
    errors: Float[np.ndarray, " lines"]

    @property
    def ends(self) -> Float[np.ndarray, " lines"]:
        return self.base + self.sizes[::-1].cumsum()[::-1]

    @property
    def whiskers(self) -> Float[np.ndarray, " lines"]:
        """Two standard errors where they are known and not zero."""
        return np.where(self.errors > 0, 2 * self.errors, 0.0)


def _draw(ax: Axes, steps: _Steps, rest: bool, room: float) -> None:
    """Bars with their numbers, in so many points of room."""
    numbers = style.signed(steps.sizes.tolist())
    ends, whiskers = steps.ends, steps.whiskers
    starts = ends - steps.sizes
    low = min(steps.base, (ends - whiskers).min())
    high = max(steps.base, (ends + whiskers).max())
    # A number stands beyond the end of its bar.
    beside = max(map(style.text_width, numbers)) + 2 * _GAP
    point = (high - low or 1.0) / max(room - 2 * beside, 50.0)
    ax.set_xlim(low - beside * point, high + beside * point)
    for line, (start, end, whisker) in enumerate(zip(starts, ends, whiskers, strict=True)):
        raises = end >= start
        colour = style.RAISES if raises else style.LOWERS
        if rest and line == len(ends) - 1:
            colour = style.NEUTRAL
        neck = end + (-1 if raises else 1) * min(_TIP * point, abs(end - start))
        corners = [(start, -1), (neck, -1), (end, 0), (neck, 1), (start, 1)]
        shape = [(x, line + _THICK * side) for x, side in corners]
        ax.add_patch(Polygon(shape, facecolor=colour, linewidth=0, zorder=2))
        if whisker > 0:
            look: dict[str, Any] = {
                "elinewidth": 0.8,
                "capsize": 1.5,
                "ecolor": style.INK,
                "zorder": 3,
            }
            ax.errorbar(end, line, xerr=whisker, fmt="none", **look)
        if line:
            # Where the bar above starts.
            ax.vlines(end, line - 1 + _THICK, line, style.NEUTRAL, linewidth=0.6, zorder=1)
        side = 1 if raises else -1
        ax.annotate(
            numbers[line], (end + side * whisker, line), (side * _GAP, 0),
            textcoords="offset points", ha="left" if raises else "right", va="center_baseline",
            fontsize=style.TEXT, color=colour,
        )  # fmt: skip


def _mark(ax: Axes, line: float, x: float, text: str) -> None:
    """Words at the base and at the prediction, towards the wider side."""
    low, high = ax.get_xlim()
    left = x > (low + high) / 2
    ax.plot([x], [line], marker="|", markersize=7, color=style.INK, zorder=3)
    ax.annotate(
        style.plain(text), (x, line), (-5 if left else 5, 0), textcoords="offset points",
        ha="right" if left else "left", va="center_baseline", **style.FONT,
    )  # fmt: skip
