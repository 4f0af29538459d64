"""Explains rows by any estimator: runs it on a value function, and makes the explanation."""

from collections.abc import Callable, Generator, Sequence
from math import inf, nan
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from manifold_shap._arrays import row_labels, row_levels
from manifold_shap._checks import check_number, check_seed, check_whole
from manifold_shap._version import __version__
from manifold_shap.coalitions import Coalitions
from manifold_shap.estimators.evaluator import Evaluator, diagonal
from manifold_shap.explanation import Explanation
from manifold_shap.ordering import Ordering, Relations
from manifold_shap.tables.rows import constant_players, encoded
from manifold_shap.values.base import ValueFunction
from manifold_shap.values.selected import Outputs
from manifold_shap.values.wrapped import as_value_function


class Result(NamedTuple):
    """What an estimator makes of the values that it asked for.

    Attributes:
        phi: Shapley values.
        made_by: the estimator and its settings, as plain data.
        variance: of the error of each value, or covariances between those of a player's outputs.
            None where all coalitions or orders were evaluated, each once: errors are then zero or,
            for a sampled value function, unknown (NaN).
        degrees_of_freedom: of the standard errors; None where they are as good as known.
    """

    phi: Float[Tensor, "instances players outputs"]
    made_by: dict[str, Any]
    variance: Float[Tensor, "instances players *errors"] | None = None
    degrees_of_freedom: Float[Tensor, " instances"] | None = None


Made = TypeVar("Made")
# Numbers of rows and coalitions of these, for which values are sent back; in the end, what is made
# of the values.
Asking = Generator[tuple[Tensor, Coalitions], Tensor, Made]


