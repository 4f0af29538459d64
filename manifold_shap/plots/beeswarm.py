"""Draws the Shapley values of many rows, feature by feature, as points in swarms."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable

from manifold_shap.explanation import Explanation
from manifold_shap.plots import canvas, ranks, selection, style
from manifold_shap.plots.canvas import Panels
from manifold_shap.plots.titles import headline

# Letters.
_LABEL = 30
# Inches: the width of one of several panels.
_PANEL = 1.7
_BINS = 100


def beeswarm(
    explanations: Explanation | Mapping[str, Explanation],
    output: str | int | None = None,
    most: int = 12,
    ax: Axes | None = None,
) -> Axes | Panels:
    """Draws how each feature moves the output over all rows, the most important feature first.

    One point per row, spread upwards and downwards by how many others are near. Features are
    ordered by mean |phi|. Colour is the feature's value by rank among the rows, from low to high;
    text with two values is coloured by them. What has no order is grey: text with more values,
    groups of columns, and missing cells.

    Several explanations stand side by side, with the features in the order of the first.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> [tick.get_text() for tick in ms.plots.beeswarm(explanation).get_yticklabels()]
        ['x0', 'x1']

    Args:
        explanations: one, or several of the same rows by name.
        output: name or position of the output; by default the only one, the second of two
            probabilities (the positive class), or else the class that is predicted for the most
            rows; among outputs that are no probabilities, the one with the largest mean |phi|.
        most: features to show; the others are summed, row by row.
        ax: axes to draw in; by default a new figure. Several panels take their place.

    Returns:
        The axes; of several explanations, a list of them.

    Raises:
        TypeError: `explanations` are something else.
        ValueError: nothing to plot, the explanations differ in rows, players or outputs, `most` is
            not positive, or no such output.
    """
    by_name = selection.named(explanations)
    first, *_ = by_name.values()
    k, why = selection.output_of_all(first, output)
    phi = first.phi[..., k]
    shown = selection.largest(phi.abs().nanmean(0), most)
    columns = selection.features(first, shown)
    labels, places = _lines([first.players.names[player] for player in shown.tolist()], columns)
    hints = [why, *_hints(places)]
    if others := selection.hidden(phi, shown):
        labels.append(style.count(others, "other feature"))
        places = np.column_stack((places, np.full(len(phi), np.nan)))
    alone = len(by_name) == 1
    drawn = _panels(list(by_name), labels, ax)
    panels = [drawn] if isinstance(drawn, Axes) else drawn
    for axes, explanation in zip(panels, by_name.values(), strict=True):
        lines = selection.with_rest(explanation.phi[..., k], shown)
        _draw(axes, lines.double().numpy(), places)
    label = selection.shapley_axis(first, kinds=selection.kinds(first) if alone else ())
    for axes in panels:
        style.scale(axes.xaxis, label if alone else "", ticks=5 if alone else 4)
    if not isinstance(drawn, Axes):
        drawn.figure.supxlabel(label, fontsize=style.TEXT)
    if np.isfinite(places).any():
        bar = canvas.colour_bar(panels, ScalarMappable(cmap=style.SEQUENTIAL), "feature value")
        bar.set_ticks([0, 1], labels=["low", "high"])
    title = selection.title(first, k)
    place = drawn if isinstance(drawn, Axes) else drawn.figure
    headline(place, by_name, title, "; ".join(filter(None, hints)))
    return drawn


def _lines(
    names: Sequence[str], columns: Sequence[pd.DataFrame]
) -> tuple[list[str], Float[np.ndarray, "rows lines"]]:
    """Labels, and each row's place between low (0) and high (1); NaN where there is no order."""
    labels, places = [], []
    for name, own in zip(names, columns, strict=True):
        ends = ""
        if own.shape[1] == 1:
            values = ranks.ordered(own.iloc[:, 0])
            places.append(ranks.rank(values.numbers))
            if values.ends and len(own) > 1:
                ends = style.shorten(f": {values.ends[0]} … {values.ends[1]}", _LABEL // 2)
        else:
            places.append(np.full(len(own), np.nan))
        labels.append(style.shorten(name, _LABEL - len(ends)) + ends)
    return labels, np.stack(places, 1)


def _hints(places: Float[np.ndarray, "rows lines"]) -> list[str]:
    """Why a figure may say little, and what some of its colours are."""
    hints = ["too few rows for a summary"] if len(places) < 20 else []
    ordered = np.isfinite(places).any(0)
    if ordered.any() and not np.isfinite(places).all():
        hints.append("grey: missing, or without order")
    return hints


def _panels(names: Sequence[str], labels: Sequence[str], ax: Axes | None) -> Axes | Panels:
    """Axes for each explanation, of the same scales; several have their names as titles."""
    height = 0.85 + 0.27 * max(len(labels), 5)
    if len(names) == 1:
        axes = canvas.one_panel(ax, height, grid="y")
        style.write_lines(axes, labels)
        return axes
    columns = min(len(names), 4)
    rows = -(-len(names) // columns)
    beside = 0.06 * max(map(len, labels)) + 0.6
    panels = canvas.panels(
        canvas.container(ax, height * rows, _PANEL * columns + beside), len(names), columns
    )
    for axes, name in zip(panels, names, strict=True):
        style.strip(axes, grid="y")
        axes.set_title(style.plain(style.shorten(name, 24)), loc="left", fontsize=style.TEXT)
    # The last panel of each column, be there an empty place below.
    for axes in panels[-columns:]:
        axes.tick_params(labelbottom=True)
    style.write_lines(panels[0], labels)
    return panels


def _draw(
    axes: Axes, phi: Float[np.ndarray, "rows lines"], colours: Float[np.ndarray, "rows lines"]
) -> None:
    """Points of all rows; those of players that a row lacks have no place and are left out."""
    axes.axvline(0, color=style.NEUTRAL, linewidth=0.8, zorder=1)
    axes.scatter(
        phi.T.ravel(),
        np.concatenate([line + offsets for line, offsets in enumerate(jitter(phi))]),
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


def jitter(phi: Float[np.ndarray, "rows lines"]) -> Iterator[Float[np.ndarray, " rows"]]:
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
