"""Draws Shapley values as bars: of one row, their mean size over many, or global ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from matplotlib.axes import Axes
from torch import Tensor

from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues
from manifold_shap.learning_error import total_error
from manifold_shap.plots import canvas, selection, style
from manifold_shap.plots.titles import headline

# Letters.
_LABEL = 30
# Share of the axis that is left for numbers on each side.
_BEYOND = 0.25


def bar(
    explanations: Explanation | GlobalValues | Mapping[str, Explanation | GlobalValues],
    row: int | None = None,
    output: str | int | None = None,
    most: int = 12,
    signed: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draws how much each feature moves the output: over all rows, or in one; the largest first.

    Over all rows a bar is the mean of |phi|, or of phi. Of one row, it is what the feature adds to
    the prediction. Global values show what each feature adds to the accuracy. Whiskers reach two
    standard errors to each side: over rows those of the mean, of one row those of its estimation.
    Exact values of a row have none, nor has the sum of its other features, whose errors are not
    independent. Numbers stand beyond the ends. Several explanations stand side by side in the order
    of the first; alone, signed bars are red where they raise the output and blue where they lower
    it.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> [float(each.get_width()) for each in ms.plots.bar(explanation).patches]
        [2.0, 1.5]
        >>> [float(each.get_width()) for each in ms.plots.bar(explanation, row=0).patches]
        [-2.0, 1.0]

    Args:
        explanations: one, or several of the same rows by name; or `global_values` of them.
        row: position of a row; by default all of them.
        output: name or position of the output; by default the row's predicted one. Over all rows
            it is the only one, the second of two probabilities, or the one that is predicted for
            the most rows. Of no effect on global values, as are `row` and `signed`.
        most: features to show; the rest is summed.
        signed: whether means over rows are of phi, not of |phi|.
        ax: axes to draw in; by default a new figure.

    Raises:
        TypeError: `explanations` are something else.
        ValueError: the explanations differ in rows, players or outputs, `most` is not positive,
            or `row` or `output` name something that is not there.
    """
    bars = _bars(explanations, row, output, most, signed)
    several, count = bars.values.shape
    ax = canvas.one_panel(ax, 0.95 + 0.21 * count * (1 + 0.6 * (several - 1)), grid="x")
    handles = _draw(ax, bars)
    ax.axvline(0, color=style.INK, linewidth=0.8)
    style.write_lines(ax, bars.labels)
    style.scale(ax.xaxis, bars.axis, ticks=5)
    if several > 1:
        canvas.legend_above(ax, handles, bars.names, handlelength=1.5)
    headline(ax, bars.by_name, *bars.title)
    return ax


@dataclass(frozen=True)
class _Bars:
    """What is drawn: `values` and `errors` by explanation and line.

    Attributes:
        rest: whether the last line is the sum of other features.
    """

    by_name: dict[str, Explanation] | dict[str, GlobalValues]
    names: list[str]
    values: Float[np.ndarray, "several lines"]
    errors: Float[np.ndarray, "several lines"]
    labels: list[str]
    axis: str
    title: tuple[str, ...]
    rest: bool
    signed: bool = True


def _bars(
    explanations: object, row: int | None, output: str | int | None, most: int, signed: bool
) -> _Bars:
    given = explanations if isinstance(explanations, Mapping) else {"": explanations}
    if any(isinstance(each, GlobalValues) for each in given.values()):
        return _of_global_values(given, most)
    by_name = selection.named(explanations)
    if row is not None:
        return _of_row(by_name, row, output, most)
    return _over_rows(by_name, output, most, signed)


def _of_row(
    by_name: dict[str, Explanation], row: int, output: str | int | None, most: int
) -> _Bars:
    first, *_ = by_name.values()
    row = selection.row_index(first, row, "row")
    k = int(selection.outputs_of_rows(first, output)[row])
    phi = torch.stack([e.phi[row, :, k] for e in by_name.values()])
    error = torch.stack([total_error(e)[row, :, k] for e in by_name.values()])
    shown = selection.largest(phi[0].abs(), most)
    bases = {name: selection.amount(e, e.base[row, k].item()) for name, e in by_name.items()}
    names, base = list(bases), ""
    if len(set(bases.values())) == 1:
        base = f"base (mean prediction): {bases[names[0]]}; "
    else:
        names = [f"{name} (base {base})" for name, base in bases.items()]
    prediction = selection.amount(first, first.prediction[row, k].item())
    return _Bars(
        by_name,
        names,
        selection.with_rest(phi, shown).numpy(),
        _errors(error, phi, shown),
        selection.labels(first, row, shown, _LABEL),
        selection.shapley_axis(first, kinds=selection.kinds(first)),
        (
            f"Predicted {selection.quantity(first, k)}: {prediction}",
            base + selection.row_name(first, row),
            selection.why_of_row(first, output),
        ),
        rest=selection.hidden(phi, shown) > 0,
    )


