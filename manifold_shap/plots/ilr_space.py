"""The path from base to prediction in three dimensions of the log-ratio space."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Annotation
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox
from mpl_toolkits.mplot3d import Axes3D  # type: ignore[import-untyped]
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]
from mpl_toolkits.mplot3d.proj3d import proj_transform  # type: ignore[import-untyped]

from manifold_shap.explanation import Explanation
from manifold_shap.plots import arrows, style
from manifold_shap.plots.subspace import Subspace, require_balances

# Inches.
_HEIGHT = 4.6
# Points.
_ROOM = 125.0
# Degrees from which the view is chosen; along an axis its ticks would be written over each other.
_ELEVATIONS = (18.0, 28.0)
_AZIMUTHS = [
    quadrant + turn for quadrant in (-180.0, -90.0, 0.0, 90.0) for turn in (25, 40, 55, 65)
]
_ROUNDS = 3
# As many times the size of the box is beyond it.
_FAR = 10.0
_BORDER = 0.06


def ilr_space(
    explanation: Explanation,
    instance: int = 0,
    balances: Sequence[int | str] = (1, 2, 3),
    most: int = 8,
) -> Figure:
    """How the features of one row move the prediction, as arrows in three log-ratios.

    As `ilr_plane`, with one dimension more (Noé et al. 2024, Fig. 4). With four classes this is the
    whole space: grey walls part the regions in which one class is the most probable. The view is
    the one that shows the arrows longest; `figure.axes[-1].view_init` chooses another.

    Args:
        explanation: in the space `ilr`, of four classes or more.
        instance: position of the row.
        balances: three for the axes, by number as `str(explanation.partition)` counts them, from 1,
            or by name.
        most: features to show; the rest is one arrow.

    Raises:
        ValueError: the output space is not `ilr`, there are fewer than four classes, a balance is
            unknown or named twice, `most` is not positive, or `instance` is out of range.
    """
    require_balances(explanation, balances, 3)
    subspace = Subspace.of_row(explanation, instance, balances, most)
    figure, panel = style.one_panel(_HEIGHT, grid="y")
    panel.set_axis_off()
    arrows.legend(panel, subspace)
    style.headline(figure, subspace.moves.headline(), subspace.caption())
    figure.draw_without_rendering()
    # Of another colour than the caller's: such axes take that of their grid from nowhere else.
    with rc_context({"grid.color": style.GRID, "grid.linewidth": 0.6}):
        axes = figure.add_axes(
            panel.get_position().bounds, projection="3d", proj_type="ortho", computed_zorder=False
        )
    corners = _frame(axes, subspace)
    _fit(figure, axes, corners)
    if subspace.is_whole:
        _draw_walls(axes, subspace, corners)

    def project(points: np.ndarray) -> np.ndarray:
        return axes.transData.transform(_projected(axes, points))

    canvas = arrows.Canvas(axes, project, _Arrow, _Label)
    arrows.draw(canvas, subspace, np.zeros((0, 2, 3)))
    return figure


class _Arrow(FancyArrowPatch):
    """An arrow between two points of the space, from whatever side they are seen."""

    def __init__(
        self, start: Float[np.ndarray, " 3"], end: Float[np.ndarray, " 3"], **settings: Any
    ) -> None:
        super().__init__((0, 0), (0, 0), **settings)
        self._ends = np.stack((start, end))

    def do_3d_projection(self) -> float:
        """Called by the axes for every view; what it returns would order artists by depth."""
        self.set_positions(*_projected(self.axes, self._ends))
        return 0.0


class _Label(Annotation):
    """Text beside a point of the space, from whatever side that is seen."""

    def __init__(self, text: str, point: Float[np.ndarray, " 3"], **settings: Any) -> None:
        super().__init__(text, (0, 0), **settings)
        self._point = point

    def draw(self, renderer: Any) -> None:
        self.xy = _projected(self.axes, self._point[None])[0]
        super().draw(renderer)


def _projected(axes: Any, points: Float[np.ndarray, "points 3"]) -> Float[np.ndarray, "points 2"]:
    return np.stack(proj_transform(*points.T, axes.get_proj())[:2], 1)


def _frame(axes: Axes3D, subspace: Subspace) -> Float[np.ndarray, "2 3"]:
    """Limits that hold all, which are returned, labels and the view."""
    corners = arrows.corners(subspace, _BORDER)
    low, high = corners
    segments = arrows.segments(subspace)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    axes.view_init(*view(segments[:, 1] - segments[:, 0]))
    axes.set_facecolor("none")
    axes.tick_params(labelsize=style.TEXT, labelcolor=style.INK, pad=-2)
    three = (axes.xaxis, axes.yaxis, axes.zaxis)
    for axis, label in zip(three, subspace.axis_labels(_ROOM), strict=True):
        axis.set_label_text(style.plain(label), fontsize=style.TEXT, color=style.INK)
        axis.labelpad = -4
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axis.set_pane_color("none")
        axis.line.set_color(style.NEUTRAL)
    return corners


def _fit(figure: Figure, axes: Axes3D, corners: Float[np.ndarray, "2 3"]) -> None:
    """Make the box as large as its panel, with what is written around it, and centre it there."""
    panel, zoom = axes.bbox.frozen(), 1.0
    edges = np.array(list(itertools.product(*corners.T)))
    for _ in range(_ROUNDS):
        axes.set_box_aspect(corners[1] - corners[0], zoom=zoom)
        figure.draw_without_rendering()
        written = [axis.get_tightbbox() for axis in (axes.xaxis, axes.yaxis, axes.zaxis)]
        seen = axes.transData.transform(_projected(axes, edges))
        drawn = Bbox.union([*written, Bbox([seen.min(0), seen.max(0)])])
        zoom *= float((panel.size / drawn.size).min())
    shift = ((panel.min + panel.max) - (drawn.min + drawn.max)) / 2
    moved = panel.translated(*shift).transformed(figure.transFigure.inverted())
    axes.set_position(moved)
    figure.draw_without_rendering()


def view(steps: Float[np.ndarray, "steps 3"]) -> tuple[float, float]:
    """Elevation and azimuth in degrees from which the steps look longest, all in all."""

    def seen(angles: tuple[float, float]) -> float:
        return float(np.linalg.norm(np.cross(steps, viewpoint(*angles)), axis=1).sum())

    return max(itertools.product(_ELEVATIONS, _AZIMUTHS), key=seen)


def viewpoint(elevation: float, azimuth: float) -> Float[np.ndarray, " 3"]:
    """The unit vector towards somebody who looks from these angles, in degrees."""
    up, around = np.deg2rad((elevation, azimuth))
    return np.array((np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)))


def _draw_walls(axes: Axes3D, subspace: Subspace, corners: Float[np.ndarray, "2 3"]) -> None:
    axes.add_collection3d(
        Poly3DCollection(
            walls(subspace, corners),
            facecolor=style.NEUTRAL,
            alpha=0.12,
            edgecolor="none",
            zorder=1,
        )
    )
    for ray in rays(subspace, corners):
        axes.plot(*ray.T, color=style.NEUTRAL, linewidth=0.8, linestyle=(0, (5, 3)), zorder=2)


def walls(subspace: Subspace, corners: Float[np.ndarray, "2 3"]) -> list[Float[np.ndarray, "_ 3"]]:
    """Polygons that part the four regions, as far as they lie within the box."""
    far = _FAR * np.abs(corners).max()
    cones = [np.concatenate((np.zeros((1, 3)), far * edges)) for _, edges in subspace.walls()]
    return [clipped(cone, corners) for cone in cones]


def rays(
    subspace: Subspace, corners: Float[np.ndarray, "2 axes"]
) -> list[Float[np.ndarray, "_ axes"]]:
    """Lines on which all classes but one tie, as far as they lie within the box."""
    ends = -_FAR * np.abs(corners).max() * subspace.directions
    return [clipped(np.stack((np.zeros_like(end), end)), corners) for end in ends]


def clipped(
    polygon: Float[np.ndarray, "points axes"], corners: Float[np.ndarray, "2 axes"]
) -> Float[np.ndarray, "clipped axes"]:
    """What of a convex polygon, or of a line, is within the box (Sutherland & Hodgman 1974)."""
    for axis, side in itertools.product(range(polygon.shape[1]), (0, 1)):
        inside = (1 - 2 * side) * (polygon[:, axis] - corners[side, axis])
        kept = []
        for here, there, a, b in zip(
            polygon, np.roll(polygon, -1, 0), inside, np.roll(inside, -1), strict=True
        ):
            kept += [here] if a >= 0 else []
            kept += [here + a / (a - b) * (there - here)] if a * b < 0 else []
        polygon = np.stack(kept)
    return polygon
