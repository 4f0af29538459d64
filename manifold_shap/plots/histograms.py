"""Distributions over the classes as small bar plots (Noé et al. 2024, Section 6.4)."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from manifold_shap.explanation import Explanation
from manifold_shap.plots import style, words
from manifold_shap.plots.players import Moves

# Points.
_CLASS = 80.0
_TITLE = 150.0
_BETWEEN = 8.0
# Inches.
_LINE = 0.125
_AROUND = 0.42
_HEAD_AND_FOOT = 0.85
_COLUMNS = (2, 4)
# Of the widest title: losing a letter or two is better than another line of plots.
_FIT = 0.9
# An error that three digits of the norm do not show is that of rounding.
_SHOWN = 5e-4


def compositions(explanation: Explanation, instance: int = 0, most: int = 8) -> Figure:
    """The Shapley composition of each feature for one row, the largest norm first (Figs. 8-9).

    A composition of equal parts, at the dashed line, moves nothing. Titles tell its norm, with the
    standard error if that is known and shows. The bar of the predicted class is blue.

    Args:
        explanation: in the space `ilr`.
        instance: position of the row.
        most: features to show; the rest is perturbed together.

    Raises:
        ValueError: the output space is not `ilr`, `most` is not positive, or `instance` is out of
            range.
    """
    moves = Moves.of_row(explanation, instance, most)
    classes = len(explanation.classes)
    norms = moves.phi.norm(dim=1)
    errors = torch.where(moves.norm_errors > _SHOWN * norms, moves.norm_errors, torch.nan)
    said = [
        f"norm {words.with_error(*pair)}"
        for pair in zip(norms.tolist(), errors.tolist(), strict=True)
    ]
    figure, panels, room = _grid(moves, len(moves.phi), said)
    titles = [f"{label}\n{norm}" for label, norm in zip(moves.labels(room), said, strict=True)]
    for axes, parts, title in zip(panels, moves.compositions, titles, strict=True):
        _draw(axes, parts, title, moves)
        axes.axvline(1 / classes, color=style.INK, linewidth=0.8, linestyle=(0, (3, 2)))
    figure.supxlabel("part of the composition", fontsize=style.TEXT, color=style.INK)
    style.headline(figure, moves.headline(), f"dashed: all parts equal (1/{classes}), no effect")
    return figure


def cumulative(explanation: Explanation, instance: int = 0, most: int = 7) -> Figure:
    """How the features of one row turn the base into the prediction, step by step (Fig. 1).

    Each plot has the probabilities once the feature in its title has perturbed those of the plot
    before, the largest norm first; upright strokes are the probabilities before. The bar of the
    predicted class is blue.

    Args:
        explanation: in the space `ilr`.
        instance: position of the row.
        most: features to show; the rest is perturbed together.

    Raises:
        ValueError: the output space is not `ilr`, `most` is not positive, or `instance` is out of
            range.
    """
    moves = Moves.of_row(explanation, instance, most)
    states = moves.states
    figure, panels, room = _grid(moves, len(states))
    labels = moves.labels(room - style.text_width("+ "))
    titles = ["base", *(f"+ {label}" for label in labels)]
    titles[-1] += "\n= prediction"
    for axes, state, title in zip(panels, states, titles, strict=True):
        _draw(axes, state, title, moves)
    places = np.arange(states.shape[1])
    for axes, before in zip(panels[1:], states.numpy(), strict=False):
        axes.vlines(before, places - 0.4, places + 0.4, color=style.INK, linewidth=1.0)
    figure.supxlabel("probability", fontsize=style.TEXT, color=style.INK)
    style.headline(figure, moves.headline(), "strokes: before the step")
    return figure


def _grid(moves: Moves, count: int, below: Sequence[str] = ()) -> tuple[Figure, list[Axes], float]:
    """A figure with so many plots that share their axes, and the room for a title in points.

    Second lines of titles, `below`, are never cut.
    """
    classes = [style.shorten(name, _CLASS) for name in moves.explanation.classes]
    room = 72 * style.WIDTH - 3 * style.MARGIN - max(map(style.text_width, classes))
    first = max(map(style.text_width, moves.labels(_TITLE))) + style.text_width("+ ")
    widest = max(_FIT * first, *map(style.text_width, below), 0.0)
    columns = min(int(np.clip(room // (widest + _BETWEEN), *_COLUMNS)), count)
    lines = -(-count // columns)
    height = _HEAD_AND_FOOT + lines * (_AROUND + _LINE * len(classes))
    figure = style.laid_out(height)
    panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).flatten()
    for axes in panels[count:]:
        axes.remove()
    for number, axes in enumerate(panels[:count]):
        style.strip(axes, grid="x")
        last = number + columns >= count
        axes.tick_params(labelleft=number % columns == 0, labelbottom=last)
    panels[0].set_yticks(range(len(classes)), [style.plain(name) for name in classes])
    panels[0].set_ylim(len(classes) - 0.5, -0.5)
    panels[0].xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    return figure, panels[:count].tolist(), room / columns - _BETWEEN


def _draw(axes: Axes, p: Float[Tensor, " classes"], title: str, moves: Moves) -> None:
    colours = [style.NEUTRAL] * len(p)
    colours[int(moves.prediction.argmax())] = style.SERIES[0]
    axes.barh(range(len(p)), p.numpy(), height=0.72, color=colours)
    axes.set_title(style.plain(title), loc="left", fontsize=style.TEXT, color=style.INK, pad=3)
