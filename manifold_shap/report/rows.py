"""Gathers what a page says of each row: its values, and what it looks like."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from manifold_shap import plots, shown, simplex
from manifold_shap._checks import to_tensor
from manifold_shap.explanation import Explanation
from manifold_shap.interactions import Interactions
from manifold_shap.learning_error import total_error
from manifold_shap.plots import canvas, maps
from manifold_shap.plots.selection import Lines
from manifold_shap.plots.text import coloured_words, words_of_players, words_of_rows
from manifold_shap.report import figures
from manifold_shap.spaces import Probability
from manifold_shap.tables.features import as_text

# Features of a row with a line, as of `plots.waterfall`, outputs of a row, pairs of a row.
_FEATURES, _OUTPUTS, _PAIRS = 10, 3, 6
# Rows with a figure: it takes time.
_DRAWN = 12


@dataclass(frozen=True)
class Rows:
    """The rows of an explanation, as a page shows them.

    Attributes:
        explanation: of all rows.
        chosen: positions of the rows that the page may show, first those that it surely does.
        tokens, images, series, interactions: see `Explanation.report`.
    """

    explanation: Explanation
    chosen: list[int]
    tokens: Any = None
    images: Any = None
    series: Any = None
    interactions: Interactions | None = None

    @cached_property
    def kind(self) -> str:
        """What rows are: "texts", "pictures", "series" or "table"."""
        asked = {"texts": self.tokens, "pictures": self.images, "series": self.series}
        for kind, given in asked.items():
            if given is not None:
                return kind
        if shown.has_words(self.explanation):
            return "texts"
        players = self.explanation.players
        event, index = players.event, players.index
        if isinstance(self.explanation.x, Tensor):
            if len(event) == 3 and event[0] in (1, 3) and min(event[1:]) > 1:
                return "pictures"
            # Each player has all channels of its time points, or all time points of its channels.
            whole = len(event) == 2 and players.fixed
            if whole and bool((index == index[:1]).all() or (index == index[:, :1]).all()):
                return "series"
        return "table"

    @cached_property
    def outputs(self) -> Tensor:
        """Of each row some outputs, the first of which is the one that its values are sorted by."""
        two = shown.has_two_classes(self.explanation)
        many = 1 if two else min(len(self.explanation.outputs), _OUTPUTS)
        return shown.top_outputs(self.explanation, None, many)

    @property
    def _drawn(self) -> list[int]:
        return sorted(self.chosen)[:_DRAWN]

    @cached_property
    def _maps(self) -> np.ndarray:
        return maps.maps_of(self.explanation, self.chosen, self.outputs[self.chosen]).numpy()

    @cached_property
    def limit(self) -> float:
        """The end of the scale of colours, which all rows share."""
        if self.kind == "pictures":
            return canvas.ColourScale(self._maps).limit
        return canvas.ColourScale(self._coloured[self.chosen].numpy()).limit

    @cached_property
    def _predicted(self) -> Tensor:
        """Of log-ratios, the class that is predicted for each row."""
        explanation = self.explanation
        return simplex.ilr_inv(explanation.prediction.double(), explanation.basis).argmax(1)

    @cached_property
    def _coloured(self) -> Tensor:
        """What colours of words show: values or, of log-ratios, projections on the class."""
        one, k = self.explanation, self.outputs[:, 0]
        if one.partition is None:
            return one.phi[range(len(k)), :, k]
        return one.projections()[range(len(k)), :, self._predicted]

    def row(self, place: int) -> dict[str, Any]:
        """All that a page says of a row, by its place among those chosen."""
        row = self.chosen[place]
        explanation, k = self.explanation, int(self.outputs[row, 0])
        states = torch.stack((explanation.prediction[row], explanation.base[row]))
        if explanation.partition is None:
            output = shown.quantity(explanation, k)
            said = [shown.amount(explanation, each) for each in states[:, k].tolist()]
        else:
            p, top = simplex.ilr_inv(states.double(), explanation.basis).exp(), self._predicted[row]
            output = f"probability of {explanation.classes[top]}"
            said = [Probability().amount(each) for each in p[:, top].tolist()]
        return {
            "label": shown.shorten(as_text(explanation.instances[row]), 80),
            "position": row,
            "output": output,
            "prediction": said[0],
            "base": said[1],
            "lines": self._lines(row, k),
            "pairs": self._pairs(row, k),
            **self._look(place),
        }

    @cached_property
    def _said(self) -> pd.Series:
        return words_of_players(self.explanation, self.tokens)

    def _lines(self, row: int, k: int) -> list[dict[str, Any]]:
        """Features with their Shapley values, or the norms of their compositions."""
        one = self.explanation[[row]]
        if one.partition is None:
            phi = one.phi[..., k].double()
            lines = Lines.of(phi[0].abs(), _FEATURES)
            values = lines.sums(phi)[0].tolist()
            errors = lines.errors(total_error(one)[..., k])[0].tolist()
            said = shown.signed(values)
            notes = [f"± {shown.number(float(f'{e:.2g}'))}" if e > 0 else "" for e in errors]
        else:
            lines = Lines(Lines.of(one.norms()[0], _FEATURES).players)
            values = lines.sums(one.norms())[0].tolist()
            errors = lines.errors(one.norm_errors())[0].tolist()
            said = [shown.with_error(*pair) for pair in zip(values, errors, strict=True)]
            towards = one.projections()[0, lines.players].argmax(-1)
            notes = [f"towards {shown.shorten(one.classes[k])}" for k in towards.tolist()]
        names = lines.names_with_values(one, 0, 60)
        if self.kind == "texts":
            said_by = [self._said.get((row, k), "") for k in range(len(one.players))]
            names = lines.names(said_by, 60, shown.noun(one))
        errors = [each if each > 0 else 0.0 for each in errors]
        reach = [1.02 * (abs(value) + 2 * e) for value, e in zip(values, errors, strict=True)]
        keys = ("name", "value", "said", "error", "note", "reach")
        columns = (names, values, said, errors, notes, reach)
        return [dict(zip(keys, line, strict=True)) for line in zip(*columns, strict=True)]

    def _look(self, place: int) -> dict[str, Any]:
        """What a row looks like: a figure, words, or pictures."""
        row, explanation = self.chosen[place], self.explanation
        if self.kind == "texts":
            (words,) = words_of_rows(explanation, self.tokens, [row])
            return {"words": coloured_words(words, self._coloured[row].numpy(), self.limit)}
        if self.kind == "pictures":
            (picture,) = maps.images_of(explanation.x, self.images, [row])
            of_outputs = zip(self.outputs[row].tolist(), self._maps[place], strict=True)
            predicted = explanation.prediction[row].tolist()
            drawn = {
                f"{shown.quantity(explanation, k)}: {shown.amount(explanation, predicted[k])}": (
                    figures.picture(each, self.limit)
                )
                for k, each in of_outputs
            }
            marks = list(self._marks(row))
            return {"picture": figures.picture(picture), "maps": drawn.items(), "marks": marks}
        if row in self._drawn and self.kind == "series":
            return {"figure": figures.svg(lambda: self._curves(row))}
        if row in self._drawn and explanation.partition is not None:
            return {"figure": figures.svg(lambda: plots.parallel_coordinates(explanation[[row]]))}
        return {}

    def _marks(self, row: int) -> Iterator[tuple[str, float, float]]:
        """Superpixels and where they are, in percent of the picture from its left and its top."""
        players = self.explanation.players
        height, width = players.event[-2:]
        owner = self.explanation.owner[row].reshape(-1, height, width)
        for k in range(int(self.explanation.counts[row])) if players.by_row else ():
            places = (owner == k).any(0).nonzero() + 0.5
            top, left = places[(places - places.mean(0)).norm(dim=1).argmin()].tolist()
            yield players.names[k].split()[-1][:4], 100 * left / width, 100 * top / height

    def _curves(self, row: int) -> Any:
        """The curves of a row, of which `series` may have others, and names of channels."""
        explanation, series, names = self.explanation, self.series, None
        if isinstance(series, Mapping):
            names = list(map(str, series))
            series = torch.stack([to_tensor(each, "series") for each in series.values()], 1)
        if series is not None:
            x = to_tensor(series, "series").reshape(explanation.x.shape)
            explanation = replace(explanation, x=x.to(explanation.x))
        return plots.series(explanation[[row]], channels=names)

    def _pairs(self, row: int, k: int) -> list[str]:
        """The largest interactions of a row."""
        if self.interactions is None:
            return []
        values, names = self.interactions.values[row, ..., k], self.explanation.players.names
        first, second = torch.triu_indices(len(values), len(values), 1)
        lines = Lines.of(values[first, second].abs(), _PAIRS).players[:_PAIRS]
        said = shown.signed(values[first, second][lines].tolist())
        return [
            f"{names[first[pair]]} × {names[second[pair]]}: {value}"
            for pair, value in zip(lines.tolist(), said, strict=True)
        ]

    def mean_map(self, k: int) -> str:
        """The mean size of the values of each pixel, as a `data:` URL."""
        outputs = torch.full((len(self.chosen), 1), k)
        mean = maps.maps_of(self.explanation, self.chosen, outputs).abs().mean((0, 1)).numpy()
        return figures.picture(mean, canvas.ColourScale(mean).limit)
