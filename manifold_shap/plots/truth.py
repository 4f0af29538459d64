"""Draws Shapley values against the true ones."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from manifold_shap.explanation import Explanation
from manifold_shap.oracles import ShapleyDistance, distance_to_true_shapley
from manifold_shap.plots import canvas, selection, style
from manifold_shap.plots.titles import headline

# So few points have whiskers.
_WHISKERS = 300


def against_truth(
    explanations: Explanation | Mapping[str, Explanation],
    truth: Explanation,
    output: str | int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws the Shapley values of all rows and players against the true ones.

    Points of a value function without error lie on the line. Whiskers reach two standard errors to
    each side, across those of the truth, where points are few enough to see them. The legend has
    root mean squared errors, without what the truth's own error adds. That stands above, with a
    caution where it is more than a tenth of one of them.

        >>> import manifold_shap as ms
        >>> law = ms.oracles.GaussianMixture([1.0], [[0.0, 0.0]], [[[1.0, 0.9], [0.9, 1.0]]])
        >>> model, x = lambda x: x[:, :1], law.sample(100).x
        >>> truth = ms.oracles.true_value(model, law, "identity")
        >>> true_phi = ms.oracles.true_shapley(truth, x[:5], error=0.02)
        >>> off = ms.imputed_value(model, ms.MarginalImputer(x), "identity", draws=100)
        >>> axes = ms.plots.against_truth({"off": ms.exact_shapley(off, x[:5])}, true_phi)
        >>> axes.get_xlabel()
        'True Shapley value (model output)'

    Args:
        explanations: one, or several by name, of the rows of the truth.
        truth: true Shapley values; see `oracles.true_shapley`.
        output: name or position of the output; by default as of `beeswarm`. Errors in the legend
            are those of this output.
        ax: axes to draw in; by default a new figure.

    Raises:
        TypeError: what is drawn or `truth` is no explanation.
        ValueError: nothing to plot, no such output, or explanations that are not of the same rows,
            players and outputs; a truth that does not know its errors.
    """
    by_name = selection.named(explanations)
    k, why = selection.output_of_all(selection.one(truth), output)
    found = {name: distance_to_true_shapley(each, truth, k) for name, each in by_name.items()}
    ax = canvas.one_panel(ax, 3.6 + 0.17 * len(by_name), grid="y")
    points = [
        _draw_points(ax, each, truth, k, style.SERIES[which % len(style.SERIES)])
        for which, each in enumerate(by_name.values())
    ]
    middle = truth.phi[..., k].mean().item()
    ax.axline((middle, middle), slope=1, color=style.NEUTRAL, linewidth=0.8, zorder=1)
    style.scale(ax.xaxis, selection.shapley_axis(truth, kinds=["true"]))
    style.scale(ax.yaxis, selection.shapley_axis(truth))
    legend = [
        f"{style.shorten(name)}: {style.with_error(each.error, each.standard_error)}"
        for name, each in found.items()
    ]
    title = "root mean squared error, ± standard error"
    canvas.legend_above(ax, points, legend, title=title)
    own = f"The truth's own error: {style.number(next(iter(found.values())).truth_error)}"
    headline(ax, by_name, selection.title(truth, k), why, own, *_cautions(found))
    return ax


def _draw_points(
    ax: Axes, explanation: Explanation, truth: Explanation, k: int, colour: str
) -> PathCollection:
    """A point for each row and player, with whiskers where there are few."""
    given = (truth.phi, explanation.phi, explanation.standard_error, truth.standard_error)
    places, heights, *errors = (each[..., k].flatten().double().numpy() for each in given)
    if len(places) <= _WHISKERS:
        upright, across = (2 * np.nan_to_num(each) for each in errors)
        look: dict[str, Any] = {"fmt": "none", "ecolor": style.NEUTRAL, "elinewidth": 0.5}
        ax.errorbar(places, heights, upright, across, **look, zorder=2)
    return ax.scatter(places, heights, s=8, color=colour, linewidths=0, alpha=0.8, zorder=3)


def _cautions(found: Mapping[str, ShapleyDistance]) -> list[str]:
    unclear = [name for name, each in found.items() if not each.resolved]
    if not unclear:
        return []
    which = f" of {', '.join(unclear)}" if len(found) > 1 else ""
    return [f"Caution: the truth's own error is more than a tenth of that{which}"]
