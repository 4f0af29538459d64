"""Makes the figures and axes that plots are drawn in, with their titles, notes and legends.

A plot is drawn in axes that the user gives, or else in a figure of its own. No such figure passes
through pyplot: nothing opens a window or has to be closed, and notebooks show what a cell returns.
"""

from collections.abc import Sequence
from io import BytesIO
from textwrap import wrap
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.container import BarContainer
from matplotlib.figure import Figure, FigureBase
from matplotlib.transforms import blended_transform_factory

from manifold_shap.plots import style

# Letters: in a legend, about the room of what stands before a label.
_HANDLE = 6
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
    """What a notebook shows by such a figure that it is of."""

    figure: Any

    def _repr_png_(self) -> tuple[bytes, dict[str, int]] | None:
        return self.figure._repr_png_() if isinstance(self.figure, _Figure) else None


class Plain(Shown, Axes):
    """Axes of two dimensions that show their figure."""


class Panels(Shown, list[Axes]):
    """The panels of a plot of several, by which a notebook shows them all."""

    @property
    def figure(self) -> Any:
        """What holds them: a figure, or in the place of given axes a part of one."""
        return self[0].figure


def laid_out(height: float, width: float = style.WIDTH) -> Figure:
    """An empty figure of this size in inches, outside of pyplot, whose layout keeps text inside."""
    figure = _Figure(figsize=(width, height), dpi=style.DPI)
    figure.set_layout_engine("constrained", w_pad=style.MARGIN / 72, h_pad=style.MARGIN / 144)
    return figure


def one_panel(ax: Axes | None, height: float, grid: str, width: float = style.WIDTH) -> Axes:
    """The given axes, or else those of a new figure, with grid lines across one ("x" or "y")."""
    if ax is None:
        ax = laid_out(height, width).add_subplot(axes_class=Plain)
    style.strip(ax, grid)
    return ax


def container(ax: Axes | None, height: float, width: float = style.WIDTH) -> FigureBase:
    """A new figure for several panels, or a part of a figure in the place of given axes.

    Raises:
        ValueError: `ax` is not one of a grid of axes.
    """
    if ax is None:
        return laid_out(height, width)
    place = ax.get_subplotspec()
    if place is None:
        raise ValueError(
            "Expected `ax` made by `plt.subplots` or `figure.add_subplot`, whose place several "
            "panels can take, but got axes at a fixed place."
        )
    figure: Any = ax.figure
    ax.remove()
    return figure.add_subfigure(place)


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


def letters(place: Axes | FigureBase | None, size: float = style.TEXT) -> int:
    """About how many letters fit on a line of it, or of a new figure."""
    width = 72 * style.WIDTH if place is None else width_of(place)
    return int((width - 2 * style.MARGIN) / (0.5 * size))


def write_above(place: Axes | FigureBase, lines: Sequence[str]) -> None:
    """A title flush left over a whole figure or over given axes."""
    text = "\n".join(map(style.plain, lines))
    if isinstance(place, Axes) and not is_own(place):
        place.set_title(text, loc="left", fontsize=style.TITLE)
        return
    figure: Any = place.figure if isinstance(place, Axes) else place
    if isinstance(figure, _Figure) and len(lines) > _USUAL_LINES:
        more = len(lines) - _USUAL_LINES
        figure.set_figheight(figure.get_figheight() + 1.25 * style.TITLE * more / 72)
    # Constrained layout leaves room for it.
    figure.suptitle(text, x=style.MARGIN / width_of(place), ha="left", fontsize=style.TITLE)


def write_below(place: Axes | FigureBase, lines: Sequence[str]) -> None:
    """Small print below all that is drawn, which goes on in further lines."""
    given = isinstance(place, Axes) and not is_own(place)
    figure: Any = place.figure if isinstance(place, Axes) else place
    label = "" if given else figure.get_supxlabel()
    room = letters(place, style.TEXT if given or label else style.SMALL)
    parts = [part for line in lines for part in wrap(line, room)]
    text = "\n".join(map(style.plain, parts))
    if isinstance(place, Axes) and given:
        place.set_xlabel(f"{place.get_xlabel()}\n{text}")
        return
    if isinstance(figure, _Figure):
        figure.set_figheight(figure.get_figheight() + 1.3 * style.SMALL * (len(parts) + 1) / 72)
    # A figure has one text at its foot, and its panels may have a label there.
    if label:
        figure.supxlabel(f"{label}\n{text}", fontsize=style.TEXT)
    else:
        look: dict[str, Any] = {"ha": "left", "fontsize": style.SMALL, "color": style.SOFT}
        figure.supxlabel(text, x=style.MARGIN / width_of(place), **look)


def legend_above(
    axes: Axes, handles: Sequence[Any], labels: Sequence[str], **settings: Any
) -> None:
    """A legend over the axes, where it covers no data, from the left edge of the figure.

    Over given axes is their title, and the legend is beside them.
    """
    figure: Any = axes.figure
    labels = [style.shorten(label, letters(axes) - _HANDLE) for label in labels]
    columns = letters(axes) // (max(map(len, labels)) + _HANDLE)
    place: dict[str, Any] = {
        "loc": "lower left",
        "bbox_to_anchor": (style.MARGIN / width_of(axes), 1),
        "bbox_transform": blended_transform_factory(figure.transFigure, axes.transAxes),
        "ncols": int(np.clip(columns, 1, len(labels))),
    }
    if not is_own(axes):
        place = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
    axes.legend(
        handles,
        # Before matplotlib 3.10, labels that start with "_" are dropped.
        [style.plain(f" {label}" if label.startswith("_") else label) for label in labels],
        **place,
        borderaxespad=0,
        borderpad=0.3,
        alignment="left",
        frameon=False,
        fontsize=style.TEXT,
        title_fontsize=style.TEXT,
        **settings,
    )


def bars(
    ax: Axes,
    lines: Any,
    values: Float[np.ndarray, " lines"],
    errors: Float[np.ndarray, " lines"],
    numbers: Sequence[str],
    size: float = style.TEXT,
    **look: Any,
) -> BarContainer:
    """Bars with numbers beyond their ends, and whiskers of two errors that are known and not 0."""
    whiskers = np.where(errors > 0, 2 * errors, np.nan)
    drawn = ax.barh(
        lines,
        values,
        xerr=None if np.isnan(whiskers).all() else whiskers,
        error_kw={"elinewidth": 0.8, "capsize": 1.5, "ecolor": style.INK},
        **look,
    )
    ax.bar_label(drawn, numbers, padding=3, fontsize=size)
    return drawn


def colour_bar(panels: Axes | Sequence[Axes], colours: Any, label: str, **settings: Any) -> Any:
    """A scale of colours beside axes, which share it."""
    figure: Any = (panels if isinstance(panels, Axes) else panels[0]).figure
    bar = figure.colorbar(colours, ax=panels, **{"aspect": 30, "pad": 0.02, **settings})
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=style.TEXT, color=style.NEUTRAL, length=2)
    style.scale(bar.long_axis, label)
    return bar


def signed_scale(values: Float[np.ndarray, "..."], share: float) -> tuple[ScalarMappable, str]:
    """Colours of values, blue below zero and red above, and which ends of their bar are pointed.

    A few extreme values would leave all others pale: the scale holds a `share` of the sizes.
    """
    sizes = np.abs(values[np.isfinite(values)])
    largest = sizes.max()
    limit = float(np.quantile(sizes, share, method="higher") or largest or 1.0)
    ends = "both" if largest > limit else "neither"
    return ScalarMappable(Normalize(-limit, limit), style.DIVERGING), ends
