"""Explains test rows with what a run holds, or with a model of the user's own."""

import time
import warnings
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

import manifold_shap as ms
from manifold_shap._checks import check_whole
from manifold_shap._stored import StoredRows
from manifold_shap.cli import report, run
from manifold_shap.cli.games import basis_of, causal, in_groups, ordering_of
from manifold_shap.data import Data
from manifold_shap.quality import measured
from manifold_shap.shown import number

# Figures and tables of many rows show no more, and other value functions explain these only.
_SHOWN_ROWS = 200
# Rows of the audit of an estimator that knows no errors of its own.
_AUDITED = 200
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
    cfg, recorded = run.opened(cfg, job)
    with warnings.catch_warnings(record=True, action="always") as told:
        data = run.data_of(cfg)
    if recorded is None and run.read_config(run.classifier_place(cfg, data)) is None:
        for note in told:  # Otherwise the training on these data has given them.
            warnings.warn_explicit(note.message, note.category, note.filename, note.lineno)
    place = run.place_of(cfg)
    if recorded is not None:
        here = run.record_of(cfg, data)
        for record in (here, recorded):  # Others need no training.
            record["value_function"].pop("draws", None)
        run.check_same(place, recorded, here)
    if run.is_trained(cfg):
        run.value_place(cfg)  # Before a classifier is trained in vain.
    model, name = run.model_of(cfg, data), cfg.value_function.name
    values = _values(cfg, data, model)
    ordering, confounding = ordering_of(cfg.ordering), run.plain(cfg.confounding)
    games = {
        each: in_groups(causal(value, ordering, confounding), data, cfg.groups)
        for each, value in values.items()
    }
    numbers, x, y = _rows(cfg, data)
    main = games.pop(name)
    estimator = instantiate(cfg.estimator, _partial_=True, _convert_="all")
    if cfg.ordering is not None and cfg.asymmetric:
        estimator = partial(estimator, ordering=ordering)
    if cfg.outputs is not None:
        estimator = partial(estimator, outputs=main.select(run.plain(cfg.outputs)).outputs)
    basis = basis_of(cfg.basis, data, model, main)
    of = {"name": model.predictor.name, **run.read_json(place / run.METRICS).get("model", {})}
    explained = partial(_explained, estimator=estimator, basis=basis, model=of)
    streamed = len(numbers) > cfg.block
    resumed = cfg.resume and streamed
    report.check_free(place, cfg.overwrite or resumed)
    some = slice(_SHOWN_ROWS) if streamed else slice(None)
    # Before the many rows: what is wrong with them should not come out hours later.
    explanations = {
        each: explained(value, x[some], progress=cfg.progress).with_labels(numbers[some])
        for each, value in games.items()
    }
    start = time.perf_counter()
    if streamed:
        found, facts = _stream(cfg, place, main, x, numbers, explained)
        if not resumed:
            report.forget(place, report.STREAM)
    else:
        found = explained(main, x, progress=cfg.progress).with_labels(numbers)
        found.save(place / report.STORE)
        # Only now: what fails before leaves the earlier explanation.
        report.forget(place, report.STORE)
        facts = _accuracy(found)
    facts = {"instances": len(numbers), "seconds": time.perf_counter() - start, **facts}
    explanations[name] = found
    titles = {each: each for each in values}
    if games:
        # Without interventions, of which no model is the judge.
        scores = {
            each: report.scored(in_groups(value, data, cfg.groups), data.x_test, cfg.progress)
            for each, value in values.items()
        }
        facts["compared"] = {each: report.figures_of(score) for each, score in scores.items()}
        print("Errors on the same pairs of test rows and coalitions:")
        print(pd.DataFrame(facts["compared"]).T.to_string(float_format="{:.4g}".format))
        errors = {each: number(max(score.error, 0.0) ** 0.5) for each, score in scores.items()}
        titles = {each: f"{each} (root mean squared error {errors[each]})" for each in values}
        for each, one in explanations.items():
            quality = measured(scores, each, report.FITS).to_dict()
            # Of a training, where there is no marginal beside it here.
            quality["warning"] = quality["warning"] or (one.quality or {}).get("warning", "")
            explanations[each] = replace(one, made_by={**one.made_by, "quality": quality})
    elif main.spec.learned and not found.quality:
        print("compare=[marginal] also measures how good the value function is.")
    by_title = {titles[each]: explanations[each] for each in values}
    warning = (explanations[name].quality or {}).get("warning")
    labels = y[some] if cfg.report else None
    summary = report.write(place, data, by_title, titles[name], facts, labels)
    print(end=report.advice(cfg, data, warning))
    return summary


def _values(cfg: Any, data: Data, model: ms.Model) -> dict[str, Any]:
    """Value functions by name, in the order to draw them.

    Raises:
        ValueError: they are in several output spaces.
    """
    name, names = cfg.value_function.name, run.plain(cfg.compare)
    device = cfg.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    values = {}
    for each in dict.fromkeys(names if name in names else [name, *names]):
        own = run.beside(cfg, each)
        value: Any = run.value_of(own, data, model)
        metrics = {} if own.checkpoint else run.read_json(run.place_of(own) / run.METRICS)
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
    instances = run.plain(cfg.instances)
    if isinstance(instances, list):
        return instances, *data.find(instances)
    count = None
    if instances != "all":
        fix = "the first test rows, a list of rows, or all"
        count = check_whole("instances", instances, 1, len(data.x_test), fix=fix)
    return data.test_numbers[:count], data.x_test[:count], data.y_test[:count]


def _accuracy(explanation: ms.Explanation) -> dict[str, Any]:
    return {
        "largest_standard_error": explanation.standard_error[explanation.present].max().item(),
        "efficiency_gap": explanation.efficiency_gap,
    }


def _explained(
    value: ms.ValueFunction,
    x: Any,
    *,
    estimator: Callable[..., ms.Explanation],
    basis: Any,
    model: dict[str, Any],
    **settings: Any,
) -> ms.Explanation:
    """The explanation in the basis that was asked for, with what is explained."""
    found = estimator(value, x, **settings)
    found = found if basis is None else found.in_basis(basis)
    return replace(found, made_by={**found.made_by, "model": model})


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
    value: ms.ValueFunction,
    x: Tensor | StoredRows,
    numbers: list[int],
    explained: Callable[..., ms.Explanation],
) -> tuple[ms.Explanation, dict[str, Any]]:
    """Explain rows into the store block by block.

    Returns:
        The explanation of the first rows, and facts about all rows.
    """
    path, audit = place / report.STREAM, cfg.audit
    if audit is None:
        audit = _AUDITED if "path" in cfg.estimator else 0
    with executor(cfg) as workers:
        count = ms.explain_rows(
            path,
            value,
            x,
            partial(explained, progress=False),
            block=cfg.block,
            seed=cfg.estimator.seed,
            resume=cfg.resume,
            overwrite=not cfg.resume,
            labels=numbers,
            audit=audit,
            executor=workers,
            progress=cfg.progress,
        )
    firsts = range(0, len(numbers), cfg.block)
    parts = (ms.Explanation.load(path, slice(first, first + cfg.block)) for first in firsts)
    worst: Any = pd.DataFrame([_accuracy(part) for part in parts]).max().to_dict()
    return ms.Explanation.load(path, slice(_SHOWN_ROWS)), {
        "instances_resumed": len(numbers) - count,
        **worst,
    }
