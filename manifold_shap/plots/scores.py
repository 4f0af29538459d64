"""Draws errors of value functions against coalition size."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from manifold_shap import shown
from manifold_shap.metrics import Score
from manifold_shap.plots import canvas


def mse_curve(scores: Mapping[str, Score], ax: Axes | None = None, *, show: bool = False) -> Axes:
    """Draws how far each value function is from the model, by how much of the input it is given.

    Bands reach one standard error to each side. The legend has the error over all coalitions,
    with the number of draws of a value function that samples.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> imputer = ms.imputers.MarginalImputer(x)
        >>> value = ms.imputed_value(lambda x: x.sum(1, True), imputer, "identity", 2)
        >>> score = ms.metrics.mean_squared_error(value, x, ms.metrics.shapley_pairs(2, 2, least=8))
        >>> ms.plots.mse_curve({"off manifold": score}).get_ylabel()
        'mean squared error'

    Args:
        scores: of value functions by name, on the same rows and coalitions.
        ax: axes to draw in; by default a new figure.
        show: whether to call `plt.show()`.
    """
    axes = canvas.panel(ax, 13 + len(scores))
    lines, legend = [], []
    for which, (name, score) in enumerate(scores.items()):
        curve = score.by_size
        height, error = np.array(curve.mse), np.array(curve.standard_error)
        colour = canvas.SERIES[which % len(canvas.SERIES)]
        band: dict[str, Any] = {"color": colour, "alpha": 0.2, "linewidth": 0}
        axes.fill_between(curve.size, height - error, height + error, **band)
        lines += axes.plot(curve.size, height, color=colour, marker="o", markersize=4)
        draws = f", {score.draws} draws" if score.draws > 1 else ""
        overall = shown.with_error(score.mse, score.standard_error)
        legend.append(f"{shown.shorten(name)}: {overall}{draws}")
    axes.set(xlabel="players in the coalition", ylabel="mean squared error")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_ylim(bottom=0)
    canvas.legend(axes, lines, legend, title="over all coalitions, ± standard error")
    canvas.headline(ax or axes.figure, {}, [], show)
    return axes
