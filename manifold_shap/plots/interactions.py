"""Draws interactions of pairs of players: a map of all pairs, and a network of the largest."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from manifold_shap._checks import check_whole
from manifold_shap.interactions import Interactions
from manifold_shap.plots import canvas, colours, selection, style
from manifold_shap.plots.titles import headline

# Points: the most room for names beside and below the map, and what its colour bar takes.
_LABEL, _BELOW, _BAR = 110.0, 70.0, 60.0
# Points: widths of lines, and areas of discs.
_THICKEST = 7.0
_SMALLEST, _LARGEST = 12.0, 260.0
# Around the circle of players, of radius 1, is their names' room.
_RADIUS = 1.13
# What is smaller, relative to all terms, counts as rounding error; thinner lines are not seen.
_ROUNDING, _SEEN = 1e-5, 0.02
_UNCERTAIN = "within two standard errors of 0"


class _Drawn(NamedTuple):
    """What both plots draw, of players in order of their size.

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
        TypeError: `interactions` are none, or `ax` is no axes.
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
    figure: Any = ax.figure
    bar = figure.colorbar(image, ax=ax, aspect=25, pad=0.02, extend="both" if beyond else "neither")
    style.scale(bar.ax.yaxis, f"Interaction ({drawn.unit})", ticks=5)
    bar.ax.tick_params(labelsize=style.TEXT, labelcolor=style.INK, length=0)
    bar.outline.set_visible(False)
    names = [style.shorten(name, _LABEL) for name in drawn.names]
    left = max(map(style.text_width, names)) + _BAR if canvas.is_own(ax) else 0.0
    room = canvas.width_of(ax) - left
    mark = _write_cells(ax, drawn, lower, room / count)
    style.write_lines(ax, names)
    below = [style.shorten(name, _BELOW) for name in drawn.names]
    settings, _ = style.below_axis(below, room)
    ax.set_xticks(range(count), [style.plain(name) for name in below], **settings)
    ax.tick_params(axis="x", length=0)
    ax.spines["bottom"].set_visible(False)
    marked = [f"{mark}: {_UNCERTAIN}"] if (drawn.uncertain & lower).any() else []
    headline(ax, {"": interactions.shapley}, *drawn.title, *marked)
    return canvas.finished(ax)


def _write_cells(
    ax: Axes, drawn: _Drawn, lower: Bool[np.ndarray, "shown shown"], room: float
) -> str:
    """Numbers, where cells have so many points that they fit; returns how uncertain ones look."""
    uncertain = drawn.uncertain[lower]
    numbers = style.signed(drawn.values[lower].tolist())
    numbers = [f"({n})" if open_ else n for n, open_ in zip(numbers, uncertain, strict=True)]
    fits = max(map(style.text_width, numbers)) <= room - 2 * style.MARGIN
    said = numbers if fits else np.where(uncertain, "×", "").tolist()
    for (line, column), text in zip(np.argwhere(lower), said, strict=True):
        colour = style.DIVERGING(0.5 + 0.5 * drawn.values[line, column] / drawn.limit)
        ink = colours.letters_upon(colour) if fits or colours.is_dark(colour) else style.NEUTRAL
        look: dict[str, Any] = {"color": ink, "fontsize": style.TEXT if fits else style.SMALL}
        if text:
            ax.text(column, line, text, ha="center", va="center", **look)
    return "( )" if fits else "×"


def interaction_network(
    interactions: Interactions,
    row: int | None = None,
    output: str | int | None = None,
    most: int = 12,
    pairs: int = 30,
    ax: Axes | None = None,
) -> Axes:
    """Draws players as discs on a circle, and between them lines for their interactions.

    The area of a disc is its first-order term, the width of a line its interaction, both relative
    to the largest; red raises the output and blue lowers it. Lines of pairs that are within two
    standard errors of zero, or below a fiftieth of the largest, are left out.

        >>> import torch
        >>> import manifold_shap as ms
        >>> product = lambda x, mask: torch.where(mask, x[:, None], 0.0).prod(-1, keepdim=True)
        >>> found = ms.shapley_interactions(product, torch.tensor([[2.0, 3.0, 1.0]]))
        >>> len(ms.plots.interaction_network(found).lines)
        3

    Args:
        interactions: of any rows.
        row: position of a row; by default the mean over rows.
        output: name or position of the output, as of `interaction_map`.
        most: players to show, those of the largest terms.
        pairs: lines to draw, those of the largest interactions.
        ax: axes to draw in; by default a new figure.

    Raises:
        TypeError: `interactions` are none, or `ax` is no axes.
        ValueError: `most` or `pairs` is not positive, or `row` or `output` name something that is
            not there.
    """
    drawn = _chosen(interactions, row, output, most)
    check_whole("pairs", pairs)
    count = len(drawn.names)
    ax = canvas.one_panel(ax, 3.9, grid="y")
    ax.set_axis_off()
    angle = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    place = np.stack((np.cos(angle), np.sin(angle)), 1)
    first, second = np.triu_indices(count, 1)
    size = np.abs(drawn.values[first, second])
    size = np.where(drawn.uncertain[first, second], 0.0, size)
    shown = [pair for pair in size.argsort()[::-1][:pairs] if size[pair] > _SEEN * drawn.limit]
    # The largest are drawn last, over the others.
    for pair in reversed(shown):
        ends = place[[first[pair], second[pair]]]
        width = _THICKEST * float(size[pair]) / drawn.limit
        colour = _colour(drawn.values[first[pair], second[pair]])
        look: dict[str, Any] = {"color": colour, "alpha": 0.75, "solid_capstyle": "butt"}
        ax.plot(*ends.T, linewidth=width, **look)
    _draw_players(ax, drawn, place)
    _write_legend(ax, drawn, [float(size[pair]) for pair in shown])
    some = [f"{style.count(len(shown), 'pair')} of {len(size)} drawn"]
    headline(ax, {"": interactions.shapley}, *drawn.title, *some * (len(shown) < len(size)))
    return canvas.finished(ax)


