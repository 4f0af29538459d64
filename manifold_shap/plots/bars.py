"""One row's Shapley values as bars."""

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
from manifold_shap.plots import players, selection, style, words

_LABEL = 150.0
_LINE = 0.21
_THICKNESS = 0.72


def bars(
    explanations: Explanation | Mapping[str, Explanation],
    instance: int = 0,
    output: str | None = None,
    most: int = 12,
) -> Figure:
    """What each feature adds to the prediction of one row, largest contribution first.

    Whiskers reach two standard errors to each side; exact values have none, nor has the sum of
    the other features, whose errors are not independent. Several explanations stand side by side
    in the order of the first; alone, red bars raise the output and blue bars lower it.

    Args:
        explanations: one, or several of the same rows by name.
        instance: position of the row.
        output: name of the output to explain; by default the row's predicted one.
        most: features to show; the rest is summed.

    Raises:
        ValueError: the explanations differ in rows, players or outputs, `most` is not positive,
            or `instance` or `output` name something that is not there.
    """
    by_name = selection.named(explanations)
    first = next(iter(by_name.values()))
    row = selection.row_index(first, instance, "instance")
    k = int(selection.outputs_of_rows(first, output)[row])
    phi = torch.stack([e.phi[row, :, k] for e in by_name.values()])
    error = torch.stack([e.standard_error[row, :, k] for e in by_name.values()])
    shown = selection.largest(phi[0].abs(), most)
    phi, error = _with_rest(phi, error, shown)
    labels = [style.plain(label) for label in players.labels(first, row, shown, _LABEL)]

    lines = phi.shape[1] * (1 + 0.4 * (len(by_name) - 1))
    figure, axes = style.one_panel(0.95 + _LINE * lines, grid="x")
    handles = _draw(axes, phi.numpy(), error.numpy(), len(shown))
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    label = words.shapley_axis(first, k, kinds=words.kinds(first))
    axes.set_xlabel(label, fontsize=style.TEXT, color=style.INK)
    bases = [words.amount(e.base[row, k].item(), e.space) for e in by_name.values()]
    names = list(by_name)
    if len(set(bases)) > 1:
        names = [f"{name} (base {said})" for name, said in zip(names, bases, strict=True)]
    style.headline(figure, *_title(first, row, k, bases))
    if len(by_name) > 1:
        room = 72 * style.WIDTH - 3 * style.MARGIN - max(map(style.text_width, labels))
        style.legend_above(axes, handles, names, room, handlelength=1.5)
    return figure


def _with_rest(
    phi: Float[Tensor, "several players"],
    error: Float[Tensor, "several players"],
    shown: Int64[Tensor, " shown"],
) -> tuple[Float[Tensor, "several lines"], Float[Tensor, "several lines"]]:
    if len(shown) == phi.shape[1]:
        return phi[:, shown], error[:, shown]
    rest = phi.sum(1, keepdim=True) - phi[:, shown].sum(1, keepdim=True)
    unknown = torch.full_like(rest, torch.nan)
    return torch.cat((phi[:, shown], rest), 1), torch.cat((error[:, shown], unknown), 1)


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


def _title(explanation: Explanation, row: int, k: int, bases: list[str]) -> list[str]:
    prediction = words.amount(explanation.prediction[row, k].item(), explanation.space)
    label = f"row {explanation.instances[row]}"
    base = f"base (mean prediction): {bases[0]}; " if len(set(bases)) == 1 else ""
    return [f"Predicted {words.quantity(explanation, k)}: {prediction}", base + label]
