"""Draws the Shapley values of many rows, feature by feature: a sina plot, or beeswarm."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from manifold_shap.explanation import Explanation
from manifold_shap.plots import selection, style

# Points.
_LABEL = 150.0
# Inches: the width of one of several panels.
_PANEL = 1.7
_BINS = 100


def sina(
    explanations: Explanation | Mapping[str, Explanation],
    output: str | None = None,
    most: int = 12,
) -> Figure:
    """Draws how each feature moves the output over all rows, the most important feature first.

    One point per row, spread upwards and downwards by how many others are near. Features are
    ordered by mean |phi|. Colour is the feature's value by rank among the rows, from low to high;
    text with two values is coloured by them. What has no order is grey: text with more values, and
    players of several features.

    Several explanations stand side by side, with the features in the order of the first.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> [tick.get_text() for tick in ms.plots.sina(explanation).axes[0].get_yticklabels()]
        ['x0', 'x1']

    Args:
        explanations: one, or several of the same rows by name.
        output: name of the output; by default the only one, the second of two probabilities (the
            positive class), or else the one with the largest mean |phi|, of the first.
        most: features to show; the others are summed, row by row.

    Raises:
        ValueError: nothing to plot, the explanations differ in rows, players or outputs, `most` is
            not positive, or no output of this name.
    """
    by_name = selection.named(explanations)
    first, *_ = by_name.values()
    k = _output(first, output)
    phi = first.phi[..., k]
    shown = selection.largest(phi.abs().nanmean(0), most)
    labels, places = [], []
    for player, columns in zip(shown.tolist(), selection.features(first, shown), strict=True):
        place, ends = _rank(columns)
        ends = style.shorten(ends, 0.6 * _LABEL)
        name = style.shorten(first.players.names[player], _LABEL - style.text_width(ends))
        labels.append(name + ends)
        places.append(place)
    ordered = [bool(np.isfinite(place).any()) for place in places]
    if others := selection.hidden(phi, shown):
        labels.append(style.count(others, "other feature"))
        places.append(np.full(len(phi), np.nan))

    figure, panels = _panels(list(by_name), labels)
    for axes, explanation in zip(panels, by_name.values(), strict=True):
        lines = selection.with_rest(explanation.phi[..., k], shown)
        _draw(axes, lines.double().numpy(), np.stack(places, 1))
    quantity = selection.quantity(first, k)
    title = f"{quantity[0].upper()}{quantity[1:]}, {style.count(len(phi), 'row')}"
    hints = "; ".join(_hints(first, output, any(ordered) and not all(ordered)))
    style.headline(figure, title, *filter(None, [hints]), *selection.cautions(by_name))
    alone = len(panels) == 1
    label = selection.shapley_axis(first, kinds=selection.kinds(first) if alone else ())
    for axes in panels:
        style.scale(axes.xaxis, label if alone else "", ticks=6 if alone else 4)
    if not alone:
        figure.supxlabel(label, **style.WORDS)
    if any(ordered):
        _draw_colour_bar(figure, panels)
    return figure


def _output(explanation: Explanation, output: str | None) -> int:
    if output is not None:
        return selection.output_index(explanation, output)
    if explanation.space.on_simplex and len(explanation.outputs) == 2:
        return 1
    return int(explanation.phi.abs().nanmean((0, 1)).argmax())


def _hints(explanation: Explanation, output: str | None, grey: bool) -> Iterator[str]:
    """What the figure leaves out: other outputs, all but a few rows, and some colours."""
    outputs = len(explanation.outputs)
    if output is None and outputs > 2:
        yield f"1 of {outputs} outputs, the most moved"
    if len(explanation.phi) < 20:
        yield "too few rows for a summary"
    if grey:
        yield "grey: values without order"


def _rank(columns: pd.DataFrame) -> tuple[Float[np.ndarray, " rows"], str]:
    """Each row's place between low (0) and high (1), and the names of both ends if it is text.

    NaN where there is no order: of several columns, of text with more than two values, of one row.
    """
    unordered = np.full(len(columns), np.nan), ""
    if columns.shape[1] != 1 or len(columns) == 1:
        return unordered
    column = columns.iloc[:, 0]
    text = [] if pd.api.types.is_numeric_dtype(column) else sorted(column.unique())
    if len(text) > 2:
        return unordered
    rank = column.rank(method="average").to_numpy(dtype=float)
    low, span = np.nanmin(rank, initial=np.inf), np.ptp(rank[np.isfinite(rank)])
    place = (rank - low) / span if span > 0 else np.where(np.isfinite(rank), 0.5, np.nan)
    return place, f": {text[0]} … {text[1]}" if len(text) == 2 else ""


def _panels(names: Sequence[str], labels: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """Axes for each explanation, of the same scales; several have their names as titles."""
    height = 0.85 + 0.27 * max(len(labels), 5)
    if len(names) == 1:
        figure, axes = style.one_panel(height, grid="y")
        style.write_lines(axes, labels)
        return figure, [axes]
    columns = min(len(names), 4)
    rows = -(-len(names) // columns)
    beside = max(map(style.text_width, labels)) / 72 + 0.6
    figure = style.laid_out(height * rows, _PANEL * columns + beside)
    panels = style.panels(figure, len(names), columns)
    for axes, name in zip(panels, names, strict=True):
        style.strip(axes, grid="y")
        title = style.plain(style.shorten(name, 72 * _PANEL - 2 * style.MARGIN))
        axes.set_title(title, loc="left", **style.WORDS)
    # The last panel of each column, be there an empty place below.
    for axes in panels[-columns:]:
        axes.tick_params(labelbottom=True)
    style.write_lines(panels[0], labels)
    return figure, panels


def _draw(
    axes: Axes, phi: Float[np.ndarray, "rows lines"], colours: Float[np.ndarray, "rows lines"]
) -> None:
    """Points of all rows; those of players that a row lacks have no place and are left out."""
    axes.axvline(0, color=style.NEUTRAL, linewidth=0.8, zorder=1)
    axes.scatter(
        phi.T.ravel(),
        np.concatenate([line + offsets for line, offsets in enumerate(_jitter(phi))]),
        c=colours.T.ravel(),
        s=float(np.clip(14 - 3.5 * np.log10(len(phi)), 2, 10)),
        cmap=style.SEQUENTIAL.with_extremes(bad=style.NEUTRAL),
        vmin=0,
        vmax=1,
        linewidths=0,
        plotnonfinite=True,
        # A vector file of many thousand points is slow to open.
        rasterized=phi.size > 5000,
    )


def _jitter(phi: Float[np.ndarray, "rows lines"]) -> Iterator[Float[np.ndarray, " rows"]]:
    """Offsets within ±0.4, wider where there are more points; the same for the same values."""
    low, high = np.nanmin(phi), np.nanmax(phi)
    apart = np.arange(_BINS)[:, None] - np.arange(_BINS)
    for values in phi.T:
        here = values[np.isfinite(values)]
        bins = ((here - low) / max(high - low, 1e-300) * (_BINS - 1)).round().astype(int)
        density = (np.bincount(bins, minlength=_BINS) @ np.exp(-0.5 * (apart / 1.5) ** 2))[bins]
        # A neighbourhood of fewer than ten points is not spread over the whole height of its line.
        share = density / density.max(initial=10)
        # Multiples of the golden ratio in order of value: neighbours land far apart, and evenly.
        rank = here.argsort(kind="stable").argsort(kind="stable")
        spread = 2 * ((0.5 + (5**0.5 - 1) / 2 * rank) % 1) - 1
        offsets = np.full(len(values), np.nan)
        offsets[np.isfinite(values)] = 0.4 * share * spread
        yield offsets


def _draw_colour_bar(figure: Figure, panels: Sequence[Axes]) -> None:
    bar = figure.colorbar(
        ScalarMappable(cmap=style.SEQUENTIAL), ax=panels, ticks=[0, 1], aspect=35, pad=0.02
    )
    bar.ax.set_yticklabels(["low", "high"])
    bar.ax.tick_params(labelsize=style.TEXT, labelcolor=style.INK, length=0)
    bar.set_label("feature value", **style.WORDS, labelpad=-8)
    bar.outline.set_visible(False)
