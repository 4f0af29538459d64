"""Says how good value functions are: cautions for titles and notes for small print."""

from collections.abc import Mapping
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
        unit = each.unit if isinstance(each, Explanation) else ""
        if words := in_words(known, unit):
            line += f" {words}"
        else:
            line += _error_text(errors.get(chosen), errors.get(OFF_MANIFOLD), chosen)
        if "rows" in known:
            line += f", measured on {count(known['rows'], 'row')}"
        found.append(line)
    return found


def _error_text(error: float | None, off: float | None, chosen: str) -> str:
    """The error of the chosen value function, beside that off the manifold."""
    if error is None:
        return ""
    # An estimate without bias may be at or below zero, where a share says nothing.
    if off is None or off <= 0 or chosen == OFF_MANIFOLD:
        return f"; error {number(error)}"
    if not 1e-4 <= abs(off) < 1e4:
        # In squares of a large or a small unit, which tell nobody anything.
        return f"; error {error / off:.2f} times that off the manifold"
    return f"; error {number(error)} ({number(off)} off the manifold)"


def measured(explained: Explanation | GlobalValues) -> Mapping[str, Any]:
    """What was measured of its value function; empty if nothing was."""
    known = explained.made_by.get("quality")
    return known if isinstance(known, Mapping) else {}
