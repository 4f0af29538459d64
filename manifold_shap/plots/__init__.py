"""Draws explanations and scores.

    >>> import torch
    >>> import manifold_shap as ms
    >>> x = torch.tensor([[1.0, -2.0]])
    >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
    >>> ms.plots.waterfall(explanation, 0) is not None
    True

    axes = ms.plots.waterfall(explanation, row=0)  # or explanation.plot.waterfall(label="anna")
    axes.save("waterfall.pdf")  # or plt.show(), or plt.savefig

Every function draws in `ax`, best of a figure with `layout="constrained"`, or else in a new figure
of pyplot, and returns the axes; a plot of several panels takes the place of `ax`, and returns a
list of them. What is returned has a `figure` and, of a new figure, `save(path)`, which leaves it
open: `plt.close("all")` closes figures. Only `text` returns something else: words on coloured
ground for a notebook or a page.

Sizes of letters, fonts, ground and ink are those of `matplotlib.rcParams`: `"font.size"`,
`"font.family"`, `"figure.facecolor"`, `"text.color"`, or `plt.style.use("dark_background")`.

Of two classes the second one is drawn, of more the predicted one, and `output=` names another. A
title says what is drawn, the row by its label and its position, or of how many rows. Small print
below says what whiskers reach, or that errors are unknown, and how good the value function is where
the explanation knows that (`made_by["quality"]`), and a caution above if it is no better than
values off the manifold, or half-trained.
"""

from types import MethodType
from typing import Any

from torch import Tensor

from manifold_shap import shown
from manifold_shap.explanation import Explanation
from manifold_shap.plots import selection
from manifold_shap.plots.bars import bar, waterfall
from manifold_shap.plots.curves import mse_curve, series
from manifold_shap.plots.maps import heatmap, interaction_map, pixel_maps
from manifold_shap.plots.points import beeswarm, scatter
from manifold_shap.plots.simplex import (
    bifurcation_tree,
    compositions,
    cumulative,
    ilr_plane,
    ilr_space,
    parallel_coordinates,
)
from manifold_shap.plots.text import ColouredText, text

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


class Plots:
    """What `explanation.plot` is: the functions of `manifold_shap.plots` that suit an explanation.

    >>> import torch
    >>> import manifold_shap as ms
    >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
    >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
    >>> [label.get_text() for label in explanation.plot.bar().get_yticklabels()]
    ['x0', 'x1']
    >>> explanation.plot.compositions()
    Traceback (most recent call last):
    AttributeError: `compositions` does not apply: it needs log-ratios, as of space='ilr'.
    """

    def __init__(self, explanation: Explanation) -> None:
        self._explanation = explanation
        axes, table = len(explanation.players.event), not isinstance(explanation.x, Tensor)
        composed, words = explanation.partition is not None, shown.has_words(explanation)
        balances = len(explanation.outputs) if composed else 0
        # Of a model of several tensors, rows are all of them, one behind the other.
        inputs = explanation.made_by.get("inputs", {}).values()
        several = len(set(map(tuple, inputs))) > 1
        picture = len(selection.picture_of(explanation).players.event) > 1
        log_ratios, unaligned = "log-ratios, as of space='ilr'", selection.unaligned(explanation)
        # Where players differ, those that are no words have no means.
        self._of_all = words or not unaligned
        curves = axes < 3 and not table and not inputs
        of_rows = ("beeswarm", "scatter", "heatmap")
        of_classes = ("compositions", "cumulative", "parallel_coordinates", "bifurcation_tree")
        fits = {
            **dict.fromkeys(of_rows, (not unaligned, unaligned)),
            "text": (axes < 2 and (words or not table) and not several, "rows of tokens"),
            "series": (curves, "rows of shape (time,) or (channels, time)"),
            "pixel_maps": (picture, "rows of shape (channels, height, width)"),
            **dict.fromkeys(of_classes, (composed, log_ratios)),
            "ilr_plane": (balances > 1, f"{log_ratios}, of three classes"),
            "ilr_space": (balances > 2, f"{log_ratios}, of four classes"),
            "interaction_map": (False, "`ms.plots.interaction_map(ms.shapley_interactions(v, x))`"),
            "mse_curve": (False, "scores, `ms.plots.mse_curve({name: score})`"),
        }
        self._needs = {name: need for name, (suits, need) in fits.items() if not suits}

    def __getattr__(self, name: str) -> Any:
        if name in self._needs:
            raise AttributeError(f"`{name}` does not apply: it needs {self._needs[name]}.")
        if name not in dir(self):
            raise AttributeError(
                f"There is no plot {name!r}, but {', '.join(dir(self))}; those of shap draw "
                "`explanation.to_shap()`."
            )
        drawn = self._explanation
        return MethodType(globals()[name], drawn.partition if name == "bifurcation_tree" else drawn)

    def __call__(self, *_: Any, **__: Any) -> None:
        raise TypeError(f"Expected a plot by name. {self!r}")

    def __dir__(self) -> list[str]:
        return [name for name in __all__ if name.islower() and name not in self._needs]

    def __repr__(self) -> str:
        needs = "".join(f"\n  {name}: needs {need}" for name, need in self._needs.items())
        several = not self._of_all and "bar"
        names = [f"{name}(row=0)" if name == several else name for name in dir(self)]
        return f"Plots: {', '.join(names)}; such as explanation.plot.waterfall(0){needs}"
