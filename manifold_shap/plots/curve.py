"""Draws the mean squared error of value functions against coalition size."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from manifold_shap.metrics import Score
from manifold_shap.plots import canvas, selection, style

# Points: in the legend, a line of this length and the space around it.
_HANDLE = 42.0
_DASHES = ("-", "--", ":", "-.")


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
        TypeError: `scores` are no scores by name, or `ax` is no axes.
        ValueError: no score, or one without a coalition; fewer `players` than a coalition has.
    """
    _check(scores, players)
    axes = canvas.one_panel(ax, 2.5 + 0.17 * len(scores), grid="y")
    lines = []
    for which, score in enumerate(scores.values()):
        curve = score.by_size
        size = np.array(curve.size) / (players or 1)
        mse, error = np.array(curve.mse), np.array(curve.standard_error)
        colour = style.SERIES[which % len(style.SERIES)]
        dashes = _DASHES[which // len(style.SERIES) % len(_DASHES)]
        axes.fill_between(size, mse - error, mse + error, color=colour, alpha=0.2, linewidth=0)
        lines += axes.plot(size, mse, dashes, color=colour, linewidth=1.5, marker="o", markersize=3)
    axes.set_ylim(bottom=0)
    style.scale(axes.yaxis, "mean squared error")
    if players is None:
        style.scale(axes.xaxis, "players in the coalition")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlim(-0.5, max(max(score.by_size.size) for score in scores.values()) + 0.5)
    else:
        style.scale(axes.xaxis, "share of players in the coalition")
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.set_xlim(-0.02, 1.02)
    room = canvas.width_of(axes) - 2 * style.MARGIN - _HANDLE
    legend = [_legend_label(name, score, room) for name, score in scores.items()]
    title = "over all coalitions, ± standard error"
    canvas.legend_above(axes, lines, legend, _HANDLE, title=title, handlelength=2.5)
    return canvas.finished(axes)


def _check(scores: Mapping[str, Score], players: int | None) -> None:
    for name, score in selection.check_named(scores, Score, "score").items():
        if not score.by_size.size:
            raise ValueError(
                f"Expected {name!r} to hold a curve over coalition sizes but it is empty; score it "
                "on at least one coalition per row."
            )
        largest = max(score.by_size.size)
        if players is not None and players < largest:
            raise ValueError(
                f"Expected `players` of at least {largest:.3g}, the size of coalitions in "
                f"{name!r}, but got {players}; pass `len(value.players)`."
            )


def _legend_label(name: str, score: Score, room: float) -> str:
    draws = f", {score.draws} draws" if score.draws > 1 else ""
    overall = f": {style.with_error(score.mse, score.standard_error)}{draws}"
    return style.shorten(name, room - style.text_width(overall)) + overall
