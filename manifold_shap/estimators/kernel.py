"""Estimates Shapley values by the regression of KernelSHAP, made unbiased by sample reuse.

Coalitions come in pairs with their complements; see `regression` for the fit. Its matrix is
factorised once for all rows, although each row is evaluated at coalitions of its own: they are the
same but for the names of the players, which are exchanged at random for every row. With equal
coalitions the errors of the rows would be one error, which no mean over rows makes smaller and no
scatter between rows shows.

Every coalition can also serve all players: with m drawn ones, Σ w u y is an unbiased estimate of
their values (maximum sample reuse), but its variance is that of all of y. Witter, Liu & Musco
(2025) apply it to the residuals of a regression, and add the Shapley values of the regression,
which are its coefficients. The result is unbiased if the regression that gives a coalition's
residual was fitted without that coalition: cross-fitting. Here it is the fit to all others,

    1/m Σ_j [β_(-j) + m w_j u_j (y_j - u_jᵀ β_(-j))],

where the term of coalition j is unbiased whatever β_(-j) is, since the expectation of
m w_j u_j u_jᵀ is the identity among vectors that sum to zero. Leave-one-out least squares has a
closed form, so all of this takes one factorisation; and fits to all but one have smaller residuals
than fits to a half.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import to_tensor
from manifold_shap._messages import check_choice
from manifold_shap.coalitions import Renamed
from manifold_shap.estimators.evaluator import Evaluator
from manifold_shap.estimators.regression import LAWS, Pairs, Regression, choose_pairs
from manifold_shap.estimators.runner import Asking, Result, explain
from manifold_shap.explanation import Explanation
from manifold_shap.values.selected import Outputs

Estimate = tuple[Float[Tensor, "rows players outputs"], Float[Tensor, "rows players *errors"]]


def kernel_shapley(
    value: Any,
    x: Any,
    *,
    evaluations: int | None = None,
    law: str = "leverage",
    start: Any = None,
    outputs: Outputs = None,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Explanation:
    """Estimate Shapley values by least squares on pairs of complementary coalitions.

        >>> game = lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True)
        >>> kernel_shapley(game, torch.tensor([[1.0, 2.0, 3.0]])).phi.flatten()
        tensor([1., 2., 3.])

    KernelSHAP (Lundberg & Lee 2017), with coalitions drawn by the leverage of the fit (Musco &
    Witter 2025). Additive games are fitted exactly and, thanks to the complements, games with
    interactions of two players as well. Of the smallest (and largest) sizes all coalitions are
    taken, where the law would draw as many; the others are drawn. By sample reuse (Witter, Liu &
    Musco 2025) the estimate has no bias, so that means over rows tend to the exact ones; pairs
    without which values would not be determined are left as they are fitted.

    Args:
        value: a `ValueFunction`, or a callable; see `as_value_function`.
        x: rows to explain, `[instances, *event]`. Each has coalitions of its own.
        evaluations: coalitions per row, two for each pair, at least two for each player; by
            default 64 for each player but one. Those that do not determine all values are drawn
            again. With 2^n - 2 or more, all are taken and the result is exact; where values are
            drawn, coalitions are, too, and come again with other draws.
        law: of the sizes of coalitions: `leverage`, uniform (Musco & Witter 2025), or `kernel`,
            small and large ones more often (Lundberg & Lee 2017).
        start: approximate Shapley values, such as an amortised explainer gives, `[rows, players,
            outputs]`. They take the place of the regression: two `evaluations` or more are
            enough to make them unbiased, and to estimate their errors.
        outputs: those to explain: names or positions, one or a list; by default all. See
            `ValueFunction.select`.
        seed: of the coalitions. Same seed, same answer, for any `batch_size` and device.
        batch_size: model rows per call; changes memory and time, not the numbers.
        progress: show a bar on work of more than two seconds; by default where a person looks.

    Returns:
        An explanation with standard errors over pairs, from coalitions and draws; NaN (unknown)
        where a single pair is drawn or the fit depends on one alone.

    Raises:
        ValueError: too few `evaluations`, or another `law`; a `start` of another shape, or not
            finite.
    """
    return explain(estimator=kernel, **locals())


def kernel(
    game: Evaluator,
    evaluations: int | None = None,
    law: str = "leverage",
    start: Any = None,
    seed: int = 0,
) -> Asking[Result]:
    """The estimator of `kernel_shapley`."""
    check_choice("law", law, LAWS)
    made_by = {"estimator": "kernel", "law": law}
    if start is not None:
        plain = Regression(next(choose_pairs(game, evaluations, law, seed)))
        identity = torch.eye(len(game.players), dtype=torch.float64, device=game.device)

        def reused(y: Tensor) -> Estimate:
            drawn = torch.where(plain.pairs.drawn, y, 0.0)
            return plain.moment(y), plain.covariance(identity, drawn, game.full_covariance)

        made_by["start"] = "given"
        centred = _centred(start, game)
        return (yield from fitted(game, plain.pairs, reused, made_by, seed, centred))
    regression = Regression.of_game(game, evaluations, law, seed)

    def unbiased(y: Tensor) -> Estimate:
        # Residuals of a fit are smaller than its errors; those of the jackknife (HC3) are not.
        errors = regression.loo_residuals(y, regression.fit(y))
        covariance = regression.covariance(regression.inverse, errors, game.full_covariance)
        return regression.unbiased(y, errors), covariance

    return (yield from fitted(game, regression.pairs, unbiased, made_by, seed))


def _centred(start: Any, game: Evaluator) -> Float[Tensor, "rows players outputs"]:
    """A start minus equal shares."""
    start = to_tensor(start, "start")
    if tuple(start.shape) != game.shape or not bool(start.isfinite().all()):
        raise ValueError(
            f"Expected `start` to be finite values of shape {game.shape} (rows, players, outputs) "
            f"but got shape {tuple(start.shape)}, of which {int((~start.isfinite()).sum())} are "
            "not finite; an explainer gives them as `explainer(x)`."
        )
    start = start.to(game.device, torch.float64)
    return start - start.mean(1, keepdim=True)


def fitted(
    game: Evaluator,
    pairs: Pairs,
    estimate: Callable[[Tensor], Estimate],
    made_by: dict[str, Any],
    seed: int,
    start: Float[Tensor, "rows players outputs"] | None = None,
) -> Asking[Result]:
    """Shapley values of all rows from pairs of coalitions, the players renamed for each row.

    Args:
        game: the evaluator.
        pairs: of coalitions.
        estimate: from y to β and the covariance of its errors.
        made_by: what the explanation records.
        seed: of the names, and of the draws of a sampled value function.
        start: β of an additive game that is taken from y, and added in the end.
    """
    count, (instances, players, _) = len(pairs.mask), game.shape
    # Draws are fresh for every pair, so that standard errors are of these, too.
    keys = _random.fold(game.keys(seed)[:, None], torch.arange(count))
    named = players_by_name(game, seed)
    share = pairs.mask.sum(1).double() / players - 0.5
    found = []
    for rows in game.blocks(2 * count):
        first, second = yield from values_of_pairs(game, pairs, rows, named[rows], keys[rows])
        change = game.total[rows.to(game.device)].double()
        y = (first - second) / 2 - share[:, None] * change[:, None]
        if start is not None:
            renamed = of_players(start[rows.to(start.device)], named[rows])
            y = y - torch.einsum("pn,bno->bpo", pairs.mask.double(), renamed)
        found.append(estimate(y))
    name = named.argsort(1)
    beta, covariance = (of_players(torch.cat(part), name) for part in zip(*found, strict=True))
    phi = beta + game.total.double()[:, None] / players
    if start is not None:
        phi = phi + start
    made_by = {**made_by, "pairs": count}
    if not pairs.sampled:
        return Result(phi, made_by)
    freedom = torch.full((instances,), float(pairs.sampled - 1))
    return Result(phi, {**made_by, "seed": seed}, covariance, freedom)


def players_by_name(game: Evaluator, seed: int) -> Int64[Tensor, "rows players"]:
    """Of every row the player that has each of the names, at random."""
    return _random.uniform(game.keys(seed), (len(game.players),)).argsort(1)


def of_players(
    numbers: Float[Tensor, "rows players *errors"], which: Int64[Tensor, "rows players"]
) -> Float[Tensor, "rows players *errors"]:
    """Numbers of these players, which differ from row to row."""
    which = which.to(numbers.device)
    return numbers.gather(1, which[(..., *[None] * (numbers.ndim - 2))].expand_as(numbers))


def values_of_pairs(
    game: Evaluator,
    pairs: Pairs,
    rows: Tensor,
    named: Int64[Tensor, "rows players"],
    keys: Int64[Tensor, "rows pairs"],
) -> Asking[tuple[Tensor, Tensor]]:
    """Values `[rows, pairs, outputs]` of the coalitions of pairs, renamed, and of complements."""
    game.batches.bar.total = len(game.x) * 2 * len(pairs.mask)
    mask, place = torch.stack((pairs.mask, ~pairs.mask), 1).flatten(0, 1)[None], named.argsort(1)
    # A coalition and its complement share their draws.
    asked = Renamed(mask, keys.repeat_interleave(2, 1), place.to(game.device))
    values = (yield rows, asked).double()
    return values[:, 0::2], values[:, 1::2]
