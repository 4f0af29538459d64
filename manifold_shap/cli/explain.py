"""Explaining test rows with what a run directory holds."""

import inspect
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manifold_shap.cli import comparison, directories, on_simplex, report
from manifold_shap.cli.explainer import with_explainer
from manifold_shap.cli.many_rows import SHOWN_ROWS, ManyRows, is_first_process
from manifold_shap.cli.on_simplex import OnSimplex
from manifold_shap.cli.opening import Opened, check_given
from manifold_shap.cli.orders import Orders
from manifold_shap.cli.run import Settings
from manifold_shap.data.base import TensorDataModule
from manifold_shap.explanation import Explanation
from manifold_shap.io.blocks import with_known
from manifold_shap.simplex.partition import Partition
from manifold_shap.surrogate.value import SurrogateValue
from manifold_shap.values import ValueFunction

# Rows of the table that is printed.
_LISTED_ROWS = 10


def recorded_data(
    home: Path, current: Settings, given: Sequence[str], checkpoint: str | Path | None = None
) -> dict[str, Any]:
    """The data settings that a run was trained with, so that they need not be typed again.

    Args:
        home: the directory of the data set's runs.
        current: the `data` and `classifier` settings of this call.
        given: names of the settings that the user gave: these must agree with the run.
        checkpoint: a file to use instead, which may be of a run with other settings.

    Returns:
        Arguments of the data module. Its class is for this call to say: nothing that a file in a
        run directory holds is ever imported or called.

    Raises:
        FileNotFoundError: nothing was trained there.
        ValueError: a given setting disagrees.
    """
    config = directories.config_of(home / "classifier")
    if checkpoint is not None:
        config = directories.config_of(Path(checkpoint).parent) or config
    if config is None:
        raise FileNotFoundError(
            f"Expected a trained classifier in {home / 'classifier'} but there is none; run "
            f"`python train.py data={current['data'].get('name', home.name)}` first, with the "
            "same runs_dir."
        )
    named = [*given, "data._target_"]
    if "classifier" in given:  # The choice of a kind; its settings come with it.
        named.append("classifier._target_")
    check_given({key: config[key] for key in current}, current, named, home)
    kept = {key: entry for key, entry in config["data"].items() if not key.startswith("_")}
    return {**kept, "root": current["data"]["root"]}


def test_rows(data: TensorDataModule, instances: int | str | Sequence[int]) -> list[int]:
    """Numbers of the test rows to explain: the first `instances`, `all`, or those listed.

    Raises:
        ValueError: fewer than one, or a row that the test split does not have.
    """
    if instances == "all":
        instances = len(data.x_test)
    listed: Sequence[Any] = range(instances) if isinstance(instances, int) else instances
    rows = list(listed) if all(isinstance(row, int) for row in listed) else []
    if not rows or min(rows) < 0 or max(rows) >= len(data.x_test):
        raise ValueError(
            f"Expected `instances` to be a count from 1 to {len(data.x_test)}, all, or a list of "
            f"test rows from 0 to {len(data.x_test) - 1}, but got {instances}."
        )
    return rows


def drawn_names(compare: str | Sequence[str] | None, name: str) -> list[str]:
    """Names of the value functions to draw, in their order: this one first, unless it is listed."""
    listed = [compare] if isinstance(compare, str) else list(compare or [])
    return list(dict.fromkeys(listed if name in listed else [name, *listed]))


def check_takes_ordering(estimator: Callable[..., Explanation], orders: Orders) -> None:
    """Raise ValueError if permutations are to be restricted and the estimator has none."""
    if not orders.of_estimator or "ordering" in inspect.signature(estimator).parameters:
        return
    raise ValueError(
        "Expected an estimator that can restrict permutations to `ordering` but got "
        f"{estimator.__name__}; choose estimator=auto, exact, permutation or adaptive, or "
        "asymmetric=false together with `confounding`, for causal values over all permutations."
    )


