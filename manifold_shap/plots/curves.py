"""Draws curves: series on the colours of their values, and errors against coalition size."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib import rc_context, rcParams
from matplotlib.axes import Axes
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from manifold_shap import shown
from manifold_shap._checks import check_whole
from manifold_shap.explanation import Explanation
from manifold_shap.learning_error import total_error
from manifold_shap.metrics import Score
from manifold_shap.plots import canvas, selection
from manifold_shap.plots.canvas import Panels


def series(
    explanations: Explanation | Mapping[str, Explanation],
    row: int | None = None,
    output: str | int | None = None,
    times: Any = None,
    channels: Sequence[str] | None = None,
    max_display: int = 12,
    ax: Axes | None = None,
    *,
    label: Any = None,
    show: bool = False,
) -> Panels:
    """Draws the curve of each channel of a row, on the colours of its players' values.

    Red segments raise the output and blue ones lower it; one colour scale serves the whole figure.
    A segment has the whole value of its player, be it long or short, and so has each channel that
    it owns. Thin lines part segments of several time points. Padding at the end of the row is left
    out, and what belongs to nobody has no colour. Of 200 values or more, the largest half percent
    may lie beyond the ends of the scale, which are then pointed.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0, 3.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> (panel,) = ms.plots.series(explanation)
        >>> panel.lines[0].get_ydata().tolist()
        [1.0, -2.0, 3.0]

    Args:
        explanations: of the same series, `(time,)` or `(channels, time)`, by names if there are
            several, which then stand side by side.
        row: position of the row; by default the first.
        output: name or position of the output; by default as of `waterfall`.
        times: of the time points, increasing: numbers or dates; by default 0, 1, ...
        channels: their names; by default their numbers.
        max_display: channels to show: those of the largest values, in their order.
        ax: axes whose place the curves take; by default a new figure.
        label: of the row, instead of its position.
        show: whether to call `plt.show()`.

    Returns:
        The panels, channel by channel.

    Raises:
        TypeError: `explanations` are something else.
        ValueError: rows are no series, or this one is nothing but padding; not as many `times` or
            `channels` as the rows have, or times that do not increase; the explanations differ in
            rows, players or outputs, or there is no such row or output.
    """
    by_name = selection.named(explanations)
    first, *_ = by_name.values()
    event, count = first.players.event, len(by_name)
    if len(event) not in (1, 2) or not isinstance(first.x, Tensor):
        raise ValueError(
            "Expected explanations of series, rows of shape (time,) or (channels, time), but got "
            f"rows of shape {event}."
        )
    row = selection.row_of(first, row, label)
    k = int(shown.outputs_of_rows(first, output)[row])
    owners = first.owner[row].reshape(-1, event[-1]).numpy()
    owned = np.flatnonzero((owners >= 0).any(0))
    if len(owned) == 0:
        raise ValueError(f"Expected a row with players but row {row} is nothing but padding.")
    names = [f"channel {k}" for k in range(len(owners))] if channels is None else list(channels)
    at = np.arange(event[-1]) if times is None else np.asarray(times)
    if at.dtype == object:
        at = at.astype("datetime64[ns]")
    if len(names) != len(owners) or at.shape != event[-1:] or not (at[1:] > at[:-1]).all():
        raise ValueError(
            f"Expected {shown.count(len(owners), 'name')} of `channels` and {event[-1]} increasing "
            f"`times`, one for each time point of a row and of its padding, but got {names} and "
            f"{at.tolist()!r:.100}."
        )
    # Without the padding at its end.
    at, owners = at[: owned[-1] + 1], owners[:, : owned[-1] + 1]
    phi = [e.phi[row, :, k].double().numpy() for e in by_name.values()]
    values = np.stack([np.append(each, np.nan)[owners] for each in phi], axis=1)
    size = np.nan_to_num(np.abs(values)).mean((1, 2))
    largest = np.argsort(-size, kind="stable")[: check_whole("max_display", max_display)]
    chosen = sorted(largest.tolist())
    shape: dict[str, Any] = {"width": 0.75 + 0.25 * count, "sharex": True, "sharey": "row"}
    high = 5 + max(6, 3.5 * len(chosen))
    panels = canvas.panels(ax, high, count * len(chosen), count, **shape)
    scale = canvas.ColourScale(*phi)
    curves = first.x[row].reshape(-1, event[-1]).numpy()[:, : len(at)]
    for axes, (channel, which) in zip(panels, itertools.product(chosen, range(count)), strict=True):
        _draw_curve(axes, at, curves[channel], values[channel, which], scale)
        parted = np.diff(owners[channel]) != 0
        for last in [] if parted.all() else np.flatnonzero(parted):
            border = at[last] + (at[last + 1] - at[last]) / 2
            axes.axvline(border, color=canvas.NEUTRAL, linewidth=0.6, alpha=0.7, zorder=1)
    for axes, channel in zip(panels[::count], chosen, strict=True):
        if len(names) > 1 or channels is not None:
            said = shown.shorten(names[channel], 14)
            axes.set_ylabel(said, rotation=0, ha="right", va="center")
    if count > 1:
        for axes, (name, each) in zip(panels, by_name.items(), strict=False):
            base = shown.amount(each, each.base[row, k].item())
            axes.set_title(f"{shown.shorten(name)}: base {base}", loc="left", fontsize="medium")
    for axes in panels[-count:]:
        axes.set_xlabel("time")
    per = " of a segment" if (owners[:, 1:] == owners[:, :-1]).any() else ""
    look: dict[str, Any] = {"location": "bottom", "aspect": 40, "shrink": 0.6}
    scale.bar(panels, selection.axis(first, k, per), **look)
    part = f"{len(chosen)} of {len(names)} channels" if len(chosen) < len(names) else ""
    title = [*selection.title_of_row(first, row, k, output), part]
    errors = torch.cat([total_error(e)[row, e.present[row], k] for e in by_name.values()])
    most = shown.number(errors.nan_to_num().max().item())
    errors_of = shown.of_errors([*by_name.values()], errors, f"standard errors up to {most}")
    return canvas.finish(panels, by_name, title, show, errors_of)


def _draw_curve(
    axes: Axes,
    at: Any,
    curve: Float[np.ndarray, " time"],
    values: Float[np.ndarray, " time"],
    scale: canvas.ColourScale,
) -> None:
    """A curve upon the colours of its time points, each as wide as half of the way to the next."""
    marker, ink = "o" if len(curve) == 1 else "", rcParams["text.color"]
    with rc_context({"date.converter": "concise"}):
        (line,) = axes.plot(at, curve, color=ink, linewidth=1, marker=marker)
    # Upon the darkest colours, too.
    ground = rcParams["axes.facecolor"]
    line.set_path_effects([Stroke(linewidth=2.6, foreground=ground, alpha=0.8), Normal()])
    limits = axes.get_ylim()
    look: dict[str, Any] = {"cmap": canvas.DIVERGING.with_extremes(bad="none"), "norm": scale}
    look |= {"zorder": 0, "shading": "nearest", "transform": axes.get_xaxis_transform()}
    axes.pcolormesh(at, [0, 1], np.stack((values, values)), rasterized=True, **look)
    axes.set_ylim(limits)
    axes.margins(x=0)
    axes.locator_params(axis="y", nbins=3)


def mse_curve(scores: Mapping[str, Score], ax: Axes | None = None, *, show: bool = False) -> Axes:
    """Draws how far each value function is from the model, by how much of the input it is given.

    Bands reach one standard error to each side. The legend has the error over all coalitions,
    with the number of draws of a value function that samples.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> imputer = ms.imputers.MarginalImputer(x)
        >>> value = ms.imputed_value(lambda x: x.sum(1, True), imputer, "identity", 2)
        >>> score = ms.metrics.mean_squared_error(value, x, ms.metrics.shapley_pairs(2, 2, least=8))
        >>> ms.plots.mse_curve({"off manifold": score}).get_ylabel()
        'mean squared error'

    Args:
        scores: of value functions by name, on the same rows and coalitions.
        ax: axes to draw in; by default a new figure.
        show: whether to call `plt.show()`.

    Raises:
        TypeError: something else than scores by name.
    """
    if not isinstance(scores, Mapping) or not all(isinstance(s, Score) for s in scores.values()):
        raise TypeError(
            "Expected scores by name, as of `ms.metrics.mean_squared_error(value, x)`, but got "
            f"{scores!r:.100}."
        )
    axes = canvas.panel(ax, 13)
    lines, legend = [], []
    for which, (name, score) in enumerate(scores.items()):
        curve = score.by_size
        height, error = np.array(curve.mse), np.array(curve.standard_error)
        colour = canvas.SERIES[which % len(canvas.SERIES)]
        band: dict[str, Any] = {"color": colour, "alpha": 0.2, "linewidth": 0}
        axes.fill_between(curve.size, height - error, height + error, **band)
        lines += axes.plot(curve.size, height, color=colour, marker="o", markersize=4)
        draws = f", {score.draws} draws" if score.draws > 1 else ""
        overall = shown.with_error(score.mse, score.standard_error)
        legend.append(f"{shown.shorten(name)}: {overall}{draws}")
    axes.set(xlabel="players in the coalition", ylabel="mean squared error")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_ylim(bottom=0)
    canvas.legend(axes, lines, legend, title="over all coalitions, ± standard error")
    return canvas.finish(axes, {}, ["Errors of value functions"], show)
