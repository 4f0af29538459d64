"""Draws the path from base to prediction in a plane or a space of log-ratios.

Labels cover nothing: each takes the cheapest of many places around what it names, in turn.
Libraries that push labels apart by forces (adjustText) leave some of them on arrows and marks.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Polygon
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox, BboxBase
from mpl_toolkits.mplot3d import Axes3D  # type: ignore[import-untyped]
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]
from mpl_toolkits.mplot3d.proj3d import proj_transform  # type: ignore[import-untyped]

from manifold_shap import simplex
from manifold_shap.explanation import Explanation
from manifold_shap.plots import canvas, selection, style
from manifold_shap.plots.path import Path, positions
from manifold_shap.plots.titles import headline

# Inches: the height of a plane's figure before that of its panel is known.
_PLANE = 5.0
# Degrees: elevation and azimuth.
_VIEW = (22.0, -55.0)
_RAY: dict[str, Any] = {"linewidth": 0.8, "linestyle": (0, (5, 3)), "zorder": 2}
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


@dataclass(frozen=True)
class View(Path):
    """A path and the class-compositions, projected on two or three balances (Noé et al., 6.1-6.2).

    Attributes:
        balances: positions of the balances that are the axes.
    """

    balances: tuple[int, ...]

    @classmethod
    def on_balances(
        cls,
        explanation: Explanation,
        row: int,
        balances: Sequence[int | str],
        most: int,
        axes: int,
    ) -> "View":
        """The path of a row, by position, on so many balances, counted from 1 or given by name."""
        selection.one(explanation)
        there = len(explanation.classes) - 1
        if there < axes:
            instead = "ilr_plane" if there == 2 else "waterfall"
            raise ValueError(
                f"Expected at least {axes + 1} classes, which have {axes} balances, but got "
                f"{there + 1} with {there}; use plots.{instead}."
            )
        if isinstance(balances, str) or len(balances) != axes:
            raise ValueError(f"Expected `balances` to be {axes} of them but got {balances!r}.")
        path = Path.of_row(explanation, row, most)
        return cls(**vars(path), balances=positions(explanation.outputs, balances))

    @property
    def is_whole(self) -> bool:
        """Whether no balance is left out, so that a point determines the whole distribution."""
        return len(self.balances) == len(self.explanation.outputs)

    @property
    def points(self) -> Float[np.ndarray, "states axes"]:
        """The base, where each step leads from there, and so in the end the prediction."""
        return self.coordinates[:, list(self.balances)].numpy()

    @property
    def directions(self) -> Float[np.ndarray, "classes axes"]:
        """Projections of the class-compositions, which have norm one before they are projected."""
        basis = self.explanation.basis[list(self.balances)]
        return simplex.coordinates(simplex.class_compositions(basis.shape[1]), basis).numpy()

    def class_vectors(self) -> list[tuple[tuple[int, ...], Float[np.ndarray, " axes"]]]:
        """Classes and their projection, one and the same for all that no axis distinguishes.

        Classes whose projection is zero are left out.
        """
        directions = self.directions
        weights = self.explanation.basis[list(self.balances)].T.tolist()
        alike: dict[tuple[float, ...], list[int]] = {}
        for k, row in enumerate(weights):
            alike.setdefault(tuple(row), []).append(k)
        return [(tuple(group), directions[group[0]]) for row, group in alike.items() if any(row)]

    @property
    def magnification(self) -> float:
        """A round factor that makes the class-compositions about as large as the path."""
        points = self.points
        extent = max(np.ptp(points, axis=0).max(), 0.5 * np.abs(points).max())
        if extent == 0:
            return 1.0
        wanted = 0.45 * extent / max(np.linalg.norm(vector) for _, vector in self.class_vectors())
        power = 10.0 ** np.floor(np.log10(wanted))
        round_ones = (power * m for m in (1, 2, 5, 10))
        return float(min(round_ones, key=lambda near: abs(np.log(near / wanted))))

    @property
    def segments(self) -> Float[np.ndarray, "segments 2 axes"]:
        """The starts and ends of the steps and of the magnified class-compositions."""
        ends = self.magnification * np.stack([vector for _, vector in self.class_vectors()])
        steps = np.stack((self.points[:-1], self.points[1:]), 1)
        return np.concatenate((steps, np.stack((np.zeros_like(ends), ends), 1)))

    def box(self, border: float) -> Float[np.ndarray, "2 axes"]:
        """The lowest and the highest of all segments, with a border: a share of their extent."""
        ends = self.segments.reshape(-1, len(self.balances))
        low, high = ends.min(0), ends.max(0)
        room = border * max((high - low).max(), 1e-6)
        return np.stack((low - room, high + room))

    def axis_labels(self, room: int) -> list[str]:
        """What the axes compare, in so many letters."""
        numbers = ["" if self.is_whole else f" (balance {j + 1})" for j in self.balances]
        return [
            f"log-ratio {style.shorten(self.explanation.outputs[j], room - len(number))}{number}"
            for j, number in zip(self.balances, numbers, strict=True)
        ]

    def class_label(self, members: Sequence[int]) -> str:
        """Names of classes."""
        names = [self.explanation.classes[k] for k in members]
        # Beside the numbers of the steps, a bare number would be taken for one.
        kind = ("class " if len(names) == 1 else "classes ") if names[0].isdigit() else ""
        return style.shorten(kind + ", ".join(names), 18)

    def headline(self, *more: str) -> list[str]:
        """That of the path, what the dashed vectors are, and how much of the space is seen.

        A predicted class that is in no balance shown is named: no arrow tells of it.
        """
        factor = self.magnification
        scaled = "" if factor == 1 else f" × {factor:g}"
        seen = f"; {len(self.balances)} of {len(self.explanation.outputs)} balances"
        caption = f"dashed: class-compositions{scaled}{'' if self.is_whole else seen}"
        k = int(self.prediction.argmax())
        if all(k not in members for members, _ in self.class_vectors()):
            more = f"no balance shown has {self.class_label([k])}", *more
        return super().headline(caption, *more)


def ilr_plane(
    explanation: Explanation,
    row: int = 0,
    balances: Sequence[int | str] = (1, 2),
    most: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """Draws how the features of one row move the prediction, as arrows in a plane of log-ratios.

    Each arrow is one feature's Shapley composition, the largest norm first, and starts where the
    one before ends: from the base to the prediction (Noé et al. 2024, Figs. 2 and 7). Dashed
    vectors are the class-compositions, straight towards one class, scaled by the factor in the
    caption. With three classes the plane is the whole space: each region is tinted in the colour of
    its most probable class, and grey rays run where two tie. With more classes, two balances do
    not determine the most probable one.

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
        row: position of the row.
        balances: two for the axes, by number as `str(explanation.partition)` counts them, from 1,
            or by name.
        most: features to show; the rest is one arrow.
        ax: axes to draw in; by default a new figure.

    Raises:
        ValueError: the output space is not `ilr`, there are fewer than three classes, a balance is
            unknown or named twice, `most` is not positive, or `row` is out of range.
    """
    view = View.on_balances(explanation, row, balances, most, axes=2)
    axes = canvas.one_panel(ax, _PLANE, grid="y")
    for axis, label in zip((axes.xaxis, axes.yaxis), view.axis_labels(32), strict=True):
        style.scale(axis, label)
        axis.grid(True, color=style.GRID, linewidth=0.6)
    _legend(axes, view)
    headline(axes, {"": explanation}, *view.headline())
    _shape(axes, view)
    rays = _draw_regions(axes, view) if view.is_whole else np.zeros((0, 2, 2))
    _draw_arrows(axes, axes.bbox, view, rays)
    return axes


def _shape(axes: Axes, view: View) -> None:
    """Make our own figure as high as its panel needs, and let that hold all with equal units.

    The layout is final then: it determines how large the panel is.
    """
    low, high = view.box(0.12)
    span = high - low
    figure: Any = axes.figure
    canvas.settle(axes)
    if canvas.is_own(axes):
        width, height = axes.bbox.width / figure.dpi, axes.bbox.height / figure.dpi
        panel = float(np.clip(width * span[1] / span[0], 2.2, 3.8))
        figure.set_figheight(figure.get_figheight() - height + panel)
        canvas.settle(axes)
    half = (span / axes.bbox.size).max() * axes.bbox.size / 2
    middle = (low + high) / 2
    axes.set_xlim(middle[0] - half[0], middle[0] + half[0])
    axes.set_ylim(middle[1] - half[1], middle[1] + half[1])
    axes.set_aspect("equal")


def _draw_regions(axes: Axes, view: View) -> Float[np.ndarray, "rays 2 2"]:
    """Tints of the three regions, and the rays between them, which are returned."""
    far = 20 * np.abs((axes.get_xlim(), axes.get_ylim())).max()
    directions = far * view.directions
    rays = np.stack((np.zeros_like(directions), -directions), 1)
    for ray in rays:
        axes.plot(*ray.T, color=style.NEUTRAL, **_RAY)
    for number, ((k,), _) in enumerate(view.class_vectors()):
        left, right = -np.delete(directions, k, axis=0)
        region = np.stack((np.zeros(2), left, 2 * directions[k], right))
        colour = class_colour(number)
        axes.add_patch(Polygon(region, color=colour, alpha=0.08, linewidth=0, zorder=0))
    return rays


def ilr_space(
    explanation: Explanation,
    row: int = 0,
    balances: Sequence[int | str] = (1, 2, 3),
    most: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """Draws how the features of one row move the prediction, as arrows in three log-ratios.

    As `ilr_plane`, with one dimension more (Noé et al. 2024, Fig. 4). With four classes this is the
    whole space: grey walls part the regions in which one class is the most probable. `view_init` of
    these axes, in degrees, chooses another view.

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
        row: position of the row.
        balances: three for the axes, by number or by name.
        most: features to show; the rest is one arrow.
        ax: axes whose place the space takes; by default a new figure.

    Raises:
        ValueError: as `ilr_plane`, or there are fewer than four classes.
    """
    view = View.on_balances(explanation, row, balances, most, axes=3)
    panel = canvas.one_panel(ax, 4.6, grid="y")
    panel.set_axis_off()
    _legend(panel, view)
    headline(panel, {"": explanation}, *view.headline())
    canvas.settle(panel)
    figure: Any = panel.figure
    # Axes in three dimensions take the look of their grid from nowhere else.
    with rc_context({"grid.color": style.GRID, "grid.linewidth": 0.6}):
        axes: Any = figure.add_axes(
            panel.get_position().bounds, axes_class=_Space, proj_type="ortho", computed_zorder=False
        )
    box = _frame(axes, view)
    # Smaller than its place, for what is written around it.
    axes.set_box_aspect(box[1] - box[0], zoom=0.82)
    canvas.settle(axes)
    if view.is_whole:
        origin, ends = np.zeros(3), ray_ends(view, box)
        # Each edge of the cone in which two classes tie at the top points away from another one.
        walls = [np.stack((origin, *pair)) for pair in itertools.combinations(ends, 2)]
        look: dict[str, Any] = {"facecolor": style.NEUTRAL, "alpha": 0.12, "edgecolor": "none"}
        axes.add_collection3d(Poly3DCollection(walls, zorder=1, **look))
        for end in ends:
            axes.plot(*np.stack((origin, end)).T, color=style.NEUTRAL, **_RAY)
    _draw_arrows(axes, panel.bbox, view, np.zeros((0, 2, 3)))
    return axes


class _Space(canvas.Shown, Axes3D):
    """Axes in three dimensions, of which only what is inside of the figure takes room."""

    def get_window_extent(self, renderer: Any = None) -> Any:
        return Bbox.intersection(self.bbox, self.figure.bbox)


def _frame(axes: Axes3D, view: View) -> Float[np.ndarray, "2 3"]:
    """Set limits that hold all, which are returned, and labels."""
    box = view.box(0.06)
    low, high = box
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    axes.view_init(*_VIEW)
    for unseen in (axes.patch, *axes.spines.values()):
        unseen.set_visible(False)
    axes.tick_params(labelsize=style.TEXT, color=style.NEUTRAL, pad=-2)
    three = (axes.xaxis, axes.yaxis, axes.zaxis)
    for axis, label in zip(three, view.axis_labels(20), strict=True):
        style.scale(axis, label, ticks=4)
        axis.labelpad = -4
        axis.set_pane_color("none")
        axis.line.set_color(style.NEUTRAL)
    return box


def ray_ends(view: View, box: Float[np.ndarray, "2 axes"]) -> Float[np.ndarray, "classes axes"]:
    """Where the rays on which all classes but one tie leave the box, which holds the origin."""
    away = -view.directions
    with np.errstate(divide="ignore"):
        reach = np.abs(np.where(away > 0, box[1], box[0]) / away)
    return away * reach.min(1, keepdims=True)


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


def _legend(axes: Axes, view: View) -> None:
    """Over the axes, which feature each number is."""
    numbered = [f"{number}: {name}" for number, name in enumerate(view.labels(28), 1)]
    nothing = [Line2D([], [], linestyle="") for _ in numbered]
    settings: dict[str, Any] = {"handlelength": 0, "handletextpad": 0, "columnspacing": 1.5}
    canvas.legend_above(axes, nothing, numbered, **settings)


def _draw_arrows(
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
        found.append((view.class_label(members), colour, end[None]))
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
        np.array([(0.55 * style.TEXT * len(text), style.TEXT) for text, _, _ in labels]),
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
