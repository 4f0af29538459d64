"""Draws values as maps of colours: features by rows, and pairs of features."""

from typing import Any

import numpy as np
import torch
from matplotlib import rcParams
from matplotlib.axes import Axes

from manifold_shap import shown
from manifold_shap.explanation import Explanation
from manifold_shap.interactions import Interactions
from manifold_shap.plots import canvas, selection
from manifold_shap.tables.features import as_text

# The share of the axes' height that the curve of predictions takes, and the gap below it.
_CURVE, _GAP = 0.22, 0.04
# So few rows are named one by one, and so few players have numbers in the cells of a map.
_NAMED, _NUMBERED = 20, 8
# What is smaller, relative to all terms, counts as rounding error.
_ROUNDING = 1e-5
# Of the end of the colours: upon stronger ones, letters are white.
_STRONG = 0.65


def heatmap(
    explanation: Explanation,
    output: str | int | None = None,
    max_display: int = 12,
    ax: Axes | None = None,
    *,
    show: bool = False,
) -> Axes:
    """Draws the value of each feature in each row as a colour, rows in order of their prediction.

    Red raises the output and blue lowers it; the most important feature, by mean |phi|, is at the
    top. Over it is the prediction, with a dashed line at the mean base. Half a percent of the
    values may lie beyond the ends of the colour scale, which are then pointed. Players that a row
    lacks are grey.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> ms.plots.heatmap(explanation).images[0].get_array().tolist()
        [[1.0, 3.0], [-2.0, 1.0]]

    Args:
        explanation: of any rows.
        output: name or position of the output; by default as of `beeswarm`.
        max_display: features to show; the others are summed, row by row.
        ax: axes to draw in; by default a new figure.
        show: whether to call `plt.show()`.

    Raises:
        TypeError: `explanation` is none.
        ValueError: nothing to plot, `max_display` is not positive, or no such output.
    """
    selection.one(explanation)
    k, why = shown.output_of_all(explanation, output)
    phi = explanation.phi[..., k].double()
    chosen = selection.largest(phi.abs().nanmean(0), max_display)
    names = selection.names(explanation, chosen, selection.hidden(phi, chosen))
    order = explanation.prediction[:, k].argsort(stable=True)
    values = selection.with_rest(phi, chosen)[order].T.numpy()
    axes = canvas.panel(ax, 8 + max(len(names), 4), grid="")
    scale = canvas.colour_scale(values)
    axes.imshow(values, aspect="auto", interpolation="nearest", **scale.look)
    scale.bar(axes, selection.axis(explanation, k, "", "\n"))
    canvas.name_lines(axes, names)
    if len(order) <= _NAMED:
        rows = [as_text(explanation.instances[row]) for row in order.tolist()]
        canvas.name_columns(axes, [shown.shorten(name, 14) for name in rows])
    axes.set_xlabel("rows in order of their prediction" if len(order) > 1 else "row")
    above = axes.inset_axes((0, 1 + _GAP, 1, _CURVE), sharex=axes)
    above.tick_params(labelbottom=False, bottom=False)
    above.spines[:].set_visible(False)
    marker = "" if len(order) > 1 else "o"
    prediction, ink = explanation.prediction[order, k].double().numpy(), rcParams["text.color"]
    above.step(range(len(order)), prediction, where="mid", color=ink, linewidth=1, marker=marker)
    base = float(explanation.base[:, k].double().mean())
    above.axhline(base, color=canvas.NEUTRAL, linewidth=0.8, linestyle="--")
    above.set_ylabel("prediction", rotation=0, ha="right", va="center")
    above.locator_params(axis="y", nbins=2)
    canvas.headline(
        ax or axes.figure, {"": explanation}, [selection.title(explanation, k), why], show
    )
    return axes


