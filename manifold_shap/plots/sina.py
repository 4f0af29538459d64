"""Shapley values of many rows, feature by feature: a sina plot, or beeswarm."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from manifold_shap.explanation import Explanation
from manifold_shap.plots import selection, style, words

_LABEL = 150.0
_LINE = 0.27
_HALF_HEIGHT = 0.4
# Of several panels: how many stand in a row, and the width of one in inches.
_COLUMNS = 4
_PANEL = 1.7
_BINS = 100
# A neighbourhood of fewer points than this is not spread over the whole height of its line.
_CROWD = 10
_GOLDEN = (5**0.5 - 1) / 2


def sina(
    explanations: Explanation | Mapping[str, Explanation],
    output: str | None = None,
    most: int = 12,
) -> Figure:
    """How each feature moves the output over all rows, most important feature first.

    One point per row, spread upwards and downwards by how many others are near. Features are
    ordered by mean |phi|. Colour is the feature's value by rank among the rows, from low to high;
    text with two values is coloured by them, and with more, having no order, is grey.

    Several explanations stand side by side, with the features in the order of the first.

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
    first = next(iter(by_name.values()))
    k = _output(first, output)
    shown = selection.largest(first.phi[..., k].abs().mean(0), most)
    names = [first.players.names[player] for player in shown.tolist()]
    labels, colours = _labels_and_colours(first, names)
    coloured = ~np.isnan(colours).any(0)
    if others := len(first.players) - len(shown):
        labels.append(words.count(others, "other feature"))
        colours = np.column_stack((colours, np.full(len(colours), np.nan)))

    figure, panels = _panels(list(by_name), labels)
    for axes, explanation in zip(panels, by_name.values(), strict=True):
        _draw(axes, _lines(explanation.phi[..., k], shown).double().numpy(), colours)
    quantity = words.quantity(first, k)
    title = f"{quantity[0].upper()}{quantity[1:]}, {words.count(len(first.phi), 'row')}"
    mixed = coloured.any() and not coloured.all()
    style.headline(figure, title, *(["grey: categories, which have no order"] if mixed else []))
    alone = words.kinds(first) if len(panels) == 1 else ()
    _label_values(figure, panels, words.shapley_axis(first, k, kinds=alone))
    if coloured.any():
        _draw_colour_bar(figure, panels)
    return figure


def _lines(
    phi: Float[Tensor, "rows players"], shown: Int64[Tensor, " shown"]
) -> Float[Tensor, "rows lines"]:
    """Players with a line of their own and, if there are others, their sum."""
    lines = phi[:, shown]
    if len(shown) == phi.shape[1]:
        return lines
    return torch.cat((lines, phi.sum(1, keepdim=True) - lines.sum(1, keepdim=True)), 1)


def _panels(names: Sequence[str], labels: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """Axes for each explanation, of the same scales; several have their names as titles."""
    height = 0.85 + _LINE * max(len(labels), 4)
    if len(names) == 1:
        figure, axes = style.one_panel(height, grid="y")
        panels = [axes]
    else:
        columns = min(len(names), _COLUMNS)
        rows = -(-len(names) // columns)
        beside = (max(map(style.text_width, labels)) + style.HANDLE) / 72
        figure = style.laid_out(height * rows, _PANEL * columns + beside)
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flatten()
        for axes in grid[len(names) :]:
            axes.remove()
        panels = grid[: len(names)].tolist()
        for axes, name in zip(panels, names, strict=True):
            style.strip(axes, grid="y")
            title = style.plain(style.shorten(name, 72 * _PANEL - 2 * style.MARGIN))
            axes.set_title(title, loc="left", fontsize=style.TEXT, color=style.INK)
        # The last panel of each column, be there an empty place below.
        for axes in panels[-columns:]:
            axes.tick_params(labelbottom=True)
    for axes in panels:
        axes.set_yticks(range(len(labels)), labels)
        axes.set_ylim(len(labels) - 0.5, -0.5)
    return figure, panels


def _label_values(figure: Figure, panels: Sequence[Axes], label: str) -> None:
    ticks = 6 if len(panels) == 1 else 4
    for axes in panels:
        axes.xaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))
    if len(panels) == 1:
        panels[0].set_xlabel(label, fontsize=style.TEXT, color=style.INK)
    else:
        figure.supxlabel(label, fontsize=style.TEXT, color=style.INK)


