"""Draws distributions over the classes: as small bar plots, and as lines (Noé et al. 2024, 6.4)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from torch import Tensor

from manifold_shap.explanation import Explanation
from manifold_shap.plots import canvas, style
from manifold_shap.plots.canvas import Panels
from manifold_shap.plots.path import Path
from manifold_shap.plots.titles import headline
from manifold_shap.spaces import Probability

# Letters: of the name of a class, and between panels.
_CLASS, _BETWEEN = 18, 2
# Share of the axis that is left for numbers.
_BEYOND = 0.5


def compositions(
    explanation: Explanation, row: int = 0, most: int = 8, ax: Axes | None = None
) -> Panels:
    """Draws the Shapley composition of each feature of one row, largest norm first (Figs. 8-9).

    A composition of equal parts, at the dashed line, has no effect. Titles have its norm, with the
    standard error if that is known and shows. The bar of the predicted class is blue.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = 2 * torch.eye(3)
        >>> imputer = ms.imputers.MarginalImputer(x)
        >>> value = ms.imputed_value(lambda x: x.softmax(1), imputer, "ilr", draws=2)
        >>> panels = ms.plots.compositions(ms.exact_shapley(value, x))
        >>> len(panels)  # one for each feature
        3

    Args:
        explanation: in the space `ilr`.
        row: position of the row.
        most: features to show; the rest is perturbed together.
        ax: axes whose place the panels take; by default a new figure.

    Raises:
        ValueError: the output space is not `ilr`, `most` is not positive, or `row` is out of
            range.
    """
    path = Path.of_row(explanation, row, most)
    norms = path.phi.norm(dim=1)
    # An error that three digits of the norm do not show is that of rounding.
    errors = torch.where(path.norm_errors > 5e-4 * norms, path.norm_errors, torch.nan)
    said = [style.with_error(*pair) for pair in zip(norms.tolist(), errors.tolist(), strict=True)]
    panels, room = _grid(ax, path, path.compositions, [f"norm {norm}" for norm in said])
    equal = 1 / len(explanation.classes)
    for axes, label, norm in zip(panels, path.labels(room), said, strict=True):
        _set_title(axes, f"{label}\nnorm {norm}")
        axes.axvline(equal, color=style.INK, linewidth=0.8, linestyle=(0, (3, 2)))
    # Numbers stand upon the dashed line.
    halo = [withStroke(linewidth=3, foreground=style.GROUND)]
    _write_parts(panels, path.compositions, path_effects=halo)
    panels.figure.supxlabel("part of the composition", fontsize=style.TEXT)
    dashed = f"dashed: all parts equal (1/{len(explanation.classes)}), no effect"
    headline(panels.figure, {"": explanation}, *path.headline(dashed))
    return panels


def cumulative(
    explanation: Explanation, row: int = 0, most: int = 7, ax: Axes | None = None
) -> Panels:
    """Draws how the features of one row turn the base into the prediction step by step (Fig. 1).

    Each panel has the probabilities once the feature in its title has perturbed those of the panel
    before, the largest norm first; upright strokes are the probabilities before. The bar of the
    predicted class is blue.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = 2 * torch.eye(3)
        >>> imputer = ms.imputers.MarginalImputer(x)
        >>> value = ms.imputed_value(lambda x: x.softmax(1), imputer, "ilr", draws=2)
        >>> panels = ms.plots.cumulative(ms.exact_shapley(value, x))
        >>> panels[0].get_title(loc="left")
        'base'

    Args:
        explanation: in the space `ilr`.
        row: position of the row.
        most: features to show; the rest is perturbed together.
        ax: axes whose place the panels take; by default a new figure.

    Raises:
        ValueError: as `compositions`.
    """
    path = Path.of_row(explanation, row, most)
    panels, room = _grid(ax, path, path.states)
    labels = path.labels(room - 2)
    titles = ["base", *(f"+ {label}" for label in labels)]
    titles[-1] += "\n= prediction"
    for axes, title in zip(panels, titles, strict=True):
        _set_title(axes, title)
    for axes, before in zip(panels[1:], path.states.numpy(), strict=False):
        places = np.arange(len(before))
        axes.vlines(before, places - 0.4, places + 0.4, color=style.INK, linewidth=1.0)
    _write_parts(panels, path.states)
    panels.figure.supxlabel("probability", fontsize=style.TEXT)
    headline(panels.figure, {"": explanation}, *path.headline("strokes: before the step"))
    return panels


def _grid(
    ax: Axes | None,
    path: Path,
    parts: Float[Tensor, "panels classes"],
    below: Sequence[str] = (),
) -> tuple[Panels, int]:
    """A panel of bars for each distribution, and the letters of a title.

    Second lines of titles, `below`, are never cut.
    """
    classes = [style.shorten(name, _CLASS) for name in path.explanation.classes]
    room = canvas.letters(ax) - max(map(len, classes))
    widest = max(map(len, [*path.labels(30), *below])) + _BETWEEN
    columns = min(int(np.clip(room // widest, 2, 4)), len(parts))
    lines = -(-len(parts) // columns)
    figure = canvas.container(ax, 0.85 + lines * (0.42 + 0.125 * len(classes)))
    panels = canvas.panels(figure, len(parts), columns)
    colours = [style.NEUTRAL] * len(classes)
    colours[int(path.prediction.argmax())] = style.SERIES[0]
    for number, (axes, p) in enumerate(zip(panels, parts.numpy(), strict=True)):
        style.strip(axes, grid="x")
        last = number + columns >= len(parts)
        axes.tick_params(labelleft=number % columns == 0, labelbottom=last)
        axes.barh(range(len(p)), p, height=0.72, color=colours)
    style.write_lines(panels[0], classes)
    style.scale(panels[0].xaxis, "", ticks=3)
    return panels, room // columns - _BETWEEN


def _write_parts(panels: Panels, parts: Tensor, **look: Any) -> None:
    """Numbers beyond the ends of bars."""
    for axes, p in zip(panels, parts.tolist(), strict=True):
        bars: Any = axes.containers[0]
        said = [Probability().amount(part) for part in p]
        axes.bar_label(bars, said, padding=3, fontsize=style.SMALL, **look)
    panels[0].margins(x=_BEYOND)


def _set_title(axes: Axes, title: str) -> None:
    axes.set_title(style.plain(title), loc="left", fontsize=style.TEXT, pad=3)


def parallel_coordinates(
    explanation: Explanation, row: int = 0, most: int = 12, ax: Axes | None = None
) -> Axes:
    """Draws one line per class from the base to the prediction of one row (Fig. 10).

    From left to right, each feature perturbs the distribution that those before it made, the
    largest norm first. Of many classes, those with the largest probabilities at the two ends stand
    out, and the others are grey.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = 2 * torch.eye(3)
        >>> imputer = ms.imputers.MarginalImputer(x)
        >>> value = ms.imputed_value(lambda x: x.softmax(1), imputer, "ilr", draws=2)
        >>> axes = ms.plots.parallel_coordinates(ms.exact_shapley(value, x))
        >>> len(axes.lines)  # one for each class
        3

    Args:
        explanation: in the space `ilr`.
        row: position of the row.
        most: features to show; the rest is perturbed together.
        ax: axes whose place the panels take; by default a new figure.

    Raises:
        ValueError: as `compositions`.
    """
    path = Path.of_row(explanation, row, most)
    states = path.states.numpy()
    labels = ["base", *(f"+ {label}" for label in path.labels(24))]
    names = [style.shorten(name, _CLASS) for name in explanation.classes]
    ends = [f"{name}  {Probability().amount(p)}" for name, p in zip(names, states[-1], strict=True)]
    height = max(2.0, 0.175 * len(ends)) + 0.05 * max(map(len, labels))
    axes = canvas.one_panel(ax, height + 0.7, "y", max(style.WIDTH, 2.5 + 0.2 * len(labels)))
    for line, look in zip(states.T, _looks(states), strict=True):
        # The ends lie on the border.
        axes.plot(line, clip_on=False, **look)
    said = [style.plain(label) for label in labels]
    axes.set_xticks(range(len(labels)), said, **style.below_axis(labels))
    axes.set_xlim(0, len(labels) - 1)
    axes.set_ylim(bottom=0)
    style.scale(axes.yaxis, "probability")
    headline(axes, {"": explanation}, *path.headline())
    # In the order in which lines end, from the top.
    order = states[-1].argsort(kind="stable")[::-1]
    axes.legend(
        [axes.lines[k] for k in order], [style.plain(ends[k]) for k in order], frameon=False,
        loc="center left", bbox_to_anchor=(1, 0.5), fontsize=style.TEXT,
    )  # fmt: skip
    return axes


def _looks(states: Float[np.ndarray, "states classes"]) -> list[dict[str, Any]]:
    """Of the lines: a colour and a marker of its own for every class that matters, or else grey."""
    matter = np.arange(states.shape[1])
    if len(matter) > len(style.SERIES):
        matter = np.sort(np.argsort(-states[[0, -1]].max(0), kind="stable")[:5])
    grey = {"color": style.NEUTRAL, "linewidth": 0.7, "marker": ".", "markersize": 3.0, "zorder": 2}
    looks: list[dict[str, Any]] = [grey] * states.shape[1]
    for k, colour, marker in zip(matter, style.SERIES, "os^DvPX", strict=False):
        looks[k] = {
            "color": colour, "linewidth": 1.5, "marker": marker, "markersize": 3.5, "zorder": 3
        }  # fmt: skip
    return looks
