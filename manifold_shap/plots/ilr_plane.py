"""The path from base to prediction in a plane of the log-ratio space."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Polygon
from matplotlib.ticker import MaxNLocator

from manifold_shap.explanation import Explanation
from manifold_shap.plots import annotation, style
from manifold_shap.plots.subspace import Subspace, require_balances

# Inches.
_HEIGHT = 3.3
_LINE = 0.16
# Points.
_ROOM = 220.0
_HEAD = 8.0
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
    steps = len(subspace.moves.phi)
    figure, axes = style.one_panel(_HEIGHT + _LINE * (steps + 1) / 2, grid="y")
    _frame(axes, subspace)
    rays = _draw_regions(axes, subspace) if subspace.is_whole else np.zeros((0, 2, 2))
    _draw_classes(axes, subspace)
    annotation.legend(axes, subspace)
    style.headline(figure, subspace.moves.headline(), subspace.caption())
    # Numbers find their places once the axes have theirs.
    figure.draw_without_rendering()
    _equalise(axes)
    _draw_path(axes, subspace)
    obstacles = np.concatenate((annotation.segments(subspace), rays))
    annotation.write(axes, annotation.labels(subspace), obstacles, axes.transData.transform)
    return figure


def _frame(axes: Axes, subspace: Subspace) -> None:
    """Limits that hold all that is drawn, with the same unit on both axes."""
    inside = annotation.segments(subspace).reshape(-1, 2)
    inside = np.concatenate((inside, subspace.prediction[None]))
    low, high = inside.min(0), inside.max(0)
    border = _BORDER * max((high - low).max(), 1e-6)
    axes.set_xlim(low[0] - border, high[0] + border)
    axes.set_ylim(low[1] - border, high[1] + border)
    for axis, label in zip((axes.xaxis, axes.yaxis), subspace.axis_labels(_ROOM), strict=True):
        axis.set_label_text(label, fontsize=style.TEXT, color=style.INK)
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axis.grid(True, color=style.GRID, linewidth=0.6)


def _equalise(axes: Axes) -> None:
    """Widen the limits of one axis to the shape of the panel, so that units are equal."""
    limits = np.array((axes.get_xlim(), axes.get_ylim()))
    unit = (np.ptp(limits, axis=1) / axes.bbox.size).max()
    half = unit * axes.bbox.size / 2
    axes.set(
        **{
            f"{name}lim": (middle - reach, middle + reach)
            for name, middle, reach in zip("xy", limits.mean(1), half, strict=True)
        },
        aspect="equal",
    )


def _draw_regions(axes: Axes, subspace: Subspace) -> Float[np.ndarray, "rays 2 2"]:
    """Tints of the three regions, and the rays between them, which are returned."""
    far = 20 * np.abs((axes.get_xlim(), axes.get_ylim())).max()
    directions, origin = far * subspace.directions, np.zeros(2)
    rays = []
    for (k, l), (edge,) in subspace.walls():  # noqa: E741
        rays.append(np.stack((origin, far * edge)))
        axes.plot(*rays[-1].T, color=style.NEUTRAL, linewidth=0.8, linestyle=(0, (5, 3)), zorder=2)
    for k, towards in enumerate(directions):
        sides = -np.delete(directions, k, axis=0)
        corners = np.stack((origin, sides[0], 2 * towards, sides[1]))
        colour = annotation.class_colour(k)
        axes.add_patch(Polygon(corners, color=colour, alpha=0.08, linewidth=0, zorder=0))
    return np.stack(rays)


def _draw_classes(axes: Axes, subspace: Subspace) -> None:
    for members, vector in subspace.class_vectors():
        end = subspace.magnification * vector
        colour = annotation.class_colour(members[0])
        axes.plot([0, end[0]], [0, end[1]], color=colour, linewidth=1.3, linestyle=(0, (3, 1.5)))
        axes.plot(*end, color=colour, marker="o", markersize=3)


def _draw_path(axes: Axes, subspace: Subspace) -> None:
    points = subspace.points
    lengths = np.linalg.norm(np.diff(axes.transData.transform(points), axis=0), axis=1)
    lengths *= 72 / axes.figure.get_dpi()
    others = len(subspace.moves.shown)
    for number, (start, end) in enumerate(zip(points, points[1:], strict=False)):
        arrow = FancyArrowPatch(
            tuple(start),
            tuple(end),
            arrowstyle="-|>",
            # A head is no longer than its arrow.
            mutation_scale=min(_HEAD, max(2.0, 1.5 * lengths[number])),
            shrinkA=0,
            shrinkB=0,
            linewidth=1.2,
            color=style.NEUTRAL if number == others else style.INK,
            zorder=4,
        )
        axes.add_patch(arrow)
    settings = {"marker": "o", "markersize": 5, "color": style.INK, "zorder": 5}
    axes.plot(*points[0], markerfacecolor="white", **settings)
    axes.plot(*subspace.prediction, **settings)
