"""Plots of the seven ways, in words of bicycles and days."""

from collections.abc import Mapping

from matplotlib.figure import Figure

import manifold_shap as ms
from manifold_shap.plots import style

Explanations = Mapping[str, ms.Explanation]


def of_all_days(found: Explanations) -> Figure:
    """Sina plots side by side, as in Figs. 5.5 and 5.6 of the thesis."""
    figure = ms.plots.sina(found)
    first = next(iter(found.values()))
    style.headline(figure, f"What each feature adds, {style.count(len(first.phi), 'day')}")
    return figure


def of_a_day(found: Explanations, row: int, date: str) -> Figure:
    """Bars as in Figs. 5.7 to 5.9 of the thesis."""
    figure = ms.plots.bars(found, instance=row)
    first = next(iter(found.values()))
    unit = first.outputs[0]
    predicted, usual = (style.number(v[..., 0].item()) for v in (first.prediction[row], first.base))
    style.headline(
        figure,
        f"Predicted for {date}: {predicted} {unit}",
        f"mean prediction: {usual}; whiskers: two standard errors",
    )
    return figure
