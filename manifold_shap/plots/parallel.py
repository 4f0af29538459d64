"""Probabilities of the classes from base to prediction, as lines (Noé et al. 2024, Fig. 10)."""

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manifold_shap.explanation import Explanation
from manifold_shap.plots import style, words
from manifold_shap.plots.players import Moves
from manifold_shap.spaces import Probability

# Points.
_LABEL = 110.0
_CLASS = 80.0
_LINE = 10.5
_STEP = 10.5
_SCALE = 45.0
_LEADER = 14.0
_GAP = 5.0
# Inches.
_HEIGHT = 2.0
_HEAD = 0.7
# Of more classes than there are colours, so many stand out.
_STAND_OUT = 5
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def parallel_coordinates(explanation: Explanation, instance: int = 0, most: int = 12) -> Figure:
    """How the features of one row turn the base into the prediction: one line per class.

    From left to right, each feature perturbs the distribution that those before it made, the
    largest norm first. Of many classes, those with the largest probabilities at the two ends stand
    out, and the others are grey.

    Args:
        explanation: in the space `ilr`.
        instance: position of the row.
        most: features to show; the rest is perturbed together.

    Raises:
        ValueError: the output space is not `ilr`, `most` is not positive, or `instance` is out of
            range.
    """
    moves = Moves.of_row(explanation, instance, most)
    labels = ["base", *(f"+ {label}" for label in moves.labels(_LABEL))]
    ends = _end_labels(moves)
    sides = _SCALE + _LEADER + _GAP + max(map(style.text_width, ends)) + style.MARGIN
    width = max(style.WIDTH, (sides + _STEP * len(labels)) / 72)
    settings, below = style.below_axis(labels, 72 * width - sides)
    height = max(_HEIGHT, 1.2 * _LINE * len(ends) / 72)
    figure, axes = style.one_panel(height + _HEAD + below / 72, grid="y", width=width)
    looks = _looks(moves.states.numpy())
    for line, look in zip(moves.states.T.numpy(), looks, strict=True):
        # The ends lie on the border.
        axes.plot(line, clip_on=False, **look)
    axes.set_xticks(range(len(labels)), [style.plain(label) for label in labels], **settings)
    axes.set_xlim(0, len(labels) - 1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("probability", fontsize=style.TEXT, color=style.INK)
    style.headline(figure, moves.headline())
    # Settles the layout, which tells how far apart lines of text are on the axis.
    figure.draw_without_rendering()
    _label_ends(axes, moves.states[-1].numpy(), ends, looks)
    return figure


def _looks(states: Float[np.ndarray, "states classes"]) -> list[dict[str, Any]]:
    """Of the lines: a colour and a marker of its own for every class that matters, or else grey."""
    classes = states.shape[1]
    matter = np.arange(classes)
    if classes > len(style.SERIES):
        matter = np.sort(np.argsort(-states[[0, -1]].max(0), kind="stable")[:_STAND_OUT])
    looks: list[dict[str, Any]] = [
        {"color": style.NEUTRAL, "linewidth": 0.7, "marker": ".", "markersize": 3.0, "zorder": 2}
        for _ in range(classes)
    ]
    for k, colour, marker in zip(matter, style.SERIES, _MARKERS, strict=False):
        looks[k] = {
            "color": colour, "linewidth": 1.5, "marker": marker, "markersize": 3.5, "zorder": 3
        }  # fmt: skip
    return looks


def _end_labels(moves: Moves) -> list[str]:
    said = [words.amount(p, Probability()) for p in moves.states[-1].tolist()]
    names = [style.shorten(name, _CLASS) for name in moves.explanation.classes]
    return [f"{name}  {amount}" for name, amount in zip(names, said, strict=True)]


def _label_ends(
    axes: Axes,
    ends: Float[np.ndarray, " classes"],
    labels: list[str],
    looks: list[dict[str, Any]],
) -> None:
    """Labels beside the last points, led there where they had to give way to each other.

    Markers are repeated, since leaders of classes that end together tell nothing apart.
    """
    panel = axes.get_window_extent()
    point = axes.figure.get_dpi() / 72
    (first, last), (low, high) = axes.get_xlim(), axes.get_ylim()
    places = _spread(ends, _LINE * point / panel.height * (high - low), low, high)
    leader = last + _LEADER * point / panel.width * (last - first)
    for end, place, label, look in zip(ends, places, labels, looks, strict=True):
        thin = {**look, "linewidth": 0.6, "markevery": [1], "clip_on": False}
        axes.plot([last, leader], [end, place], **thin)
        axes.annotate(
            style.plain(label), (leader, place), (_GAP, 0), textcoords="offset points",
            fontsize=style.TEXT, color=style.INK, va="center_baseline", annotation_clip=False,
        )  # fmt: skip


def _spread(
    wanted: Float[np.ndarray, " labels"], gap: float, low: float, high: float
) -> Float[np.ndarray, " labels"]:
    """Places at least a gap apart, as close to the wanted ones as least squares can bring them."""
    # Here: it takes longer to import than the rest of the package.
    from sklearn.isotonic import isotonic_regression

    order = wanted.argsort(kind="stable")
    offset = gap * np.arange(len(wanted))
    places = np.empty_like(wanted)
    places[order] = offset + isotonic_regression(
        wanted[order] - offset, y_min=low, y_max=high - offset[-1]
    )
    return places
