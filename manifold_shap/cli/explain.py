"""Explains test rows with what a run holds, or with a model of the user's own."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import torch
from hydra.utils import instantiate
from torch import Tensor

from manifold_shap._checks import check_whole
from manifold_shap._stored import StoredRows, sample_of
from manifold_shap.cli import report
from manifold_shap.cli.games import Games, basis_of, causal, in_groups, on_simplex, ordering_of
from manifold_shap.cli.run import Run, opened, plain
from manifold_shap.explanation import Explanation
from manifold_shap.metrics import Score, mean_squared_error, shapley_pairs
from manifold_shap.values import ValueFunction

# Figures and tables of many rows show no more, and other value functions explain these only.
_SHOWN_ROWS = 200
# Rows of the audit of an estimator that knows no errors of its own.
_AUDITED = 200
# Test rows, pairs and draws on which value functions are compared: they tell them apart in seconds.
_SCORED_ROWS, _PAIRS, _DRAWS = 500, 1000, 64
# Seconds to wait for a worker of a cluster.
_WAIT = 60


def explain(cfg: Any, job: Any) -> dict[str, Any]:
    """Explain what the settings say; return what `summary.json` holds.

    Args:
        cfg: composed from `conf/explain.yaml`.
        job: Hydra's own settings of this call.

    Raises:
        FileExistsError: streamed rows would be replaced, and `overwrite` is false.
        FileNotFoundError: nothing was trained.
        TypeError, ValueError: settings that cannot be, or that disagree with the run.
    """
    run = opened(cfg, job)
    cfg = run.cfg
    settings = {k: plain(each) for k, each in cfg.items() if k != "data"}
    _check(settings)
    runs = {name: run.beside(name) for name in dict.fromkeys(_compared(run, settings["compare"]))}
    values = _values(run, runs)
    games = {name: on_simplex(causal(v, settings), settings) for name, v in values.items()}
    if settings["groups"] is not None:
        values, games = in_groups(values, run), in_groups(games, run)
    rows, x = _rows(run)
    main = games[run.name]
    estimator = instantiate(cfg.estimator, _convert_="all")
    if settings["ordering"] is not None and settings["asymmetric"]:
        estimator = partial(estimator, ordering=ordering_of(settings))
    chosen = None
    if settings["outputs"] is not None:
        chosen = main.select(settings["outputs"], sample_of(x)).outputs
        estimator = partial(estimator, outputs=chosen)
    tree = basis_of(run, main)
    about = report.about(run)
    finish = partial(_finished, tree=tree)
    streamed = len(rows) > settings["block"]
    report.announce(run.place, streamed, settings)
    few = slice(_SHOWN_ROWS) if streamed else slice(None)
    explanations: dict[str, Explanation] = {}
    seconds: dict[str, float] = {}
    for name in [name for name in games if not (streamed and name == run.name)]:
        start = time.perf_counter()
        found = estimator(games[name], x[few], progress=settings["progress"])
        seconds[name] = time.perf_counter() - start
        own = about if name == run.name else {"model": about["model"]}
        explanations[name] = finish(found, made_by=own, rows=rows[few])
    # After the others: what is wrong with them should not come out hours later.
    if streamed:
        block = partial(_block, estimator=estimator, finish=partial(finish, made_by=about))
        explanations[run.name], facts = stream(run, main, x, rows, block)
        seconds[run.name] = facts["seconds"]
    else:
        explanations[run.name].save(run.place / report.STORE)
        facts = _facts(explanations[run.name], seconds[run.name])
    scores = _scores(values, run, settings) if len(values) > 1 else {}
    titles = {name: runs[name].title for name in games}
    ordered = {name: explanations[name] for name in games}
    pairs = None
    if settings["interactions"]:
        pairs = report.interactions_of(run, main, x[few], rows[few], chosen)
    return report.write(run, ordered, titles, scores, seconds, facts, len(rows), pairs)


def _check(settings: Mapping[str, Any]) -> None:
    """Raise what is wrong with settings that need no data to tell."""
    is_ordered, asymmetric = settings["ordering"] is not None, settings["asymmetric"]
    if is_ordered and not asymmetric and settings["confounding"] is None:
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


def _compared(run: Run, compare: Any) -> list[str]:
    """Names of value functions, in the order to draw them."""
    names = [compare] if isinstance(compare, str) else list(compare or [])
    return names if run.name in names else [run.name, *names]


def _values(run: Run, runs: Mapping[str, Run]) -> Games:
    """The value functions, on the device and in the precision of the settings."""
    device, precision = run.cfg.device, run.cfg.precision
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    values = {name: each.value() for name, each in runs.items()}
    spaces = {name: value.space.name for name, value in values.items()}
    if len(set(spaces.values())) > 1:
        raise ValueError(
            f"Expected value functions in one output space to draw side by side but got {spaces}; "
            "train them with the same `space`, or leave one out of `compare`."
        )
    names, expected = values[run.name].players.names, run.data.players.names
    if names != expected:
        raise ValueError(
            f"Expected a value function for {run.data.name}, with {len(expected)} players, but the "
            f"one in {run.checkpoint} is for {len(names)}: {', '.join(names[:5])} ..."
        )
    for value in values.values():
        value.to(device)
    if precision == "32-true":
        return values
    changed = {name: value.in_precision(precision) for name, value in values.items()}
    if precision != "auto" and changed[run.name] is values[run.name]:
        raise ValueError(
            f"Expected a surrogate for precision={precision} but got {run.name}; leave `precision` "
            "out."
        )
    return changed


def _rows(run: Run) -> tuple[list[int], Tensor | StoredRows]:
    """Numbers of the rows to explain, and these rows: the first test rows, all, or those listed.

    Raises:
        ValueError: there are none of these numbers, or fewer.
    """
    instances, data = plain(run.cfg.instances), run.data
    if isinstance(instances, list):
        return instances, data.find("instances", instances, "test")
    count = None
    if instances != "all":
        fix = "the first test rows, a list of rows, or all"
        count = check_whole("instances", instances, 1, len(data.x_test), fix=fix)
    return data.test_numbers[:count], data.x_test[:count]


def _scores(values: Games, run: Run, settings: Mapping[str, Any]) -> dict[str, Score]:
    """Errors on the same test pairs; with many draws where these are noisy.

    Without interventions, of which no model is the judge.
    """
    shuffled = torch.randperm(len(run.data.x_test), generator=torch.Generator().manual_seed(0))
    x = run.data.x_test[shuffled[:_SCORED_ROWS]]
    some = values[run.name]
    counts = some.counts(x.to(some.device)).cpu() if some.players.by_row else None
    mask = shapley_pairs(len(x), len(some.players), _PAIRS, counts=counts)
    scores = {}
    for name, value in values.items():
        value = on_simplex(value.with_draws(max(value.spec.work.draws, _DRAWS)), settings)
        scores[name] = mean_squared_error(value, x, mask)
    return scores


def _facts(explanation: Explanation, seconds: float) -> dict[str, Any]:
    """Figures about all rows, for `summary.json`."""
    return {
        "seconds": seconds,
        "largest_standard_error": explanation.standard_error[explanation.present].max().item(),
        "efficiency_gap": explanation.efficiency_gap,
    }


def _finished(
    explanation: Explanation,
    tree: Any,
    made_by: Mapping[str, Any],
    rows: Sequence[int] | None = None,
) -> Explanation:
    """The explanation in the basis that was asked for, with labels and what made it."""
    explanation = explanation if rows is None else explanation.with_labels(rows)
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


@contextmanager
def executor(cfg: Any) -> Iterator[Executor | None]:
    """What shares streamed rows: workers of a cluster, processes, or None for this process."""
    if cfg.get("engine") is not None:
        with instantiate(cfg.engine, _partial_=True, _convert_="all")() as client:
            client.wait_for_workers(1, _WAIT)
            yield client.get_executor()
    elif cfg.workers == 1:
        yield None
    else:
        with ProcessPoolExecutor(cfg.workers, get_context("spawn")) as pool:
            yield pool


def stream(
    run: Run,
    value: ValueFunction,
    x: Tensor | StoredRows,
    rows: Sequence[int],
    block: Callable[..., Explanation],
) -> tuple[Explanation, dict[str, Any]]:
    """Explain rows, which have these numbers, into the store block by block.

    Returns:
        The explanation of the first rows, and facts about all rows.
    """
    from manifold_shap.streaming import explain_rows

    cfg, path, audit = run.cfg, run.place / report.STREAM, run.cfg.audit
    if audit is None:
        audit = _AUDITED if "path" in cfg.estimator else 0
    start = time.perf_counter()
    with executor(cfg) as workers:
        explained = explain_rows(
            path,
            value,
            x,
            block,
            block=cfg.block,
            seed=cfg.estimator.seed,
            resume=cfg.resume,
            overwrite=not cfg.resume,
            labels=rows,
            audit=audit,
            executor=workers,
            progress=cfg.progress,
        )
    seconds = time.perf_counter() - start
    errors, gaps = [], []
    for first in range(0, len(rows), cfg.block):
        part = Explanation.load(path, slice(first, first + cfg.block))
        errors.append(part.standard_error[part.present].max().item())
        gaps.append(part.efficiency_gap)
    shown = Explanation.load(path, slice(_SHOWN_ROWS))
    return shown, {
        "seconds": seconds,
        "instances_resumed": len(rows) - explained,
        "largest_standard_error": max(errors),
        "efficiency_gap": max(gaps),
        **({} if shown.audit is None else {"audit": shown.audit.summary}),
    }