def pick_device(name: str) -> torch.device:
    """The device of this name; `auto` is CUDA where there is one.

    Raises:
        ValueError: it is not there.
    """
    available = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if available else "cpu")
    if name != "cpu" and not (available and name.startswith("cuda")):
        raise ValueError(
            f"Expected `device` to be cpu, auto, or cuda where torch finds one ({available}), but "
            f"got {name!r}."
        )
    return torch.device(name)


def in_precision(values: Mapping[str, ValueFunction], precision: str) -> dict[str, ValueFunction]:
    """The value functions, with products of surrogates in this precision.

    Raises:
        ValueError: it is not known, the device has none such, or there is no surrogate.
    """
    if precision == "32-true":
        return dict(values)
    surrogates = {key: value for key, value in values.items() if isinstance(value, SurrogateValue)}
    if not surrogates:
        raise ValueError(
            f"Expected a surrogate for precision={precision} but got {list(values)}; leave "
            "`precision` out."
        )
    return {**values, **{key: value.in_precision(precision) for key, value in surrogates.items()}}


def explain(
    values: Mapping[str, ValueFunction],
    opened: Opened,
    rows: Sequence[int],
    estimator: Callable[..., Explanation],
    orders: Orders,
    simplex: OnSimplex,
    many: ManyRows,
) -> dict[str, Any]:
    """Explain test rows by several value functions; store one, draw all of them with their MSE.

    Args:
        values: by name, in the order to draw them.
        opened: the one that was asked for; the others are drawn beside it. Its directory receives
            `explanations.zarr`, `summary.json` and `plots/`.
        rows: numbers of test rows.
        estimator: from a value function and rows to an explanation.
        orders: a causal order of the players, and its uses.
        simplex: how compositions are made and shown.
        many: how rows are explained that are more than a block. Only the first of them are shown,
            and explained by the others.

    Returns:
        What `summary.json` holds; nothing in a process that was started to help with many rows.
    """
    name, data, directory = opened.settings["name"], opened.source.data, opened.directory
    directories.check_writable(directory)
    many.check(values[name], rows)
    comparison.check_one_space(values)
    # All of them, before the first is explained: some may have no imputer.
    by_name = {which: simplex.game(orders.intervened(value)) for which, value in values.items()}
    tree = simplex.partition(opened.source, opened.value.space)
    restricted = partial(with_explainer(estimator, by_name[name]), **orders.of_estimator)
    games = _Games(by_name, name, data, rows, restricted, tree, opened.settings)
    store = directory / "explanations.zarr"
    found = _streamed(games, many, store) if many.suit(rows) else _at_once(games)
    if found is None:
        return {}
    explanations, seconds, facts = found
    scored = {which: simplex.game(comparison.scored(value)) for which, value in values.items()}
    scores = comparison.scores(scored, data) if len(values) > 1 else {}
    main = explanations[name]
    summary = {
        "value_function": dict(opened.settings),
        "instances": len(rows),
        "players": len(main.players),
        "outputs": len(main.outputs),
        "estimator": main.made_by.get("auto", main.made_by["estimator"]),
        **facts,
        **orders.record,
        **({"log_ratio_of_mean": True} if simplex.log_ratio_of_mean else {}),
        **({"basis": tree.tree} if tree is not None else {}),
        **({"compared": comparison.figures(scores, seconds)} if scores else {}),
    }
    figures = report.figures(explanations, name, scores)
    pages = {}
    if main.partition is not None:
        figures |= on_simplex.figures(main, simplex.balances)
        pages = on_simplex.pages(main)
    if not many.suit(rows):
        main.save(store)
    report.save_figures(figures, directory / "plots")
    report.save_pages(pages, directory / "plots")
    report.remove_others([*figures, *pages], directory / "plots")
    directories.write_json(directory / "summary.json", summary)
    listed = main[:_LISTED_ROWS]
    print(report.table(listed) if main.partition is None else on_simplex.table(listed))
    if len(rows) > _LISTED_ROWS:
        print(f"   ... {len(rows) - _LISTED_ROWS} more rows in explanations.zarr")
    if tree is not None:
        print(tree)
    if scores:
        print(report.comparison(scores, seconds))
    return summary


