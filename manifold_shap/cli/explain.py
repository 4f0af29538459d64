"""Explains test rows with what a run holds, or with a model of the user's own."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from hydra.utils import instantiate
from torch import Tensor

from manifold_shap._checks import check_whole
from manifold_shap._stored import StoredRows, sample_of
from manifold_shap.cli import report
from manifold_shap.cli.games import basis_of, causal, in_groups, ordering_of
from manifold_shap.cli.run import (
    METRICS,
    beside,
    check_same,
    data_of,
    model_of,
    opened,
    place_of,
    plain,
    read_json,
    record_of,
    value_of,
)
from manifold_shap.data import Data
from manifold_shap.estimators import shapley_interactions
from manifold_shap.explanation import Explanation
from manifold_shap.metrics import Score, mean_squared_error, shapley_pairs
from manifold_shap.models import Model
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
    cfg, recorded = opened(cfg, job)
    data, place = data_of(cfg), place_of(cfg)
    if recorded is not None:
        here = record_of(cfg, data)
        drawn = recorded["value_function"].get("draws")  # Others need no training.
        check_same(place, recorded, _with_draws(here, drawn))
    model, name = model_of(cfg, data), cfg.value_function.name
    values = _values(cfg, data, model)
    ordering, confounding = ordering_of(cfg.ordering), plain(cfg.confounding)
    games = {
        each: in_groups(causal(value, ordering, confounding), data, cfg.groups)
        for each, value in values.items()
    }
    numbers, x, y = _rows(cfg, data)
    main = games[name]
    estimator = instantiate(cfg.estimator, _partial_=True, _convert_="all")
    if cfg.ordering is not None and cfg.asymmetric:
        estimator = partial(estimator, ordering=ordering)
    outputs = plain(cfg.outputs)
    if outputs is not None:
        outputs = main.select(outputs, sample_of(x)).outputs
        estimator = partial(estimator, outputs=outputs)
    basis = basis_of(cfg.basis, data, model, main)
    of = {"name": model.predictor.name, **read_json(place / METRICS).get("model", {})}
    finish = partial(_finished, basis=basis, model=of)
    streamed = len(numbers) > cfg.block
    report.announce(place, cfg.resume and streamed, cfg.overwrite)
    some = slice(_SHOWN_ROWS) if streamed else slice(None)
    explanations, seconds = dict[str, Explanation](), dict[str, float]()
    for each, value in games.items():
        if each != name or not streamed:
            start = time.perf_counter()
            found = estimator(value, x[some], progress=cfg.progress)
            seconds[each] = time.perf_counter() - start
            explanations[each] = finish(found).with_labels(numbers[some])
    facts: dict[str, Any] = {"instances": len(numbers)}
    # After the others: what is wrong with them should not come out hours later.
    if streamed:
        block = partial(_block, estimator=estimator, finish=finish)
        explanations[name], of_stream = _stream(cfg, place, main, x, numbers, block)
        facts |= of_stream
    else:
        explanations[name].save(place / report.STORE)
        facts |= {"seconds": seconds[name], **_accuracy(explanations[name])}
    titles = {each: beside(cfg, each).value_function.get("title") or each for each in values}
    if len(values) > 1:
        scores = _scores({k: in_groups(v, data, cfg.groups) for k, v in values.items()}, data)
        facts["compared"] = {each: report.figures_of(score) for each, score in scores.items()}
        print("Errors on the same pairs of a sample of test rows (of all of them: metrics.json):")
        print(pd.DataFrame(facts["compared"]).T.to_string(float_format="{:.4g}".format))
        titles = {each: f"{titles[each]} (MSE {scores[each].mse:.4f})" for each in values}
        quality = report.quality_of(scores, name)
        made_by = {**explanations[name].made_by, "quality": quality}
        explanations[name] = replace(explanations[name], made_by=made_by)
    pairs = None
    if cfg.interactions:
        pairs = shapley_interactions(
            main, x[some], outputs=outputs, seed=cfg.seed, progress=cfg.progress
        )
        pairs = replace(pairs, shapley=pairs.shapley.with_labels(numbers[some]))
    by_title = {titles[each]: explanations[each] for each in values}
    return report.write(place, data, by_title, titles[name], facts, y[some], pairs, cfg.report)


def _with_draws(record: dict[str, Any], draws: int | None) -> dict[str, Any]:
    own = {k: each for k, each in record["value_function"].items() if k != "draws"}
    return {**record, "value_function": own if draws is None else {**own, "draws": draws}}


def _values(cfg: Any, data: Data, model: Model) -> dict[str, Any]:
    """Value functions by name, in the order to draw them.

    Raises:
        ValueError: they are in several output spaces.
    """
    name, names = cfg.value_function.name, plain(cfg.compare)
    device = cfg.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    values = {}
    for each in dict.fromkeys(names if name in names else [name, *names]):
        own = beside(cfg, each)
        value: Any = value_of(own, data, model)
        metrics = {} if own.checkpoint else read_json(place_of(own) / METRICS)
        if "quality" in metrics:
            value.update(quality=metrics["quality"])
        values[each] = value.to(device)
    if len(spaces := {value.space.name for value in values.values()}) > 1:
        raise ValueError(f"Expected value functions in one output space but got {sorted(spaces)}.")
    return values


def _rows(cfg: Any, data: Data) -> tuple[list[int], Tensor | StoredRows, Tensor]:
    """Numbers of the rows to explain, these rows, and their labels.

    Those are the first test rows, all, or those listed.

    Raises:
        ValueError: there are none of these numbers, or fewer.
    """
    instances = plain(cfg.instances)
    if isinstance(instances, list):
        return instances, *data.find("instances", instances, "test")
    count = None
    if instances != "all":
        fix = "the first test rows, a list of rows, or all"
        count = check_whole("instances", instances, 1, len(data.x_test), fix=fix)
    return data.test_numbers[:count], data.x_test[:count], data.y_test[:count]


def _scores(values: dict[str, Any], data: Data) -> dict[str, Score]:
    """Errors on the same test pairs; with many draws where these are noisy.

    Without interventions, of which no model is the judge.
    """
    shuffled = torch.randperm(len(data.x_test), generator=torch.Generator().manual_seed(0))
    x = data.x_test[shuffled[:_SCORED_ROWS]]
    some = next(iter(values.values()))
    counts = some.counts(x.to(some.device)).cpu() if some.players.by_row else None
    mask = shapley_pairs(len(x), len(some.players), _PAIRS, counts=counts)
    return {
        name: mean_squared_error(value.with_draws(max(value.spec.work.draws, _DRAWS)), x, mask)
        for name, value in values.items()
    }


def _accuracy(explanation: Explanation) -> dict[str, float]:
    return {
        "largest_standard_error": explanation.standard_error[explanation.present].max().item(),
        "efficiency_gap": explanation.efficiency_gap,
    }


def _finished(explanation: Explanation, basis: Any, model: dict[str, Any]) -> Explanation:
    """The explanation in the basis that was asked for, with what is explained."""
    explanation = explanation if basis is None else explanation.in_basis(basis)
    return replace(explanation, made_by={**explanation.made_by, "model": model})


def _block(
    value: ValueFunction,
    x: Tensor,
    *,
    estimator: Callable[..., Explanation],
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


def _stream(
    cfg: Any,
    place: Path,
    value: ValueFunction,
    x: Tensor | StoredRows,
    numbers: list[int],
    block: Callable[..., Explanation],
) -> tuple[Explanation, dict[str, Any]]:
    """Explain rows into the store block by block.

    Returns:
        The explanation of the first rows, and facts about all rows.
    """
    from manifold_shap.streaming import explain_rows

    path, audit = place / report.STREAM, cfg.audit
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
            labels=numbers,
            audit=audit,
            executor=workers,
            progress=cfg.progress,
        )
    facts = {
        "seconds": time.perf_counter() - start,
        "instances_resumed": len(numbers) - explained,
    }
    firsts = range(0, len(numbers), cfg.block)
    parts = (Explanation.load(path, slice(first, first + cfg.block)) for first in firsts)
    worst: Any = pd.DataFrame([_accuracy(part) for part in parts]).max().to_dict()
    return Explanation.load(path, slice(_SHOWN_ROWS)), {**facts, **worst}
