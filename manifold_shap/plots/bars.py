"""Draws Shapley values as bars: of one row from base to prediction, or their mean over many."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from matplotlib import rcParams
from matplotlib.axes import Axes
from torch import Tensor

from manifold_shap import shown
from manifold_shap._checks import check_whole
from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues
from manifold_shap.learning_error import total_error
from manifold_shap.plots import canvas, selection
from manifold_shap.plots.selection import Lines
from manifold_shap.plots.text import words_of_players

# What errors add to a bar is said where it is more than this share of it.
_NOISE = 0.25


def waterfall(
    explanation: Explanation,
    row: int | None = None,
    output: str | int | None = None,
    max_display: int = 10,
    ax: Axes | None = None,
    *,
    label: Any = None,
    show: bool = False,
) -> Axes:
    """Draws how the features of one row lead from the base, at the bottom, to the prediction.

    Each bar starts where the one below ends: red bars raise the output and blue ones lower it, the
    smallest first. Numbers are Shapley values. Whiskers reach two standard errors to each side;
    exact values have none, nor has the sum of the other features.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> axes = ms.plots.waterfall(explanation, row=0)
        >>> [label.get_text() for label in axes.get_yticklabels()]
        ['x1 = −2', 'x0 = 1']

    Args:
        explanation: of any rows.
        row: position of the row; by default the first.
        output: name or position of the output; by default the second of two classes and, of more,
            the predicted one; among outputs that are no probabilities, the one that the row moves
            furthest from its base.
        max_display: features to show; the rest is summed.
        ax: axes to draw in; by default a new figure.
        label: of the row, instead of its position.
        show: whether to call `plt.show()`.

    Raises:
        TypeError: `explanation` is none.
        ValueError: `max_display` is not positive, or there is no such row or output.
    """
    selection.check_one(explanation)
    row = selection.row_of(explanation, row, label)
    k = int(shown.outputs_of_rows(explanation, output)[row])
    phi = explanation.phi[row, :, k].double()
    lines = Lines.of(phi.abs(), max_display)
    steps = lines.sums(phi[None])[0].numpy()
    errors = lines.errors(total_error(explanation)[row, :, k][None])[0].numpy()
    base = explanation.base[row, k].item()
    places, ends = np.arange(len(steps)), base + steps[::-1].cumsum()[::-1]
    axes = canvas.panel(ax, len(steps) + 3, grid="x")
    colours = _colours(steps, lines.others > 0)
    numbers, names = shown.signed(steps.tolist()), lines.names_with_values(explanation, row)
    look: dict[str, Any] = {"left": ends - steps, "height": 0.72, "color": colours}
    canvas.bars(axes, places, steps, errors, numbers, names, **look)
    axes.use_sticky_edges = False
    # From the end of each bar to the start of the one above.
    axes.vlines(ends[1:], places[1:] - 1, places[1:], canvas.NEUTRAL, linewidth=0.6, zorder=1)
    canvas.name_lines(axes, names)
    axes.set_ylim(len(steps) + 0.05, -1.05)
    prediction = explanation.prediction[row, k].item()
    _mark(axes, len(steps) - 0.3, base, f"base {shown.amount(explanation, base)}")
    _mark(axes, -0.7, ends[0], f"prediction {shown.amount(explanation, prediction)}")
    unit, what = shown.unit(explanation), shown.shorten(shown.quantity(explanation, k), 40)
    kinds = [f"{kind} Shapley values" for kind in shown.kinds(explanation)]
    axes.set_xlabel("; ".join([f"{what} ({unit})" if unit else what, *kinds]))
    titles = selection.title_of_row(explanation, row, k, output)
    whiskers = selection.whiskers([explanation], row)
    return canvas.finish(axes, {"": explanation}, titles, show, whiskers)


def _colours(values: Float[np.ndarray, " lines"], others: bool, signed: bool = True) -> list[str]:
    """Red raises and blue lowers, what has no sign is green; the sum of others is grey."""
    colours = [canvas.RAISES if value >= 0 else canvas.LOWERS for value in values]
    colours = colours if signed else [canvas.SERIES[2]] * len(values)
    return [*colours[: len(values) - others], *[canvas.NEUTRAL] * others]


def _mark(axes: Axes, line: float, x: float, text: str) -> None:
    """Words at the base and at the prediction, towards the wider side."""
    low, high = axes.get_xlim()
    left = x > (low + high) / 2
    axes.plot([x], [line], marker="|", markersize=8, color=rcParams["text.color"], zorder=3)
    axes.annotate(
        text, (x, line), (-6 if left else 6, 0), textcoords="offset points",
        ha="right" if left else "left", va="center_baseline",
    )  # fmt: skip


class _Bars(NamedTuple):
    """Bars of several explanations, by line.

    Attributes:
        names: of the explanations.
        labels: of the lines.
        others: whether the last line is the sum of other features.
        whiskers: what they say.
        signed: whether values have a sign.
    """

    names: list[str]
    values: Float[Tensor, "several lines"]
    errors: Float[Tensor, "several lines"]
    labels: list[str]
    axis: str
    title: list[str]
    others: bool
    whiskers: str
    signed: bool = True


def bar(
    explanations: Explanation | GlobalValues | Mapping[str, Explanation | GlobalValues],
    row: int | None = None,
    output: str | int | None = None,
    max_display: int = 12,
    signed: bool = False,
    ax: Axes | None = None,
    *,
    label: Any = None,
    tokens: Sequence[Sequence[str]] | None = None,
    show: bool = False,
) -> Axes:
    """Draws how much each feature moves the output: over all rows, or in one; the largest first.

    Over all rows a bar is the mean of |phi|, or of phi. Of one row, it is what the feature adds to
    the prediction. Global values show what each feature adds to the accuracy. Whiskers reach two
    standard errors to each side: over rows those of the mean, of one row those of its estimation.
    Exact values of a row have none, nor has the sum of its other features, whose errors are not
    independent. Errors of single rows add to means of |phi|, and are all that there is of a feature
    without effect; small print says how much, where that is over a quarter of a bar.

    Several explanations stand side by side in the order of the first; alone, signed
    bars are red where they raise the output and blue where they lower it.

    Of texts, bars are means over all places where a word stands, whatever its capitals and the
    punctuation around it. The error of a word of a single text is unknown: it has no whiskers.

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
        output: name or position of the output; by default the second of two classes and, of more,
            the one that is predicted, for this row or for the most rows; among outputs that are no
            probabilities, the one that is moved most. Of no effect on global values, as are `row`
            and `signed`.
        max_display: features to show; the rest is summed.
        signed: whether means over rows are of phi, not of |phi|.
        ax: axes to draw in; by default a new figure.
        label: of a row, instead of its position.
        tokens: of texts that are explained as token ids, see `text`, to draw means of words.
        show: whether to call `plt.show()`.

    Raises:
        TypeError: `explanations` are something else.
        ValueError: the explanations differ in rows, players or outputs, `max_display` is not
            positive, or there is no such row or output; means of players that are no words and
            differ from row to row.
    """
    by_name = explanations if isinstance(explanations, Mapping) else {"": explanations}
    if any(isinstance(each, GlobalValues) for each in by_name.values()):
        drawn = _of_global_values(by_name, max_display)
    elif row is None and label is None:
        drawn = _over_rows(selection.named(by_name), output, max_display, signed, tokens)
    else:
        drawn = _of_row(selection.named(by_name), row, label, output, max_display)
    several, count = drawn.values.shape
    axes = canvas.panel(ax, 2 + count * (0.9 + 0.7 * (several - 1)), grid="x")
    numbers = iter(shown.signed(drawn.values.nan_to_num(0.0).flatten().tolist()))
    thickness, handles = 0.8 / several, list[Any]()
    for place, (values, errors) in enumerate(zip(drawn.values, drawn.errors, strict=True)):
        colour: Any = canvas.SERIES[place % len(canvas.SERIES)]
        if several == 1:
            colour = _colours(values.numpy(), drawn.others, drawn.signed)
        lines = np.arange(count) + thickness * (place - (several - 1) / 2)
        said = [next(numbers) if drawn.signed else next(numbers).lstrip("+") for _ in values]
        look: dict[str, Any] = {"height": 0.92 * thickness, "color": colour}
        drawing = values.numpy(), errors.numpy(), said, drawn.labels
        handles += canvas.bars(axes, lines, *drawing, **look)[:1]
    axes.axvline(0, color=rcParams["text.color"], linewidth=0.8)
    canvas.name_lines(axes, drawn.labels)
    if not drawn.signed:
        axes.set_xlim(left=0)
    axes.set_xlabel(drawn.axis)
    if several > 1:
        canvas.legend(axes, handles, drawn.names)
    return canvas.finish(axes, by_name, drawn.title, show, drawn.whiskers)


def _of_row(
    by_name: dict[str, Explanation], row: int | None, label: Any, output: Any, most: int
) -> _Bars:
    first, *_ = by_name.values()
    row = selection.row_of(first, row, label)
    k = int(shown.outputs_of_rows(first, output)[row])
    phi = torch.stack([e.phi[row, :, k].double() for e in by_name.values()])
    error = torch.stack([total_error(e)[row, :, k] for e in by_name.values()])
    lines = Lines.of(phi[0].abs(), most)
    title = selection.title_of_row(first, row, k, output)
    bases = {name: shown.amount(e, e.base[row, k].item()) for name, e in by_name.items()}
    names = list(bases)
    if len(set(bases.values())) > 1:
        names = [f"{name} (base {base})" for name, base in bases.items()]
        title[1] = selection.row_name(first, row)
    labels = lines.names_with_values(first, row)
    said = (names, lines.sums(phi), lines.errors(error), labels, selection.axis(first, k), title)
    return _Bars(*said, lines.others > 0, selection.whiskers(by_name.values(), row))


def _over_rows(
    by_name: dict[str, Explanation], output: Any, most: int, signed: bool, tokens: Any
) -> _Bars:
    first, *_ = several = [*by_name.values()]
    k, why = shown.output_of_all(first, output)
    phi = torch.stack([e.phi[..., k].double() for e in several])
    sizes = phi if signed else phi.abs()
    # E|e| of an error e that is normal.
    noise = (2 / math.pi) ** 0.5 * torch.stack([total_error(e)[..., k] for e in several])
    of = "mean Shapley value" if signed else "mean |Shapley value|"
    axis = selection.capital(selection.axis(first, k).replace("Shapley value", of, 1))
    title = [selection.title(first, k), why]
    if tokens is not None and not (first.players.by_row or isinstance(first.x, Tensor)):
        raise ValueError(
            "Expected `tokens` of rows whose players differ, as words of texts do, but these "
            f"{shown.count(len(first.players), 'player')} are of every row; leave them out."
        )
    if tokens is not None or shown.has_words(first):
        by_word = shown.by_word(words_of_players(first, tokens), torch.cat((sizes, noise)))
        chosen = by_word.head(check_whole("max_display", most))
        names = [f"{shown.shorten(word)} ({n} ×)" for word, n in chosen["count"][0].items()]
        means, spread = (
            torch.tensor(chosen[each].to_numpy().T) for each in ("mean", "standard_error")
        )
        mean, noise, error = *means.chunk(2), spread[: len(phi)]
        noun, others, over = shown.noun(first), False, "texts"
        title += [f"{len(chosen)} of {shown.count(len(by_word), noun)}"]
    else:
        selection.check_aligned(first)
        lines = Lines.of(sizes[0].nanmean(0).abs(), most)
        mean, error = selection.mean(torch.stack([lines.sums(each) for each in sizes], dim=1))
        noise = lines.errors(noise.nanmean(1))
        names, others = lines.names(first.players.names), lines.others > 0
        over = shown.count(len(first), "row")
    small = []
    if bool((error > 0).any()):
        of, alone = ("each", ", not of differences") if len(phi) > 1 else ("the", "")
        learned = any(e.model_error is not None or e.made_by.get("learned") for e in several)
        small.append(
            f"whiskers: 2 standard errors of {of} mean over {over}{alone}"
            f"{', those of learning not included' * learned}"
        )
    if over == "texts" and bool(error.isnan().any()):
        small.append(f"{noun}s of one text have none")
    noisy = noise > _NOISE * mean
    if not signed and bool(noisy.any()):
        # Of each explanation, that of its least bar; the largest of these is told.
        least = mean.where(noisy, torch.inf).argmin(1, keepdim=True)
        floors = noise.where(noisy, 0.0).gather(1, least)[:, 0]
        about = shown.number(float(f"{floors.max().item():.2g}"))
        up_to = "up to " * (len(phi) > 1)
        small.append(f"even a feature without effect has a bar of {up_to}about {about}")
    said = "; ".join(small)
    return _Bars(list(by_name), mean, error, names, axis, title, others, said, signed)


def _of_global_values(by_name: Mapping[str, Any], most: int) -> _Bars:
    first = next(each for each in by_name.values() if isinstance(each, GlobalValues))
    for each in by_name.values():
        if not isinstance(each, GlobalValues) or each.players != first.players:
            raise ValueError(
                "Expected global values of the same players but got those of others, or "
                "explanations beside them; plot them apart."
            )
    phi = torch.stack([values.phi for values in by_name.values()])
    error = torch.stack([values.standard_error for values in by_name.values()])
    lines = Lines.of(phi[0].abs(), most)
    # What is left of zero by rounding errors.
    offset = first.offset if abs(first.offset) > 1e-9 * abs(first.accuracy) else 0.0
    # Corrected ones have no error of learning, to first order.
    learned = [name for name, each in by_name.items() if each.made_by.get("learned")]
    some = f" of {', '.join(learned)}" * (len(learned) < len(by_name))
    left_out = f", those of learning{some} not included" * bool(learned)
    errors_of = f"over {first.rows} rows{left_out}"
    what, of, unit = "Mean probability of the true class", " (class balance)", "probability"
    if first.regression:
        what, of, unit = "Slope of predictions on targets", "", "slope on the target"
    return _Bars(
        list(by_name),
        lines.sums(phi),
        lines.errors(error),
        lines.names(first.players),
        f"Global Shapley value ({unit})",
        [
            f"{what}: {shown.number(first.accuracy)}",
            f"base{of}: {shown.number(offset)}; {shown.count(first.rows, 'row')}",
        ],
        lines.others > 0,
        f"whiskers: 2 standard errors {errors_of}" if bool((error > 0).any()) else "",
    )
