"""Draws the Shapley values of one row, or global ones, as bars."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float, Int64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from manifold_shap.explanation import Explanation
from manifold_shap.global_importance import GlobalValues
from manifold_shap.plots import selection, style

_LABEL = 150.0
_LINE = 0.21
_THICKNESS = 0.72


def bars(
    explanations: Explanation | GlobalValues | Mapping[str, Explanation | GlobalValues],
    instance: int = 0,
    output: str | None = None,
    most: int = 12,
) -> Figure:
    """Draws what each feature adds to the prediction of one row, the largest contribution first.

    Whiskers reach two standard errors to each side; exact values have none, nor has the sum of
    the other features, whose errors are not independent. Several explanations stand side by side
    in the order of the first; alone, red bars raise the output and blue bars lower it. Global
    values show what each feature adds to the accuracy.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> axes = ms.plots.bars(explanation, instance=0).axes[0]
        >>> [float(bar.get_width()) for bar in axes.patches]
        [-2.0, 1.0]

    Args:
        explanations: one, or several of the same rows by name; or `global_values` of them.
        instance: position of the row; not for global values.
        output: name of the output to explain; by default the row's predicted one. Not for global
            values.
        most: features to show; the rest is summed.

    Raises:
        ValueError: the explanations differ in rows, players or outputs, `most` is not positive,
            or `instance` or `output` name something that is not there.
    """
    given = explanations if isinstance(explanations, Mapping) else {"Shapley values": explanations}
    over_rows = {name: each for name, each in given.items() if isinstance(each, GlobalValues)}
    if over_rows:
        return _global_bars(over_rows, len(given), most)
    by_name = selection.named(
        {name: each for name, each in given.items() if isinstance(each, Explanation)}
    )
    first = next(iter(by_name.values()))
    row = selection.row_index(first, instance, "instance")
    k = int(selection.outputs_of_rows(first, output)[row])
    phi = torch.stack([e.phi[row, :, k] for e in by_name.values()])
    error = torch.stack([e.standard_error[row, :, k] for e in by_name.values()])
    shown = selection.largest(phi[0].abs(), most)
    bases = [selection.amount(e, e.base[row, k].item()) for e in by_name.values()]
    names = list(by_name)
    same = len(set(bases)) == 1
    if not same:
        names = [f"{name} (base {base})" for name, base in zip(names, bases, strict=True)]
    prediction = selection.amount(first, first.prediction[row, k].item())
    return _figure(
        names, phi, error, shown, selection.labels(first, row, shown, _LABEL),
        selection.shapley_axis(first, kinds=selection.kinds(first)),
        f"Predicted {selection.quantity(first, k)}: {prediction}",
        f"base (mean prediction): {bases[0]}; " * same + f"row {first.instances[row]}",
        *selection.cautions(by_name),
    )  # fmt: skip


def _global_bars(by_name: Mapping[str, GlobalValues], several: int, most: int) -> Figure:
    first = next(iter(by_name.values()))
    if len(by_name) < several or any(e.players != first.players for e in by_name.values()):
        raise ValueError(
            "Expected global values of the same players but got others, or explanations, among "
            f"{several}; plot them apart."
        )
    phi = torch.stack([values.phi for values in by_name.values()])
    error = torch.stack([values.standard_error for values in by_name.values()])
    shown = selection.largest(phi[0].abs(), most)
    labels = [style.shorten(first.players[player], _LABEL) for player in shown]
    if others := selection.hidden(phi, shown):
        labels.append(style.count(others, "other feature"))
    return _figure(
        list(by_name), phi, error, shown, labels, "Global Shapley value (probability)",
        f"Mean probability of the true class: {style.number(first.accuracy)}",
        f"base (class balance): {style.number(first.offset)}; {style.count(first.rows, 'row')}",
        *selection.cautions(by_name),
    )  # fmt: skip


def _figure(
    names: list[str],
    phi: Float[Tensor, "several players"],
    error: Float[Tensor, "several players"],
    shown: Int64[Tensor, " shown"],
    labels: list[str],
    unit: str,
    *headline: str,
) -> Figure:
    lines = selection.with_rest(phi, shown)
    unknown = torch.full((len(names), lines.shape[1] - len(shown)), torch.nan)
    errors = torch.cat((error[:, shown], unknown), 1)
    thickness = lines.shape[1] * (1 + 0.4 * (len(names) - 1))
    figure, axes = style.one_panel(0.95 + _LINE * thickness, grid="x")
    handles = _draw(axes, lines.numpy(), errors.numpy(), len(shown))
    axes.set_yticks(range(len(labels)), [style.plain(label) for label in labels])
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.set_xlabel(unit, fontsize=style.TEXT, color=style.INK)
    style.headline(figure, *headline)
    if len(names) > 1:
        style.legend_above(axes, handles, names, handlelength=1.5)
    return figure


def _draw(
    axes: Axes,
    phi: Float[np.ndarray, "several lines"],
    error: Float[np.ndarray, "several lines"],
    shown: int,
) -> list[Patch]:
    """Bars and whiskers; returns one bar of each explanation."""
    handles = []
    lines = np.arange(phi.shape[1])
    thickness = _THICKNESS / len(phi)
    for which, (values, errors) in enumerate(zip(phi, error, strict=True)):
        if len(phi) == 1:
            colours = np.where(values >= 0, style.RAISES, style.LOWERS)
            colours[shown:] = style.NEUTRAL
        else:
            colours = np.full(len(lines), style.SERIES[which % len(style.SERIES)])
        # Exact values have error 0, and one pair of orders gives none: no whisker for either.
        whisker = np.where(errors > 0, 2 * errors, np.nan)
        container = axes.barh(
            lines + thickness * (which - (len(phi) - 1) / 2),
            values,
            height=0.92 * thickness,
            color=colours.tolist(),
            xerr=None if np.isnan(whisker).all() else whisker,
            error_kw={"elinewidth": 0.8, "capsize": 1.5, "ecolor": style.INK},
        )
        handles.append(container[0])
    axes.axvline(0, color=style.INK, linewidth=0.8)
    return handles
