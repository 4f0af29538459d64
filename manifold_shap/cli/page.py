"""Writes the report of a run: one page to look at."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manifold_shap.cli.directory import REPORT
from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues, global_values
from manifold_shap.io.files import remove
from manifold_shap.metrics import Score

if TYPE_CHECKING:
    from manifold_shap.cli.run import Run

# Rows of which means say something.
_FEWEST = 30


def place(run: "Run", explanation: Explanation, scores: Mapping[str, Score]) -> None:
    """Write `report.html`, or remove that of an earlier explanation.

    Args:
        run: receives it.
        explanation: of all rows, or of the first of them.
        scores: of value functions, where there are several.
    """
    if not run.settings["report"]:
        remove(run.directory.path / REPORT)
        return
    if scores:
        errors = {
            name: score.debiased if math.isfinite(score.debiased) else score.mse
            for name, score in scores.items()
        }
        known = {**(explanation.quality or {}), "chosen": run.name, "mse": errors}
        explanation = replace(explanation, made_by={**explanation.made_by, "quality": known})
    known_values = _global_values(run, explanation)
    more = run.data.report_settings(explanation)

    def write(path: Path) -> None:
        explanation.report(path, global_values=known_values, **more)

    run.place(REPORT, write)


def _global_values(run: "Run", explanation: Explanation) -> GlobalValues | None:
    """Global values, where rows are enough, labels are known and all rows have the same players."""
    data, space = run.data, explanation.space
    where: dict[Any, int] = {number: k for k, number in enumerate(data.test_numbers)}
    if (
        len(explanation.phi) < _FEWEST
        or explanation.players.by_row
        or explanation.selected
        or not (space.on_simplex or space.regression)
        or len(data.y_test) != len(where)
        or not where.keys() >= set(explanation.instances)
    ):
        return None
    y = data.y_test[[where[label] for label in explanation.instances]]
    if space.regression:
        # Targets that are all the same have nothing to share out.
        return global_values(explanation, y) if bool((y != y[0]).any()) else None
    return global_values(explanation, [data.classes[k] for k in y.tolist()])
