"""Draws errors of value functions against coalition size."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from manifold_shap.metrics import Score
from manifold_shap.plots import canvas, style


def mse_curve(
    scores: Mapping[str, Score], players: int | None = None, ax: Axes | None = None
) -> Axes:
    """Draws how far each value function is from the model, by how much of the input it is given.

    Bands reach one standard error to each side. The legend has the error over all coalitions,
    with the number of draws of a value function that samples.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> value = ms.imputed_value(lambda x: x.sum(1, True), ms.MarginalImputer(x), "identity", 2)
        >>> score = ms.mean_squared_error(value, x, ms.shapley_pairs(2, 2, least=8))
        >>> ms.plots.mse_curve({"off manifold": score}, players=2).get_ylabel()
        'mean squared error'

    Args:
        scores: of value functions by name, on the same rows and coalitions.
        players: how many there are. Coalition size is then shown as their share, and otherwise as
            a number, which is all that a score knows.
        ax: axes to draw in; by default a new figure.

    Raises:
        ValueError: fewer `players` than a coalition has.
    """
    _check(scores, players)
    drawn = {name: score.by_size.mse for name, score in scores.items()}
    axes, lines = _curves(scores, drawn, players, ax)
    axes.set_ylim(bottom=0)
    style.scale(axes.yaxis, "mean squared error")
    _add_legend(axes, lines, scores, {name: score.mse for name, score in scores.items()})
    return axes


def distance_curve(
    scores: Mapping[str, Score], players: int | None = None, ax: Axes | None = None
) -> Axes:
    """Draws how far each value function is from the true one, by the size of the coalition.

    What draws leave in both is taken off, so that a value function without any error of its own
    lies along the line of zero, up to its band, which reaches one standard error to each side. The
    legend has the distance over all coalitions.

        >>> import torch
        >>> import manifold_shap as ms
        >>> law = ms.oracles.GaussianMixture.random(3)
        >>> model, x = lambda x: x.prod(1, keepdim=True), law.sample(50).x
        >>> truth = ms.oracles.true_value(model, law, "identity", rows=1000)
        >>> value = ms.imputed_value(model, ms.MarginalImputer(x), "identity", draws=8)
        >>> score = ms.distance_to_truth(value, truth, x, ms.shapley_pairs(50, 3, least=200))
        >>> ms.plots.distance_curve({"off manifold": score}, players=3).get_ylabel()
        'squared distance to the truth'

    Args:
        scores: from `distance_to_truth`, by name, on the same rows and coalitions.
        players, ax: as of `mse_curve`.

    Raises:
        ValueError: as of `mse_curve`.
    """
    _check(scores, players)
    drawn = {name: score.by_size.debiased for name, score in scores.items()}
    axes, lines = _curves(scores, drawn, players, ax)
    axes.axhline(0, color=style.NEUTRAL, linewidth=0.8, zorder=1)
    style.scale(axes.yaxis, "squared distance to the truth")
    _add_legend(axes, lines, scores, {name: score.debiased for name, score in scores.items()})
    return axes


def _curves(
    scores: Mapping[str, Score],
    drawn: Mapping[str, Sequence[float]],
    players: int | None,
    ax: Axes | None,
) -> tuple[Axes, list[Line2D]]:
    """Axes with a line and its band for each of the scores, and with the axis of sizes."""
    axes = canvas.one_panel(ax, 2.5 + 0.17 * len(scores), grid="y")
    lines = []
    for which, (name, score) in enumerate(scores.items()):
        curve = score.by_size
        size = np.array(curve.size) / (players or 1)
        height, error = np.array(drawn[name]), np.array(curve.standard_error)
        colour = style.SERIES[which % len(style.SERIES)]
        look: dict[str, Any] = {"color": colour, "linewidth": 1.5, "marker": "o", "markersize": 3}
        axes.fill_between(
            size, height - error, height + error, color=colour, alpha=0.2, linewidth=0
        )
        lines += axes.plot(size, height, **look)
    if players is None:
        style.scale(axes.xaxis, "players in the coalition")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlim(-0.5, max(max(score.by_size.size) for score in scores.values()) + 0.5)
    else:
        style.scale(axes.xaxis, "share of players in the coalition")
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.set_xlim(-0.02, 1.02)
    return axes, lines


def _add_legend(
    axes: Axes, lines: list[Line2D], scores: Mapping[str, Score], overall: Mapping[str, float]
) -> None:
    """The figure over all coalitions of each score, with its number of draws."""
    legend = []
    for name, score in scores.items():
        draws = f", {score.draws} draws" if score.draws > 1 else ""
        error = style.with_error(overall[name], score.standard_error)
        legend.append(f"{style.shorten(name)}: {error}{draws}")
    title = "over all coalitions, ± standard error"
    canvas.legend_above(axes, lines, legend, title=title, handlelength=2.5)


def _check(scores: Mapping[str, Score], players: int | None) -> None:
    largest = max(max(score.by_size.size) for score in scores.values())
    if players is not None and players < largest:
        raise ValueError(
            f"Expected `players` of at least {largest:.3g}, the size of a coalition, but got "
            f"{players}; pass `len(value.players)`."
        )
