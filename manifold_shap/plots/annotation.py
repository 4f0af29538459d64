"""What figures of a log-ratio space write alike, in two dimensions and in three."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation

from manifold_shap.plots import style
from manifold_shap.plots.placement import place
from manifold_shap.plots.subspace import Subspace

# Points.
_CLASS = 80.0
_LEGEND = 150.0
# Shares of the length of an arrow where its number may stand, the best first.
_ALONG = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8)


class Label:
    """Text that belongs to one of some points of the space.

    Args:
        text: it is.
        colour: of the text.
        anchors: points that it may stand beside, the preferred ones first.
    """

    def __init__(self, text: str, colour: str, anchors: Float[np.ndarray, "anchors axes"]) -> None:
        self.text, self.colour, self.anchors = text, colour, anchors
        self.size = (style.text_width(text.replace(r"\$", "$")), 0.8 * style.TEXT)


def class_colour(k: int) -> str:
    """Of the class at a position; labels tell classes of the same colour apart."""
    return style.SERIES[k % (len(style.SERIES) - 1)]


def labels(subspace: Subspace) -> list[Label]:
    """Names of the classes, of both ends of the path, and the numbers of its steps."""
    factor = subspace.magnification
    found = [
        Label(
            subspace.class_label(members, _CLASS), class_colour(members[0]), factor * vector[None]
        )
        for members, vector in subspace.class_vectors()
    ]
    points = subspace.points
    found.append(Label("base", style.INK, points[:1]))
    found.append(Label("prediction", style.INK, subspace.prediction[None]))
    for number, (start, end) in enumerate(zip(points, points[1:], strict=False), 1):
        anchors = start + np.array(_ALONG)[:, None] * (end - start)
        found.append(Label(str(number), style.INK, anchors))
    return found


def segments(subspace: Subspace) -> Float[np.ndarray, "segments 2 axes"]:
    """The steps and the class-compositions: from where to where."""
    points = subspace.points
    ends = np.stack([subspace.magnification * vector for _, vector in subspace.class_vectors()])
    vectors = np.stack((np.zeros_like(ends), ends), 1)
    return np.concatenate((np.stack((points[:-1], points[1:]), 1), vectors))


def write(
    axes: Axes,
    found: list[Label],
    obstacles: Float[np.ndarray, "segments 2 axes"],
    project: Callable[[np.ndarray], np.ndarray],
    annotation: Callable[..., Annotation] = Annotation,
) -> None:
    """Set labels where they cover nothing, once the layout is final.

    Args:
        axes: where they are written.
        found: the labels, most important first.
        obstacles: what they should not cover.
        project: from points of the space to pixels.
        annotation: makes a text of a string, the point it belongs to, and matplotlib's settings.
    """
    pixels = 72 / axes.figure.get_dpi()
    places = place(
        [pixels * project(label.anchors) for label in found],
        [label.size for label in found],
        pixels * project(obstacles.reshape(-1, obstacles.shape[-1])).reshape(-1, 2, 2),
        pixels * axes.bbox.get_points(),
    )
    for label, where in zip(found, places, strict=True):
        leader = {"arrowstyle": "-", "color": style.NEUTRAL, "linewidth": 0.5, "shrinkA": 0}
        text = annotation(
            label.text,
            label.anchors[where.anchor],
            xycoords=axes.transData,
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
        axes.add_artist(text)


def legend(axes: Axes, subspace: Subspace) -> None:
    """Over the axes, which feature each number is."""
    names = subspace.moves.labels(_LEGEND)
    numbered = [f"{number}  {name}" for number, name in enumerate(names, 1)]
    settings: dict[str, Any] = {"handlelength": 0.0, "handletextpad": 0.0, "columnspacing": 1.5}
    nothing = [Line2D([], [], linestyle="") for _ in numbered]
    room = 72 * style.WIDTH - 2 * style.MARGIN
    style.legend_above(axes, nothing, numbered, room, **settings)
