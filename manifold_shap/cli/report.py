"""Writes what the commands found: figures, a summary and a page; prints tables and hints."""

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from manifold_shap import plots
from manifold_shap.cli.run import METRICS, Run, inert, plain, read_json, to_json
from manifold_shap.data import Data
from manifold_shap.estimators import shapley_interactions
from manifold_shap.explanation import Explanation
from manifold_shap.global_values import GlobalValues, global_values
from manifold_shap.interactions import Interactions
from manifold_shap.metrics import Score
from manifold_shap.quality import OFF_MANIFOLD
from manifold_shap.values import ValueFunction

STORE, SUMMARY, REPORT, PLOTS = "explanations.zarr", "summary.json", "report.html", "plots"
# The one figure that a training draws.
CURVE = "mse_by_size.png"
# Rows that have figures of their own; the page has all.
_DRAWN_ROWS, _COMPOSITIONS = 4, 3
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


def _best(score: Score) -> float:
    """The error without the noise of the draws, where that is known."""
    return score.debiased if math.isfinite(score.debiased) else score.mse


def hints(value: ValueFunction, score: Score, off: ValueFunction, score_off: Score) -> list[str]:
    """What a reader of the results should know about a value function, with the figures.

    Args:
        value: the value function, and `score`, its error.
        off: the one off the manifold, and `score_off`, its error on the same pairs.
    """
    same = len({type(getattr(each, "imputer", each)) for each in (value, off)}) == 1
    if same or _best(score) < _best(score_off):
        return []
    return [
        f"{value.name} is no better than values off the manifold: its MSE is {_best(score):.4g}, "
        f"theirs {_best(score_off):.4g}, on the same test pairs; train longer, or choose another "
        "value function."
    ]


def about(run: Run) -> dict[str, Any]:
    """What an explanation records of its model and of the quality of its value function.

    Hints of the training are printed.
    """
    metrics = read_json(run.place / METRICS)
    known = {name: metrics.get(f"classifier_{name}") for name in ("accuracy", "r2")}
    measured = {name: each for name, each in known.items() if each is not None}
    rows = {"rows": len(run.data.y_test)} if measured else {}
    found: dict[str, Any] = {
        "model": {"name": run.model.predictor.name, **measured, **rows},
        "settings": {**inert(plain(run.cfg.value_function)), "space": run.space.name},
    }
    if recorded := metrics.get("hints"):
        found["hints"] = recorded
        print(*(f"Note: {hint}" for hint in recorded), sep="\n")
    if "mse_off_manifold" in metrics:
        errors = {
            name: metrics[of] if metrics[f"{of}_debiased"] is None else metrics[f"{of}_debiased"]
            for name, of in ((OFF_MANIFOLD, "mse_off_manifold"), (run.name, "mse"))
        }
        warning = {"warning": recorded[0]} if recorded else {}
        found["quality"] = {"chosen": run.name, "mse": errors, **warning}
    return found


def announce(place: Path, streamed: bool, settings: Mapping[str, Any]) -> None:
    """Say which explanation is replaced.

    Raises:
        FileExistsError: streamed rows would be, and neither `overwrite` nor `resume` is true.
    """
    there = read_json(place / SUMMARY)
    resumed = settings["resume"] and streamed
    if not (place / STORE).exists() or resumed:
        return
    rows = there.get("instances", "unknown")
    if there.get("streamed", not there) and not settings["overwrite"]:
        raise FileExistsError(
            f"Expected no streamed rows in {place / STORE} but {rows} are there, finished or not; "
            "resume=true continues, overwrite=true replaces them, and runs_dir=... keeps both."
        )
    print(f"This replaces the explanation of {rows} rows in {place}.")


def forget(place: Path) -> None:
    """Remove an explanation, whose value function is replaced."""
    for path in [place / STORE, *(place / PLOTS / each for each in _drawn(place))]:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for name in (SUMMARY, REPORT):
        (place / name).unlink(missing_ok=True)


def _drawn(place: Path) -> list[str]:
    """Figures that a run drew, by its record: others are not its to remove."""
    return [Path(name).name for name in read_json(place / SUMMARY).get("figures", [])]


def _figures(
    data: Data, explanations: Mapping[str, Explanation], main: str, balances: Any
) -> dict[str, Any]:
    """Figures that suit the rows, by file name; pages of HTML as text."""
    explanation = explanations[main]
    labels = explanation.instances[:_DRAWN_ROWS]
    if data.vocabulary is not None:
        tokens = data.vocabulary.decode(explanation.x)
        drawn: dict[str, Any] = {"text.html": plots.text(explanations, tokens).page}
    elif data.kind == "pictures":
        drawn = {"pixel_maps.png": plots.pixel_maps(explanations)}
    elif data.kind == "series":
        drawn = {f"series_{each}.png": plots.series(explanations, label=each) for each in labels}
    else:
        drawn = {"bar.png": plots.bar(explanations), "beeswarm.png": plots.beeswarm(explanation)}
        for label in labels:
            if len(explanations) == 1:
                drawn[f"waterfall_{label}.png"] = plots.waterfall(explanation, label=label)
            else:
                drawn[f"bar_{label}.png"] = plots.bar(explanations, label=label)
    if explanation.partition is None:
        return drawn
    drawn["bifurcation_tree.png"] = plots.bifurcation_tree(explanation.partition)
    chosen = list(balances or range(1, 1 + min(3, len(explanation.outputs))))
    for label in labels[:_COMPOSITIONS]:
        row: dict[str, Any] = {"label": label}
        drawn[f"compositions_{label}.png"] = plots.compositions(explanation, **row)
        drawn[f"cumulative_{label}.png"] = plots.cumulative(explanation, **row)
        drawn[f"parallel_coordinates_{label}.png"] = plots.parallel_coordinates(explanation, **row)
        if len(chosen) == 2:
            drawn[f"ilr_plane_{label}.png"] = plots.ilr_plane(explanation, balances=chosen, **row)
        elif len(chosen) == 3:
            drawn[f"ilr_space_{label}.png"] = plots.ilr_space(explanation, balances=chosen, **row)
    return drawn


