"""Gathers what a page says of each row: its values, and what it looks like."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manifold_shap import plots, shown, simplex
from manifold_shap._checks import to_tensor
from manifold_shap.explanation import Explanation
from manifold_shap.interactions import Interactions
from manifold_shap.learning_error import total_error
from manifold_shap.plots import arrays, canvas, selection
from manifold_shap.plots.text import Word, coloured_words, words_of_rows
from manifold_shap.report import figures
from manifold_shap.spaces import Probability
from manifold_shap.tables.features import as_text

# Features of a row with a line, as of `plots.waterfall`, outputs of a row, pairs of a row.
_FEATURES, _OUTPUTS, _PAIRS = 10, 3, 6
# Rows with a figure: it takes time.
_DRAWN = 12
_WORDS = 12


@dataclass(frozen=True)
class Rows:
    """The rows of an explanation, as a page shows them.

    Attributes:
        explanation: of all rows.
        chosen: positions of the rows that the page may show, first those that it surely does.
        tokens, images, series, interactions: see `Explanation.report`.
    """

    explanation: Explanation
    chosen: Sequence[int]
    tokens: Any = None
    images: Any = None
    series: Any = None
    interactions: Interactions | None = None

    @cached_property
    def kind(self) -> str:
        """What rows are: "texts", "pictures", "series" or "table"."""
        players = self.explanation.players
        event, index = players.event, players.index
        if self.tokens is not None:
            return "texts"
        if self.images is not None:
            return "pictures"
        if self.series is not None:
            return "series"
        if not isinstance(self.explanation.x, Tensor):
            return "table"
        if len(event) == 3 and event[0] in (1, 3, 4) and min(event[1:]) > 1:
            return "pictures"
        # Each player has all channels of its time points, or all time points of its channels.
        whole = len(event) == 2 and players.fixed
        if whole and bool((index == index[:1]).all() or (index == index[:, :1]).all()):
            return "series"
        return "table"

    @cached_property
    def outputs(self) -> torch.Tensor:
        """Of each row some outputs, the first of which is the one that its values are sorted by."""
        many = len(self.explanation.outputs)
        if shown.has_two_classes(self.explanation):
            many = 1
        return shown.top_outputs(self.explanation, None, min(many, _OUTPUTS))

    @cached_property
    def _words(self) -> dict[int, list[Word]]:
        words = words_of_rows(self.explanation, self.tokens, self.chosen)
        return dict(zip(self.chosen, words, strict=True))

    @cached_property
    def _maps(self) -> np.ndarray:
        rows = list(self.chosen)
        return arrays.maps_of(self.explanation, rows, self.outputs[rows]).numpy()

    @cached_property
    def limit(self) -> float:
        """The end of the scale of bars and colours, which all rows share."""
        rows = list(self.chosen)
        if self.explanation.partition is not None:
            return float(self.explanation.norms()[rows].nan_to_num(0).max()) or 1.0
        if self.kind == "pictures":
            return canvas.colour_scale(self._maps).limit
        phi = self.explanation.phi[rows].gather(
            2, self.outputs[rows][:, None].expand(-1, self.explanation.phi.shape[1], -1)
        )
        return canvas.colour_scale(phi.numpy()).limit

    def row(self, place: int) -> dict[str, Any]:
        """All that a page says of a row, by its place among those chosen."""
        row = self.chosen[place]
        explanation, k = self.explanation, int(self.outputs[row, 0])
        compositions = explanation.partition is not None
        output, said, base = self._predicted(row, k)
        lines = self._norms(row) if compositions else self._values(row, k)
        return {
            "label": shown.shorten(as_text(explanation.instances[row]), 80),
            "position": row,
            "output": output,
            "prediction": said,
            "base": base,
            "lines": lines,
            "others": [] if compositions else self._others(row),
            "look": self._look(place),
            "pairs": self._pairs(row, k),
        }

    def _predicted(self, row: int, k: int) -> tuple[str, str, str]:
        """What is predicted, its amount and that of the base."""
        explanation = self.explanation
        states = torch.stack((explanation.prediction[row], explanation.base[row]))
        if explanation.partition is None:
            after, before = (shown.amount(explanation, each) for each in states[:, k].tolist())
            return shown.quantity(explanation, k), after, before
        p = simplex.ilr_inv(states.double(), explanation.basis).exp()
        top = int(p[0].argmax())
        after, before = (Probability().amount(each) for each in p[:, top].tolist())
        return f"probability of {explanation.classes[top]}", after, before

    def _names(self, row: int, chosen: torch.Tensor) -> list[str]:
        if self.kind != "texts":
            return selection.names_with_values(self.explanation, row, chosen, 60)
        names = [shown.shorten(self._said(row).get(player, ""), 60) for player in chosen.tolist()]
        others = selection.hidden(self.explanation.phi[row].T, chosen)
        return [*names, shown.count(others, "other feature")] if others else names

    def _said(self, row: int) -> dict[int, str]:
        """The words of each player of a text."""
        found: dict[int, str] = defaultdict(str)
        for word in self._words[row]:
            found[word.player] += word.before + word.text
        return {player: words.strip() for player, words in found.items()}

    def _values(self, row: int, k: int) -> list[dict[str, Any]]:
        """Features with their Shapley values, the largest first, as of `plots.waterfall`."""
        phi = self.explanation.phi[row, :, k].double()
        phi = phi.where(phi.isfinite(), torch.nan)
        chosen = selection.largest(phi.abs(), _FEATURES)
        values = selection.with_rest(phi[None], chosen)[0].tolist()
        errors = total_error(self.explanation[[row]])[0, chosen, k].tolist()
        others = [_signed(self.explanation.phi[row, chosen, j]) for j in self.outputs[row, 1:]]
        said, notes = shown.signed(values), map(_error, errors)
        return _lines(self._names(row, chosen), values, said, errors, notes, *others)

    def _others(self, row: int) -> list[str]:
        """Names and predictions of the other outputs."""
        predicted = self.explanation.prediction[row].tolist()
        return [
            f"{self.explanation.outputs[j]}: {shown.amount(self.explanation, predicted[j])}"
            for j in self.outputs[row, 1:].tolist()
        ]

    def _norms(self, row: int) -> list[dict[str, Any]]:
        """Features with the norms of their compositions, the largest first."""
        one = self.explanation[[row]]
        norms, towards = one.norms()[0], one.projections()[0].argmax(-1)
        chosen = selection.largest(norms, _FEATURES)
        values, errors = norms[chosen].tolist(), one.norm_errors()[0, chosen].tolist()
        said = [shown.with_error(*pair) for pair in zip(values, errors, strict=True)]
        notes = [shown.shorten(one.classes[k]) for k in towards[chosen].tolist()]
        return _lines(self._names(row, chosen)[: len(chosen)], values, said, errors, notes)

    def _look(self, place: int) -> dict[str, Any]:
        """What a row looks like: a figure, words, or pictures."""
        row, explanation = self.chosen[place], self.explanation
        if self.kind == "texts":
            k = int(self.outputs[row, 0])
            phi = explanation.phi[row, :, k].numpy()
            return {"words": coloured_words(self._words[row], phi, self.limit)}
        if self.kind == "pictures":
            (picture,) = arrays.images_of(explanation.x, self.images, [row])
            names = [shown.quantity(explanation, j) for j in self.outputs[row].tolist()]
            urls = [figures.picture(each, self.limit) for each in self._maps[place]]
            return {
                "picture": figures.picture(picture),
                "maps": list(zip(names, urls, strict=True)),
            }
        if place < _DRAWN and self.kind == "series":
            return {"figure": figures.svg(lambda: self._curves(row))}
        if place < _DRAWN and explanation.partition is not None:
            return {"figure": figures.svg(lambda: plots.parallel_coordinates(explanation[[row]]))}
        return {}

    def _curves(self, row: int) -> Any:
        explanation, names = drawn_curves(self.explanation, self.series)
        return plots.series(explanation[[row]], channels=names)

    def _pairs(self, row: int, k: int) -> list[str]:
        """The largest interactions of a row."""
        if self.interactions is None:
            return []
        values, names = self.interactions.values[row, ..., k], self.explanation.players.names
        first, second = torch.triu_indices(len(values), len(values), 1)
        of_pairs = values[first, second]
        largest = of_pairs.abs().nan_to_num(-1).argsort(descending=True, stable=True)[:_PAIRS]
        largest = largest[of_pairs[largest].isfinite()]
        return [
            f"{names[first[pair]]} × {names[second[pair]]}: {said}"
            for pair, said in zip(largest.tolist(), _signed(of_pairs[largest]), strict=True)
        ]

    def mean_words(self, k: int) -> list[dict[str, Any]]:
        """Words with the largest mean values for an output, over where they occur in some texts."""
        values: dict[str, list[float]] = defaultdict(list)
        for row in self.chosen:
            for player, words in self._said(row).items():
                value = float(self.explanation.phi[row, player, k]) if player >= 0 else math.nan
                # Without the punctuation around it.
                word = words.strip("".join(c for c in words if not c.isalnum())).lower()
                if word and len(word.split()) == 1 and math.isfinite(value):
                    values[word].append(value)
        # Of a word that occurs once, little is known.
        often = {word: each for word, each in values.items() if len(each) > 1} or values
        means = {word: float(np.mean(each)) for word, each in often.items()}
        largest = sorted(means, key=lambda word: (-abs(means[word]), word))[:_WORDS]
        values_of = [means[word] for word in largest]
        names = [f"{shown.shorten(word)} ({len(values[word])} ×)" for word in largest]
        return _lines(names, values_of, shown.signed(values_of), [], [])

    def mean_map(self, k: int) -> str:
        """The mean size of the values of each pixel, as a `data:` URL."""
        rows = list(self.chosen)
        maps = arrays.maps_of(self.explanation, rows, torch.full((len(rows), 1), k)).abs()
        mean = maps.mean((0, 1)).numpy()
        return figures.picture(mean, canvas.colour_scale(mean).limit)


def drawn_curves(explanation: Explanation, series: Any) -> tuple[Explanation, list[str] | None]:
    """An explanation whose rows are the curves to draw, and the names of their channels."""
    if series is None:
        return explanation, None
    names = list(map(str, series)) if isinstance(series, Mapping) else None
    curves = (
        torch.stack([to_tensor(each, "series") for each in series.values()], 1)
        if names
        else (to_tensor(series, "series"))
    )
    if not isinstance(explanation.x, Tensor) or curves.numel() != explanation.x.numel():
        raise ValueError(
            f"Expected `series` as the rows, of shape {tuple(explanation.x.shape)}, or its "
            f"channels by name, but got shape {tuple(curves.shape)}."
        )
    x = curves.reshape(explanation.x.shape).to(explanation.x)
    return replace(explanation, x=x), names


def _lines(
    names: Sequence[str],
    values: Sequence[float],
    said: Sequence[str],
    errors: Sequence[float],
    notes: Iterable[str],
    *others: Sequence[str],
) -> list[dict[str, Any]]:
    """Lines of a table; what is not of all of them is empty in the last."""
    keys = ("name", "value", "said", "error", "note")
    columns = zip_longest(names, values, said, errors, notes, *others, fillvalue="")
    return [dict(zip(keys, line, strict=False)) | {"others": line[5:]} for line in columns]


def _signed(values: Tensor) -> list[str]:
    return shown.signed(values.nan_to_num(0.0).tolist())


def _error(error: float) -> str:
    """A standard error in two digits, or what is known of it."""
    if math.isnan(error):
        return "unknown"
    return f"± {shown.number(float(f'{error:.2g}'))}" if error else "exact"
