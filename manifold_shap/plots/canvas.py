"""Makes the figures and axes that plots are drawn in, with their titles, notes and legends.

A plot is drawn in axes that the user gives, or else in a figure of its own. No such figure passes
through pyplot: nothing opens a window or has to be closed, and notebooks show what a cell returns.
"""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, FigureBase
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from manifold_shap.plots import style

# Points: the room below given axes that their ticks and label take.
_BELOW = 38.0
# Of a title, for which figures have the room.
_USUAL_LINES = 2


class _Figure(Figure):
    """A figure that a notebook shows although pyplot does not know it."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        picture = BytesIO()
        self.savefig(picture, format="png")
        width, height = self.get_size_inches()
        return picture.getvalue(), {"width": round(96 * width), "height": round(96 * height)}


class Shown:
    """Axes of such a figure, which a notebook shows with it."""

    figure: Any

    def _repr_png_(self) -> tuple[bytes, dict[str, int]] | None:
        figure = self.figure
        return figure._repr_png_() if isinstance(figure, _Figure) else None


class Plain(Shown, Axes):
    """Axes of two dimensions that show their figure."""


class Panels(list[Axes]):
    """The panels of a plot of several, by which a notebook shows them all."""

    @property
    def figure(self) -> Any:
        """What holds them: a figure, or in the place of given axes a part of one."""
        return self[0].figure

    def _repr_png_(self) -> tuple[bytes, dict[str, int]] | None:
        return self.figure._repr_png_() if isinstance(self.figure, _Figure) else None


def laid_out(height: float, width: float = style.WIDTH) -> Figure:
    """An empty figure of this size in inches, outside of pyplot, whose layout keeps text inside."""
    figure = _Figure(figsize=(width, height), dpi=style.DPI)
    figure.set_layout_engine("constrained", w_pad=style.MARGIN / 72, h_pad=style.MARGIN / 144)
    return figure


def one_panel(ax: Axes | None, height: float, grid: str, width: float = style.WIDTH) -> Axes:
    """The given axes, or else those of a new figure, with grid lines across one ("x" or "y")."""
    if ax is None:
        ax = laid_out(height, width).add_subplot(axes_class=Plain)
    style.strip(check_axes(ax), grid)
    return ax


def container(ax: Axes | None, height: float, width: float = style.WIDTH) -> FigureBase:
    """A new figure for several panels, or a part of a figure in the place of given axes.

    Raises:
        TypeError: `ax` is no axes.
        ValueError: `ax` is not one of a grid of axes.
    """
    if ax is None:
        return laid_out(height, width)
    place = check_axes(ax).get_subplotspec()
    if place is None:
        raise ValueError(
            "Expected `ax` made by `plt.subplots` or `figure.add_subplot`, whose place several "
            "panels can take, but got axes at a fixed place."
        )
    figure: Any = ax.figure
    ax.remove()
    return figure.add_subfigure(place)


def check_axes(ax: Any) -> Axes:
    """Axes of matplotlib; TypeError if `ax` is something else."""
    if not isinstance(ax, Axes):
        raise TypeError(
            "Expected `ax` to be axes of matplotlib, such as `plt.subplots()[1]`, but got "
            f"{type(ax).__name__}."
        )
    return ax


def is_own(ax: Axes) -> bool:
    """Whether these are axes of a figure made here, whose size and margins are free."""
    return isinstance(ax, Shown) and isinstance(ax.figure, _Figure)


def width_of(place: Axes | FigureBase) -> float:
    """In points, of a figure, of a part of one, or of given axes."""
    figure: Any = place.figure if isinstance(place, Axes) else place
    box = place.bbox if isinstance(place, Axes) and not is_own(place) else figure.bbox
    return 72 * box.width / figure.dpi


def settle(ax: Axes) -> None:
    """Settle the layout, by which some plots place what they write."""
    figure: Any = ax.get_figure()
    figure.draw_without_rendering()


def panels(figure: FigureBase, count: int, columns: int) -> Panels:
    """So many axes that share their scales, in lines of `columns`."""
    shape: Any = {"sharex": True, "sharey": True, "squeeze": False}
    grid = figure.subplots(-(-count // columns), columns, subplot_kw={"axes_class": Plain}, **shape)
    for axes in grid.flat[count:]:
        axes.remove()
    return Panels(grid.flat[:count].tolist())


def write_above(place: Axes | FigureBase, lines: Sequence[str]) -> None:
    """A title flush left over a whole figure or over given axes."""
    text = "\n".join(map(style.plain, lines))
    look: dict[str, Any] = {"fontsize": style.TITLE, "color": style.INK}
    if isinstance(place, Axes) and not is_own(place):
        place.set_title(text, loc="left", **look)
        return
    figure: Any = place.figure if isinstance(place, Axes) else place
    if isinstance(figure, _Figure) and len(lines) > _USUAL_LINES:
        more = len(lines) - _USUAL_LINES
        figure.set_figheight(figure.get_figheight() + 1.25 * style.TITLE * more / 72)
    # Constrained layout leaves room for it.
    figure.suptitle(text, x=style.MARGIN / width_of(place), ha="left", **look)


def write_below(place: Axes | FigureBase, lines: Sequence[str]) -> None:
    """Small print below all that is drawn, which goes on in further lines."""
    figure: Any = place.figure if isinstance(place, Axes) else place
    given = isinstance(place, Axes) and not is_own(place)
    above = "" if given else figure.get_supxlabel()
    # A figure has one line of text at its foot, the label of its panels.
    size = style.TEXT if above else style.SMALL
    # At a low resolution, letters are a little wider.
    width = 0.96 * (width_of(place) - 2 * style.MARGIN)
    parts = [part for line in lines for part in style.wrapped(line, width, size)]
    text = "\n".join(map(style.plain, parts))
    look: dict[str, Any] = {"fontsize": size, "color": style.INK if above else style.SOFT}
    if isinstance(place, Axes) and given:
        below: Any = ("axes fraction", place.get_legend() or place.xaxis.label)
        look |= {"ha": "right", "va": "top", "annotation_clip": False}
        place.annotate(text, (1, 0), (0, -2), below, "offset points", **look)
        return
    if isinstance(figure, _Figure):
        room = 1.3 * size * len(parts) + style.MARGIN
        figure.set_figheight(figure.get_figheight() + room / 72)
    side = {} if above else {"x": style.MARGIN / width_of(place), "ha": "left"}
    # Constrained layout leaves room for it.
    figure.supxlabel(f"{above}\n{text}" if above else text, **side, **look)


def legend_above(
    axes: Axes, handles: Sequence[Any], labels: Sequence[str], handle: float = 42.0, **settings: Any
) -> None:
    """A legend over the axes, where it covers no data, from the left edge of the figure.

    It has as many columns as the figure is wide; each has a `handle` of so many points. Over given
    axes is their title, and the legend is below them.
    """
    width = width_of(axes)
    room = width - 2 * style.MARGIN
    labels = [style.shorten(label, room - handle) for label in labels]
    columns = max(1, int(room // (max(map(style.text_width, labels)) + handle)))
    figure: Any = axes.figure
    place: dict[str, Any] = {
        "loc": "lower left",
        "bbox_to_anchor": (style.MARGIN / width, 1),
        "bbox_transform": blended_transform_factory(figure.transFigure, axes.transAxes),
    }
    if not is_own(axes):
        below = ScaledTranslation(0, -_BELOW / 72, figure.dpi_scale_trans)
        place = {"loc": "upper left", "bbox_to_anchor": (0, 0)}
        place["bbox_transform"] = axes.transAxes + below
    axes.legend(
        handles,
        # Before matplotlib 3.10, labels that start with "_" are dropped.
        [style.plain(f" {label}" if label.startswith("_") else label) for label in labels],
        ncols=min(columns, len(labels)),
        **place,
        borderaxespad=0,
        borderpad=0.3,
        alignment="left",
        frameon=False,
        fontsize=style.TEXT,
        title_fontsize=style.TEXT,
        **settings,
    )


def colour_bar(figure: Any, limit: float, beyond: bool, label: str, **place: Any) -> None:
    """A scale of values from -limit to limit, with pointed ends where some are beyond.

    Its `place` are the axes `cax`, or below others, `ax`.
    """
    # The largest of 1, 2, ... times a power of ten within the limit: three labels never collide.
    power = 10.0 ** np.floor(np.log10(limit))
    end = np.floor(limit / power) * power
    bar = figure.colorbar(
        ScalarMappable(Normalize(-limit, limit), style.DIVERGING),
        orientation="horizontal",
        extend="both" if beyond else "neither",
        ticks=[-end, 0, end],
        format=lambda value, _: style.number(value),
        **place,
    )
    bar.outline.set_visible(False)
    bar.set_label(style.plain(label), **style.FONT)
    bar.ax.tick_params(labelsize=style.TEXT, color=style.NEUTRAL, length=2)
