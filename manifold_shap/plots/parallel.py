"""Probabilities of the classes from base to prediction, as lines (Noé et al. 2024, Fig. 10)."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from manifold_shap.explanation import Explanation
from manifold_shap.plots import style, words
from manifold_shap.plots.players import Moves

# Points.
_LABEL = 110.0
_CLASS = 80.0
_LINE = 10.5
_STEP = 15.0
_SIDES = 130.0
# Inches.
_HEIGHT = 2.0
# Of more classes than there are colours, so many stand out.
_STAND_OUT = 5


def parallel_coordinates(explanation: Explanation, instance: int = 0, most: int = 12) -> Figure:
    """How the features of one row turn the base into the prediction: one line per class.

    From left to right, each feature perturbs the distribution that those before it made, the
    largest norm first. Of many classes, those with the largest probabilities at the two ends have
    colours.

    Args:
        explanation: in the space `ilr`.
        instance: position of the row.
        most: features to show; the rest is perturbed together.

    Raises:
        ValueError: the output space is not `ilr`, `most` is not positive, or `instance` is out of
            range.
    """
    moves = Moves.of_row(explanation, instance, most)
    steps, classes = len(moves.phi), len(explanation.classes)
    width = max(style.WIDTH, (_SIDES + _STEP * steps) / 72)
    labels = ["base", *(f"+ {label}" for label in moves.labels(_LABEL))]
    slant = style.slanted(labels, (72 * width - _SIDES) / steps - style.MARGIN)
    below = max(map(style.text_width, labels)) / 72 * (0.65 if "rotation" in slant else 0)
    height = max(_HEIGHT, 1.2 * _LINE * classes / 72)
    figure, axes = style.one_panel(height + below + 0.75, grid="y", width=width)
    _draw(axes, moves)
    axes.set_xticks(range(steps + 1), [style.plain(label) for label in labels], **slant)
    axes.set_xlim(0, steps)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("probability", fontsize=style.TEXT, color=style.INK)
    style.headline(figure, moves.headline())
    _label_ends(figure, axes, moves)
    return figure


def _draw(axes: Axes, moves: Moves) -> None:
    states = moves.states.numpy()
    colours = _colours(moves.states)
    for k, colour in enumerate(colours):
        grey = colour == style.NEUTRAL
        axes.plot(
            states[:, k],
            color=colour,
            linewidth=0.8 if grey else 1.6,
            marker="." if grey else "o",
            markersize=3,
            zorder=2 if grey else 3,
            # The ends lie on the border.
            clip_on=False,
        )


def _colours(states: Float[Tensor, "states classes"]) -> list[str]:
    """Of the classes: all have their own where there are enough, or else those that matter."""
    classes = states.shape[1]
    matter = range(classes)
    if classes > len(style.SERIES):
        ends = states[[0, -1]].amax(0)
        matter = sorted(ends.argsort(descending=True)[:_STAND_OUT].tolist())
    own = dict(zip(matter, style.SERIES, strict=False))
    return [own.get(k, style.NEUTRAL) for k in range(classes)]


def _label_ends(figure: Figure, axes: Axes, moves: Moves) -> None:
    """Classes and their probabilities beside the last points, spread so that none collide."""
    # Settles the layout, which tells how far apart two lines of text are on the axis.
    figure.draw_without_rendering()
    points = 72 * axes.get_window_extent().height / figure.dpi
    low, high = axes.get_ylim()
    ends = moves.states[-1].numpy()
    places = _spread(ends, _LINE / points * (high - low), low, high)
    steps = len(moves.phi)
    leader = 0.03 * steps
    for k, (name, colour) in enumerate(
        zip(moves.explanation.classes, _colours(moves.states), strict=True)
    ):
        axes.plot(
            [steps, steps + leader],
            [ends[k], places[k]],
            color=colour,
            linewidth=0.6,
            clip_on=False,
        )
        said = words.amount(ends[k], "probability")
        text = style.plain(f"{style.shorten(name, _CLASS)}  {said}")
        axes.text(
            steps + 1.3 * leader,
            places[k],
            text,
            fontsize=style.TEXT,
            color=style.INK,
            va="center_baseline",
        )


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
