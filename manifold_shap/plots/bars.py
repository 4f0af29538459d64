"""Draws the Shapley values of one row, or global ones, as bars."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float, Int64
from matplotlib.figure import Figure
from torch import Tensor

from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues
from manifold_shap.plots import selection, style

# Points.
_LABEL = 150.0


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
        instance: position of the row; of no effect on global values, as is `output`.
        output: name of the output to explain; by default the row's predicted one.
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
    first, *_ = by_name.values()
    row = selection.row_index(first, instance, "instance")
    k = int(selection.outputs_of_rows(first, output)[row])
    phi = torch.stack([e.phi[row, :, k] for e in by_name.values()])
    error = torch.stack([e.standard_error[row, :, k] for e in by_name.values()])
    shown = selection.largest(phi[0].abs(), most)
    bases = {name: selection.amount(e, e.base[row, k].item()) for name, e in by_name.items()}
    names, base = list(bases), ""
    if len(set(bases.values())) == 1:
        base = f"base (mean prediction): {bases[names[0]]}; "
    else:
        names = [f"{name} (base {base})" for name, base in bases.items()]
    prediction = selection.amount(first, first.prediction[row, k].item())
    return _draw(
        names, phi, error, shown, selection.labels(first, row, shown, _LABEL),
        selection.shapley_axis(first, kinds=selection.kinds(first)),
        f"Predicted {selection.quantity(first, k)}: {prediction}",
        f"{base}row {first.instances[row]}", *selection.cautions(by_name),
    )  # fmt: skip


def _global_bars(by_name: Mapping[str, GlobalValues], several: int, most: int) -> Figure:
    first, *others = by_name.values()
    if len(by_name) < several or any(e.players != first.players for e in others):
        raise ValueError(
            "Expected global values of the same players but got others, or explanations, among "
            f"{several}; plot them apart."
        )
    phi = torch.stack([values.phi for values in by_name.values()])
    error = torch.stack([values.standard_error for values in by_name.values()])
    shown = selection.largest(phi[0].abs(), most)
    labels = [style.shorten(first.players[player], _LABEL) for player in shown]
    if rest := selection.hidden(phi, shown):
        labels.append(style.count(rest, "other feature"))
    return _draw(
        list(by_name), phi, error, shown, labels, "Global Shapley value (probability)",
        f"Mean probability of the true class: {style.number(first.accuracy)}",
        f"base (class balance): {style.number(first.offset)}; {style.count(first.rows, 'row')}",
        *selection.cautions(by_name),
    )  # fmt: skip


def _draw(
    names: list[str],
    phi: Float[Tensor, "several players"],
    error: Float[Tensor, "several players"],
    shown: Int64[Tensor, " shown"],
    labels: list[str],
    unit: str,
    *headline: str,
) -> Figure:
    lines = selection.with_rest(phi, shown).numpy()
    errors = np.full(lines.shape, np.nan)
    errors[:, : len(shown)] = error[:, shown].numpy()
    # Exact values have error 0, and one pair of orders gives none: no whisker for either.
    whiskers = np.where(errors > 0, 2 * errors, np.nan)
    several, count = lines.shape
    figure, axes = style.one_panel(0.95 + 0.21 * count * (1 + 0.4 * (several - 1)), grid="x")
    handles = []
    thickness = 0.72 / several
    for which, (values, whisker) in enumerate(zip(lines, whiskers, strict=True)):
        colours = [style.SERIES[which % len(style.SERIES)]] * count
        if several == 1:
            colours = [style.RAISES if value >= 0 else style.LOWERS for value in values]
            colours[len(shown) :] = [style.NEUTRAL] * (count - len(shown))
        container = axes.barh(
            np.arange(count) + thickness * (which - (several - 1) / 2),
            values,
            height=0.92 * thickness,
            color=colours,
            xerr=None if np.isnan(whisker).all() else whisker,
            error_kw={"elinewidth": 0.8, "capsize": 1.5, "ecolor": style.INK},
        )
        handles.append(container[0])
    axes.axvline(0, color=style.INK, linewidth=0.8)
    style.write_lines(axes, labels)
    style.scale(axes.xaxis, unit, ticks=6)
    style.headline(figure, *headline)
    if several > 1:
        style.legend_above(axes, handles, names, handlelength=1.5)
    return figure
