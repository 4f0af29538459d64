"""Draws explanations and scores.

    >>> import torch
    >>> import manifold_shap as ms
    >>> x = torch.tensor([[1.0, -2.0]])
    >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
    >>> ms.plots.waterfall(explanation, 0) is not None
    True

    axes = ms.plots.waterfall(explanation, row=0)  # or explanation.plot.waterfall(0)
    axes.figure.savefig("waterfall.pdf")

Every function draws in the matplotlib axes that are given as `ax`, or else in a new figure, and
returns the axes; a plot of several panels takes the place of `ax`, and returns a list of them. What
is returned has a `figure`, and a notebook shows it. No new figure passes through pyplot: nothing
opens a window or has to be closed. Only `text` returns something else: words on coloured ground for
a notebook or a page.

Ground, letters and fonts are those of `matplotlib.rcParams`: `"figure.facecolor"`, `"text.color"`
and `"font.family"`, which may be a list, such as `["DejaVu Sans", "Noto Sans CJK JP"]` for Chinese,
Japanese and Korean.

A title says what is drawn, and of how many rows. Small print below says how good the value function
is, where the explanation knows that (`made_by["quality"]`), and a caution above if it is no better
than values off the manifold, or half-trained.
"""

from manifold_shap.plots.accessor import Plots
from manifold_shap.plots.bar import bar
from manifold_shap.plots.beeswarm import beeswarm
from manifold_shap.plots.compositions import compositions, cumulative, parallel_coordinates
from manifold_shap.plots.curve import mse_curve
from manifold_shap.plots.heatmap import heatmap
from manifold_shap.plots.ilr import ilr_plane, ilr_space
from manifold_shap.plots.interactions import interaction_map
from manifold_shap.plots.pixels import pixel_maps
from manifold_shap.plots.scatter import scatter
from manifold_shap.plots.series import series
from manifold_shap.plots.text import ColouredText, text
from manifold_shap.plots.tree import bifurcation_tree
from manifold_shap.plots.waterfall import waterfall

__all__ = [
    "ColouredText",
    "Plots",
    "bar",
    "beeswarm",
    "bifurcation_tree",
    "compositions",
    "cumulative",
    "heatmap",
    "ilr_plane",
    "ilr_space",
    "interaction_map",
    "mse_curve",
    "parallel_coordinates",
    "pixel_maps",
    "scatter",
    "series",
    "text",
    "waterfall",
]


def __dir__() -> list[str]:
    return __all__
