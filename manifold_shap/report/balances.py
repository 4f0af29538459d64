"""Gathers what a page says of compositions: tables of their norms, step by step."""

from collections.abc import Sequence
from typing import Any

import torch

from manifold_shap import simplex
from manifold_shap.explanation import Explanation
from manifold_shap.plots import style
from manifold_shap.plots.ilr import class_colour
from manifold_shap.plots.path import Path
from manifold_shap.report.rows import short

# Players that have a step of their own, and classes that have a colour of their own.
_STEPS, _CLASSES = 8, 8


def classes_of(explanation: Explanation) -> list[dict[str, Any]]:
    """Classes with a colour of their own, and one for all others: the largest in the mean first."""
    names, count = explanation.classes, len(explanation.classes)
    shown = list(range(count))
    if count > _CLASSES:
        shown = _means(explanation).argsort(descending=True, stable=True)[: _CLASSES - 1].tolist()
    found = [
        {"name": short(names[k]), "colour": class_colour(place), "class": k}
        for place, k in enumerate(shown)
    ]
    if count > len(shown):
        others = {"name": f"{count - len(shown)} other classes", "colour": style.NEUTRAL}
        found.append({**others, "class": None})
    return found


def _means(explanation: Explanation) -> torch.Tensor:
    return simplex.ilr_inv(explanation.prediction, explanation.basis).exp().mean(0)


def of_rows(
    explanation: Explanation, rows: Sequence[int], classes: Sequence[dict[str, Any]]
) -> list[list[dict[str, Any]]]:
    """Of each row the steps of its path: from the base by players to the prediction."""
    chosen = [each["class"] for each in classes if each["class"] is not None]
    found = []
    for row in rows:
        path = Path.of_row(explanation, row, _STEPS)
        towards = explanation.projections()[row].argmax(-1)
        norms = path.phi.norm(dim=1).tolist()
        lines = [_state("base", path.states[0], chosen)]
        for step, state in enumerate(path.states[1:]):
            line = _state("", state, chosen)
            line["norm"] = norms[step]
            line["said"] = style.with_error(norms[step], float(path.norm_errors[step]))
            if step < len(path.shown):
                player = int(path.shown[step])
                line |= {"player": player, "towards": short(explanation.classes[towards[player]])}
            else:
                line["name"] = f"{int(explanation.counts[row]) - len(path.shown)} others"
            lines.append(line)
        found.append([*lines, _state("prediction", path.prediction, chosen)])
    return found


def _state(name: str, parts: torch.Tensor, chosen: Sequence[int]) -> dict[str, Any]:
    shares = [float(parts[k]) for k in chosen]
    if len(chosen) < len(parts):
        shares.append(max(0.0, 1.0 - sum(shares)))
    return {"name": name, "shares": shares}