@dataclass(frozen=True)
class _Games:
    """What is to be explained of which rows, and how.

    Attributes:
        by_name: of the value function.
        name: of the main one.
        data: has the test rows.
        rows: numbers of those to explain.
        estimator: from a game and rows to an explanation.
        tree: a partition of the classes, if it is not the estimator's own.
        settings: of the main value function, for the record.
    """

    by_name: Mapping[str, ValueFunction]
    name: str
    data: TensorDataModule
    rows: Sequence[int]
    estimator: Callable[..., Explanation]
    tree: Partition | None
    settings: Settings

    def explain(self, which: str, rows: Sequence[int]) -> Explanation:
        """The explanation of these rows by one of the value functions."""
        explanation = self.of_rows(which)(self.by_name[which], self.data.x_test[list(rows)])
        return explanation.with_labels(rows, self.data.schema)

    def of_rows(self, which: str, **settings: Any) -> Callable[..., Explanation]:
        """The estimator, with what this command adds to its results.

        Args:
            which: name of the value function.
            settings: of the estimator, instead of its own.
        """
        made_by = {"settings": dict(self.settings)} if which == self.name else {}
        estimator = partial(self.estimator, **settings)
        return partial(_explained, estimator=estimator, tree=self.tree, made_by=made_by)


class _Found(NamedTuple):
    """Explanations of the rows that are shown, the seconds they took, and facts about all rows."""

    explanations: dict[str, Explanation]
    seconds: dict[str, float]
    facts: dict[str, Any]


def _explained(
    value: ValueFunction,
    x: Tensor,
    *,
    estimator: Callable[..., Explanation],
    tree: Partition | None,
    made_by: Settings,
    seed: int | None = None,
) -> Explanation:
    estimator = estimator if seed is None else with_known(estimator, seed=seed)
    explanation = estimator(value, x)
    explanation = explanation.in_basis(tree) if tree else explanation
    return replace(explanation, made_by={**explanation.made_by, **made_by})


def _each(
    games: _Games, names: Iterable[str], rows: Sequence[int]
) -> tuple[dict[str, Explanation], dict[str, float]]:
    explanations, seconds = {}, {}
    for which in names:
        start = time.perf_counter()
        explanations[which] = games.explain(which, rows)
        seconds[which] = time.perf_counter() - start
    return explanations, seconds


def _at_once(games: _Games) -> _Found:
    explanations, seconds = _each(games, games.by_name, games.rows)
    main, took = explanations[games.name], seconds[games.name]
    facts = {
        "seconds": took,
        "rows_per_second": main.made_by["evaluations"] / took,
        "largest_standard_error": main.standard_error.max().item(),
        "efficiency_gap": main.efficiency_gap,
    }
    return _Found(explanations, seconds, facts)


def _streamed(games: _Games, many: ManyRows, store: Path) -> _Found | None:
    """The main value function on all rows, and the others on the first of them."""
    shown = games.rows[:SHOWN_ROWS]
    # These first: what is wrong with them should not come out hours later.
    others = [which for which in games.by_name if which != games.name and is_first_process()]
    explanations, seconds = _each(games, others, shown)
    estimator = games.of_rows(games.name, progress=False)
    streamed = many.explain(store, games.by_name[games.name], games.data, games.rows, estimator)
    if streamed is None:
        return None
    rate = streamed.facts["instances_per_second"]
    seconds[games.name] = len(shown) / rate if rate else math.nan
    explanations[games.name] = streamed.shown
    in_order = {which: explanations[which] for which in games.by_name}
    return _Found(in_order, seconds, streamed.facts)