def _output(explanation: Explanation, output: str | None) -> int:
    if output is not None:
        return selection.output_index(explanation, output)
    if explanation.space.on_simplex and len(explanation.outputs) == 2:
        return 1
    return int(explanation.phi.abs().mean((0, 1)).argmax())


def _labels_and_colours(
    explanation: Explanation, names: list[str]
) -> tuple[list[str], Float[np.ndarray, "rows shown"]]:
    """What stands beside each line, and each point's place between low (0) and high (1)."""
    features = explanation.features()
    colours = np.full((len(explanation.phi), len(names)), np.nan)
    labels = []
    for line, name in enumerate(names):
        ends = ""
        if features is not None and name in features:
            colours[:, line], ends = _place_by_rank(features[name])
        ends = style.shorten(ends, 0.6 * _LABEL)
        short = style.shorten(name, _LABEL - style.text_width(ends))
        labels.append(style.plain(short + ends))
    return labels, colours


def _place_by_rank(column: pd.Series) -> tuple[Float[np.ndarray, " rows"], str]:
    text = not pd.api.types.is_numeric_dtype(column)
    found = sorted(column.unique()) if text else []
    # One row alone has no rank.
    if len(found) > 2 or len(column) == 1:
        return np.full(len(column), np.nan), ""
    rank = column.rank(method="average").to_numpy(dtype=float)
    span = rank.max() - rank.min()
    place = (rank - rank.min()) / span if span > 0 else np.full(len(rank), 0.5)
    return place, f": {found[0]} … {found[1]}" if len(found) == 2 else ""


def _draw(
    axes: Axes, phi: Float[np.ndarray, "rows lines"], colours: Float[np.ndarray, "rows lines"]
) -> None:
    axes.axvline(0, color=style.NEUTRAL, linewidth=0.8, zorder=1)
    heights = np.arange(phi.shape[1]) + _jitter(phi)
    size = float(np.clip(14 - 3.5 * np.log10(len(phi)), 2, 10))
    axes.scatter(
        phi.T.ravel(),
        heights.T.ravel(),
        c=colours.T.ravel(),
        s=size,
        cmap=style.SEQUENTIAL.with_extremes(bad=style.NEUTRAL),
        vmin=0,
        vmax=1,
        linewidths=0,
        plotnonfinite=True,
        # A vector file of many thousand points is slow to open.
        rasterized=phi.size > 5000,
    )


def _jitter(phi: Float[np.ndarray, "rows lines"]) -> Float[np.ndarray, "rows lines"]:
    """Offsets within ±0.4, wider where a line has more points; the same for the same values."""
    low, high = phi.min(), phi.max()
    bins = ((phi - low) / max(high - low, 1e-300) * (_BINS - 1)).round().astype(int)
    lines = phi.shape[1]
    where = (bins + _BINS * np.arange(lines)).ravel()
    counts = np.bincount(where, minlength=_BINS * lines).reshape(lines, _BINS)
    apart = np.arange(_BINS)[:, None] - np.arange(_BINS)
    density = counts @ np.exp(-0.5 * (apart / 1.5) ** 2)
    density = np.take_along_axis(density.T, bins, axis=0)
    share = density / np.maximum(density.max(0), _CROWD)
    # Multiples of the golden ratio in order of value: neighbours land far apart, and evenly.
    rank = phi.argsort(0, kind="stable").argsort(0, kind="stable")
    return _HALF_HEIGHT * share * (2 * ((0.5 + _GOLDEN * rank) % 1) - 1)


def _draw_colour_bar(figure: Figure, panels: Sequence[Axes]) -> None:
    bar = figure.colorbar(
        ScalarMappable(cmap=style.SEQUENTIAL), ax=panels, ticks=[0, 1], aspect=35, pad=0.02
    )
    bar.ax.set_yticklabels(["low", "high"])
    bar.ax.tick_params(labelsize=style.TEXT, labelcolor=style.INK, length=0)
    bar.set_label("feature value", fontsize=style.TEXT, color=style.INK, labelpad=-8)
    bar.outline.set_visible(False)
