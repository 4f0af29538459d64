"""Draws Shapley compositions: how features of one row move the probabilities of all classes.

Figures of Noé et al. (2024), Sections 6.1 to 6.4, and the tree of their balances.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d import Axes3D  # type: ignore[import-untyped]
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]
from torch import Tensor

from manifold_shap import shown, simplex
from manifold_shap.explanation import Explanation
from manifold_shap.plots import canvas, selection
from manifold_shap.plots.canvas import Panels
from manifold_shap.plots.selection import Lines
from manifold_shap.simplex.partition import Partition, Tree
from manifold_shap.spaces import Probability

# Letters of the name of a class.
_CLASS = 18
# Panels in a line.
_COLUMNS = 4


@dataclass(frozen=True)
class Path:
    """Steps from the base to the prediction of one row, the largest norm first.

    Attributes:
        explanation: of that row alone.
        lines: players with a step of their own.
        phi: of the steps, in log-ratio coordinates; the last one is of all other players together
            if there are any.
        title: the predicted class and the row.
    """

    explanation: Explanation
    lines: Lines
    phi: Float[Tensor, "steps outputs"]
    title: str

    @classmethod
    def of_row(cls, explanation: Explanation, row: int | None, label: Any, most: int) -> "Path":
        """The path of a row on which at most `most` players have their own step."""
        selection.check_one(explanation)
        row = selection.row_of(explanation, row, label)
        lines = Lines.of(explanation.norms()[row], most)
        phi = lines.sums(explanation.phi[row].double().T).T
        p = simplex.ilr_inv(explanation.prediction[row], explanation.basis).exp()
        said = f"Probability of {explanation.classes[int(p.argmax())]}: {_amount(p.max())}"
        title = f"{said}, {selection.row_name(explanation, row)}"
        return cls(explanation[[row]], lines, phi, title)

    @property
    def coordinates(self) -> Float[Tensor, "states outputs"]:
        """The base, and where each step leads from there."""
        start = self.explanation.base.double()
        return torch.cat((start, start + self.phi.cumsum(0)))

    @property
    def states(self) -> Float[Tensor, "states classes"]:
        """Probabilities of the classes at the base, and after each step."""
        return simplex.ilr_inv(self.coordinates, self.explanation.basis).exp()

    def labels(self, room: int) -> list[str]:
        """Names of the steps, with feature values, at most `room` letters."""
        return self.lines.names_with_values(self.explanation, 0, room)


def _amount(p: Any) -> str:
    return Probability().amount(float(p))


def compositions(
    explanation: Explanation,
    row: int | None = None,
    max_display: int = 8,
    ax: Axes | None = None,
    *,
    label: Any = None,
    show: bool = False,
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
        row: position of the row; by default the first.
        max_display: features to show; the rest is perturbed together.
        ax: axes whose place the panels take; by default a new figure.
        label: of the row, instead of its position.
        show: whether to call `plt.show()`.

    Raises:
        ValueError: the output space is not `ilr`, `max_display` is not positive, or no such row.
    """
    path = Path.of_row(explanation, row, label, max_display)
    norms = simplex.compositions.norms(path.phi)
    errors = path.lines.errors(path.explanation.norm_errors())[0]
    # Rounding errors do not show.
    errors = errors.masked_fill(errors <= 5e-4 * norms, 0.0)
    pairs = zip(norms.tolist(), errors.tolist(), strict=True)
    said = [shown.with_error(*pair) for pair in pairs]
    titles = [f"{name}\nnorm {norm}" for name, norm in zip(path.labels(22), said, strict=True)]
    parts = simplex.ilr_inv(path.phi, explanation.basis).exp()
    panels = _distributions(ax, path, parts, titles, "part")
    count = len(explanation.classes)
    for axes in panels:
        axes.axvline(1 / count, color=rcParams["text.color"], linewidth=0.8, linestyle="--")
    dashed = f"dashed: all parts equal (1/{count}), no effect"
    known = errors[errors.isfinite()]
    small = shown.of_errors([path.explanation], known, "±: 1 standard error")
    return canvas.finish(panels, {"": explanation}, [path.title, dashed], show, small)


