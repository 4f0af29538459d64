"""Draws the bifurcation tree of a partition of the classes (Noé et al. 2024, Figs. 5-6)."""

from matplotlib.axes import Axes

from manifold_shap.plots import canvas, style
from manifold_shap.simplex.partition import Partition, Tree


def bifurcation_tree(partition: Partition | Tree, ax: Axes | None = None) -> Axes:
    """Draws which classes each balance compares: those below its left and its right branch.

        >>> import manifold_shap as ms
        >>> axes = ms.plots.bifurcation_tree([["cat", "dog"], "eel"])
        >>> len(axes.lines)  # two balances of three classes
        2

    Args:
        partition: one, whose balances have the numbers that `str(partition)` shows, or nested pairs
            of class names such as `[["a", "b"], "c"]`.
        ax: axes to draw in; by default a new figure.

    Raises:
        ValueError: a node that is not a pair, or a class named twice.
    """
    if not isinstance(partition, Partition):
        partition = Partition.of_tree(partition)
    order = _leaf_order(partition)
    names = [style.shorten(partition.classes[k], 24) for k in order]
    places = _places(partition, order)
    depth = max(level for _, level in places.values())
    settings = style.below_axis(names, room=68)
    below = 0.05 * max(map(len, names)) if "rotation" in settings else 0.1
    width = max(style.WIDTH, 0.25 * len(names))
    axes = canvas.one_panel(ax, 0.55 + 0.28 * depth + below, grid="y", width=width)
    axes.set_axis_off()
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(0, depth)
    _draw(axes, partition, places)
    for place, name in enumerate(names):
        axes.annotate(
            style.plain(name), (place, 0), (0, -3), textcoords="offset points", va="top",
            fontsize=style.TEXT, **settings,
        )  # fmt: skip
    canvas.write_above(axes, ["Balances: left group (+) against right group (−)"])
    return axes


def _leaf_order(partition: Partition) -> list[int]:
    """Classes from left to right: those of a group side by side, the first group on the left."""
    sizes = (partition.signs != 0).sum(1)
    # Ancestors are larger: the first balance to tell two classes apart is the one to split them.
    downwards = -partition.signs[sizes.argsort(descending=True)]
    return sorted(range(len(partition.classes)), key=lambda k: downwards[:, k].tolist())


def _places(partition: Partition, order: list[int]) -> dict[frozenset[int], tuple[float, int]]:
    """Where every group stands: halfway between its two, one level above the higher of them."""
    places = {frozenset([k]): (float(x), 0) for x, k in enumerate(order)}
    for first, second in sorted(partition.groups, key=lambda pair: sum(map(len, pair))):
        (left, left_level), (right, right_level) = (places[frozenset(g)] for g in (first, second))
        above = (left + right) / 2, max(left_level, right_level) + 1
        places[frozenset(first + second)] = above
    return places


def _draw(
    axes: Axes, partition: Partition, places: dict[frozenset[int], tuple[float, int]]
) -> None:
    for number, (first, second) in enumerate(partition.groups, 1):
        (left, left_level), (right, right_level) = (places[frozenset(g)] for g in (first, second))
        middle, level = places[frozenset(first + second)]
        axes.plot(
            [left, left, right, right], [left_level, level, level, right_level],
            color=style.NEUTRAL, linewidth=1.0, zorder=1, clip_on=False,
        )  # fmt: skip
        axes.text(
            middle, level, rf"$\tilde{{p}}_{{{number}}}$", ha="center", va="center", zorder=2,
            fontsize=style.TEXT,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": style.GROUND, "edgecolor": "none"},
        )  # fmt: skip
