"""Explains test rows with what a run directory holds."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pkgutil import resolve_name
from typing import Any

import torch
from torch import Tensor

from manifold_shap._checks import check_whole
from manifold_shap._messages import check_flag
from manifold_shap._stored import StoredRows, sample_of
from manifold_shap.amortized.fit import load_amortized
from manifold_shap.cli import engines, registry, report
from manifold_shap.cli.directory import STORE
from manifold_shap.cli.games import basis_of, in_groups, make_games, on_simplex, ordering_of
from manifold_shap.cli.run import Run
from manifold_shap.explanation import Explanation
from manifold_shap.metrics import Score, mean_squared_error, shapley_pairs
from manifold_shap.simplex.partition import Partition
from manifold_shap.tables.codebook import Codebook
from manifold_shap.tables.rows import in_frame
from manifold_shap.tables.schema import Schema
from manifold_shap.values import ValueFunction

Settings = Mapping[str, Any]
# Figures and tables of many rows show no more, and other value functions explain these only.
_SHOWN_ROWS = 200
# Rows of the audit of an estimator that knows no errors of its own.
_AUDITED = 200
# Test rows, pairs and draws on which value functions are compared: they tell them apart in seconds.
_SCORED_ROWS, _PAIRS, _DRAWS = 500, 1000, 64


def explain(cfg: Any, given: Sequence[str] = ()) -> dict[str, Any]:
    """Explain what the configuration says; return what `summary.json` holds.

    Args:
        cfg: composed from `conf/explain.yaml`.
        given: names of the settings that the user gave, which must agree with the run.

    Raises:
        FileNotFoundError: nothing was trained.
        TypeError, ValueError: settings that cannot be, or that disagree with the run.
    """
    settings = registry.plain(cfg, trained=True)
    check_settings(settings)
    run = Run(settings)
    estimator = estimator_for(run)
    run.open(given)
    values, games = make_games(run)
    if settings["groups"] is not None:
        values, games = (in_groups(some, run) for some in (values, games))
    rows, x = rows_of(run, given)
    chosen = None
    if settings["outputs"] is not None:
        chosen = games[run.name].select(settings["outputs"], sample_of(x)).outputs
        estimator = partial(estimator, outputs=chosen)
    about = report.announce(run)
    if "explainer" in estimator.keywords:
        if any(game.one_network() is None for game in games.values()):
            raise TypeError(
                "Expected surrogates alone, which an amortised explainer explains, but got "
                f"{list(games)}; compare=[] leaves others out."
            )
        explainer = load_amortized(estimator.keywords["explainer"], games[run.name])
        estimator = partial(estimator, explainer=explainer)
    tree, schema = basis_of(run, games[run.name]), run.data.schema
    streamed = len(rows) > settings["block"]
    few = slice(_SHOWN_ROWS) if streamed else slice(None)
    explanations: dict[str, Explanation] = {}
    seconds: dict[str, float] = {}
    for which in [name for name in games if not (streamed and name == run.name)]:
        start = time.perf_counter()
        found = estimator(games[which], x[few], progress=run.progress)
        seconds[which] = time.perf_counter() - start
        explanations[which] = _finished(found, tree, schema, about[which], rows[few])
    # After the others: what is wrong with them should not come out hours later.
    if streamed:
        finish = partial(_finished, tree=tree, schema=schema, made_by=about[run.name])
        block = partial(_block, estimator=estimator, finish=finish)
        audit = settings["audit"]
        if audit is None:
            audit = _AUDITED if "explainer" in estimator.keywords else 0
        explanations[run.name], facts = stream(run, games[run.name], x, rows, block, audit)
        rate = facts["instances_per_second"]
        # Where an interrupted call had explained all rows, this one measures nothing.
        seconds[run.name] = len(rows[few]) / rate if rate else math.nan
    else:
        explanations[run.name].save(run.directory.path / STORE)
        facts = facts_of(explanations[run.name], seconds[run.name])
    scores = score(values, run) if len(values) > 1 else {}
    ordered = {which: explanations[which] for which in games}
    summary = report.write(run, ordered, scores, seconds, facts, len(rows))
    # They take longest, so that all figures are there before.
    pairs = report.interactions_of(run, games[run.name], explanations[run.name], chosen)
    report.write_page(run, explanations[run.name], scores, pairs)
    return summary


def check_settings(settings: Settings) -> None:
    """Raise what is wrong with settings that need no data to tell."""
    for flag in ("resume", "report", "asymmetric", "log_ratio_of_mean", "interactions"):
        check_flag(flag, settings[flag])
    asymmetric, confounding = settings["asymmetric"], settings["confounding"]
    is_ordered = settings["ordering"] is not None
    if is_ordered and not asymmetric and confounding is None:
        raise ValueError(
            "Expected asymmetric=true or `confounding` together with `ordering`, which does "
            "nothing otherwise."
        )
    if settings["interactions"] and (
        (is_ordered and asymmetric) or not settings["report"] or settings["basis"] is not None
    ):
        raise ValueError(
            "Expected report=true, no `basis` and no asymmetric `ordering` together with "
            "interactions=true: they are for the report, and means over all permutations."
        )


def estimator_for(run: Run) -> partial[Explanation]:
    """The estimator of the settings, with its arguments, which it checks itself."""
    settings, chosen = run.settings, run.settings["estimator"]
    own = {key: entry for key, entry in chosen.items() if key != "_target_"}
    if settings["ordering"] is not None and settings["asymmetric"]:
        own["ordering"] = ordering_of(settings)
    return partial(resolve_name(chosen["_target_"]), **own)


def rows_of(run: Run, given: Sequence[str]) -> tuple[list[int], Tensor | StoredRows]:
    """Numbers of the rows to explain, and these rows: the first test rows, all, or those listed.

    Raises:
        ValueError: there are none of these numbers, or fewer.
    """
    instances, data = run.settings["instances"], run.data
    if isinstance(instances, list):
        x = data.find("instances", instances, "test")
        return instances, x
    if instances != "all" and "instances" in given:
        fix = "the first test rows, a list of rows, or all"
        check_whole("instances", instances, 1, len(data.x_test), fix=fix)
    count = None if instances == "all" else instances
    return data.test_numbers[:count], data.x_test[:count]


def score(values: Mapping[str, ValueFunction], run: Run) -> dict[str, Score]:
    """Errors on the same test pairs; with many draws where these are noisy.

    Without interventions, of which no model is the judge.
    """
    shuffled = torch.randperm(len(run.data.x_test), generator=torch.Generator().manual_seed(0))
    x = run.data.x_test[shuffled[:_SCORED_ROWS]]
    some = next(iter(values.values()))
    counts = some.counts(x.to(some.device)).cpu() if some.players.by_row else None
    mask = shapley_pairs(len(x), len(some.players), _PAIRS, counts=counts)
    scores = {}
    for name, value in values.items():
        value = on_simplex(value.with_draws(max(value.draws, _DRAWS)), run.settings)
        scores[name] = mean_squared_error(value, x, mask)
    return scores


def facts_of(explanation: Explanation, seconds: float) -> dict[str, Any]:
    """Figures about all rows, for `summary.json`.

    An amortised explainer evaluates no coalition: its evaluations are 0.
    """
    return {
        "seconds": seconds,
        "instances_per_second": len(explanation.phi) / seconds,
        "evaluations_per_second": explanation.made_by["evaluations"] / seconds,
        "largest_standard_error": explanation.standard_error[explanation.present].max().item(),
        "efficiency_gap": explanation.efficiency_gap,
    }


def _finished(
    explanation: Explanation,
    tree: Partition | None,
    schema: Schema | Codebook | None,
    made_by: Settings,
    rows: Sequence[int] | None = None,
) -> Explanation:
    """The explanation in the basis that was asked for, with labels and what made it."""
    explanation = explanation if rows is None else explanation.with_labels(rows)
    if schema is not None and isinstance(explanation.x, Tensor) and isinstance(schema, Schema):
        own = explanation.x, explanation.players, explanation.owners
        x, players, owners = in_frame(*own, schema)
        explanation = replace(explanation, x=x, players=players, owners=owners)
    explanation = explanation.in_basis(tree) if tree else explanation
    return replace(explanation, made_by={**explanation.made_by, **made_by})


def _block(
    value: ValueFunction,
    x: Tensor,
    *,
    estimator: partial[Explanation],
    finish: Callable[[Explanation], Explanation],
    seed: int,
) -> Explanation:
    """The explanation of a block of rows, which has a seed of its own."""
    return finish(estimator(value, x, seed=seed, progress=False))


def stream(
    run: Run,
    value: ValueFunction,
    x: Tensor | StoredRows,
    rows: Sequence[int],
    block: Callable[..., Explanation],
    audit: int,
) -> tuple[Explanation, dict[str, Any]]:
    """Explain rows, which have these numbers, into the store block by block.

    Returns:
        The explanation of the first rows, and facts about all rows.
    """
    from manifold_shap.streaming import explain_rows

    settings, path = run.settings, run.directory.path / STORE
    start = time.perf_counter()
    with engines.executor(settings["engine"]) as executor:
        explained = explain_rows(
            path,
            value,
            x,
            block,
            block=settings["block"],
            seed=settings["estimator"]["seed"],
            resume=settings["resume"],
            overwrite=not settings["resume"],
            labels=rows,
            audit=audit,
            executor=executor,
            progress=run.progress,
        )
    seconds = time.perf_counter() - start
    errors, gaps = [], []
    for first in range(0, len(rows), settings["block"]):
        part = Explanation.load(path, slice(first, first + settings["block"]))
        errors.append(part.standard_error[part.present].max())
        gaps.append(part.efficiency_gap)
    shown = Explanation.load(path, slice(_SHOWN_ROWS))
    share = explained / len(rows) / seconds
    return shown, {
        "seconds": seconds,
        "instances_per_second": len(rows) * share,
        "evaluations_per_second": shown.made_by["evaluations"] * share,
        "instances_resumed": len(rows) - explained,
        "largest_standard_error": torch.stack(errors).max().item(),
        "efficiency_gap": max(gaps),
        **({} if shown.audit is None else {"audit": shown.audit.summary}),
    }
