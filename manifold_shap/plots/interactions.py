"""Draws the interactions of all pairs of players as a map."""

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes

from manifold_shap.interactions import Interactions
from manifold_shap.plots import canvas, selection, style
from manifold_shap.plots.titles import headline

# Letters of names beside and below the map, and of what its colour bar takes.
_LABEL, _BELOW, _BAR = 24, 16, 12
# What is smaller, relative to all terms, counts as rounding error.
_ROUNDING = 1e-5
# Of the end of the colours: upon stronger ones, letters are white.
_STRONG = 0.65
_UNCERTAIN = "within two standard errors of 0"


class _Drawn(NamedTuple):
    """What is drawn, of players in order of their size.

    Attributes:
        names: of the players shown.
        values: first-order terms on the diagonal, interactions elsewhere.
        uncertain: which of them are within two standard errors of zero.
        title: lines over the plot.
        unit: of the values.
    """

    names: list[str]
    values: Float[np.ndarray, "shown shown"]
    uncertain: Bool[np.ndarray, "shown shown"]
    title: list[str]
    unit: str

    @property
    def limit(self) -> float:
        """The largest interaction; where all are rounding errors, the largest of all terms."""
        every = float(np.abs(self.values).max())
        pairs = float(np.abs(self.values - np.diag(self.values.diagonal())).max())
        return (pairs if pairs > _ROUNDING * every else every) or 1.0


def interaction_map(
    interactions: Interactions,
    row: int | None = None,
    output: str | int | None = None,
    most: int = 12,
    ax: Axes | None = None,
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
        most: players to show, those of the largest terms.
        ax: axes to draw in; by default a new figure.

    Raises:
        ValueError: `most` is not positive, or `row` or `output` name something that is not there.
    """
    drawn = _chosen(interactions, row, output, most)
    count = len(drawn.names)
    ax = canvas.one_panel(ax, 1.6 + 0.3 * max(count, 4), grid="y")
    ax.grid(visible=False)
    lower = np.tri(count, dtype=bool)
    beyond = bool((np.abs(drawn.values.diagonal()) > drawn.limit).any())
    look: dict[str, Any] = {"cmap": style.DIVERGING, "vmin": -drawn.limit, "vmax": drawn.limit}
    image = ax.imshow(np.where(lower, drawn.values, np.nan), aspect="auto", **look)
    ends = "both" if beyond else "neither"
    canvas.colour_bar(ax, image, f"Interaction ({drawn.unit})", extend=ends)
    names = [style.shorten(name, _LABEL) for name in drawn.names]
    left = max(map(len, names)) + _BAR if canvas.is_own(ax) else 0
    mark = _write_cells(ax, drawn, lower, (canvas.letters(ax) - left) / count)
    style.write_lines(ax, names)
    below = [style.plain(style.shorten(name, _BELOW)) for name in drawn.names]
    ax.set_xticks(range(count), below, **style.below_axis(below))
    ax.tick_params(axis="x", length=0)
    ax.spines["bottom"].set_visible(False)
    marked = [f"{mark}: {_UNCERTAIN}"] if (drawn.uncertain & lower).any() else []
    headline(ax, {"": interactions.shapley}, *drawn.title, *marked)
    return ax


def _write_cells(
    ax: Axes, drawn: _Drawn, lower: Bool[np.ndarray, "shown shown"], room: float
) -> str:
    """Numbers, where cells have room for so many letters; returns how uncertain ones look."""
    uncertain = drawn.uncertain[lower]
    numbers = style.signed(drawn.values[lower].tolist())
    numbers = [f"({n})" if open_ else n for n, open_ in zip(numbers, uncertain, strict=True)]
    fits = 1.3 * max(map(len, numbers)) < room  # Digits are wider than most letters.
    said = numbers if fits else np.where(uncertain, "×", "").tolist()
    for (line, column), text in zip(np.argwhere(lower), said, strict=True):
        strong = abs(drawn.values[line, column]) > _STRONG * drawn.limit
        ink = "white" if strong else "black" if fits else style.NEUTRAL
        look: dict[str, Any] = {"color": ink, "fontsize": style.TEXT if fits else style.SMALL}
        if text:
            ax.text(column, line, text, ha="center", va="center", **look)
    return "( )" if fits else "×"


def _chosen(
    interactions: Interactions, row: int | None, output: str | int | None, most: int
) -> _Drawn:
    """Of a row or of the mean over rows, the players of the largest terms."""
    shapley = selection.one(interactions.shapley)
    if row is None and len(shapley.phi) > 1:
        k, why = selection.output_of_all(shapley, output)
        each = interactions.values[..., k].double()
        there = each.isfinite().sum(0)
        values = each.nanmean(0)
        errors = ((each - values).square().nansum(0) / (there - 1)).sqrt() / there.sqrt()
        whose = f"mean of {style.count(len(shapley.phi), 'row')}"
    else:
        row = selection.row_index(shapley, row or 0, "row")
        k = int(selection.outputs_of_rows(shapley, output)[row])
        why = selection.why_of_row(shapley, output)
        values = interactions.values[row, ..., k].double()
        errors = interactions.standard_error[row, ..., k].double()
        whose = selection.row_name(shapley, row)
    what = selection.capital(selection.quantity(shapley, k))
    size = values.abs().nansum(1).where(values.diagonal().isfinite(), torch.nan)
    shown = selection.largest(size, most)
    left = int(size.isfinite().sum()) - len(shown)
    told = [f"{len(shown)} of {style.count(left + len(shown), 'player')}"] if left else []
    uncertain = (values.abs() < 2 * errors) & (errors > 0)
    return _Drawn(
        [shapley.players.names[player] for player in shown.tolist()],
        values[shown][:, shown].numpy(),
        uncertain[shown][:, shown].numpy(),
        [f"Interactions ({interactions.index}): {what}, {whose}", why, *told],
        shapley.unit,
    )
