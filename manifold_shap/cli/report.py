"""Shows what the commands found: a table as text, figures in files, and hints."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from manifold_shap import plots
from manifold_shap.cli.directory import METRICS, PLOTS, REPORT, SUMMARY, read_json, write_json
from manifold_shap.cli.model import record_of
from manifold_shap.estimators import shapley_interactions
from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues, global_values
from manifold_shap.interactions import Interactions
from manifold_shap.io.files import remove
from manifold_shap.metrics import Score
from manifold_shap.quality import OFF_MANIFOLD
from manifold_shap.values import ValueFunction

if TYPE_CHECKING:
    from manifold_shap.cli.run import Run

# Axes of matplotlib, or a list of several, with the `figure` that they are in.
Drawn = Any

# Rows of compositions, each with half a dozen figures.
_COMPOSITIONS = 3
# Rows of which means say something.
_FEWEST = 30


def figures_of(score: Score, of: str = "") -> dict[str, Any]:
    """What a record says of a score; `of` stands in the names."""
    return {
        f"mse{of}": score.mse,
        f"mse{of}_standard_error": score.standard_error,
        f"mse{of}_debiased": score.debiased,
        f"draws{of}": score.draws,
        f"effective_draws{of}": score.effective_draws,
    }


def hints(value: ValueFunction, score: Score, off: ValueFunction, score_off: Score) -> list[str]:
    """What a reader of the results should know about a value function, with the figures.

    Args:
        value: the value function, and `score`, its error.
        off: the one off the manifold, and `score_off`, its error on the same pairs.
    """
    if len({type(getattr(each, "imputer", each)) for each in (value, off)}) == 1:
        return []
    error, error_off = (
        some.debiased if math.isfinite(some.debiased) else some.mse for some in (score, score_off)
    )
    if error < error_off:
        return []
    return [
        f"{value.name} is no better than values off the manifold: its MSE is {error:.4g}, theirs "
        f"{error_off:.4g}, on the same test pairs; train longer, or choose another value function."
    ]


def _of_compositions(
    explanation: Explanation, balances: Sequence[int | str] | None
) -> dict[str, Drawn | str]:
    """Figures of compositions: the tree of their balances, and the first rows."""
    drawn: dict[str, Drawn | str] = {}
    drawn["bifurcation_tree.png"] = plots.bifurcation_tree(explanation.partition)
    chosen = list(balances or range(1, 1 + min(3, len(explanation.outputs))))
    for k, label in enumerate(explanation.instances[:_COMPOSITIONS]):
        drawn[f"compositions_{label}.png"] = plots.compositions(explanation, k)
        drawn[f"cumulative_{label}.png"] = plots.cumulative(explanation, k)
        drawn[f"parallel_coordinates_{label}.png"] = plots.parallel_coordinates(explanation, k)
        if len(chosen) == 2:
            drawn[f"ilr_plane_{label}.png"] = plots.ilr_plane(explanation, k, chosen)
        elif len(chosen) == 3:
            drawn[f"ilr_space_{label}.png"] = plots.ilr_space(explanation, k, chosen)
    return drawn


def save_figures(figures: Mapping[str, Drawn | str], directory: Path) -> None:
    """Write figures, and pages of HTML."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, drawn in figures.items():
        if isinstance(drawn, str):
            (directory / name).write_text(drawn, encoding="utf-8")
        else:
            drawn.figure.savefig(directory / name, dpi=200)


