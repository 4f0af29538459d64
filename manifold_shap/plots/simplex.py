"""Draws Shapley compositions: how features of one row move the probabilities of all classes.

Figures of Noé et al. (2024), Sections 6.1 to 6.4, and the tree of their balances.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke
from mpl_toolkits.mplot3d import Axes3D  # type: ignore[import-untyped]
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]
from torch import Tensor

from manifold_shap import shown, simplex
from manifold_shap.explanation import Explanation
from manifold_shap.plots import canvas, selection
from manifold_shap.plots.canvas import Panels
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
        chosen: players with a step of their own.
        phi: of the steps, in log-ratio coordinates; the last one is of all other players together
            if there are any.
        title: the predicted class and the row.
    """

    explanation: Explanation
    chosen: Int64[Tensor, " chosen"]
    phi: Float[Tensor, "steps outputs"]
    title: str

    @classmethod
    def of_row(cls, explanation: Explanation, row: int | None, label: Any, most: int) -> "Path":
        """The path of a row on which at most `most` players have their own step."""
        selection.one(explanation)
        norms = explanation.norms()
        row = selection.row_of(explanation, row, label)
        chosen = selection.largest(norms[row], most)
        phi = selection.with_rest(explanation.phi[row].double().T, chosen).T
        p = simplex.ilr_inv(explanation.prediction[row], explanation.basis).exp()
        k = int(p.argmax())
        said = f"Probability of {explanation.classes[k]}: {Probability().amount(p[k].item())}"
        title = f"{said}, {selection.row_name(explanation, row)}"
        return cls(explanation[[row]], chosen, phi, title)

    @property
    def coordinates(self) -> Float[Tensor, "states outputs"]:
        """The base, and where each step leads from there."""
        start = self.explanation.base.double()
        return torch.cat((start, start + self.phi.cumsum(0)))

    @property
    def states(self) -> Float[Tensor, "states classes"]:
        """Probabilities of the classes at the base, and after each step."""
        return simplex.ilr_inv(self.coordinates, self.explanation.basis).exp()

    @property
    def norms(self) -> list[str]:
        """The norms of the steps, with their errors where those are known and show."""
        errors = torch.full((len(self.phi),), torch.nan)
        errors[: len(self.chosen)] = self.explanation.norm_errors()[0, self.chosen]
        norms = self.phi.norm(dim=1)
        errors = errors.where(errors > 5e-4 * norms, torch.nan)
        pairs = zip(norms.tolist(), errors.tolist(), strict=True)
        return [shown.with_error(*pair) for pair in pairs]

    def labels(self, room: int) -> list[str]:
        """Names of the steps, with feature values, at most `room` letters."""
        return selection.names_with_values(self.explanation, 0, self.chosen, room)


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
    parts = simplex.ilr_inv(path.phi, explanation.basis).exp()
    titles = [
        f"{name}\nnorm {norm}" for name, norm in zip(path.labels(22), path.norms, strict=True)
    ]
    panels, figure = _distributions(ax, path, parts, titles, "part")
    equal = 1 / len(explanation.classes)
    for axes in panels:
        axes.axvline(equal, color=rcParams["text.color"], linewidth=0.8, linestyle="--", zorder=2)
    dashed = f"dashed: all parts equal (1/{len(explanation.classes)}), no effect"
    canvas.headline(figure, {"": explanation}, [path.title, dashed], show)
    return panels


