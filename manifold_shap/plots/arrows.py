"""Draws arrows from base to prediction in two or three dimensions, with labels that cover nothing.

Each label takes the cheapest of many places around what it names, in turn. Libraries that push
labels apart by forces (adjustText) leave some of them on arrows and marks.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation
from matplotlib.transforms import BboxBase
from mpl_toolkits.mplot3d.proj3d import proj_transform  # type: ignore[import-untyped]

from manifold_shap.plots import canvas, style
from manifold_shap.plots.path import View

# Shares of the length of an arrow where its number may stand, the best first.
_ALONG = np.array([0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8])
# Of the places of labels, in points: margins around their boxes and around marks, distances to what
# they name, and between the points at which lines are sampled.
_GAP, _MARK = 1.0, 2.0
_DISTANCES = (2.5, 6.0, 11.0, 18.0, 28.0, 42.0)
_ANGLES = np.linspace(0, 2 * np.pi, 16, endpoint=False)
_SPACING = 2.0
# So close, a label may be taken for that of something else; from so far, a line leads to it.
_NEAR, _FAR = 4.0, 6.0


class _Arrow(FancyArrowPatch):
    """An arrow between two points of a plane, or of a space from whatever side it is seen."""

    def __init__(self, ends: Float[np.ndarray, "2 axes"], **settings: Any) -> None:
        super().__init__(*ends[:, :2], **settings)
        self._ends = ends

    def do_3d_projection(self) -> float:
        """Called by a space for every view; what it returns would order artists by depth."""
        self.set_positions(*projected(self.axes, self._ends))
        return 0.0


class _Label(Annotation):
    """Text beside a point of a plane, or of a space from whatever side it is seen."""

    def __init__(self, text: str, point: Float[np.ndarray, " axes"], **settings: Any) -> None:
        super().__init__(text, (0.0, 0.0), **settings)
        self._point = point

    def draw(self, renderer: Any) -> None:
        self.xy = projected(self.axes, self._point[None])[0]
        super().draw(renderer)


class Place(NamedTuple):
    """Where a label stands: the anchor it belongs to, and its middle from there, in points."""

    anchor: int
    offset: Float[np.ndarray, "2"]
    leader: bool


def projected(axes: Any, points: Float[np.ndarray, "points axes"]) -> Float[np.ndarray, "points 2"]:
    """Points of a plane, or of a space as it is seen, in data coordinates of its axes."""
    if points.shape[1] == 2:
        return points
    return np.stack(proj_transform(*points.T, axes.get_proj())[:2], 1)


def class_colour(number: int) -> str:
    """Of one of the class vectors; labels distinguish those of the same colour."""
    # The last colour of the series is that of the arrows.
    return style.SERIES[number % (len(style.SERIES) - 1)]


def legend(axes: Axes, view: View) -> None:
    """Over the axes, which feature each number is."""
    numbered = [f"{number}: {name}" for number, name in enumerate(view.labels(120.0), 1)]
    nothing = [Line2D([], [], linestyle="") for _ in numbered]
    settings: dict[str, Any] = {"handlelength": 0, "handletextpad": 0, "columnspacing": 1.5}
    canvas.legend_above(axes, nothing, numbered, handle=14.0, **settings)


def draw(
    axes: Axes, frame: BboxBase, view: View, obstacles: Float[np.ndarray, "obstacles 2 axes"]
) -> None:
    """The class-compositions, the arrows and their labels, once the layout is final.

    Labels stand in the `frame`, in pixels, and cover no `obstacles`, which are further lines.
    """
    points = view.points
    found = [("base", style.INK, points[:1]), ("prediction", style.INK, points[-1:])]
    for number, (members, vector) in enumerate(view.class_vectors()):
        end, colour = view.magnification * vector, class_colour(number)
        look: dict[str, Any] = {"color": colour, "zorder": 3}
        line = np.stack((np.zeros_like(end), end))
        axes.plot(*line.T, linewidth=1.3, linestyle=(0, (3, 1.5)), **look)
        axes.plot(*end[:, None], marker="o", markersize=3, **look)
        found.append((view.class_label(members, 80.0), colour, end[None]))
    for number, ends in enumerate(itertools.pairwise(points)):
        start, end = ends
        length = np.linalg.norm(np.diff(_to_points(axes, np.stack(ends)), axis=0))
        axes.add_artist(
            _Arrow(
                np.stack(ends),
                arrowstyle="-|>",
                # A head is not much longer than its arrow.
                mutation_scale=float(np.clip(1.5 * length, 3.0, 8.0)),
                shrinkA=0,
                shrinkB=0,
                linewidth=1.2,
                color=style.NEUTRAL if number == len(view.shown) else style.INK,
                zorder=4,
            )
        )
        along = start + _ALONG[:, None] * (end - start)
        found.append((str(number + 1), style.INK, along))
    look = {"marker": "o", "markersize": 4, "color": style.INK, "zorder": 5}
    axes.plot(*points[0][:, None], markerfacecolor=style.GROUND, **look)
    axes.plot(*points[-1][:, None], **look)
    _write(axes, frame, found, np.concatenate((view.segments, obstacles)))


def _to_points(
    axes: Any, points: Float[np.ndarray, "points axes"]
) -> Float[np.ndarray, "points 2"]:
    """Where points of a plane or a space are on paper, in typographic points."""
    return 72 / axes.figure.dpi * axes.transData.transform(projected(axes, points))


def _write(
    axes: Axes,
    frame: BboxBase,
    labels: Sequence[tuple[str, str, Float[np.ndarray, "_ axes"]]],
    obstacles: Float[np.ndarray, "segments 2 axes"],
) -> None:
    """Write labels, each a text, a colour and points that it may stand beside."""
    marks = np.concatenate([anchors for _, _, anchors in labels if len(anchors) == 1])
    places = place(
        [_to_points(axes, anchors) for _, _, anchors in labels],
        np.array([(style.text_width(text), style.TEXT) for text, _, _ in labels]),
        _to_points(axes, obstacles.reshape(-1, obstacles.shape[-1])).reshape(-1, 2, 2),
        _to_points(axes, marks),
        72 / axes.figure.dpi * np.array((frame.min, frame.max)),
    )
    leader = {"arrowstyle": "-", "color": style.NEUTRAL, "linewidth": 0.5, "shrinkA": 0}
    for (text, colour, anchors), where in zip(labels, places, strict=True):
        label = _Label(
            style.plain(text),
            anchors[where.anchor],
            xycoords=axes.transData,
            xytext=where.offset,
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=style.TEXT,
            color=colour,
            arrowprops={**leader, "shrinkB": 0.5} if where.leader else None,
            path_effects=[withStroke(linewidth=1.5, foreground=style.GROUND)],
            zorder=6,
        )
        label.set_in_layout(False)
        axes.add_artist(label)


def place(
    anchors: Sequence[Float[np.ndarray, "_ 2"]],
    sizes: Float[np.ndarray, "labels 2"],
    segments: Float[np.ndarray, "segments 2 2"],
    marks: Float[np.ndarray, "marks 2"],
    frame: Float[np.ndarray, "2 2"],
) -> list[Place]:
    """A place for each label, the first ones choosing first; all lengths are in points.

    Args:
        anchors: for each label, points that it may stand beside, the preferred ones first.
        sizes: widths and heights of the labels.
        segments: lines that no label should cover.
        marks: points that stand out, which a label should cover even less.
        frame: lower left and upper right corner of where labels may stand.
    """
    obstacles = _sampled(segments)
    obstacles = obstacles[((obstacles > frame[0]) & (obstacles < frame[1])).all(1)]
    boxes = np.stack((marks - _MARK, marks + _MARK), 1)
    directions = np.tile(np.stack((np.cos(_ANGLES), np.sin(_ANGLES)), 1), (len(_DISTANCES), 1))
    gap = np.repeat(_DISTANCES, len(_ANGLES))
    places = []
    for points, size in zip(anchors, sizes, strict=True):
        half = size / 2 + _GAP
        # As far as the box reaches in that direction, so that it touches the anchor at gap zero.
        touching = (half / np.maximum(np.abs(directions), 1e-9)).min(1)
        middles = (points[:, None] + directions * (touching + gap)[:, None]).reshape(-1, 2)
        number, gaps = np.arange(len(points)).repeat(len(gap)), np.tile(gap, len(points))
        low, high = middles - half, middles + half
        from_middle = np.abs(obstacles - middles[:, None])
        overlaps = (
            np.minimum(high[:, None], boxes[:, 1]) > np.maximum(low[:, None], boxes[:, 0])
        ).all(-1)
        way = (
            points[number][:, None]
            + np.array([[0.4], [0.6], [0.8]]) * (middles - points[number])[:, None]
        )
        crossed = (np.abs(obstacles - way[:, :, None]) < _SPACING).all(-1)
        cost = (
            gaps
            + 3.0 * number
            + 8.0 * (from_middle < half).all(-1).sum(1)
            + 0.5 * (from_middle < half + _NEAR).all(-1).sum(1)
            + 1.0 * crossed.sum((1, 2))
            + 1e3 * overlaps.sum(1)
            + 1e4 * ((low < frame[0]) | (high > frame[1])).any(-1)
        )
        best = int(cost.argmin())
        anchor, leader = points[number[best]], bool(gaps[best] > _FAR)
        places.append(Place(int(number[best]), middles[best] - anchor, leader))
        boxes = np.concatenate((boxes, np.stack((low[best], high[best]))[None]))
        if leader:
            line = _sampled(np.stack((anchor, middles[best]))[None])
            obstacles = np.concatenate((obstacles, line))
    return places


def _sampled(segments: Float[np.ndarray, "segments 2 2"]) -> Float[np.ndarray, "points 2"]:
    """Points along the segments, so dense that no label slips between two."""
    points = [np.zeros((0, 2))]
    for start, end in segments:
        points.append(np.linspace(start, end, 2 + int(np.linalg.norm(end - start) / _SPACING)))
    return np.concatenate(points)