def explain(
    value: Any,
    x: Any,
    estimator: Callable[..., Asking[Result]],
    *,
    ordering: Relations = None,
    outputs: Outputs = None,
    batch_size: int | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> Explanation:
    """Shapley values of rows by an estimator: a generator that asks for values of coalitions.

    It gets the game of the rows and the settings, yields numbers of rows and coalitions of these,
    and is sent their values. Rows with players of their own are explained with those of equally
    many players; players that a row lacks are never evaluated, and are NaN in the explanation.

        >>> from manifold_shap.coalitions import Listed
        >>> def first_in(game):  # What each player adds to nobody.
        ...     alone = Listed(torch.eye(3).bool()[None], game.keys()[:, None])
        ...     values = yield torch.arange(len(game.x)), alone
        ...     return Result(values - game.base[:, None], {"estimator": "first in"})
        >>> game = lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True)
        >>> explain(game, torch.tensor([[1.0, 2.0, 3.0]]), first_in).phi.flatten()
        tensor([1., 2., 3.])

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows to explain, `[instances, *event]`.
        estimator: called once for all rows, or once for each number of players.
        ordering: of the players, see `Evaluator.order`.
        outputs: those to explain; see `ValueFunction.select`.
        batch_size: model rows per call; changes memory, not the numbers.
        progress: show a bar on work of more than two seconds; by default where a person looks.
        settings: of the estimator; `evaluations`, `seed` and `target_error` are checked here.
    """
    if "seed" in settings:
        settings["seed"] = check_seed(settings["seed"])
    if settings.get("evaluations") is not None:
        settings["evaluations"] = check_whole("evaluations", settings["evaluations"])
    if settings.get("target_error") is not None:
        check_number("target_error", settings["target_error"], above=0)
    value = as_value_function(value, x).select(outputs)
    order = Ordering.of(ordering, value.players, constant_players(value.players, value.spec.table))
    rows, parts = value.rows(x), []
    values: Any
    counts = value.counts(rows.to(value.device)).cpu()
    groups = [(counts == count).nonzero()[:, 0] for count in counts.unique()]
    for group in groups if value.players.by_row else [torch.arange(len(rows))]:
        game = Evaluator(value, rows[group], order, batch_size, progress, group)
        asking, values = estimator(game, **settings), None
        with game.batches.bar:
            while True:
                try:
                    asked = asking.send(values)
                except StopIteration as end:
                    parts.append((group, game, end.value))
                    break
                values = game.evaluate(*asked)
    return _explanation(value, rows, parts, order, x)


def _explanation(
    value: ValueFunction,
    rows: Float[Tensor, "instances *event"],
    parts: list[tuple[Tensor, Evaluator, Result]],
    order: Ordering,
    given: Any,
) -> Explanation:
    """The labelled results, on the CPU and in the precision of the value function.

    Args:
        value: what was explained.
        rows: all of them.
        parts: of rows with 1, 2, ... players: their numbers, their game, and its result.
        order: which orders of the players count.
        given: the rows as they came, maybe with labels.
    """
    groups, games, results = zip(*parts, strict=True)
    back, players, x = torch.cat(groups).argsort(), value.players, rows.to("cpu", copy=True)
    owners = value.owners(rows.to(value.device)).cpu() if players.by_row else None
    if value.spec.table is not None:
        x, players, owners = value.spec.table.explained(x, players, owners)
    fill = 0.0 if len(players) > len(value.players) else nan
    dtype = torch.promote_types(games[0].prediction.dtype, torch.float32)
    made = [_by_row(*part[1:], len(players), fill) for part in parts]
    by_row: dict[str, Any] = {}
    for name in made[0]:
        tensors = [each[name] for each in made]
        if all(tensor is not None for tensor in tensors):
            by_row[name] = torch.cat(tensors)[back].to("cpu", dtype)
    freedom = [result.degrees_of_freedom for result in results]
    if any(each is not None for each in freedom):
        # Rows of one player, say, have errors that are as good as known.
        sizes = [torch.full((len(group),), inf) for group in groups]
        known = [one if each is None else each for each, one in zip(freedom, sizes, strict=True)]
        by_row["degrees_of_freedom"] = torch.cat(known)[back]
    return Explanation(
        **by_row,
        partition=games[0].partition,
        x=x,
        instances=row_labels(given) or (),
        players=players,
        owners=owners,
        outputs=value.outputs,
        space=value.space,
        made_by={
            "version": __version__,
            **value.provenance,
            "evaluations": sum(game.evaluations for game in games),
            **_far_outside(value, rows),
            **_in_common(games, results),
            **order.provenance,
            **row_levels(given),
        },
    )


def _far_outside(value: ValueFunction, rows: Tensor) -> dict[str, int]:
    seen, table = value.spec.training_range, value.spec.table
    if seen is None:
        return {}
    owners = table.elements if table else value.players
    count = seen.count_far_outside(encoded(rows, table), owners)
    return {"rows_far_outside": count} if count else {}


def _by_row(game: Evaluator, result: Result, players: int, fill: float) -> dict[str, Any]:
    """What an explanation has for each row and each of so many players, lacking ones filled in."""
    variance = result.variance
    if variance is None:
        # A single player has no coalition that anything would be drawn for.
        unknown = game.sampled and len(game.players) > 1
        variance = torch.full_like(result.phi, nan if unknown else 0.0)
    more, covariance = (0, 0, 0, players - result.phi.shape[1]), None
    if variance.ndim == 4:
        covariance = pad(variance, (0, 0, *more), value=fill)
    # A variance of zero may come out negative by rounding.
    errors = diagonal(variance).clamp(min=0).sqrt()
    return {
        "phi": pad(result.phi, more, value=fill),
        "standard_error": pad(errors, more, value=fill),
        "covariance": covariance,
        "base": game.base,
        "prediction": game.prediction,
    }


def _in_common(games: Sequence[Evaluator], results: Sequence[Result]) -> dict[str, Any]:
    """What is the same for all numbers of players; what is not, by the number."""
    common, counts = {}, [str(game.shape[1]) for game in games]
    for key in {key: None for result in results for key in result.made_by}:
        entries = [result.made_by.get(key) for result in results]
        same = entries.count(entries[0]) == len(entries)
        common[key] = entries[0] if same else dict(zip(counts, entries, strict=True))
    return common