def interaction_map(
    interactions: Interactions,
    row: int | None = None,
    output: str | int | None = None,
    max_display: int = 12,
    ax: Axes | None = None,
    *,
    label: Any = None,
    show: bool = False,
) -> Axes:
    """Draws the interactions of all pairs of players as a map, with first-order terms on its edge.

    Red pairs raise the output by more together than alone, blue ones by less. The colours are
    scaled to pairs: first-order terms, on the diagonal, may lie beyond their ends, which are then
    pointed. Where players are few, numbers stand in their cells, in brackets if they are within two
    standard errors of zero: of one row those of its estimation, over rows those of the mean. Where
    there are no numbers, a cross marks these.

        >>> import torch
        >>> import manifold_shap as ms
        >>> product = lambda x, mask: torch.where(mask, x[:, None], 0.0).prod(-1, keepdim=True)
        >>> found = ms.shapley_interactions(product, torch.tensor([[2.0, 3.0]]), index="k-SII")
        >>> axes = ms.plots.interaction_map(found)
        >>> [text.get_text() for text in axes.texts]
        ['0.00', '+6.00', '0.00']

    Args:
        interactions: of any rows.
        row: position of a row; by default the mean over rows.
        output: name or position of the output; by default as of `waterfall` for one row, and of
            `beeswarm` for the mean.
        max_display: players to show, those of the largest terms.
        ax: axes to draw in; by default a new figure.
        label: of a row, instead of its position.
        show: whether to call `plt.show()`.

    Raises:
        ValueError: `max_display` is not positive, or there is no such row or output.
    """
    shapley = selection.one(interactions.shapley)
    if row is None and label is None and len(shapley) > 1:
        k, why = shown.output_of_all(shapley, output)
        rows = interactions.values[..., k].double()
        there = rows.isfinite().sum(0)
        values = rows.nanmean(0)
        errors = ((rows - values).square().nansum(0) / (there - 1)).sqrt() / there.sqrt()
        whose = f"mean of {shown.count(len(shapley), 'row')}"
    else:
        row = selection.row_of(shapley, row, label)
        k = int(shown.outputs_of_rows(shapley, output)[row])
        _, _, why = selection.title_of_row(shapley, row, k, output)
        values = interactions.values[row, ..., k].double()
        errors = interactions.standard_error[row, ..., k].double()
        whose = selection.row_name(shapley, row)
    size = values.abs().nansum(1).where(values.diagonal().isfinite(), torch.nan)
    chosen = selection.largest(size, max_display)
    count = int(size.isfinite().sum())
    part = f"{len(chosen)} of {count} players" if count > len(chosen) else ""
    names = selection.names(shapley, chosen, 0, 24)
    uncertain = ((values.abs() < 2 * errors) & (errors > 0))[chosen][:, chosen].numpy()
    cells, lower = values[chosen][:, chosen].numpy(), np.tri(len(chosen), dtype=bool)
    axes = canvas.panel(ax, 8 + 1.6 * max(len(names), 4), grid="")
    pairs = cells[np.tri(len(chosen), k=-1, dtype=bool)]
    # Where all pairs are rounding errors, the scale is that of all terms.
    small = np.abs(pairs).max(initial=0.0) <= _ROUNDING * np.abs(cells).max()
    scale = canvas.colour_scale(cells if small else pairs)
    beyond = bool((np.abs(cells) > scale.limit).any())
    scale = canvas.ColourScale(scale.limit, "both" if beyond else "neither")
    look = {**scale.look, "cmap": canvas.DIVERGING.with_extremes(bad="none")}
    axes.imshow(np.ma.masked_where(~lower, cells), aspect="auto", **look)
    scale.bar(axes, f"Interaction\n({shown.quantity(shapley, k)})")
    numbered = len(names) <= _NUMBERED
    numbers = shown.signed(cells[lower].tolist())
    for (line, column), number in zip(np.argwhere(lower), numbers, strict=True):
        unsure = uncertain[line, column]
        text = (f"({number})" if unsure else number) if numbered else "×" if unsure else ""
        ink = "white" if abs(cells[line, column]) > _STRONG * scale.limit else "black"
        if text:
            axes.text(column, line, text, color=ink, ha="center", va="center", fontsize="small")
    canvas.name_lines(axes, names)
    canvas.name_columns(axes, [shown.shorten(name, 16) for name in names])
    axes.spines[:].set_visible(False)
    mark = f"{'( )' if numbered else '×'}: within two standard errors of 0"
    what = selection.capital(shown.quantity(shapley, k))
    title = [f"Interactions ({interactions.index}): {what}, {whose}", why, part]
    unsure = [mark] if (uncertain & lower).any() else []
    canvas.headline(ax or axes.figure, {"": shapley}, [*title, *unsure], show)
    return axes