def _draw_players(ax: Axes, drawn: _Drawn, place: Float[np.ndarray, "shown xy"]) -> None:
    """Discs, and names outside of the circle."""
    own = drawn.values.diagonal()
    area = _SMALLEST + (_LARGEST - _SMALLEST) * np.abs(own) / (np.abs(own).max() or 1.0)
    fills = [_colour(value) for value in own]
    look: dict[str, Any] = {"edgecolors": style.GROUND, "linewidths": 1.0, "zorder": 3}
    ax.scatter(place[:, 0], place[:, 1], s=area, c=fills, **look)
    # Half of the width, in points, and then in radii of the circle: names are inside.
    half, wide = canvas.width_of(ax) / 2 - style.MARGIN, 1.25
    for name, (x, y) in zip(drawn.names, place * _RADIUS, strict=True):
        side = "center" if abs(x) < 0.2 else "left" if x > 0 else "right"
        height = "center" if abs(y) < 0.95 else "bottom" if y > 0 else "top"
        short = style.shorten(name, 0.8 * _LABEL)
        ax.text(x, y, style.plain(short), ha=side, va=height, **style.FONT)
        if side != "center":
            wide = max(wide, half * abs(x) / max(half - style.text_width(short), 0.2 * half))
    ax.set_aspect("equal", anchor="N")
    ax.set_xlim(-wide, wide)
    ax.set_ylim(-1.25, 1.35)


def _write_legend(ax: Axes, drawn: _Drawn, sizes: Sequence[float]) -> None:
    """What colours mean and the sizes of lines and discs, with the unit."""
    widest = [f"widest line {style.number(max(sizes))}"] if sizes else []
    largest = f"largest disc {style.number(float(np.abs(drawn.values.diagonal()).max()))}"
    look: dict[str, Any] = {"linewidth": 3.0, "alpha": 0.75}
    handles = [Line2D([], [], color=colour, **look) for colour in (style.RAISES, style.LOWERS)]
    title = f"{', '.join([*widest, largest])} ({drawn.unit})"
    canvas.legend_above(ax, handles, ["raises the output", "lowers it"], title=style.plain(title))


def _colour(value: float) -> str:
    return style.RAISES if value > 0 else style.LOWERS if value < 0 else style.NEUTRAL


def _chosen(
    interactions: Interactions, row: int | None, output: str | int | None, most: int
) -> _Drawn:
    """Of a row or of the mean over rows, the players of the largest terms."""
    if not isinstance(interactions, Interactions):
        raise TypeError(
            f"Expected interactions but got {selection.article(type(interactions).__name__)}; "
            "`ms.shapley_interactions(value, x)` returns some."
        )
    shapley = selection.one(interactions.shapley)
    if row is None and len(shapley.phi) > 1:
        k, why = selection.output_of_all(shapley, output)
        each = interactions.values[..., k].double()
        there = each.isfinite().sum(0)
        values = each.nanmean(0)
        errors = ((each - values).square().nansum(0) / (there - 1)).sqrt() / there.sqrt()
        whose = f"{selection.capital(selection.quantity(shapley, k))}, "
        whose += f"mean of {style.count(len(shapley.phi), 'row')}"
    else:
        row = selection.row_index(shapley, row or 0, "row")
        k = int(selection.outputs_of_rows(shapley, output)[row])
        why = selection.why_of_row(shapley, output)
        values = interactions.values[row, ..., k].double()
        errors = interactions.standard_error[row, ..., k].double()
        whose = f"{selection.capital(selection.quantity(shapley, k))}, "
        whose += selection.row_name(shapley, row)
    size = values.abs().nansum(1).where(values.diagonal().isfinite(), torch.nan)
    shown = selection.largest(size, most)
    left = int(size.isfinite().sum()) - len(shown)
    told = [f"{len(shown)} of {style.count(left + len(shown), 'player')}"] if left else []
    uncertain = (values.abs() < 2 * errors) & (errors > 0)
    return _Drawn(
        [shapley.players.names[player] for player in shown.tolist()],
        values[shown][:, shown].numpy(),
        uncertain[shown][:, shown].numpy(),
        [f"Interactions ({interactions.index}): {whose}", why, *told],
        shapley.unit,
    )
