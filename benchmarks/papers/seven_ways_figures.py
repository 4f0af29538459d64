"""Plots of the seven ways, in words of bicycles and days."""

from collections.abc import Mapping

from matplotlib.figure import Figure

import manifold_shap as ms
from manifold_shap.plots import style, words

# Of the legend over the bars: seven names, one below the other, take as much room as the bars.
_COLUMNS = 2
Explanations = Mapping[str, ms.Explanation]


def of_all_days(found: Explanations) -> Figure:
    """Sina plots side by side, as in Figs. 5.5 and 5.6 of the thesis."""
    figure = ms.plots.sina(found)
    first = next(iter(found.values()))
    style.headline(figure, f"What each feature adds, {words.count(len(first.phi), 'day')}")
    return figure


def of_a_day(found: Explanations, row: int, date: str) -> Figure:
    """Bars as in Figs. 5.7 to 5.9 of the thesis."""
    figure = ms.plots.bars(found, instance=row)
    first, axes = next(iter(found.values())), figure.axes[0]
    unit = first.outputs[0]
    predicted, usual = (words.number(v[..., 0].item()) for v in (first.prediction[row], first.base))
    style.headline(
        figure,
        f"Predicted for {date}: {predicted} {unit}",
        f"mean prediction: {usual}; whiskers: two standard errors",
    )
    legend = axes.get_legend()
    if legend is not None:
        labels = [text.get_text() for text in legend.get_texts()]
        room = _COLUMNS * (max(map(style.text_width, labels)) + style.HANDLE)
        style.legend_above(axes, legend.legend_handles, labels, room, handlelength=1.5)
    return figure