def cumulative(
    explanation: Explanation,
    row: int | None = None,
    max_display: int = 7,
    ax: Axes | None = None,
    *,
    label: Any = None,
    show: bool = False,
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
    panels, figure = _distributions(ax, path, path.states, titles, "probability")
    for axes, before in zip(panels[1:], path.states.numpy(), strict=False):
        places = np.arange(len(before))
        axes.vlines(before, places - 0.4, places + 0.4, color=rcParams["text.color"], linewidth=1)
    canvas.headline(figure, {"": explanation}, [path.title, "strokes: before the step"], show)
    return panels


def _distributions(
    ax: Axes | None,
    path: Path,
    parts: Float[Tensor, "panels classes"],
    titles: Sequence[str],
    label: str,
) -> tuple[Panels, Any]:
    """A panel of bars with their numbers for each distribution, and what holds the panels."""
    classes = [shown.shorten(name, _CLASS) for name in path.explanation.classes]
    columns = min(_COLUMNS, len(parts))
    lines = -(-len(parts) // columns)
    figure = canvas.place(ax, 4.5 + lines * (3.2 + 0.8 * len(classes)), 0.45 + 0.2 * columns)
    panels = canvas.panels(figure, len(parts), columns, "x", sharex=True, sharey=True)
    colours = [canvas.NEUTRAL] * len(classes)
    colours[int(path.states[-1].argmax())] = canvas.SERIES[0]
    # Numbers stand upon lines.
    halo = [withStroke(linewidth=3, foreground=rcParams["axes.facecolor"])]
    for axes, p, title in zip(panels, parts.tolist(), titles, strict=True):
        bars = axes.barh(range(len(p)), p, height=0.72, color=colours)
        said = [Probability().amount(part) for part in p]
        axes.bar_label(bars, said, padding=3, fontsize="small", path_effects=halo)
        axes.set_title(canvas.plain(title), loc="left", fontsize="small")
    for axes in panels[-columns:]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(label)
    panels[0].margins(x=0.45)
    panels[0].locator_params(axis="x", nbins=3)
    canvas.name_lines(panels[0], classes)
    return panels, figure


def parallel_coordinates(
    explanation: Explanation,
    row: int | None = None,
    max_display: int = 12,
    ax: Axes | None = None,
    *,
    label: Any = None,
    show: bool = False,
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
    axes = canvas.panel(ax, 12 + 0.3 * max(map(len, steps)), width=max(1, 0.4 + 0.05 * len(steps)))
    stand_out = np.arange(states.shape[1])
    if len(stand_out) > len(canvas.SERIES):
        stand_out = np.argsort(-states[[0, -1]].max(0), kind="stable")[:5]
    colours = [canvas.NEUTRAL] * states.shape[1]
    for k, colour in zip(np.sort(stand_out), canvas.SERIES, strict=False):
        colours[k] = colour
    for line, colour in zip(states.T, colours, strict=True):
        faint = colour == canvas.NEUTRAL
        # The ends lie on the border.
        look: dict[str, Any] = {"linewidth": 0.8 if faint else 1.6, "zorder": 2 if faint else 3}
        axes.plot(
            line, color=colour, marker="o", markersize=2 if faint else 4, clip_on=False, **look
        )
    canvas.name_columns(axes, steps)
    axes.set_xlim(0, len(steps) - 1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("probability")
    ends = [
        canvas.plain(f"{shown.shorten(name, _CLASS)}  {Probability().amount(p)}")
        for name, p in zip(explanation.classes, states[-1], strict=True)
    ]
    # In the order in which lines end, from the top.
    order = states[-1].argsort(kind="stable")[::-1]
    axes.legend(
        [axes.lines[k] for k in order], [ends[k] for k in order], frameon=False, fontsize="small",
        loc="center left", bbox_to_anchor=(1, 0.5),
    )  # fmt: skip
    canvas.headline(ax or axes.figure, {"": explanation}, [path.title], show)
    return axes


@dataclass(frozen=True)
class View:
    """A path and the class-compositions, projected on two or three balances (Sections 6.1-6.2).

    Attributes:
        path: of a row.
        balances: positions of the balances that are the axes.
    """

    path: Path
    balances: list[int]

    @classmethod
    def of(
        cls, path: Path, balances: Sequence[int | str], axes: int, instead: str = "waterfall"
    ) -> "View":
        """On so many balances, counted from 1 or given by name."""
        names = path.explanation.outputs
        if len(names) < axes:
            raise ValueError(
                f"Expected at least {axes + 1} classes, which have {axes} balances, but got "
                f"{len(names) + 1} with {len(names)}; use plots.{instead}."
            )
        positions = balance_positions(names, balances)
        if len(positions) != axes:
            raise ValueError(f"Expected `balances` to be {axes} of them but got {balances!r}.")
        return cls(path, positions)

    @property
    def points(self) -> Float[np.ndarray, "states axes"]:
        """The base, and where each step leads from there."""
        return self.path.coordinates[:, self.balances].numpy()

    @property
    def is_whole(self) -> bool:
        """Whether no balance is left out, so that a point determines the whole distribution."""
        return len(self.balances) == len(self.path.explanation.outputs)

    @property
    def classes(self) -> Float[np.ndarray, "classes axes"]:
        """Projections of the class-compositions, which have norm one before they are projected."""
        basis = self.path.explanation.basis[self.balances]
        return simplex.coordinates(simplex.class_compositions(basis.shape[1]), basis).numpy()

    @property
    def magnification(self) -> float:
        """A round factor that makes the class-compositions about as large as the path."""
        extent = max(np.ptp(self.points, axis=0).max(), 0.5 * np.abs(self.points).max())
        wanted = 0.45 * extent / np.linalg.norm(self.classes, axis=1).max()
        return float(f"{wanted:.0e}") or 1.0

    @property
    def title(self) -> list[str]:
        """That of the path, what is dashed, and how much of the space is seen."""
        explanation, factor = self.path.explanation, self.magnification
        scaled = "" if factor == 1 else f" × {factor:g}"
        part = f"{len(self.balances)} of {len(explanation.outputs)} balances"
        seen = "" if self.is_whole else f"; {part}"
        k = int(self.path.states[-1].argmax())
        of = f"no balance shown has {explanation.classes[k]}" if not self.classes[k].any() else ""
        return [self.path.title, f"dashed: class-compositions{scaled}{seen}", of]

    def axis_label(self, place: int, room: int = 30) -> str:
        """What an axis compares."""
        balance = self.balances[place]
        number = "" if self.is_whole else f" (balance {balance + 1})"
        return f"log-ratio {shown.shorten(self.path.explanation.outputs[balance], room)}{number}"

    def draw(self, axes: Any) -> None:
        """The arrows of the steps, head to tail, on the class-compositions, and what they are."""
        points, ink = self.points, rcParams["text.color"]
        # One label for all classes that no axis shown distinguishes.
        members: dict[tuple[float, ...], list[str]] = {}
        vectors = (self.magnification * self.classes).round(9).tolist()
        for end, name in zip(vectors, self.path.explanation.classes, strict=True):
            members.setdefault(tuple(end), []).append(name)
        for end, names in members.items():
            if any(end):
                line = zip([0] * len(end), end, strict=True)
                axes.plot(*line, color=canvas.NEUTRAL, linestyle="--")
                of = canvas.plain(shown.shorten(", ".join(names), _CLASS))
                side = "left" if end[0] >= 0 else "right"
                axes.text(*(1.05 * c for c in end), of, ha=side, va="center")
        labels, handles = self.path.labels(24), []
        for number, (start, end) in enumerate(itertools.pairwise(points)):
            rest = number == len(self.path.chosen)
            colour = canvas.NEUTRAL if rest else canvas.SERIES[number % len(canvas.SERIES)]
            # Further colours are those of the first steps, with thinner lines.
            width = 2.4 if number < len(canvas.SERIES) else 1.2
            handles += axes.plot(*zip(start, end, strict=True), color=colour, linewidth=width)
            self._head(axes, start, end, colour)
        look: dict[str, Any] = {"marker": "o", "linestyle": "", "color": ink, "zorder": 5}
        ground = rcParams["axes.facecolor"]
        handles += axes.plot(*points[:1].T, markerfacecolor=ground, **look)
        handles += axes.plot(*points[-1:].T, **look)
        said = [canvas.plain(each) for each in (*labels, "base", "prediction")]
        own = isinstance(axes, canvas.Drawn)
        beside = {"loc": "outside right center" if own else "best"}
        place = axes.figure if own else axes
        place.legend(handles, said, frameon=False, fontsize="small", **beside)

    def _head(self, axes: Any, start: Any, end: Any, colour: str) -> None:
        """The head of an arrow, of which a space has none."""
        if len(start) == 2:
            look = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", end, start, arrowprops=look, zorder=4)
        else:
            axes.plot(*np.array(end)[:, None], marker="o", markersize=4, color=colour)


def balance_positions(names: Sequence[str], balances: Sequence[int | str]) -> list[int]:
    """Of different balances, by number from 1 or by name.

    Raises:
        ValueError: one is unknown, or named twice.
    """
    known: dict[Any, int] = {k + 1: k for k in range(len(names))}
    known |= {name: k for k, name in enumerate(names)}
    found = [known.get(each, -1) for each in balances]
    if -1 in found or len(set(found)) < len(found):
        raise ValueError(
            f"Expected different `balances` by number from 1 to {len(names)}, or by name among "
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
    view = View.of(Path.of_row(explanation, row, label, max_display), balances, axes=2)
    axes = canvas.panel(ax, 20, grid="both", width=1.1)
    view.draw(axes)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
    if view.is_whole:
        rays = [((0, 0), tuple(ray)) for ray in -1e3 * view.magnification * view.classes]
        look: dict[str, Any] = {"colors": canvas.NEUTRAL, "linestyles": ":", "zorder": 1}
        axes.add_collection(LineCollection(rays, **look), autolim=False)
    axes.set_xlabel(canvas.plain(view.axis_label(0)))
    axes.set_ylabel(canvas.plain(view.axis_label(1)))
    canvas.headline(ax or axes.figure, {"": explanation}, view.title, show)
    return axes


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
    instead = "ilr_plane" if len(explanation.outputs) == 2 else "waterfall"
    view = View.of(path, balances, axes=3, instead=instead)
    figure = canvas.place(ax, 20, 1.1)
    axes: Any = figure.add_subplot(axes_class=_Space, proj_type="ortho", computed_zorder=False)
    axes.view_init(22, -55)
    view.draw(axes)
    axes.set_aspect("equal")
    axes.set_box_aspect(None, zoom=0.75)
    axes.tick_params(labelsize="small", pad=0)
    axes.locator_params(nbins=4)
    if view.is_whole:
        away = -1.5 * view.magnification * view.classes
        # Each edge of the cone in which two classes tie at the top points away from another one.
        walls = [np.stack((np.zeros(3), *pair)) for pair in itertools.combinations(away, 2)]
        axes.add_collection3d(
            Poly3DCollection(
                walls, facecolor=canvas.NEUTRAL, alpha=0.12, edgecolor="none", zorder=1
            )
        )
    for place, axis in enumerate((axes.xaxis, axes.yaxis, axes.zaxis)):
        axis.set_label_text(canvas.plain(view.axis_label(place, 20)))
    canvas.headline(figure, {"": explanation}, view.title, show)
    return axes


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
    axes = canvas.panel(ax, 6 + len(order), grid="", width=max(1, 0.05 * len(order)))
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
        box: dict[str, Any] = {"boxstyle": "round,pad=0.15", "edgecolor": "none"}
        box["facecolor"] = rcParams["axes.facecolor"]
        look: dict[str, Any] = {"ha": "center", "va": "center", "bbox": box}
        axes.text(middle, level, rf"$\tilde{{p}}_{{{number}}}$", **look)
    canvas.name_columns(axes, [shown.shorten(partition.classes[k], 24) for k in order])
    title = ["Balances: left group (+) against right group (−)"]
    canvas.headline(ax or axes.figure, {}, title, show)
    return axes
