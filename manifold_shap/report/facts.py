"""Words what a page says of the value function, of its errors and of how values were made."""

import math
from collections.abc import Mapping
from typing import Any

from manifold_shap.explanation import Explanation
from manifold_shap.plots import selection, style, titles
from manifold_shap.quality import OFF_MANIFOLD
from manifold_shap.report.rows import short

# Told in words of their own.
_TOLD = ("quality", "audit", "model")
_LONGEST = 400
# A sum that is further off than this, relative to the largest change, is worth a warning.
_GAP = 0.01


def model_of(explanation: Explanation) -> str:
    """Which model is explained and how good it is, in sentences; empty where that is not known."""
    known = explanation.made_by.get("model")
    if not isinstance(known, Mapping) or "name" not in known:
        return ""
    said = f"The model that is explained is {short(str(known['name']))}."
    rows = style.count(known["rows"], "test row") if "rows" in known else "test rows"
    if _is_number(known.get("accuracy")):
        return f"{said} It predicts the right class for {known['accuracy']:.2%} of {rows}."
    if _is_number(known.get("r2")):
        r2 = style.number(known["r2"])
        return f"{said} Its R², the share of the variance explained, is {r2} on {rows}."
    return f"{said} How good it is was not measured."


def _is_number(entry: Any) -> bool:
    return isinstance(entry, int | float) and math.isfinite(entry)


def quality_of(explanation: Explanation) -> dict[str, Any]:
    """How good the value function is: a sentence, and a line for each candidate."""
    known = titles.quality(explanation)
    chosen, errors = known.get("chosen"), known.get("mse", {})
    errors = {name: each for name, each in errors.items() if _is_number(each)}
    if chosen not in errors:
        return {"sentence": "", "lines": []}
    error, off = errors[chosen], errors.get(OFF_MANIFOLD)
    where = (
        f"On {style.count(known['rows'], 'held-out row')}" if "rows" in known else "On test rows"
    )
    sentence = f"{where}, the mean squared error of {chosen} is {style.number(error)}"
    if off is not None and chosen != OFF_MANIFOLD:
        sentence += f"; that of the value function off the manifold is {style.number(off)}"
    largest = max(errors.values())
    lines = [
        {
            "name": f"{name} (off the manifold)" if name == OFF_MANIFOLD else name,
            "chosen": name == chosen,
            "said": style.number(each),
            "width": f"{100 * max(each, 0.0) / largest:.1f}" if largest > 0 else "0",
        }
        for name, each in sorted(errors.items(), key=lambda entry: entry[1])
    ]
    return {"sentence": f"{sentence}.", "lines": lines}


def warnings_of(explanation: Explanation) -> list[str]:
    """What a reader should know before anything else."""
    found = [each.removeprefix("Caution: ") for each in titles.cautions({"": explanation})]
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
    if bool(error.isnan().all()):
        found.append("standard errors are unknown")
    elif bool(error.isnan().any()):
        found.append("some standard errors are unknown")
    return [f"{selection.capital(each.rstrip('.'))}." for each in found]


def audit_of(explanation: Explanation) -> str:
    """The error that was measured, in a sentence; empty if it was not."""
    audit = explanation.audit
    if audit is None:
        return ""
    figure, low, high = (float(each) for each in audit.relative_error())
    around = f" (95 % interval {low:.1%} to {high:.1%})" if math.isfinite(low + high) else ""
    return (
        f"{style.count(audit.rows, 'row')} were estimated again without bias, by "
        f"{audit.reference!r}: the relative error of the Shapley values is {figure:.1%}{around}."
    )


def made_by(explanation: Explanation) -> list[tuple[str, str]]:
    """How values were made: in words, and without settings that were left open."""
    found: list[tuple[str, str]] = []
    _flatten(found, "", {k: v for k, v in explanation.made_by.items() if k not in _TOLD})
    return found


def _flatten(found: list[tuple[str, str]], name: str, entry: Any) -> None:
    if isinstance(entry, Mapping):
        for key, own in entry.items():
            words = str(key).replace("_", " ")
            if not words.startswith(" "):
                _flatten(found, f"{name}: {words}" if name else words, own)
    elif entry is not None:
        listed = ", ".join(map(str, entry)) if isinstance(entry, list | tuple) else str(entry)
        found.append((name, style.shorten(listed, _LONGEST) or "none"))
