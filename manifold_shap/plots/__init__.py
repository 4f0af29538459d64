"""Draws explanations and scores: functions that return a matplotlib `Figure` and save nothing.

    figure = ms.plots.bars(explanation)
    figure.savefig("bars.pdf")

No figure passes through pyplot: nothing opens a window or has to be closed, and a notebook shows
a figure that a cell returns. Matplotlib draws boxes for characters that no font has, and warns:
names in Chinese, Japanese or Korean need a font such as Noto Sans CJK.
"""

from matplotlib.figure import Figure

from manifold_shap.plots.bars import bars
from manifold_shap.plots.compositions import compositions, cumulative, parallel_coordinates
from manifold_shap.plots.curve import mse_curve
from manifold_shap.plots.ilr import ilr_plane, ilr_space
from manifold_shap.plots.interactive import interactive
from manifold_shap.plots.pixels import pixel_maps
from manifold_shap.plots.selection import kinds
from manifold_shap.plots.sina import sina
from manifold_shap.plots.tree import bifurcation_tree

__all__ = [
    "Figure",
    "bars",
    "bifurcation_tree",
    "compositions",
    "cumulative",
    "ilr_plane",
    "ilr_space",
    "interactive",
    "kinds",
    "mse_curve",
    "parallel_coordinates",
    "pixel_maps",
    "sina",
]
