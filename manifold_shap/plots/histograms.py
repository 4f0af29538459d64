"""Distributions over the classes as small bar plots (Noé et al. 2024, Section 6.4)."""

import numpy as np
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
_BETWEEN = 12.0
# Inches.
_LINE = 0.125
_AROUND = 0.42
_HEAD_AND_FOOT = 0.85
_COLUMNS = (2, 4)


def compositions(explanation: Explanation, instance: int = 0, most: int = 8) -> Figure:
    """The Shapley composition of each feature for one row, the largest norm first (Figs. 8-9).

    A composition of equal parts, at the dashed line, moves nothing. Titles tell its norm, with the
    standard error if that is known and not zero. The bar of the predicted class is blue.

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
    figure, panels, room = _grid(moves, len(moves.phi))
    norms = zip(moves.phi.norm(dim=1).tolist(), moves.norm_errors.tolist(), strict=True)
    titles = zip(moves.labels(room), norms, strict=True)
    for axes, parts, (label, norm) in zip(panels, moves.compositions, titles, strict=True):
        _draw(axes, parts, moves)
        axes.axvline(1 / classes, color=style.INK, linewidth=0.8, linestyle=(0, (3, 2)))
        _title(axes, label, f"norm {words.with_error(*norm)}")
    figure.supxlabel("part of the composition", fontsize=style.TEXT, color=style.INK)
    style.headline(figure, moves.headline(), f"dashed: 1/{classes}, no effect")
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
    _draw(panels[0], states[0], moves)
    _title(panels[0], "base")
    for step, (axes, label) in enumerate(zip(panels[1:], labels, strict=True)):
        _draw(axes, states[step + 1], moves)
        places = np.arange(states.shape[1])
        axes.vlines(
            states[step].numpy(), places - 0.4, places + 0.4, color=style.INK, linewidth=1.0
        )
        _title(axes, f"+ {label}", "= prediction" if axes is panels[-1] else "")
    figure.supxlabel("probability", fontsize=style.TEXT, color=style.INK)
    style.headline(figure, moves.headline(), "strokes: before the step")
    return figure


def _grid(moves: Moves, count: int) -> tuple[Figure, list[Axes], float]:
    """A figure with so many plots that share their axes, and the room for a title in points."""
    classes = [style.shorten(name, _CLASS) for name in moves.explanation.classes]
    room = 72 * style.WIDTH - 3 * style.MARGIN - max(map(style.text_width, classes))
    widest = max(map(style.text_width, moves.labels(_TITLE))) + style.text_width("+ ") + _BETWEEN
    columns = min(int(np.clip(room // widest, *_COLUMNS)), count)
    lines = -(-count // columns)
    height = _HEAD_AND_FOOT + lines * (_AROUND + _LINE * len(classes))
    figure = style.laid_out(height)
    panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).flatten()
    for axes in panels[count:]:
        axes.remove()
    for number, axes in enumerate(panels[:count]):
        style.strip(axes, grid="x")
        below = number + columns < count
        axes.tick_params(labelleft=number % columns == 0, labelbottom=not below)
    panels[0].set_yticks(range(len(classes)), [style.plain(name) for name in classes])
    panels[0].set_ylim(len(classes) - 0.5, -0.5)
    panels[0].xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    return figure, panels[:count].tolist(), room / columns - _BETWEEN


def _draw(axes: Axes, p: Float[Tensor, " classes"], moves: Moves) -> None:
    colours = [style.NEUTRAL] * len(p)
    colours[int(moves.prediction.argmax())] = style.SERIES[0]
    axes.barh(range(len(p)), p.numpy(), height=0.72, color=colours)


def _title(axes: Axes, *lines: str) -> None:
    text = style.plain("\n".join(lines))
    axes.set_title(text, loc="left", fontsize=style.TEXT, color=style.INK, pad=3)