def write(
    run: Run,
    explanations: Mapping[str, Explanation],
    titles: Mapping[str, str],
    scores: Mapping[str, Score],
    seconds: Mapping[str, float],
    facts: Mapping[str, Any],
    count: int,
    interactions: Interactions | None,
) -> dict[str, Any]:
    """Draw, write and print the results; return what `summary.json` holds.

    Args:
        run: receives them.
        explanations: by name of the value function, in the order to draw them, of all rows or of
            the first of them.
        titles: of the value functions.
        scores: of the value functions, where there are several.
        seconds: that each explanation took.
        facts: about all rows.
        count: how many rows there are in all.
        interactions: of pairs, for the page.
    """
    main, settings, place = explanations[run.name], run.cfg, run.place
    scored = {name: f"{titles[name]} (MSE {score.mse:.4f})" for name, score in scores.items()}
    by_title = {{**titles, **scored}[name]: each for name, each in explanations.items()}
    title = scored.get(run.name, titles[run.name])
    drawings = _figures(run.data, by_title, title, plain(settings.balances))
    orders = ("ordering", "asymmetric", "confounding") if settings.ordering is not None else ()
    tree = None if settings.basis is None else main.partition
    compared = {name: figures_of(scores[name]) | {"seconds": seconds[name]} for name in scores}
    summary = {
        "value_function": main.made_by["settings"],
        "hints": main.made_by.get("hints", []),
        "instances": count,
        "streamed": count > settings.block,
        "players": len(main.players),
        "outputs": len(main.outputs),
        "estimator": main.made_by.get("auto", main.made_by["estimator"]),
        **facts,
        **{key: plain(settings[key]) for key in orders},
        **({"log_ratio_of_mean": True} if settings.log_ratio_of_mean else {}),
        **({"basis": tree.tree} if tree is not None else {}),
        **({"compared": compared} if scores else {}),
        "figures": list(drawings),
    }
    for name in set(_drawn(place)) - set(drawings):
        (place / PLOTS / name).unlink(missing_ok=True)
    (place / PLOTS).mkdir(parents=True, exist_ok=True)
    for name, drawn in drawings.items():
        if isinstance(drawn, str):
            (place / PLOTS / name).write_text(drawn, encoding="utf-8")
        else:
            drawn.figure.savefig(place / PLOTS / name, dpi=200)
    (place / SUMMARY).write_text(to_json(summary))
    _write_page(run, main, scores, interactions)
    print(main)
    if main.audit is not None:
        print(main.audit)
    if tree is not None:
        print(tree)
    if scores:
        print("Errors on the same pairs of a sample of test rows (of all of them: metrics.json):")
        print(pd.DataFrame(compared).T.to_string(float_format="{:.4g}".format))
    took = f"{facts['seconds']:.1f} s for {run.name} ({summary['estimator']})"
    print(f"{count} rows in {took}; results and plots in {place}")
    return summary


def interactions_of(
    run: Run, value: ValueFunction, x: Any, labels: Sequence[Any], outputs: Any
) -> Interactions:
    """Interactions of all pairs of players."""
    asked = run.cfg.estimator
    found = shapley_interactions(
        value,
        x,
        outputs=outputs,
        seed=asked.seed,
        batch_size=asked.batch_size,
        progress=run.cfg.progress,
    )
    return replace(found, shapley=found.shapley.with_labels(labels))


def _write_page(
    run: Run,
    explanation: Explanation,
    scores: Mapping[str, Score],
    interactions: Interactions | None,
) -> None:
    """Write `report.html`, or remove that of an earlier explanation."""
    path, data = run.place / REPORT, run.data
    if not run.cfg.report:
        path.unlink(missing_ok=True)
        return
    if scores:
        errors = {name: _best(score) for name, score in scores.items()}
        known = {**(explanation.quality or {}), "chosen": run.name, "mse": errors}
        explanation = replace(explanation, made_by={**explanation.made_by, "quality": known})
    more: dict[str, Any] = {}
    if data.vocabulary is not None:
        more["tokens"] = data.vocabulary.decode(explanation.x)
    elif data.kind == "series":
        more["series"] = explanation.x
    found = _global_values(data, explanation)
    explanation.report(path, global_values=found, interactions=interactions, **more)


def _global_values(data: Data, explanation: Explanation) -> GlobalValues | None:
    """Global values, where rows are enough, labels are known and all rows have the same players."""
    space: Any = explanation.space
    where: dict[Any, int] = {number: k for k, number in enumerate(data.test_numbers)}
    labels: Sequence[Any] = explanation.instances
    if (
        len(labels) < _FEWEST
        or explanation.players.by_row
        or explanation.selected
        or not (space.on_simplex or space.regression)
        or len(data.y_test) != len(where)
        or not where.keys() >= set(labels)
    ):
        return None
    y = data.y_test[[where[label] for label in labels]]
    if space.regression:
        # Targets that are all the same have nothing to share out.
        return global_values(explanation, y) if bool((y != y[0]).any()) else None
    return global_values(explanation, [data.classes[k] for k in y.tolist()])