def cumulative(
    explanation: Explanation,
    row: int | None = None,
    max_display: int = 7,
    ax: Axes | None = None,
    *,
    label: Any = None,
    show: bool = False,
) -> Panels:
    """Draws how the features of one row turn the base into the prediction step by step.

    Each panel has the probabilities once the feature in its title has perturbed those of the panel
    before, the largest norm first; upright strokes are the probabilities before. The bar of the
    predicted class is blue (Noé et al. 2024, Fig. 1).

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
        row: position of the row; by default the first.
        max_display: features to show; the rest is perturbed together.
        ax: axes whose place the panels take; by default a new figure.
        label: of the row, instead of its position.
        show: whether to call `plt.show()`.

    Raises:
        ValueError: as `compositions`.
    """
    path = Path.of_row(explanation, row, label, max_display)
    titles = ["base", *(f"+ {name}" for name in path.labels(20))]
    titles[-1] += "\n= prediction"
    panels = _distributions(ax, path, path.states, titles, "probability")
    for axes, before in zip(panels[1:], path.states.numpy(), strict=False):
        places = np.arange(len(before))
        axes.vlines(before, places - 0.4, places + 0.4, color=rcParams["text.color"], linewidth=1)
    return canvas.finish(panels, {"": explanation}, [path.title, "strokes: before the step"], show)


