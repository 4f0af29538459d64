"""Draws the path from base to prediction in a plane or a space of log-ratios."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.patches import Polygon
from matplotlib.transforms import Bbox
from mpl_toolkits.mplot3d import Axes3D  # type: ignore[import-untyped]
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

from manifold_shap.explanation import Explanation
from manifold_shap.plots import arrows, canvas, style
from manifold_shap.plots.path import View
from manifold_shap.plots.titles import headline

# Inches: the height of a plane's figure before that of its panel is known.
_PLANE = 5.0
# Degrees: elevation and azimuth.
_VIEW = (22.0, -55.0)
# So many times the size of the box is certainly beyond it.
_FAR = 10.0
_RAY: dict[str, Any] = {"linewidth": 0.8, "linestyle": (0, (5, 3)), "zorder": 2}


def ilr_plane(
    explanation: Explanation,
    row: int = 0,
    balances: Sequence[int | str] = (1, 2),
    most: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """Draws how the features of one row move the prediction, as arrows in a plane of log-ratios.

    Each arrow is one feature's Shapley composition, the largest norm first, and starts where the
    one before ends: from the base to the prediction (Noé et al. 2024, Figs. 2 and 7). Dashed
    vectors are the class-compositions, straight towards one class, scaled by the factor in the
    caption. With three classes the plane is the whole space: each region is tinted in the colour of
    its most probable class, and grey rays run where two tie. With more classes, two balances do
    not determine the most probable one.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = 2 * torch.eye(3)
        >>> value = ms.imputed_value(lambda x: x.softmax(1), ms.MarginalImputer(x), "ilr", draws=2)
        >>> axes = ms.plots.ilr_plane(ms.exact_shapley(value, x))
        >>> axes.get_xlabel()
        'log-ratio 0 : 1'

    Args:
        explanation: in the space `ilr`, of three classes or more.
        row: position of the row.
        balances: two for the axes, by number as `str(explanation.partition)` counts them, from 1,
            or by name.
        most: features to show; the rest is one arrow.
        ax: axes to draw in; by default a new figure.

    Raises:
        ValueError: the output space is not `ilr`, there are fewer than three classes, a balance is
            unknown or named twice, `most` is not positive, or `row` is out of range.
    """
    view = View.on_balances(explanation, row, balances, most, axes=2)
    axes = canvas.one_panel(ax, _PLANE, grid="y")
    for axis, label in zip((axes.xaxis, axes.yaxis), view.axis_labels(150.0), strict=True):
        style.scale(axis, label, ticks=6)
        axis.grid(True, color=style.GRID, linewidth=0.6)
    arrows.legend(axes, view)
    headline(axes, {"": explanation}, *view.headline())
    _shape(axes, view)
    rays = _draw_regions(axes, view) if view.is_whole else np.zeros((0, 2, 2))
    arrows.draw(axes, axes.bbox, view, rays)
    return axes


def _shape(axes: Axes, view: View) -> None:
    """Make our own figure as high as its panel needs, and let that hold all with equal units.

    The layout is final then: it determines how large the panel is.
    """
    low, high = view.box(0.12)
    span = high - low
    figure: Any = axes.figure
    canvas.settle(axes)
    if canvas.is_own(axes):
        width, height = axes.bbox.width / figure.dpi, axes.bbox.height / figure.dpi
        panel = float(np.clip(width * span[1] / span[0], 2.2, 3.8))
        figure.set_figheight(figure.get_figheight() - height + panel)
        canvas.settle(axes)
    half = (span / axes.bbox.size).max() * axes.bbox.size / 2
    middle = (low + high) / 2
    axes.set_xlim(middle[0] - half[0], middle[0] + half[0])
    axes.set_ylim(middle[1] - half[1], middle[1] + half[1])
    axes.set_aspect("equal")


def _draw_regions(axes: Axes, view: View) -> Float[np.ndarray, "rays 2 2"]:
    """Tints of the three regions, and the rays between them, which are returned."""
    far = 20 * np.abs((axes.get_xlim(), axes.get_ylim())).max()
    directions = far * view.directions
    rays = np.stack((np.zeros_like(directions), -directions), 1)
    for ray in rays:
        axes.plot(*ray.T, color=style.NEUTRAL, **_RAY)
    for number, ((k,), _) in enumerate(view.class_vectors()):
        left, right = -np.delete(directions, k, axis=0)
        region = np.stack((np.zeros(2), left, 2 * directions[k], right))
        colour = arrows.class_colour(number)
        axes.add_patch(Polygon(region, color=colour, alpha=0.08, linewidth=0, zorder=0))
    return rays


def ilr_space(
    explanation: Explanation,
    row: int = 0,
    balances: Sequence[int | str] = (1, 2, 3),
    most: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """Draws how the features of one row move the prediction, as arrows in three log-ratios.

    As `ilr_plane`, with one dimension more (Noé et al. 2024, Fig. 4). With four classes this is the
    whole space: grey walls part the regions in which one class is the most probable. `view_init` of
    these axes, in degrees, chooses another view.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = 2 * torch.eye(4)
        >>> value = ms.imputed_value(lambda x: x.softmax(1), ms.MarginalImputer(x), "ilr", draws=2)
        >>> axes = ms.plots.ilr_space(ms.exact_shapley(value, x))
        >>> axes.get_zlabel()
        'log-ratio 0+1+2 : 3'

    Args:
        explanation: in the space `ilr`, of four classes or more.
        row: position of the row.
        balances: three for the axes, by number or by name.
        most: features to show; the rest is one arrow.
        ax: axes whose place the space takes; by default a new figure.

    Raises:
        ValueError: as `ilr_plane`, or there are fewer than four classes.
    """
    view = View.on_balances(explanation, row, balances, most, axes=3)
    panel = canvas.one_panel(ax, 4.6, grid="y")
    panel.set_axis_off()
    arrows.legend(panel, view)
    headline(panel, {"": explanation}, *view.headline())
    canvas.settle(panel)
    figure: Any = panel.figure
    # Axes in three dimensions take the look of their grid from nowhere else.
    with rc_context({"grid.color": style.GRID, "grid.linewidth": 0.6}):
        axes: Any = figure.add_axes(
            panel.get_position().bounds, axes_class=_Space, proj_type="ortho", computed_zorder=False
        )
    box = _frame(axes, view)
    _fit(axes, box, free=canvas.is_own(panel))
    if view.is_whole:
        look: dict[str, Any] = {"facecolor": style.NEUTRAL, "alpha": 0.12, "edgecolor": "none"}
        axes.add_collection3d(Poly3DCollection(walls(view, box), zorder=1, **look))
        for ray in rays(view, box):
            axes.plot(*ray.T, color=style.NEUTRAL, **_RAY)
    arrows.draw(axes, panel.bbox, view, np.zeros((0, 2, 3)))
    return axes


class _Space(canvas.Shown, Axes3D):
    """Axes in three dimensions, of which only what is inside of the figure takes room."""

    def get_window_extent(self, renderer: Any = None) -> Any:
        return Bbox.intersection(self.bbox, self.figure.bbox)


def _frame(axes: Axes3D, view: View) -> Float[np.ndarray, "2 3"]:
    """Set limits that hold all, which are returned, and labels."""
    box = view.box(0.06)
    low, high = box
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    axes.view_init(*_VIEW)
    for unseen in (axes.patch, *axes.spines.values()):
        unseen.set_visible(False)
    axes.tick_params(labelsize=style.TEXT, color=style.NEUTRAL, pad=-2)
    three = (axes.xaxis, axes.yaxis, axes.zaxis)
    for axis, label in zip(three, view.axis_labels(125.0), strict=True):
        style.scale(axis, label, ticks=4)
        axis.labelpad = -4
        axis.set_pane_color("none")
        axis.line.set_color(style.NEUTRAL)
    return box


def _fit(axes: Any, box: Float[np.ndarray, "2 3"], free: bool) -> None:
    """Make the box as wide as its panel, with what is written around it.

    The height of the figure is that of the box where it is `free`.
    """
    figure, panel, zoom = axes.figure, axes.bbox.frozen(), 1.0
    edges = np.array(list(itertools.product(*box.T)))
    for _ in range(3):
        axes.set_box_aspect(box[1] - box[0], zoom=zoom)
        canvas.settle(axes)
        written = [axis.get_tightbbox() for axis in (axes.xaxis, axes.yaxis, axes.zaxis)]
        seen = axes.transData.transform(arrows.projected(axes, edges))
        drawn = Bbox.union([*written, Bbox([seen.min(0), seen.max(0)])])
        zoom *= float((panel.size / drawn.size).min())
    spare = panel.height - drawn.height if free else 0.0
    if free:
        figure.set_figheight(figure.get_figheight() - spare / figure.dpi)
    # What is above the panel stays at the top.
    shift = (panel.min + panel.max - drawn.min - drawn.max) / 2 - (0, spare / 2)
    axes.set_position(panel.translated(*shift).transformed(figure.transFigure.inverted()))
    canvas.settle(axes)


def walls(view: View, box: Float[np.ndarray, "2 axes"]) -> list[Float[np.ndarray, "_ axes"]]:
    """Where two classes tie above all others, for each pair of them, as far as the box reaches.

    Polygons in three dimensions and lines in two. Each edge of the cone in which two classes tie
    at the top points away from one of the others.
    """
    away = -_FAR * np.abs(box).max() * view.directions
    pairs = itertools.combinations(range(len(away)), 2)
    return [clipped(np.insert(np.delete(away, pair, 0), 0, 0.0, axis=0), box) for pair in pairs]


def rays(view: View, box: Float[np.ndarray, "2 axes"]) -> list[Float[np.ndarray, "_ axes"]]:
    """Lines on which all classes but one tie, as far as they lie within the box."""
    ends = -_FAR * np.abs(box).max() * view.directions
    return [clipped(np.stack((np.zeros_like(end), end)), box) for end in ends]


def clipped(
    polygon: Float[np.ndarray, "points axes"], box: Float[np.ndarray, "2 axes"]
) -> Float[np.ndarray, "clipped axes"]:
    """What of a convex polygon, or of a line, is within the box (Sutherland & Hodgman 1974)."""
    for axis, side in itertools.product(range(polygon.shape[1]), (0, 1)):
        inside = (1 - 2 * side) * (polygon[:, axis] - box[side, axis])
        kept = []
        for here, there, a, b in zip(
            polygon, np.roll(polygon, -1, 0), inside, np.roll(inside, -1), strict=True
        ):
            kept += [here] if a >= 0 else []
            kept += [here + a / (a - b) * (there - here)] if a * b < 0 else []
        polygon = np.stack(kept)
    return polygon