def announce(run: "Run") -> dict[str, dict[str, Any]]:
    """Say what the metrics of the training say of the quality of the value function.

    Returns:
        What the record of each explanation says of its value function, by name.
    """
    metrics = read_json(run.directory.path / METRICS) or {}
    recorded = metrics.get("hints", [])
    for hint in recorded:
        print(f"Note: {hint}")
    model = record_of(run)
    about: dict[str, dict[str, Any]] = {name: {"model": model} for name in run.drawn}
    about[run.name]["settings"] = run.source.record
    if recorded:
        about[run.name]["hints"] = recorded
    if "mse_off_manifold" in metrics:
        error, off = (
            metrics[of] if metrics[f"{of}_debiased"] is None else metrics[f"{of}_debiased"]
            for of in ("mse", "mse_off_manifold")
        )
        known = {"chosen": run.name, "mse": {OFF_MANIFOLD: off, run.name: error}}
        about[run.name]["quality"] = known | ({"warning": recorded[0]} if recorded else {})
    return about


def write(
    run: "Run",
    explanations: Mapping[str, Explanation],
    scores: Mapping[str, Score],
    seconds: Mapping[str, float],
    facts: Mapping[str, Any],
    count: int,
) -> dict[str, Any]:
    """Draw, write and print the results; return what `summary.json` holds.

    Args:
        run: receives them.
        explanations: by name of the value function, in the order to draw them, of all rows or of
            the first of them.
        scores: of the value functions, where there are several.
        seconds: that each explanation took.
        facts: about all rows.
        count: how many rows there are in all.
    """
    main, settings = explanations[run.name], run.settings
    titles = {name: source.title for name, source in run.drawn.items()}
    titles |= {name: f"{titles[name]} (MSE {score.mse:.4f})" for name, score in scores.items()}
    by_title = {titles[name]: explanation for name, explanation in explanations.items()}
    drawings = run.data.figures(by_title, titles[run.name])
    if main.partition is not None:
        drawings |= _of_compositions(main, settings["balances"])
    orders = ("ordering", "asymmetric", "confounding") if settings["ordering"] is not None else ()
    tree = None if settings["basis"] is None else main.partition
    compared = {name: figures_of(scores[name]) | {"seconds": seconds[name]} for name in scores}
    summary = {
        "value_function": main.made_by["settings"],
        "hints": main.made_by.get("hints", []),
        "instances": count,
        "players": len(main.players),
        "outputs": len(main.outputs),
        "estimator": main.made_by.get("auto", main.made_by["estimator"]),
        **facts,
        **{key: settings[key] for key in orders},
        **({"log_ratio_of_mean": True} if settings["log_ratio_of_mean"] else {}),
        **({"basis": tree.tree} if tree is not None else {}),
        **({"compared": compared} if scores else {}),
        "figures": list(drawings),
    }
    stale = set(run.directory.drawn) - set(drawings)
    save_figures(drawings, run.directory.path / PLOTS)
    for name in stale:
        (run.directory.path / PLOTS / name).unlink(missing_ok=True)
    write_json(run.directory.path / SUMMARY, summary)
    print(main)
    if main.audit is not None:
        print(main.audit)
    if tree is not None:
        print(tree)
    if scores:
        print("Errors on the same pairs of a sample of test rows (of all of them: metrics.json):")
        print(pd.DataFrame(compared).T.to_string(float_format="{:.4g}".format))
    took = f"{facts['seconds']:.1f} s for {run.name} ({summary['estimator']})"
    print(f"{count} rows in {took}; results and plots in {run.directory.path}")
    return summary


def interactions_of(
    run: "Run", value: ValueFunction, explanation: Explanation, outputs: Any
) -> Interactions | None:
    """Interactions of all pairs of players, if the settings ask for them."""
    if not run.settings["interactions"]:
        return None
    asked = run.settings["estimator"]
    found = shapley_interactions(
        value,
        explanation.x,
        outputs=outputs,
        seed=asked["seed"],
        batch_size=asked["batch_size"],
        progress=run.progress,
    )
    return replace(found, shapley=found.shapley.with_labels(explanation.instances))


def write_page(
    run: "Run",
    explanation: Explanation,
    scores: Mapping[str, Score],
    interactions: Interactions | None,
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
    explanation.report(
        path,
        global_values=_global_values(run, explanation),
        interactions=interactions,
        **run.data.report_settings(explanation),
    )


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
