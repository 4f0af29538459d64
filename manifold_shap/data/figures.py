"""Draws the figures that suit rows of a kind: bars, maps, coloured words or curves."""

from collections.abc import Mapping, Sequence
from typing import Any

from manifold_shap import plots
from manifold_shap.explanation import Explanation

# Rows that have a figure of their own.
_ROWS = 8

ByTitle = Mapping[str, Explanation]


def of_columns(explanations: ByTitle, main: str, notes: Mapping[str, str]) -> dict[str, Any]:
    """Bars of the first rows and of all, and a swarm of all.

    Args:
        explanations: of the same rows, by the titles of their value functions.
        main: the title of the one that is drawn alone where only one can be.
        notes: by the titles, what else is to be said of some.
    """
    named = _in_a_line(explanations, notes)
    explanation, alone = explanations[main], len(named) == 1
    drawn: dict[str, Any] = {}
    for k, label in enumerate(explanation.instances[:_ROWS]):
        if alone:
            drawn[f"waterfall_{label}.png"] = plots.waterfall(explanation, k)
        else:
            drawn[f"bar_{label}.png"] = plots.bar(named, row=k)
    return drawn | {"bar.png": plots.bar(named), "beeswarm.png": plots.beeswarm(explanation)}


def of_pictures(explanations: ByTitle, notes: Mapping[str, str]) -> dict[str, Any]:
    """Maps of the pixels; arguments as of `of_columns`."""
    titled = {}
    for title, explanation in explanations.items():
        note = [notes[title]] if title in notes else []
        titled["\n".join([title, *plots.kinds(explanation), *note])] = explanation
    return {"pixel_maps.png": plots.pixel_maps(titled)}


def of_texts(
    explanations: ByTitle, notes: Mapping[str, str], tokens: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Coloured words, as a page; arguments as of `of_columns` and `plots.text`."""
    return {"text.html": plots.text(_in_a_line(explanations, notes), tokens).page}


def of_series(explanations: ByTitle, notes: Mapping[str, str]) -> dict[str, Any]:
    """Curves of the first rows; arguments as of `of_columns`."""
    named = _in_a_line(explanations, notes)
    labels = next(iter(named.values())).instances[:_ROWS]
    return {f"series_{label}.png": plots.series(named, row=k) for k, label in enumerate(labels)}


def _in_a_line(explanations: ByTitle, notes: Mapping[str, str]) -> dict[str, Explanation]:
    return {
        f"{title} ({notes[title]})" if title in notes else title: explanation
        for title, explanation in explanations.items()
    }
