"""Writes the report of a run: one page to look at."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from manifold_shap._messages import check_flag
from manifold_shap.cli.directory import REPORT
from manifold_shap.estimators import shapley_interactions
from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues, global_values
from manifold_shap.interactions import Interactions
from manifold_shap.io.files import remove
from manifold_shap.metrics import Score
from manifold_shap.values import ValueFunction

if TYPE_CHECKING:
    from manifold_shap.cli.run import Run

# Rows of which means say something.
_FEWEST = 30
# Players with interactions: of more, sampling 4 n² coalitions a row takes minutes.
_MOST_PAIRED = 40


def check_interactions(settings: Mapping[str, Any]) -> None:
    """Raise where interactions cannot be those of the Shapley values in the report."""
    if not check_flag("interactions", settings["interactions"]):
        return
    asymmetric = settings["ordering"] is not None and settings["asymmetric"]
    if asymmetric or not settings["report"] or settings["basis"] is not None:
        raise ValueError(
            "Expected report=true, no `basis` and no asymmetric `ordering` together with "
            "interactions=true: they are for the report, in the value function's own outputs, and "
            "means over all permutations."
        )


def check_pairs(value: ValueFunction) -> None:
    """Raise where a value function has too many players for interactions of all pairs, or one."""
    players = len(value.players)
    if not 2 <= players <= _MOST_PAIRED:
        raise ValueError(
            f"Expected 2 to {_MOST_PAIRED} players for interactions=true but got {players}; leave "
            "it out, or put players together by `players` or `groups`."
        )


def add_interactions(
    run: "Run",
    value: ValueFunction,
    explanation: Explanation,
    scores: Mapping[str, Score],
    outputs: Any,
) -> None:
    """Estimate interactions of all pairs, if the settings ask for them, and write the page again.

    They take longest, so that everything else is there before.
    """
    if not run.settings["interactions"]:
        return
    asked = run.settings["estimator"]
    found = shapley_interactions(
        value,
        explanation.x,
        outputs=outputs,
        seed=asked["seed"],
        batch_size=asked["batch_size"],
        progress=run.progress,
    )
    named = replace(found, shapley=found.shapley.with_labels(explanation.instances))
    place(run, explanation, scores, named)


def place(
    run: "Run",
    explanation: Explanation,
    scores: Mapping[str, Score],
    interactions: Interactions | None = None,
) -> None:
    """Write `report.html`, or remove that of an earlier explanation.

    Args:
        run: receives it.
        explanation: of all rows, or of the first of them.
        scores: of value functions, where there are several.
        interactions: for the same rows.
    """
    path = run.directory.path / REPORT
    if not run.settings["report"]:
        remove(path)
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

    explanation.report(path, global_values=known_values, interactions=interactions, **more)


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