def _distributions(
    ax: Axes | None,
    path: Path,
    parts: Float[Tensor, "panels classes"],
    titles: Sequence[str],
    label: str,
) -> Panels:
    """A panel of bars with their numbers for each distribution."""
    classes = [shown.shorten(name, _CLASS) for name in path.explanation.classes]
    columns = min(_COLUMNS, len(parts))
    high = 2 + -(-len(parts) // columns) * (3.2 + 0.8 * len(classes))
    shape: dict[str, Any] = {"width": 0.45 + 0.2 * columns, "sharex": True, "sharey": True}
    panels = canvas.panels(ax, high, len(parts), columns, "x", **shape)
    colours = [canvas.NEUTRAL] * len(classes)
    colours[int(path.states[-1].argmax())] = canvas.SERIES[0]
    # Strokes pass behind numbers.
    halo = [withStroke(linewidth=3, foreground=rcParams["axes.facecolor"])]
    look: dict[str, Any] = {"padding": 3, "fontsize": "small", "path_effects": halo}
    for axes, p, title in zip(panels, parts.tolist(), titles, strict=True):
        bars = axes.barh(range(len(p)), p, height=0.72, color=colours)
        axes.bar_label(bars, [_amount(part) for part in p], **look)
        axes.set_title(title, loc="left", fontsize="small")
    for axes in panels[-columns:]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(label)
    panels[0].margins(x=0.45)
    canvas.name_lines(panels[0], classes)
    return panels


def parallel_coordinates(
    explanation: Explanation,
    row: int | None = None,
    max_display: int = 12,
    ax: Axes | None = None,
    *,
    label: Any = None,
    show: bool = False,
) -> Axes:
    """Draws one line per class from the base to the prediction of one row.

    From left to right, each feature perturbs the distribution that those before it made, the
    largest norm first (Noé et al. 2024, Fig. 10). Of many classes, the most probable ones at the
    end have colours, and the others are grey.

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
        row: position of the row; by default the first.
        max_display: features to show; the rest is perturbed together.
        ax: axes to draw in; by default a new figure.
        label: of the row, instead of its position.
        show: whether to call `plt.show()`.

    Raises:
        ValueError: as `compositions`.
    """
    path = Path.of_row(explanation, row, label, max_display)
    states = path.states.numpy()
    steps = ["base", *(f"+ {name}" for name in path.labels(24))]
    high = 11 + 0.3 * max(map(len, steps))
    axes = canvas.panel(ax, high, width=max(1, 0.4 + 0.05 * len(steps)))
    # In the order in which lines end, from the top; of many classes the last are grey.
    order = states[-1].argsort(kind="stable")[::-1]
    colours = dict.fromkeys(order, canvas.NEUTRAL) | dict(zip(order, canvas.SERIES, strict=False))
    for k, line in enumerate(states.T):
        # The ends lie on the border.
        axes.plot(line, color=colours[k], marker="o", markersize=4, clip_on=False)
    canvas.name_columns(axes, steps)
    axes.set_xlim(0, len(steps) - 1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("probability")
    classes = [shown.shorten(name, _CLASS) for name in explanation.classes]
    ends = [f"{classes[k]}  {_amount(states[-1, k])}" for k in order]
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
    lines = [axes.lines[k] for k in order]
    axes.legend(lines, ends, frameon=False, fontsize="small", **where)
    return canvas.finish(axes, {"": explanation}, [path.title], show)


def _draw_view(
    axes: Any, path: Path, balances: list[int]
) -> tuple[Float[np.ndarray, "classes axes"], list[str]]:
    """Draws the steps, head to tail, on the class-compositions (Noé et al., Sections 6.1-6.2).

    Returns:
        Class-compositions, of norm one before they are projected on these balances, and then
        magnified by a round factor to be about as large as the path; and the title.
    """
    outputs, names = path.explanation.outputs, path.explanation.classes
    points, basis = path.coordinates[:, balances].numpy(), path.explanation.basis[balances]
    classes = simplex.coordinates(simplex.class_compositions(len(names)), basis).numpy()
    extent = max(np.ptp(points, axis=0).max(), 0.5 * np.abs(points).max())
    factor = float(f"{0.45 * extent / np.linalg.norm(classes, axis=1).max():.0e}") or 1.0
    classes *= factor
    # One label for all classes that no axis shown distinguishes.
    for end in np.unique(classes.round(9), axis=0):
        members = [
            name for name, each in zip(names, classes, strict=True) if np.allclose(each, end)
        ]
        if end.any():
            axes.plot(*np.stack((0 * end, end), 1), color=canvas.NEUTRAL, linestyle="--")
            said, side = (
                shown.shorten(", ".join(members), _CLASS),
                "left" if end[0] >= 0 else "right",
            )
            axes.text(*(1.05 * end), said, ha=side, va="center")
    handles = []
    for number, pair in enumerate(itertools.pairwise(points)):
        colour = canvas.SERIES[number % len(canvas.SERIES)]
        if number == len(path.lines.players):
            colour = canvas.NEUTRAL
        # Later lines are thinner: they may lie upon the earlier ones, and colours recur.
        width = 4 * 0.8**number
        handles += axes.plot(*np.transpose(pair), color=colour, linewidth=width)
        if len(balances) == 2:
            look = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0}
            look["mutation_scale"] = 8 + 3 * width
            axes.annotate("", pair[1], pair[0], arrowprops=look, zorder=4)
        else:
            axes.plot(*np.transpose(pair[1:]), marker="o", markersize=4, color=colour)
    look = {"marker": "o", "linestyle": "", "color": rcParams["text.color"], "zorder": 5}
    handles += axes.plot(*points[:1].T, markerfacecolor=rcParams["axes.facecolor"], **look)
    handles += axes.plot(*points[-1:].T, **look)
    ours = isinstance(axes, canvas.Drawn)
    (axes.figure if ours else axes).legend(
        handles, [*path.labels(24), "base", "prediction"], frameon=False,
        fontsize="small", loc="outside right center" if ours else "best",
    )  # fmt: skip
    for name, k in zip("xyz", balances, strict=False):
        which = f" (balance {k + 1})" * (len(balances) < len(outputs))
        label = f"log-ratio {shown.shorten(outputs[k], 60 // len(balances))}{which}"
        axes.set(**{f"{name}label": label})
    scaled = "" if factor == 1 else f" × {factor:g}"
    part = f"; {len(balances)} of {len(outputs)} balances" * (len(balances) < len(outputs))
    return classes, [path.title, f"dashed: class-compositions{scaled}{part}"]


def balance_positions(
    names: tuple[str, ...], balances: Sequence[int | str], count: int
) -> list[int]:
    """Of so many different balances, by number from 1 or by name; ValueError for others."""
    known: dict[Any, int] = {k + 1: k for k in range(len(names))}
    known |= {name: k for k, name in enumerate(names)}
    found = [known.get(each, -1) for each in balances]
    if not len({*found} - {-1}) == len(found) == count:
        raise ValueError(
            f"Expected {count} `balances` by number from 1 to {len(names)}, or by name among "
            f"{list(names)}, but got {balances!r}."
        )
    return found


def ilr_plane(
    explanation: Explanation,
    row: int | None = None,
    balances: Sequence[int | str] = (1, 2),
    max_display: int = 7,
    ax: Axes | None = None,
    *,
    label: Any = None,
    show: bool = False,
) -> Axes:
    """Draws how the features of one row move the prediction, as arrows in a plane of log-ratios.

    Each arrow is one feature's Shapley composition, the largest norm first, and starts where the
    one before ends: from the base to the prediction (Noé et al. 2024, Figs. 2 and 7). Dashed
    vectors are the class-compositions, straight towards one class, scaled by the factor in the
    caption. With three classes the plane is the whole space: on dotted rays two of them tie, and
    between these rays one class is the most probable. With more classes, two balances do not
    determine it.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = 2 * torch.eye(3)
        >>> imputer = ms.imputers.MarginalImputer(x)
        >>> value = ms.imputed_value(lambda x: x.softmax(1), imputer, "ilr", draws=2)
        >>> axes = ms.plots.ilr_plane(ms.exact_shapley(value, x))
        >>> axes.get_xlabel()
        'log-ratio 0 : 1'

    Args:
        explanation: in the space `ilr`, of three classes or more.
        row: position of the row; by default the first.
        balances: two for the axes, by number as `str(explanation.partition)` counts them, from 1,
            or by name.
        max_display: features to show; the rest is one arrow.
        ax: axes to draw in; by default a new figure.
        label: of the row, instead of its position.
        show: whether to call `plt.show()`.

    Raises:
        ValueError: the output space is not `ilr`, there are fewer than three classes, a balance is
            unknown or named twice, `max_display` is not positive, or no such row.
    """
    path = Path.of_row(explanation, row, label, max_display)
    positions = balance_positions(explanation.outputs, balances, 2)
    axes = canvas.panel(ax, 18, grid="both", width=1.1)
    classes, title = _draw_view(axes, path, positions)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
    if len(explanation.outputs) == 2:
        rays = [((0, 0), tuple(ray)) for ray in -1e3 * classes]
        look: dict[str, Any] = {"colors": canvas.NEUTRAL, "linestyles": ":", "zorder": 1}
        axes.add_collection(LineCollection(rays, **look), autolim=False)
    return canvas.finish(axes, {"": explanation}, title, show)


class _Space(canvas.Drawn, Axes3D):
    """Axes in three dimensions."""


def ilr_space(
    explanation: Explanation,
    row: int | None = None,
    balances: Sequence[int | str] = (1, 2, 3),
    max_display: int = 7,
    ax: Axes | None = None,
    *,
    label: Any = None,
    show: bool = False,
) -> Axes:
    """Draws how the features of one row move the prediction, as lines in three log-ratios.

    As `ilr_plane`, with one dimension more (Noé et al. 2024, Fig. 4); a line ends in a dot. With
    four classes this is the whole space: grey walls part the regions in which one class is the most
    probable. `view_init` of these axes, in degrees, chooses another view.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = 2 * torch.eye(4)
        >>> imputer = ms.imputers.MarginalImputer(x)
        >>> value = ms.imputed_value(lambda x: x.softmax(1), imputer, "ilr", draws=2)
        >>> axes = ms.plots.ilr_space(ms.exact_shapley(value, x))
        >>> axes.get_zlabel()
        'log-ratio 0+1+2 : 3'

    Args:
        explanation: in the space `ilr`, of four classes or more.
        row: position of the row; by default the first.
        balances: three for the axes, by number or by name.
        max_display: features to show; the rest is one line.
        ax: axes whose place the space takes; by default a new figure.
        label: of the row, instead of its position.
        show: whether to call `plt.show()`.

    Raises:
        ValueError: as `ilr_plane`, or there are fewer than four classes.
    """
    path = Path.of_row(explanation, row, label, max_display)
    positions = balance_positions(explanation.outputs, balances, 3)
    kind = {"axes_class": _Space, "proj_type": "ortho", "computed_zorder": False}
    (axes,) = canvas.panels(ax, 15, 1, 1, width=1.1, subplot_kw=kind)
    drawn: Any = axes
    drawn.view_init(22, -55)
    classes, title = _draw_view(drawn, path, positions)
    drawn.set_aspect("equal")
    drawn.set_box_aspect(None, zoom=0.8)
    drawn.tick_params(labelsize="small", pad=0)
    for axis in (drawn.xaxis, drawn.yaxis, drawn.zaxis):
        axis.label.set_size("small")
        axis.set_major_locator(MaxNLocator(4))
    if len(explanation.outputs) == 3:
        # Each edge of the cone in which two classes tie at the top points away from another one.
        pairs = itertools.combinations(-1.5 * classes, 2)
        walls = [np.stack((np.zeros(3), *pair)) for pair in pairs]
        look = {"facecolor": canvas.NEUTRAL, "alpha": 0.12, "edgecolor": "none", "zorder": 1}
        drawn.add_collection3d(Poly3DCollection(walls, **look))
    return canvas.finish(axes, {"": explanation}, title, show)


def bifurcation_tree(
    partition: Partition | Tree, ax: Axes | None = None, *, show: bool = False
) -> Axes:
    """Draws which classes each balance compares: those below its left and its right branch.

    A partition of the classes as in Noé et al. (2024), Figs. 5-6.

        >>> import manifold_shap as ms
        >>> axes = ms.plots.bifurcation_tree([["cat", "dog"], "eel"])
        >>> len(axes.lines)  # two balances of three classes
        2

    Args:
        partition: one, whose balances have the numbers that `str(partition)` shows, or nested pairs
            of class names such as `[["a", "b"], "c"]`.
        ax: axes to draw in; by default a new figure.
        show: whether to call `plt.show()`.

    Raises:
        ValueError: a node that is not a pair, or a class named twice.
    """
    if not isinstance(partition, Partition):
        partition = Partition.of_tree(partition)
    sizes = (partition.signs != 0).sum(1)
    # Ancestors are larger: the first balance to tell two classes apart is the one to split them.
    downwards = -partition.signs[sizes.argsort(descending=True)]
    order = sorted(range(len(partition.classes)), key=lambda k: downwards[:, k].tolist())
    axes = canvas.panel(ax, 4 + len(order), grid="", width=max(1, 0.05 * len(order)))
    axes.spines[:].set_visible(False)
    axes.tick_params(left=False, labelleft=False, bottom=False)
    # A group stands halfway between its two, one level above the higher of them.
    places = {frozenset([k]): (float(x), 0) for x, k in enumerate(order)}
    numbered = enumerate(partition.groups, 1)
    for number, (first, second) in sorted(numbered, key=lambda each: sum(map(len, each[1]))):
        (left, low), (right, high) = places[frozenset(first)], places[frozenset(second)]
        middle, level = (left + right) / 2, max(low, high) + 1
        places[frozenset(first + second)] = middle, level
        axes.plot([left, left, right, right], [low, level, level, high], color=canvas.NEUTRAL)
        ground = rcParams["axes.facecolor"]
        axes.text(middle, level, str(number), ha="center", va="center", backgroundcolor=ground)
    canvas.name_columns(axes, [shown.shorten(partition.classes[k], 24) for k in order])
    return canvas.finish(axes, {}, ["Balances: left group (+) against right group (−)"], show)
