"""Arrows from base to prediction, and what stands around them, in two or three dimensions."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation

from manifold_shap.plots import style
from manifold_shap.plots.placement import place
from manifold_shap.plots.subspace import Subspace

# Points.
_CLASS = 80.0
_LEGEND = 120.0
_LEGENDS = 280.0
_BETWEEN = 14.0
_HEADS = (3.0, 8.0)
# Shares of the length of an arrow where its number may stand, the best first.
_ALONG = np.array([0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8])


@dataclass(frozen=True)
class Canvas:
    """How points of a subspace come onto axes.

    Attributes:
        axes: where all is drawn.
        project: from points of the subspace to pixels, once the layout is final.
        arrow: makes an arrow of its start, its end and matplotlib's settings.
        annotation: makes text of a string, the point that it belongs to, and settings.
    """

    axes: Axes
    project: Callable[[np.ndarray], np.ndarray]
    arrow: Callable[..., FancyArrowPatch] = FancyArrowPatch
    annotation: Callable[..., Annotation] = Annotation


@dataclass(frozen=True)
class _Label:
    """Text that belongs to one of some points of the subspace, the preferred ones first."""

    text: str
    colour: str
    anchors: Float[np.ndarray, "anchors axes"]


def class_colour(number: int) -> str:
    """Of one of the class vectors; labels tell those of the same colour apart."""
    # The last colour of the series is that of the arrows.
    return style.SERIES[number % (len(style.SERIES) - 1)]


def segments(subspace: Subspace) -> Float[np.ndarray, "segments 2 axes"]:
    """The steps and the class-compositions: from where to where."""
    points, vectors = subspace.points, subspace.class_vectors()
    ends = subspace.magnification * np.stack([vector for _, vector in vectors])
    steps = np.stack((points[:-1], points[1:]), 1)
    return np.concatenate((steps, np.stack((np.zeros_like(ends), ends), 1)))


def corners(subspace: Subspace, border: float) -> Float[np.ndarray, "2 axes"]:
    """The lowest and the highest of all that is drawn, with a border: a share of the extent."""
    ends = segments(subspace).reshape(-1, len(subspace.balances))
    low, high = ends.min(0), ends.max(0)
    room = border * max((high - low).max(), 1e-6)
    return np.stack((low - room, high + room))


def legend(axes: Axes, subspace: Subspace) -> None:
    """Over the axes, which feature each number is."""
    names = subspace.moves.labels(_LEGEND)
    numbered = [f"{number}: {name}" for number, name in enumerate(names, 1)]
    nothing = [Line2D([], [], linestyle="") for _ in numbered]
    settings: dict[str, Any] = {"handlelength": 0, "handletextpad": 0, "columnspacing": 1.5}
    style.legend_above(axes, nothing, numbered, _LEGENDS, handle=_BETWEEN, **settings)


def draw(
    canvas: Canvas, subspace: Subspace, obstacles: Float[np.ndarray, "obstacles 2 axes"]
) -> None:
    """The class-compositions, the arrows and their labels, once the layout is final.

    Args:
        canvas: where.
        subspace: of the row.
        obstacles: lines that no label should cover, besides what is drawn here.
    """
    axes = canvas.axes
    for number, (_, vector) in enumerate(subspace.class_vectors()):
        end = subspace.magnification * vector
        look: dict[str, Any] = {"color": class_colour(number), "zorder": 3}
        line = np.stack((np.zeros_like(end), end))
        axes.plot(*line.T, linewidth=1.3, linestyle=(0, (3, 1.5)), **look)
        axes.plot(*end[:, None], marker="o", markersize=3, **look)
    _draw_steps(canvas, subspace)
    look = {"marker": "o", "markersize": 4, "color": style.INK, "zorder": 5}
    axes.plot(*subspace.points[0][:, None], markerfacecolor="white", **look)
    axes.plot(*subspace.prediction[:, None], **look)
    _write(canvas, _labels(subspace), np.concatenate((segments(subspace), obstacles)))


def _draw_steps(canvas: Canvas, subspace: Subspace) -> None:
    points = subspace.points
    pixels = np.diff(canvas.project(points), axis=0)
    lengths = 72 / canvas.axes.figure.dpi * np.linalg.norm(pixels, axis=1)
    others = len(subspace.moves.shown)
    for number, length in enumerate(lengths):
        arrow = canvas.arrow(
            points[number],
            points[number + 1],
            arrowstyle="-|>",
            # A head is not much longer than its arrow.
            mutation_scale=float(np.clip(1.5 * length, *_HEADS)),
            shrinkA=0,
            shrinkB=0,
            linewidth=1.2,
            color=style.NEUTRAL if number == others else style.INK,
            zorder=4,
        )
        canvas.axes.add_artist(arrow)


def _labels(subspace: Subspace) -> list[_Label]:
    """Of both ends of the path, of the classes, and the numbers of the steps."""
    factor, points = subspace.magnification, subspace.points
    found = [
        _Label("base", style.INK, points[:1]),
        _Label("prediction", style.INK, subspace.prediction[None]),
    ]
    for number, (members, vector) in enumerate(subspace.class_vectors()):
        name = subspace.class_label(members, _CLASS)
        found.append(_Label(name, class_colour(number), factor * vector[None]))
    for number, (start, end) in enumerate(itertools.pairwise(points), 1):
        found.append(_Label(str(number), style.INK, start + _ALONG[:, None] * (end - start)))
    return found


def _write(
    canvas: Canvas, found: list[_Label], obstacles: Float[np.ndarray, "segments 2 axes"]
) -> None:
    """Set labels where they cover nothing, the first ones first."""
    points = 72 / canvas.axes.figure.dpi
    ends = obstacles.reshape(-1, obstacles.shape[-1])
    marks = np.concatenate([label.anchors for label in found if len(label.anchors) == 1])
    places = place(
        [points * canvas.project(label.anchors) for label in found],
        np.array([(style.text_width(label.text), style.TEXT) for label in found]),
        points * canvas.project(ends).reshape(-1, 2, 2),
        points * canvas.project(marks),
        points * canvas.axes.bbox.get_points(),
    )
    leader = {"arrowstyle": "-", "color": style.NEUTRAL, "linewidth": 0.5, "shrinkA": 0}
    for label, where in zip(found, places, strict=True):
        text = canvas.annotation(
            style.plain(label.text),
            label.anchors[where.anchor],
            xycoords=canvas.axes.transData,
            xytext=where.offset,
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=style.TEXT,
            color=label.colour,
            arrowprops={**leader, "shrinkB": 0.5} if where.leader else None,
            path_effects=[withStroke(linewidth=1.5, foreground="white")],
            zorder=6,
        )
        text.set_in_layout(False)
        canvas.axes.add_artist(text)
