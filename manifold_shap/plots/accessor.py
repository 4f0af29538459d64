"""Draws one explanation by its own name: `explanation.plot.waterfall(0)`."""

from functools import partial

from manifold_shap.explanation import Explanation
from manifold_shap.plots.bar import bar
from manifold_shap.plots.beeswarm import beeswarm
from manifold_shap.plots.heatmap import heatmap
from manifold_shap.plots.pixels import pixel_maps
from manifold_shap.plots.scatter import scatter
from manifold_shap.plots.series import series
from manifold_shap.plots.text import text
from manifold_shap.plots.waterfall import waterfall


class Plots:
    """What `explanation.plot` is: the functions of `manifold_shap.plots`, for this explanation.

    >>> import torch
    >>> import manifold_shap as ms
    >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
    >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
    >>> [label.get_text() for label in explanation.plot.bar().get_yticklabels()]
    ['x0', 'x1']

    Attributes:
        waterfall, bar, beeswarm, scatter, heatmap, pixel_maps, text, series: see the functions of
            these names.
    """

    def __init__(self, explanation: Explanation) -> None:
        self.waterfall = partial(waterfall, explanation)
        self.bar = partial(bar, explanation)
        self.beeswarm = partial(beeswarm, explanation)
        self.scatter = partial(scatter, explanation)
        self.heatmap = partial(heatmap, explanation)
        self.pixel_maps = partial(pixel_maps, explanation)
        self.text = partial(text, explanation)
        self.series = partial(series, explanation)

    def __repr__(self) -> str:
        return f"Plots({', '.join(vars(self))}; such as explanation.plot.waterfall(0))"