def _over_rows(
    by_name: dict[str, Explanation], output: str | int | None, most: int, signed: bool
) -> _Bars:
    first, *_ = by_name.values()
    k, why = selection.output_of_all(first, output)
    phi = torch.stack([e.phi[..., k].double() for e in by_name.values()])
    sizes = phi if signed else phi.abs()
    shown = selection.largest(sizes[0].nanmean(0).abs(), most)
    lines = torch.stack([selection.with_rest(each, shown) for each in sizes])
    # Players that a row lacks take no part in their means.
    there = lines.isfinite().sum(1)
    mean = lines.nanmean(1)
    variance = (lines - mean[:, None]).square().nansum(1) / (there - 1)
    error = torch.where(there > 1, (variance / there).sqrt(), torch.nan)
    kinds = selection.kinds(first)
    of = "mean Shapley value" if signed else "mean |Shapley value|"
    return _Bars(
        by_name,
        list(by_name),
        mean.numpy(),
        error.numpy(),
        _named(first.players.names, shown, selection.hidden(phi.flatten(0, 1), shown)),
        selection.capital(" ".join([*kinds, f"{of} ({first.unit})"])),
        (selection.title(first, k), why),
        rest=lines.shape[-1] > len(shown),
        signed=signed,
    )


def _of_global_values(given: Mapping[str, object], most: int) -> _Bars:
    by_name = {name: each for name, each in given.items() if isinstance(each, GlobalValues)}
    first, *others = by_name.values()
    if len(by_name) < len(given) or any(e.players != first.players for e in others):
        raise ValueError(
            "Expected global values of the same players but got those of others, or explanations "
            "beside them; plot them apart."
        )
    phi = torch.stack([values.phi for values in by_name.values()])
    error = torch.stack([values.standard_error for values in by_name.values()])
    shown = selection.largest(phi[0].abs(), most)
    # What is left of zero by rounding errors.
    offset = first.offset if abs(first.offset) > 1e-9 * abs(first.accuracy) else 0.0
    what, of, unit = "Mean probability of the true class", " (class balance)", "probability"
    if first.regression:
        what, of, unit = "Slope of predictions on targets", "", "slope on the target"
    return _Bars(
        by_name,
        list(by_name),
        selection.with_rest(phi, shown).numpy(),
        _errors(error, phi, shown),
        _named(first.players, shown, selection.hidden(phi, shown)),
        f"Global Shapley value ({unit})",
        (
            f"{what}: {style.number(first.accuracy)}",
            f"base{of}: {style.number(offset)}; {style.count(first.rows, 'row')}",
        ),
        rest=selection.hidden(phi, shown) > 0,
    )


def _errors(
    error: Float[Tensor, "several players"],
    phi: Float[Tensor, "several players"],
    shown: Int64[Tensor, " shown"],
) -> Float[np.ndarray, "several lines"]:
    """Of the shown players; that of the sum of the others is not known."""
    unknown = error.new_full((len(error), 1), torch.nan)
    rest = unknown if selection.hidden(phi, shown) else unknown[:, :0]
    return torch.cat((error[:, shown], rest), 1).numpy()


def _named(names: Sequence[str], shown: Int64[Tensor, " shown"], others: int) -> list[str]:
    labels = [style.shorten(names[player], _LABEL) for player in shown.tolist()]
    return [*labels, style.count(others, "other feature")] if others else labels


def _draw(ax: Axes, bars: _Bars) -> list[object]:
    """A bar for each explanation and line, with its number beyond its end.

    The first bar of each explanation is returned.
    """
    several, count = bars.values.shape
    size = style.TEXT if several == 1 else style.SMALL
    texts = style.signed(np.nan_to_num(bars.values).flatten().tolist())
    numbers = iter(texts if bars.signed else [text.lstrip("+") for text in texts])
    thickness = (0.72 if several == 1 else 0.8) / several
    handles = []
    for which, (values, errors) in enumerate(zip(bars.values, bars.errors, strict=True)):
        colours = [style.SERIES[which % len(style.SERIES)]] * count
        if several == 1 and bars.signed:
            colours = [style.RAISES if value >= 0 else style.LOWERS for value in values]
        if several == 1 and bars.rest:
            colours[-1] = style.NEUTRAL
        lines = np.arange(count) + thickness * (which - (several - 1) / 2)
        look: dict[str, Any] = {"height": 0.92 * thickness, "color": colours}
        drawn = canvas.bars(ax, lines, values, errors, list(islice(numbers, count)), size, **look)
        handles.append(drawn[0])
    ax.margins(x=_BEYOND)
    return handles
