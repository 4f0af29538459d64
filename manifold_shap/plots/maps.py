"""Draws values as maps of colours: features by rows, pairs of features, and pixels."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from manifold_shap import shown
from manifold_shap._checks import to_tensor
from manifold_shap.explanation import Explanation
from manifold_shap.interactions import Interactions
from manifold_shap.interop.shap_explanation import by_element
from manifold_shap.learning_error import total_error
from manifold_shap.plots import canvas, selection
from manifold_shap.plots.canvas import Panels
from manifold_shap.plots.selection import Lines
from manifold_shap.tables.features import as_text

# So few rows are named one by one, and so few players have numbers in the cells of a map.
_NAMED, _NUMBERED = 20, 8
# What is smaller, relative to all terms, counts as rounding error.
_ROUNDING = 1e-5
# Of the end of the colours: upon stronger ones, letters are white.
_STRONG = 0.65
# Images that are shown where none are named.
_ROWS = 8
# Of red, green and blue in brightness (ITU-R BT.601).
_BRIGHTNESS = np.array([0.299, 0.587, 0.114])
# Inches of a picture, and of the words above it.
_SIZE, _WORDS = 1.6, 0.4


def heatmap(
    explanation: Explanation,
    output: str | int | None = None,
    max_display: int = 12,
    ax: Axes | None = None,
    *,
    show: bool = False,
) -> Axes:
    """Draws the value of each feature in each row as a colour, rows in order of their prediction.

    Red raises the output and blue lowers it; the most important feature, by mean |phi|, is at the
    top. Over it is the prediction, with a dashed line at the mean base. Half a percent of the
    values may lie beyond the ends of the colour scale, which are then pointed. Players that a row
    lacks are grey.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[1.0, -2.0], [3.0, 1.0]])
        >>> explanation = ms.exact_shapley(lambda x, mask: (x[:, None] * mask).sum(-1, True), x)
        >>> ms.plots.heatmap(explanation).images[0].get_array().tolist()
        [[1.0, 3.0], [-2.0, 1.0]]

    Args:
        explanation: of any rows.
        output: name or position of the output; by default as of `beeswarm`.
        max_display: features to show; the others are summed, row by row.
        ax: axes to draw in; by default a new figure.
        show: whether to call `plt.show()`.

    Raises:
        TypeError: `explanation` is none.
        ValueError: nothing to plot, `max_display` is not positive, or no such output.
    """
    selection.check_one(explanation)
    selection.check_aligned(explanation)
    k, why = shown.output_of_all(explanation, output)
    phi = explanation.phi[..., k].double()
    lines = Lines.of(phi.abs().nanmean(0), max_display)
    order = explanation.prediction[:, k].argsort(stable=True)
    values = lines.sums(phi)[order].T.numpy()
    axes = canvas.panel(ax, 7 + max(len(lines), 4), grid="")
    scale = canvas.ColourScale(values)
    axes.imshow(values, canvas.DIVERGING, scale, aspect="auto", interpolation="nearest")
    scale.bar(axes, selection.axis(explanation, k, "", "\n"))
    canvas.name_lines(axes, lines.names(explanation.players.names))
    if len(order) <= _NAMED:
        rows = [as_text(explanation.instances[row]) for row in order.tolist()]
        canvas.name_columns(axes, [shown.shorten(name, 14) for name in rows])
    else:
        # Numbers would be taken for positions of rows.
        axes.set_xticks([])
    axes.set_xlabel("rows in order of their prediction" if len(order) > 1 else "row")
    above = axes.inset_axes((0, 1.04, 1, 0.22), sharex=axes)
    above.tick_params(labelbottom=False, bottom=False)
    above.spines[:].set_visible(False)
    marker = "" if len(order) > 1 else "o"
    prediction, ink = explanation.prediction[order, k].double().numpy(), rcParams["text.color"]
    above.step(range(len(order)), prediction, where="mid", color=ink, linewidth=1, marker=marker)
    base = float(explanation.base[:, k].double().mean())
    above.axhline(base, color=canvas.NEUTRAL, linewidth=0.8, linestyle="--")
    # Above the scale of colours, where there is room.
    where: dict[str, Any] = {"transform": above.get_yaxis_transform(), "in_layout": False}
    look: dict[str, Any] = {"fontsize": "small", "alpha": canvas.SOFT, "va": "center"}
    above.text(1.01, base, "mean base", **look, **where)
    above.set_ylabel("prediction", rotation=0, ha="right", va="center")
    above.locator_params(axis="y", nbins=2)
    return canvas.finish(axes, {"": explanation}, [selection.title(explanation, k), why], show)


def interaction_map(
    interactions: Interactions,
    row: int | None = None,
    output: str | int | None = None,
    max_display: int = 12,
    ax: Axes | None = None,
    *,
    label: Any = None,
    show: bool = False,
) -> Axes:
    """Draws the interactions of all pairs of players as a map, with first-order terms on its edge.

    Red pairs raise the output by more together than alone, blue ones by less. The colours are
    scaled to pairs: first-order terms, on the diagonal, may lie beyond their ends, which are then
    pointed. Where players are few, numbers stand in their cells, in brackets if they are within two
    standard errors of zero: of one row those of its estimation, over rows those of the mean. Where
    there are no numbers, a cross marks these.

        >>> import torch
        >>> import manifold_shap as ms
        >>> product = lambda x, mask: torch.where(mask, x[:, None], 0.0).prod(-1, keepdim=True)
        >>> found = ms.shapley_interactions(product, torch.tensor([[2.0, 3.0]]), index="k-SII")
        >>> axes = ms.plots.interaction_map(found)
        >>> [text.get_text() for text in axes.texts]
        ['0.00', '+6.00', '0.00']

    Args:
        interactions: of any rows.
        row: position of a row; by default the mean over rows.
        output: name or position of the output; by default as of `waterfall` for one row, and of
            `beeswarm` for the mean.
        max_display: players to show, those of the largest terms.
        ax: axes to draw in; by default a new figure.
        label: of a row, instead of its position.
        show: whether to call `plt.show()`.

    Raises:
        TypeError: `interactions` are none.
        ValueError: `max_display` is not positive, or there is no such row or output.
    """
    if not isinstance(interactions, Interactions):
        raise TypeError(
            "Expected interactions, as of `ms.shapley_interactions(value, x)`, but got "
            f"{type(interactions).__name__}."
        )
    shapley, values = interactions.shapley, interactions.values.double()
    selection.named(shapley)
    if row is None and label is None and len(shapley) > 1:
        selection.check_aligned(shapley)
        k, why = shown.output_of_all(shapley, output)
        cells, errors = selection.mean(values[..., k])
        whose = f"mean of {shown.count(len(shapley), 'row')}"
    else:
        row = selection.row_of(shapley, row, label)
        k = int(shown.outputs_of_rows(shapley, output)[row])
        _, _, why = selection.title_of_row(shapley, row, k, output)
        cells, errors = values[row, ..., k], interactions.standard_error[row, ..., k].double()
        whose = selection.row_name(shapley, row)
    size = cells.abs().nansum(1).where(cells.diagonal().isfinite(), torch.nan)
    chosen, others = Lines.of(size, max_display)
    names = Lines(chosen).names(shapley.players.names, 20)
    lower = torch.ones(len(chosen), len(chosen), dtype=torch.bool).tril()
    drawn = cells[chosen][:, chosen].where(lower, torch.nan)
    unsure = ((cells.abs() < 2 * errors) & (errors > 0))[chosen][:, chosen] & lower
    axes = canvas.panel(ax, 6 + 1.6 * max(len(names), 4), grid="")
    pairs = drawn.where(lower.tril(-1), torch.nan)
    # Where all pairs are rounding errors, the scale is that of all terms.
    small = pairs.abs().nan_to_num(0.0).max() <= _ROUNDING * drawn.abs().nan_to_num(0.0).max()
    scale = canvas.ColourScale((drawn if small else pairs).numpy())
    scale.extend = "both" if bool((drawn.abs() > scale.limit).any()) else "neither"
    axes.imshow(drawn.numpy(), canvas.DIVERGING.with_extremes(bad="none"), scale, aspect="auto")
    scale.bar(axes, f"Interaction\n({shown.quantity(shapley, k)})")
    numbered = len(names) <= _NUMBERED
    numbers = shown.signed(drawn[lower].tolist())
    for (line, column), number in zip(lower.nonzero().tolist(), numbers, strict=True):
        said = number if numbered else ""
        if unsure[line, column]:
            said = f"({number})" if numbered else "×"
        ink = "white" if abs(drawn[line, column]) > _STRONG * scale.limit else "black"
        axes.text(column, line, said, color=ink, ha="center", va="center", fontsize="small")
    canvas.name_lines(axes, names)
    canvas.name_columns(axes, names)
    axes.spines[:].set_visible(False)
    mark = "( )" if numbered else "×"
    what = selection.capital(shown.quantity(shapley, k))
    title = [
        f"Interactions ({interactions.index}): {what}, {whose}",
        why,
        f"{len(chosen)} of {len(chosen) + others} players" if others else "",
        f"{mark}: within two standard errors of 0" if unsure.any() else "",
    ]
    return canvas.finish(axes, {"": shapley}, title, show)


def pixel_maps(
    explanations: Explanation | Mapping[str, Explanation],
    row: int | Sequence[int] | None = None,
    output: str | int | Sequence[str | int] | None = None,
    top: int = 1,
    images: Any = None,
    overlay: float = 0.0,
    ax: Axes | None = None,
    *,
    label: Any = None,
    show: bool = False,
) -> Panels:
    """Draws one line per image: the image, then its signed map under each explanation.

    Red pixels raise the output and blue ones lower it (Frye et al. 2021, Fig. 6a); one colour scale
    serves the whole figure, so that colours compare between lines, outputs and explanations. Half a
    percent of the pixels may lie beyond the ends of the scale, which are then pointed. The value of
    a player with several pixels is spread evenly over its elements, and the channels of a pixel are
    summed: a map always sums to `prediction - base`, but for that of a model of several inputs,
    which has the picture's share; the sum of the others is noted below. So is how many values are
    farther from 0 than two standard errors, and what to do where these are less than half.

        >>> import torch
        >>> import manifold_shap as ms
        >>> x = torch.tensor([[[[0.0, 1.0], [1.0, 0.5]]]])
        >>> explanation = ms.exact_shapley(
        ...     lambda x, mask: (x.flatten(1)[:, None] * mask).sum(-1, True), x
        ... )
        >>> ms.plots.pixel_maps(explanation)[1].images[0].get_array().tolist()
        [[0.0, 1.0], [1.0, 0.5]]

    Args:
        explanations: of the same images, by the names to write above the columns.
        row: position of the image to show, or several; by default the first 8.
        output: name or position of the output to explain, or several of them, a column for each;
            by default as of `waterfall`.
        top: how many outputs to explain where `output` names none, a column for each: the most
            probable ones of each image, or those that it moves furthest from the base.
        images: what to show instead of the explained rows: for every row an image of the same
            height and width, `[rows, channels, height, width]`, of numbers from 0 to 1 or of bytes.
            One channel goes from black to white, three are red, green and blue. Standardised rows
            are shown as they were by `x * std + mean`. By default the rows themselves: a grey image
            goes from its lowest value in white to its highest in black, as ink on paper, and a
            colour image with values beyond 0 and 1 is stretched from its lowest to its highest.
        overlay: opacity of a pale grey copy of the image over each of its maps; 0.4 shows both, in
            colours that are greyer than those of the scale.
        ax: axes whose place the maps take; by default a new figure.
        label: of a row, or a list of them, instead of positions.
        show: whether to call `plt.show()`.

    Returns:
        The panels, line by line.

    Raises:
        TypeError: `explanations` are something else, or `images` no numbers.
        ValueError: the inputs are no images, or images of other than 1 or 3 channels and none are
            given to show; the explanations differ in rows, players or outputs, or there are no
            such rows or outputs; `images` out of range.
    """
    whole = selection.named(explanations)
    by_name = {k: selection.picture_of(e) for k, e in whole.items()}
    first, *_ = by_name.values()
    event = first.players.event
    if len(event) not in (2, 3) or min(event[-2:]) < 2:
        raise ValueError(
            "Expected explanations of images, rows of shape (height, width) or (channels, "
            f"height, width), but got rows of shape {event}."
        )
    chosen = selection.rows_of(first, row, label, _ROWS)
    of_row = shown.top_outputs(first, output, top)[chosen]
    pictures = images_of(first.x, images, chosen)
    maps = torch.cat([maps_of(e, chosen, of_row) for e in by_name.values()], dim=1).numpy()
    scale, across = canvas.ColourScale(maps), 1 + maps.shape[1]
    high = len(maps) * (_SIZE * min(1.0, event[-2] / event[-1]) + _WORDS) + 0.8
    wide = max(across, 3) * _SIZE / rcParams["figure.figsize"][0]
    cells = canvas.panels(ax, high / canvas.line_height(), len(maps) * across, across, width=wide)
    for axes in cells:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(visible=True, linewidth=0.5)
    heads = [f"{shown.shorten(name, 22)}\n" * (len(by_name) > 1) for name in by_name]
    for line, row in enumerate(chosen):
        picture, *panels = cells[line * across :][:across]
        name = selection.row_name(first, row).replace(" (", "\n").rstrip(")")
        _title(picture, name)
        picture.imshow(pictures[line], cmap="gray", vmin=0, vmax=1)
        titles = itertools.product(heads if line == 0 else [""] * len(heads), of_row[line].tolist())
        for axes, values, (head, k) in zip(panels, maps[line], titles, strict=True):
            said = shown.amount(first, first.prediction[row, k].item())
            _title(axes, f"{head}{shown.shorten(first.outputs[k], 16)}: {said}")
            axes.imshow(values, canvas.DIVERGING, scale)
            if overlay:
                # In pale grey: its colours would be taken for those of the map.
                image = pictures[line]
                grey = image if image.ndim == 2 else image @ _BRIGHTNESS
                axes.imshow(grey, cmap="gray", vmin=-0.5, vmax=1, alpha=overlay)
    bar = scale.bar(
        cells, selection.axis(first, None, per_pixel(first)), location="bottom", shrink=0.8
    )
    bar.locator = MaxNLocator(2, symmetric=True)
    count = len(set(chosen))
    part = f"{count} of {len(first)} rows" if count < len(first) else ""
    note = f"{_others(whole, by_name, chosen, of_row)}{_noise(by_name, chosen, of_row)}"
    return canvas.finish(cells, by_name, [part], show, note)


def _others(whole: Any, pictures: Any, rows: list[int], outputs: Tensor) -> str:
    """What the inputs that are on no map add, where there are other inputs than pictures."""
    if whole == pictures:
        return ""
    sums = [
        (each.phi.nansum(1) - pictures[name].phi.nansum(1))[rows].gather(1, outputs)
        for name, each in whole.items()
    ]
    said = ", ".join(shown.signed(torch.cat(sums, 1).flatten().tolist()))
    several = " (in the order of the maps)" * ("," in said)
    return f"the other inputs, which no map shows, add {said}{several}. "


def _noise(by_name: Any, rows: list[int], outputs: Tensor) -> str:
    """How many values are clear of their errors, of what these are, and what shows more."""

    def drawn(values: Tensor) -> Tensor:
        return values[rows].gather(2, outputs[:, None].expand(-1, values.shape[1], -1)).flatten()

    phi = torch.cat([drawn(each.phi) for each in by_name.values()])
    error = torch.cat([drawn(total_error(each)) for each in by_name.values()])
    alone = torch.cat([drawn(each.standard_error) for each in by_name.values()])
    phi, alone, error = (each[error > 0] for each in (phi, alone, error))
    clear = phi.abs() > 2 * error
    said = f"{int(clear.sum())} of {len(clear)} values are farther from 0 than two standard errors"
    said = shown.of_errors([*by_name.values()], error, said) if len(clear) else ""
    # Noise is at least half of the sum of squares.
    by_sampling, noisy = (phi.square().sum() < 2 * e.square().sum() for e in (alone, error))
    more = "more `evaluations=`" if by_sampling else "more rows or a longer training"
    fix = f"larger patches (`ms.Players.patches`) or {more} show more"
    return f"mostly noise: {said}; {fix}" if noisy else said


def per_pixel(explanation: Explanation) -> str:
    """What values on a map are of, where players have several pixels."""
    pixels = math.prod(explanation.players.event[-2:])
    return " per pixel" if len(explanation.players) < pixels else ""


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize="small")


def maps_of(
    explanation: Explanation, rows: list[int], outputs: Tensor
) -> Float[Tensor, "rows outputs height width"]:
    """Of rows by position: the value of a player is spread evenly, channels are summed."""
    phi, owner = explanation.phi[rows], explanation.owner[rows]
    values = by_element(phi.gather(2, outputs[:, None].expand(-1, phi.shape[1], -1)), owner)
    return (values.sum(1) if owner.ndim == 4 else values).movedim(-1, 1)


def images_of(
    x: Tensor, images: Any, rows: list[int]
) -> Float[np.ndarray, "rows height width *colours"]:
    """Of some rows of `x`, or in their place of `images`, from 0 to 1; see `pixel_maps`."""
    pixels = x if images is None else to_tensor(images, "images")
    channels = pixels.shape[1] if pixels.ndim == 4 else 1
    alike = len(pixels) == len(x) and pixels.shape[-2:] == x.shape[-2:]
    if getattr(images, "dtype", None) in (torch.uint8, np.uint8):
        pixels = pixels / 255
    inside = images is None or bool(((pixels >= 0) & (pixels <= 1)).all())
    if not (alike and inside) or channels not in (1, 3):
        raise ValueError(
            f"Expected `images` of 1 or 3 channels, for {len(x)} rows of {x.shape[-2]} x "
            f"{x.shape[-1]} pixels, of numbers from 0 to 1 or of bytes, but got shape "
            f"{tuple(pixels.shape)}, of {pixels.min():.3g} to {pixels.max():.3g}."
        )
    pixels = pixels[rows].reshape(len(rows), channels, *pixels.shape[-2:])
    if images is None:
        low, high = (end((1, 2, 3), keepdim=True) for end in (pixels.amin, pixels.amax))
        stretched = (pixels - low) / (high - low).clamp(min=1e-12)
        # A row as ink on paper, or in colours, which are stretched where they are out of range.
        colours = pixels.where((low >= 0) & (high <= 1), stretched)
        pixels = 1 - stretched if channels == 1 else colours
    return pixels.movedim(1, -1).squeeze(-1).numpy()
