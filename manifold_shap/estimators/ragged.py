"""Lets estimators explain rows that have players of their own, those of equal count together."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any, Concatenate, ParamSpec

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn.functional import pad

from manifold_shap._arrays import row_labels
from manifold_shap._checks import check_number, check_seed, check_whole
from manifold_shap.explanation import Explanation
from manifold_shap.ordering import Ordering
from manifold_shap.players import Players
from manifold_shap.tables.rows import constant_players
from manifold_shap.values.base import ValueFunction
from manifold_shap.values.wrapped import as_value_function

Settings = ParamSpec("Settings")


def by_player_count(
    estimator: Callable[Concatenate[Any, Any, Settings], Explanation],
) -> Callable[Concatenate[Any, Any, Settings], Explanation]:
    """Lets an estimator take rows with players of their own: rows of equal count go together.

    The players that a row lacks are never evaluated, and are NaN in the explanation; an ordering
    is taken among the others. The settings that estimators have in common, `evaluations`, `seed`
    and `target_error`, are checked here, and the names of constant columns, which an ordering may
    hold although they do not play. `outputs` are chosen here: an estimator has them in its
    signature, and gets a value function that has no others.
    """

    @functools.wraps(estimator)
    def explain(
        value: Any, x: Any, *args: Settings.args, **settings: Settings.kwargs
    ) -> Explanation:
        checked: Any = check_settings(settings)
        value = as_value_function(value, x).select(checked.pop("outputs", None), x)
        constants = constant_players(value.players, value.schema)
        order = checked.pop("ordering", None)
        if order is not None:
            # One that an estimator passes on may be of the players of some rows alone.
            if not isinstance(order, Ordering):
                order = Ordering.of(order, value.players, constants)
            checked["ordering"] = order
        if not value.players.by_row:
            return estimator(value, x, *args, **checked)
        rows = value.rows(x)
        parts, groups = [], rows_by_count(value, rows)
        for group in groups:
            if order:
                count = int(value.counts(rows[group[:1]].to(value.device)))
                checked["ordering"] = order.among(value.players.first(count))
            parts.append(estimator(value, rows[group], *args, **checked))
        found = joined_rows(parts, torch.cat(groups).argsort(), value.players)
        made_by = {**found.made_by, **(order.provenance if order else {})}
        return replace(found, made_by=made_by).with_labels(row_labels(x))

    return explain


def check_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an estimator, of which those that estimators have in common are checked."""
    checked = dict(settings)
    if "seed" in checked:
        checked["seed"] = check_seed(checked["seed"])
    if checked.get("evaluations") is not None:
        checked["evaluations"] = check_whole("evaluations", checked["evaluations"])
    if checked.get("target_error") is not None:
        check_number("target_error", checked["target_error"], above=0)
    return checked


def rows_by_count(value: ValueFunction, rows: Tensor) -> list[Int64[Tensor, " some"]]:
    """Numbers of the rows that have equally many players, from the fewest to the most."""
    counts = value.counts(rows.to(value.device)).cpu()
    return [(counts == count).nonzero()[:, 0] for count in counts.unique()]


def joined_rows(
    parts: Sequence[Explanation], order: Int64[Tensor, " instances"], players: Players
) -> Explanation:
    """One explanation from those of the rows with 1, 2, ... players.

    Args:
        parts: in the order of their counts.
        order: the place, among the rows of all parts, of each row of the result.
        players: of a row with the most players that there can be.
    """

    def joined(name: str) -> Tensor | None:
        tensors = [vars(part)[name] for part in parts]
        if name == "degrees_of_freedom" and any(each is not None for each in tensors):
            # Rows of one player, say, have errors that are as good as known.
            known = zip(parts, tensors, strict=True)
            tensors = [torch.full((len(e.phi),), torch.inf) if f is None else f for e, f in known]
        if any(tensor is None for tensor in tensors):
            return None
        if name in ("phi", "standard_error", "covariance"):
            tensors = [
                pad(each, [0, 0] * (each.ndim - 2) + [0, len(players) - each.shape[1]], value=nan)
                for each in tensors
            ]
        return torch.cat(tensors)[order]

    made_by: dict[str, Any] = {}
    for key in dict.fromkeys(key for part in parts for key in part.made_by):
        entries = [part.made_by.get(key) for part in parts]
        made_by[key] = entries[0]
        if any(each != entries[0] for each in entries):  # By how many players the rows have.
            counts = (str(int(part.counts.max())) for part in parts)
            made_by[key] = dict(zip(counts, entries, strict=True))
    made_by["evaluations"] = sum(part.made_by["evaluations"] for part in parts)
    by_row = ("phi", "standard_error", "covariance", "base", "prediction", "x", "owners")
    tensors: Any = {name: joined(name) for name in (*by_row, "degrees_of_freedom")}
    return replace(parts[0], **tensors, players=players, instances=(), made_by=made_by)
