"""Says over a figure what it shows, and below it how good the value function is."""

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues
from manifold_shap.plots import canvas, style
from manifold_shap.quality import OFF_MANIFOLD, in_words

Explained = Mapping[str, Explanation] | Mapping[str, GlobalValues]


def headline(place: Axes | FigureBase, by_name: Explained, *lines: str) -> None:
    """Over a figure or given axes: lines, and cautions; below: the quality of value functions."""
    room = canvas.letters(place, style.TITLE)
    canvas.write_above(
        place, [part for line in (*lines, *cautions(by_name)) for part in wrap(line, room)]
    )
    if small := notes(by_name):
        canvas.write_below(place, small)


def cautions(by_name: Explained) -> list[str]:
    """Lines that warn of value functions that are half-trained, or no better than the marginal."""
    names = [name for name, each in by_name.items() if each.made_by.get("half_trained")]
    which = f": {', '.join(names)}" if len(by_name) > 1 else ""
    found = [f"Caution: half-trained value function{which}"] if names else []
    for name, each in by_name.items():
        if warning := quality(each).get("warning"):
            # What follows a colon are figures, which stand in the small print.
            short = str(warning).partition(":")[0]
            found.append(f"Caution: {f'{name}: ' if len(by_name) > 1 else ''}{short}")
    return found


def notes(by_name: Explained) -> list[str]:
    """A line on the value function of each that says how good it is."""
    found = []
    for name, each in by_name.items():
        known = quality(each)
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
            line += f", measured on {style.count(known['rows'], 'row')}"
        found.append(line)
    return found


def _error_text(error: float | None, off: float | None, chosen: str) -> str:
    """The error of the chosen value function, beside that off the manifold."""
    if error is None:
        return ""
    # An estimate without bias may be at or below zero, where a share says nothing.
    if off is None or off <= 0 or chosen == OFF_MANIFOLD:
        return f"; error {style.number(error)}"
    if not 1e-4 <= abs(off) < 1e4:
        # In squares of a large or a small unit, which tell nobody anything.
        return f"; error {error / off:.2f} times that off the manifold"
    return f"; error {style.number(error)} ({style.number(off)} off the manifold)"


def quality(explanation: Explanation | GlobalValues) -> Mapping[str, Any]:
    """What is known of its value function; empty if nothing is."""
    known = explanation.made_by.get("quality")
    return known if isinstance(known, Mapping) else {}
