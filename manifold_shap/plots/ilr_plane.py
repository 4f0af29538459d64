"""The path from base to prediction in a plane of the log-ratio space."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.ticker import MaxNLocator

from manifold_shap.explanation import Explanation
from manifold_shap.plots import arrows, style
from manifold_shap.plots.subspace import Subspace, require_balances

# Inches.
_HEIGHT = 5.0
_PANEL = (2.2, 3.8)
# Points.
_ROOM = 150.0
# Of the extent of what is drawn.
_BORDER = 0.12


def ilr_plane(
    explanation: Explanation,
    instance: int = 0,
    balances: Sequence[int | str] = (1, 2),
    most: int = 8,
) -> Figure:
    """How the features of one row move the prediction, as arrows in a plane of log-ratios.

    Each arrow is one feature's Shapley composition, the largest norm first, and starts where the
    one before ends: from the base to the prediction (Noé et al. 2024, Figs. 2 and 7). Dashed
    vectors are the class-compositions, straight towards one class; they are scaled by the factor
    that the caption tells. With three classes the plane is the whole space: each region is tinted
    in the colour of its most probable class, and grey rays run where two tie. With more classes,
    two balances do not tell the most probable one.

    Args:
        explanation: in the space `ilr`, of three classes or more.
        instance: position of the row.
        balances: two for the axes, by number as `str(explanation.partition)` counts them, from 1,
            or by name.
        most: features to show; the rest is one arrow.

    Raises:
        ValueError: the output space is not `ilr`, there are fewer than three classes, a balance is
            unknown or named twice, `most` is not positive, or `instance` is out of range.
    """
    require_balances(explanation, balances, 2)
    subspace = Subspace.of_row(explanation, instance, balances, most)
    figure, axes = style.one_panel(_HEIGHT, grid="y")
    _label_axes(axes, subspace)
    arrows.legend(axes, subspace)
    style.headline(figure, subspace.moves.headline(), subspace.caption())
    _shape(figure, axes, subspace)
    rays = _draw_regions(axes, subspace) if subspace.is_whole else np.zeros((0, 2, 2))
    arrows.draw(arrows.Canvas(axes, axes.transData.transform), subspace, rays)
    return figure


def _label_axes(axes: Axes, subspace: Subspace) -> None:
    for axis, label in zip((axes.xaxis, axes.yaxis), subspace.axis_labels(_ROOM), strict=True):
        axis.set_label_text(style.plain(label), fontsize=style.TEXT, color=style.INK)
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axis.grid(True, color=style.GRID, linewidth=0.6)


def _shape(figure: Figure, axes: Axes, subspace: Subspace) -> None:
    """Make the figure as high as its panel needs, and let that hold all with equal units.

    The layout is final then: it decides how large the panel is.
    """
    low, high = arrows.corners(subspace, _BORDER)
    span = high - low
    figure.draw_without_rendering()
    width, height = axes.bbox.width / figure.dpi, axes.bbox.height / figure.dpi
    panel = float(np.clip(width * span[1] / span[0], *_PANEL))
    figure.set_figheight(_HEIGHT - height + panel)
    figure.draw_without_rendering()
    half = (span / axes.bbox.size).max() * axes.bbox.size / 2
    middle = (low + high) / 2
    axes.set_xlim(middle[0] - half[0], middle[0] + half[0])
    axes.set_ylim(middle[1] - half[1], middle[1] + half[1])
    axes.set_aspect("equal")


def _draw_regions(axes: Axes, subspace: Subspace) -> Float[np.ndarray, "rays 2 2"]:
    """Tints of the three regions, and the rays between them, which are returned."""
    far = 20 * np.abs((axes.get_xlim(), axes.get_ylim())).max()
    rays = np.stack([[np.zeros(2), far * edge] for _, (edge,) in subspace.walls()])
    for ray in rays:
        axes.plot(*ray.T, color=style.NEUTRAL, linewidth=0.8, linestyle=(0, (5, 3)), zorder=2)
    directions = far * subspace.directions
    for number, ((k,), _) in enumerate(subspace.class_vectors()):
        left, right = -np.delete(directions, k, axis=0)
        corners = np.stack((np.zeros(2), left, 2 * directions[k], right))
        colour = arrows.class_colour(number)
        axes.add_patch(Polygon(corners, color=colour, alpha=0.08, linewidth=0, zorder=0))
    return rays
