"""Words what a page says of the model, of errors and of how values were made."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from manifold_shap import shown
from manifold_shap.explanation import Explanation
from manifold_shap.plots import quality
from manifold_shap.plots.selection import capital

# Told in other words.
_TOLD = ("quality", "audit", "model")
_LONGEST = 400
# A sum that is further off than this, relative to the largest change, is worth a warning.
_GAP = 0.01


def model_of(explanation: Explanation) -> str:
    """Which model is explained and how good it is, in sentences; empty where that is unknown."""
    known = explanation.made_by.get("model")
    if not isinstance(known, Mapping) or "name" not in known:
        return ""
    said = f"The model that is explained is {shown.shorten(str(known['name']), 80)}."
    rows = shown.count(known["rows"], "test row") if "rows" in known else "test rows"
    if _is_number(known.get("accuracy")):
        return f"{said} It predicts the right class for {known['accuracy']:.2%} of {rows}."
    if _is_number(known.get("r2")):
        r2 = shown.number(known["r2"])
        return f"{said} Its R², the share of the variance explained, is {r2} on {rows}."
    return f"{said} Its accuracy was not measured."


def _is_number(entry: Any) -> bool:
    return isinstance(entry, int | float) and math.isfinite(entry)


def warnings_of(explanation: Explanation) -> list[str]:
    """What a reader should know before anything else."""
    found = [each.removeprefix("Caution: ") for each in quality.cautions({"": explanation})]
    for hint in explanation.made_by.get("hints", []):
        if not any(str(hint).startswith(each) for each in found):
            found.append(str(hint))
    if not bool(explanation.phi[explanation.present].isfinite().all()):
        found.append("some Shapley values are not known")
    elif explanation.efficiency_gap > _GAP:
        found.append(
            "Shapley values do not add up to prediction - base: they are off by up to "
            f"{explanation.efficiency_gap:.1%} of the largest difference"
        )
    error = explanation.standard_error[explanation.present]
    if bool(error.isnan().any()):
        which = "" if bool(error.isnan().all()) else "some "
        found.append(f"{which}standard errors are unknown")
    return [f"{capital(each.rstrip('.'))}." for each in found]


def audit_of(explanation: Explanation) -> str:
    """The error that was measured, in a sentence; empty if it was not."""
    audit = explanation.audit
    if audit is None:
        return ""
    figure, low, high = (float(each) for each in audit.relative_error())
    around = f" (95 % interval {low:.1%} to {high:.1%})" if math.isfinite(low + high) else ""
    return (
        f"{shown.count(audit.rows, 'row')} were estimated again without bias, by "
        f"{audit.reference!r}: the relative error of the Shapley values is {figure:.1%}{around}."
    )


def made_by(explanation: Explanation) -> list[tuple[str, str]]:
    """How values were made: in words, and without settings that were left open."""
    told = {key: entry for key, entry in explanation.made_by.items() if key not in _TOLD}
    return [
        *_flat("", told),
        ("output space", explanation.space.name),
        ("unit of the values", explanation.unit),
    ]


def _flat(name: str, entry: Any) -> Iterator[tuple[str, str]]:
    if isinstance(entry, Mapping):
        for key, inner in entry.items():
            words = str(key).replace("_", " ")
            if not words.startswith(" "):
                yield from _flat(f"{name}: {words}" if name else words, inner)
    elif entry is not None:
        listed = ", ".join(map(str, entry)) if isinstance(entry, list | tuple) else str(entry)
        yield name, shown.shorten(listed, _LONGEST) or "none"
