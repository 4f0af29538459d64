"""Gathers what a page says of all rows together: bars, swarms, words and interactions."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues
from manifold_shap.interactions import Interactions
from manifold_shap.plots import ranks, selection, style
from manifold_shap.plots.beeswarm import jitter
from manifold_shap.report.rows import Rows, short

_PLAYERS = 12
_GLOBAL = 15
_PAIRED = 10
_WORDS = 12
# Points of a swarm, in all of its lines; more of them hide each other.
_POINTS = 3600
# Steps of colour from low to high values, and the place of what has none.
COLOURS = 16
# Units of a swarm's drawing, from left to right and of a line from top to bottom.
_ACROSS, _LINE = 1000, 40


def of_output(explanation: Explanation, order: Sequence[int], output: int) -> dict[str, Any]:
    """Bars of mean sizes over all rows, and a swarm of some rows, for one output.

    Args:
        explanation: of all rows.
        order: positions of the rows of the swarm; it has the first of them, where all are too many.
        output: its position.
    """
    phi = explanation.phi[..., output].double()
    sizes = phi.abs()
    shown = selection.largest(sizes.nanmean(0), _PLAYERS)
    own = sizes[:, shown]
    count, mean = own.isfinite().sum(0), own.nanmean(0)
    # Of a single row there is no error: 0 / 0.
    error = ((own - mean).square().nansum(0) / (count - 1) / count).sqrt()
    reach = max((mean + error.nan_to_num(0)).tolist(), default=0.0) or 1.0
    bars = [
        {
            "name": short(explanation.players.names[i]),
            "said": style.with_error(float(m), float(e)),
            "width": _percent(m / reach),
            "whisker": _whisker(m, e, reach),
        }
        for i, m, e in zip(shown.tolist(), mean, error, strict=True)
    ]
    return {
        "bars": bars,
        "others": _further(selection.hidden(phi, shown)),
        "swarm": _swarm(explanation, order, output, shown),
    }


def _whisker(mean: Tensor, error: Tensor, reach: float) -> dict[str, str] | None:
    """From one standard error below the mean to one above it."""
    if not bool(error > 0):
        return None
    low = (mean - error).clamp(min=0)
    return {"left": _percent(low / reach), "width": _percent((mean + error - low) / reach)}


def _percent(share: Tensor | float) -> str:
    return f"{100 * min(max(float(share), 0.0), 1.0):.2f}"


def _further(many: int) -> str:
    """A sentence on features that have no line."""
    have = "has a smaller one" if many == 1 else "have smaller ones"
    return f"{style.count(many, 'further feature')} {have}." if many > 0 else ""


def _swarm(
    explanation: Explanation, order: Sequence[int], output: int, shown: Tensor
) -> dict[str, Any] | None:
    """Points in lines, as paths of one colour each; None of a single row, or of no values."""
    some = explanation[sorted(order[: _POINTS // max(1, len(shown))])]
    phi = some.phi[:, shown, output].double().numpy()
    if len(phi) < 2 or not phi.size:
        return None
    low, high = min(float(np.nanmin(phi)), 0.0), max(float(np.nanmax(phi)), 0.0)
    border = 0.03 * (high - low) or 1.0
    low, high = low - border, high + border
    lines = []
    for name, own, values, offsets in zip(
        [short(some.players.names[i]) for i in shown.tolist()],
        selection.features(some, shown),
        phi.T,
        jitter(phi),
        strict=True,
    ):
        place = (
            ranks.rank(ranks.of_player(own).numbers) if own.shape[1] else np.full(len(phi), np.nan)
        )
        across = (values - low) / (high - low) * _ACROSS
        lines.append({"name": name, "paths": _paths(across, offsets, place)})
    ticks = [
        {"place": _percent((tick - low) / (high - low)), "said": style.number(tick)}
        for tick in MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low, high)
        if low + border <= tick <= high - border
    ]
    return {
        "lines": lines,
        "ticks": ticks,
        "zero": f"{-low / (high - low) * _ACROSS:.1f}",
        "points": len(phi),
    }


def _paths(
    across: Float[np.ndarray, " rows"],
    offsets: Float[np.ndarray, " rows"],
    place: Float[np.ndarray, " rows"],
) -> list[dict[str, Any]]:
    """Points as strokes without length; colours are counted from 0, COLOURS is that of none."""
    colour = np.where(
        np.isnan(place), COLOURS, np.minimum(np.nan_to_num(place) * COLOURS, COLOURS - 1)
    )
    found: dict[int, list[str]] = defaultdict(list)
    for x, offset, k in zip(across, offsets, colour.astype(int), strict=True):
        if not np.isfinite(x):
            continue
        found[int(k)].append(f"M{x:.0f} {_LINE * (0.5 + offset):.0f}h0")
    return [{"colour": k, "points": "".join(found[k])} for k in sorted(found)]


def known(values: GlobalValues) -> dict[str, Any]:
    """Bars of global values, with their errors."""
    order = values.phi.abs().argsort(descending=True, stable=True)[:_GLOBAL]
    phi, error = values.phi[order].double(), values.standard_error[order].double()
    around = 2 * error.nan_to_num(0)
    low, high = min(float((phi - around).min()), 0.0), max(float((phi + around).max()), 0.0)
    span = (high - low) or 1.0
    bars = [
        {
            "name": short(values.players[i]),
            "said": style.with_error(float(p), float(e)),
            "raises": bool(p >= 0),
            "left": _percent((min(float(p), 0.0) - low) / span),
            "width": _percent(abs(float(p)) / span),
            "whisker": None
            if not bool(e > 0)
            else {"left": _percent((p - 2 * e - low) / span), "width": _percent(4 * e / span)},
        }
        for i, p, e in zip(order.tolist(), phi, error, strict=True)
    ]
    return {
        "bars": bars,
        "others": _further(len(values.phi) - len(order)),
        "accuracy": style.number(values.accuracy),
        "offset": style.number(values.offset),
        "rows": values.rows,
        "regression": values.regression,
    }


def of_words(found: Rows, output: int) -> list[dict[str, Any]]:
    """Words with the largest mean values for an output, over where they occur in some texts."""
    values: dict[str, list[float]] = defaultdict(list)
    for row in found.data:
        of = next((each for each in row["outputs"] if each["output"] == output), None)
        phi = {} if of is None else {step[0]: step[1] for step in of["steps"]}
        owned: dict[int, list[str]] = defaultdict(list)
        for _, text, player in row["words"]:
            owned[player].append(text)
        for player, texts in owned.items():
            if len(texts) == 1 and player in phi and any(map(str.isalnum, texts[0])):
                values[texts[0].lower()].append(phi[player])
    # Of a word that occurs once, little is known.
    often = {word: own for word, own in values.items() if len(own) > 1}
    means = {word: float(np.mean(own)) for word, own in (often or values).items()}
    largest = sorted(means, key=lambda word: (-abs(means[word]), word))[:_WORDS]
    reach = max((abs(means[word]) for word in largest), default=0.0) or 1.0
    numbers = style.signed([means[word] for word in largest])
    return [
        {
            "name": short(word),
            "count": len(values[word]),
            "said": said,
            "raises": means[word] >= 0,
            "width": _percent(abs(means[word]) / reach),
        }
        for word, said in zip(largest, numbers, strict=True)
    ]


def paired(interactions: Interactions, output: int) -> dict[str, Any]:
    """A map of mean interactions over all rows, of the players with the largest ones."""
    values = interactions.values[..., output].double()
    players = values.shape[1]
    off = ~torch.eye(players, dtype=torch.bool)
    size = (values.abs().nanmean(0) * off).nansum(1)
    shown = sorted(size.argsort(descending=True, stable=True)[:_PAIRED].tolist())
    mean = values.nanmean(0)[shown][:, shown]
    limit = float((mean.abs() * off[: len(shown), : len(shown)]).nan_to_num(0).max()) or 1.0
    cells = [
        [
            {
                "said": style.number(float(value)) if math.isfinite(value) else "–",
                "raises": bool(value >= 0),
                "share": 0.0 if i == j else _shade(float(value) / limit),
                "own": i == j,
            }
            for j, value in enumerate(line)
        ]
        for i, line in enumerate(mean)
    ]
    names = [short(interactions.players.names[i], 30) for i in shown]
    return {"names": names, "cells": cells, "others": _further(players - len(shown))}


def _shade(share: float) -> str:
    return f"{0.7 * min(abs(share), 1.0):.2f}" if math.isfinite(share) else "0"
