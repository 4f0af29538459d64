"""Says how good value functions are: cautions for titles and notes for small print."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues
from manifold_shap.quality import OFF_MANIFOLD, in_words
from manifold_shap.shown import count, number

Explained = Mapping[str, Explanation] | Mapping[str, GlobalValues]


def cautions(by_name: Explained) -> list[str]:
    """Lines that warn of value functions that are half-trained, or no better than the marginal."""
    found = []
    for name, each in by_name.items():
        of = f"{name}: " if len(by_name) > 1 else ""
        if each.made_by.get("half_trained"):
            found.append(f"Caution: {of}half-trained value function")
        if warning := measured(each).get("warning"):
            # What follows a colon are figures, which stand in the small print.
            found.append(f"Caution: {of}{str(warning).partition(':')[0]}")
    return found


def notes(by_name: Explained) -> list[str]:
    """A line on each value function that was measured: how good it is."""
    found = []
    for name, each in by_name.items():
        known = measured(each)
        chosen, errors = known.get("chosen"), known.get("mse", {})
        if chosen is None:
            continue
        line = f"{name}: {chosen}" if len(by_name) > 1 else f"value function: {chosen}"
        words = in_words(known, each.unit if isinstance(each, Explanation) else "")
        line += f" {words}" if words else _roots(errors, chosen)
        if "rows" in known:
            line += f", measured on {count(known['rows'], 'row')}"
        found.append(line)
    return found


def _roots(errors: Mapping[str, float], chosen: str) -> str:
    """The root mean squared error of the chosen value function, beside that off the manifold."""
    # An estimate without bias may be below zero.
    known = {name: max(error, 0.0) for name, error in errors.items() if isfinite(error)}
    roots = {name: number(error**0.5) for name, error in known.items()}
    if chosen not in roots:
        return ""
    off = f" ({roots[OFF_MANIFOLD]} off the manifold)" if OFF_MANIFOLD in roots else ""
    return f"; root mean squared error {roots[chosen]}{off if chosen != OFF_MANIFOLD else ''}"


def measured(explained: Explanation | GlobalValues) -> Mapping[str, Any]:
    """What was measured of its value function; empty if nothing was."""
    known = explained.made_by.get("quality")
    return known if isinstance(known, Mapping) else {}
