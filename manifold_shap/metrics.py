"""How good a value function is: its mean squared error against the model (Frye et al. Eq. 16)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_coalitions, check_finite, check_seed, check_whole
from manifold_shap._messages import shown, warn
from manifold_shap._progress import progress_bar
from manifold_shap.laws import CoalitionLaw, SizeUniform, laws_for
from manifold_shap.values.base import ValueFunction
from manifold_shap.values.wrapped import as_value_function

__all__ = [
    "distance_to_truth",
    "errors_by_law",
    "mean_squared_error",
    "shapley_pairs",
]


def __dir__() -> list[str]:
    return __all__


# Model rows in one call, where the value function needs no fewer.
_MANY_ROWS = 8192
# The stream of random numbers of true values.
_TRUTH = 1


@dataclass(frozen=True)
class SizeCurve:
    """Mean squared error against coalition size.

    Attributes:
        size: mean |S| of each bin.
        mse: of the pairs in the bin.
        standard_error: of `mse`, over pairs; that of `debiased` is about the same.
        pairs: how many (row, coalition) pairs the bin holds.
        debiased: `mse` less the Monte-Carlo variance in it.
    """

    size: list[float]
    mse: list[float]
    standard_error: list[float]
    pairs: list[int]
    debiased: list[float]


@dataclass(frozen=True)
class Score:
    """MSE = E_x E_S mean_y |T_y(f(x)) - v_y(x_S)|² on given (row, coalition) pairs.

    Attributes:
        mse: the raw figure.
        standard_error: of `mse`, over rows; NaN for one row.
        debiased: `mse` less the Monte-Carlo variance s²/K of a K-draw value function; equal to
            `mse` for one that draws nothing, NaN where the variance is unknown.
        draws: K.
        effective_draws: the effective sample size (Σw)²/Σw², the mean over pairs; see `Estimate`.
            K for draws that have no weights.
        by_size: the curve over |S|.
        by_row: the error of each row, less the Monte-Carlo variance in it, `[rows]`: two value
            functions on the same pairs are compared row by row. `debiased` is its mean.
    """

    mse: float
    standard_error: float
    debiased: float
    draws: int
    effective_draws: float
    by_size: SizeCurve
    by_row: Float[Tensor, " rows"] = field(repr=False, compare=False)


def shapley_pairs(
    rows: int,
    players: int,
    least: int = 10_000,
    seed: int = 0,
    law: CoalitionLaw | None = None,
    counts: Tensor | Sequence[int] | None = None,
) -> Tensor:
    """Coalitions for `rows` rows, at least `least` (row, coalition) pairs, of the Shapley sum.

    >>> shapley_pairs(rows=4, players=2, least=10).shape
    torch.Size([4, 3, 2])

    Args:
        rows, players, least: whole numbers.
        seed: of the coalitions.
        law: of the coalitions; by default that of the Shapley sum, `SizeUniform(players)`.
        counts: how many players each row has, `[rows]`; by default all of them. See
            `ValueFunction.counts`.

    Returns:
        mask: bool `[rows, m, players]`.

    Raises:
        TypeError, ValueError: `rows`, `players` or `least` is no whole number of at least 1,
            `seed` is no seed, `law` is of another number of players, or `counts` are not
            of these rows and players.
    """
    rows, least = check_whole("rows", rows), check_whole("least", least)
    law = law or SizeUniform(players)
    if law.players != players:
        raise ValueError(f"Expected a law of {players} players but got one of {law.players}.")
    generator = torch.Generator().manual_seed(check_seed(seed))
    if counts is None:
        return law.sample((rows, -(-least // rows)), generator)
    own = torch.as_tensor(counts).cpu()
    if own.shape != (rows,) or bool(((own < 0) | (own > players)).any()):
        raise ValueError(
            f"Expected `counts` of {rows} rows, from 0 to {players}, but got {counts!r:.100}."
        )
    return law.sample((rows, -(-least // rows)), generator, own[:, None])


def mean_squared_error(
    value: Any, x: Any, mask: Any, batch_size: int | None = None, progress: bool | None = None
) -> Score:
    """Score a value function on these rows and coalitions; the same ones serve every method.

    Args:
        value: a value function, or a callable; see `as_value_function`.
        x: held-out rows `[rows, *event]`, or a frame where `value` has a table.
        mask: bool `[rows, m, players]`, coalitions of each row, e.g. from `shapley_pairs`.
        batch_size: model rows per call; by default what suits the value function. Changes memory,
            not the figure.
        progress: show a bar on work of more than two seconds; by default where a person looks.

    Raises:
        TypeError, ValueError: `x` or `mask` of another type or shape, or not finite; a `value`
            that cannot be called, or whose values are not finite; `batch_size` below 1.

    >>> from manifold_shap import imputed_value
    >>> from manifold_shap.imputers import MarginalImputer
    >>> x = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    >>> value = imputed_value(lambda x: x.sum(1, keepdim=True), MarginalImputer(x), "identity")
    >>> mean_squared_error(value, x, torch.tensor([[[False, True]], [[True, False]]])).mse
    0.5
    """
    value = as_value_function(value, x)
    rows = value.rows(x)

    def target(x: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        prediction = value.prediction(x)[:, None]
        return prediction, torch.zeros_like(prediction)

    return _score(value, rows, mask, target, value.spec.work.draws, batch_size, progress)


def distance_to_truth(
    value: Any,
    truth: ValueFunction,
    x: Any,
    mask: Any,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Score:
    """Score a value function by its distance to the true one: E_x E_S mean_y |v_y - v*_y|².

    That is what `mean_squared_error` holds beyond the variance of the model's outputs given x_S,
    which no value function can take away.

        >>> from manifold_shap import imputed_value, oracles
        >>> from manifold_shap.imputers import GaussianImputer
        >>> law = oracles.GaussianMixture.random(3, components=1)
        >>> model = lambda x: x.prod(1, keepdim=True)
        >>> truth = oracles.true_value(model, law, "identity")
        >>> value = imputed_value(model, GaussianImputer(law.sample(5000).x), "identity")
        >>> x, mask = law.sample(50, seed=1).x, shapley_pairs(50, 3, least=500)
        >>> score = distance_to_truth(value, truth, x, mask)
        >>> score.debiased < 0.02 < score.mse
        True

    Args:
        value, mask, batch_size, progress: as of `mean_squared_error`.
        truth: the true value function, such as `oracles.true_value`.
        x: rows of both value functions, or a frame where both take one.

    Returns:
        The score, of which `debiased` is less the variance s²/K of the draws of both value
        functions. Both have draws of their own.

    Raises:
        TypeError, ValueError: as of `mean_squared_error`; other players or outputs than those of
            the truth.
    """
    value = as_value_function(value, x)
    rows, own = value.rows(x), truth.rows(x)
    mine, theirs = value.players.names, truth.players.names
    reordered = mine != theirs and set(mine) == set(theirs)
    if reordered or (len(mine), len(value.outputs)) != (len(theirs), len(truth.outputs)):
        raise ValueError(
            f"Expected a value function of the players {shown(theirs)}, in this order, and of "
            f"{len(truth.outputs)} outputs, as the truth is, but got {shown(mine)} and "
            f"{len(value.outputs)} outputs."
        )

    def target(_: Tensor, some: Tensor, mask: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        # With the same random numbers the errors of the two would go together.
        found = truth.estimate(own[some], mask, _random.fold(keys, _TRUTH))
        return found.values, found.noise()

    draws = max(value.spec.work.draws, truth.spec.work.draws)
    return _score(value, rows, mask, target, draws, batch_size, progress)


def _score(
    value: ValueFunction,
    x: Tensor,
    mask: Any,
    target: Callable[..., tuple[Tensor, Tensor]],
    draws: int,
    batch_size: int | None,
    progress: bool | None,
) -> Score:
    """Score a value function by its distance to what it should be.

    Args:
        value, mask, batch_size, progress: as of `mean_squared_error`.
        x: rows.
        target: gives, for some rows, where `value` is, their numbers, their coalitions and their
            keys, what the values should be, and its Monte-Carlo variance, both `[rows, m, outputs]`
            or broadcast to that.
        draws: model rows behind a value, or behind its target where these are more.
    """
    if batch_size is not None:
        batch_size = check_whole("batch_size", batch_size)
    batch_size = batch_size or value.spec.work.batch_size or _MANY_ROWS
    mask = check_coalitions(mask, len(x), value.players)
    width = max(1, min(mask.shape[1], batch_size // draws))
    step = max(1, batch_size // (width * draws))
    figures = []
    numbers = torch.arange(mask.shape[0] * mask.shape[1]).reshape(mask.shape[:2])
    with progress_bar(progress, len(x), "error", "row") as bar:
        for rows in torch.arange(len(x)).split(step):
            parts = [
                _errors(
                    value, x, rows, mask[rows, k : k + width], numbers[rows, k : k + width], target
                )
                for k in range(0, mask.shape[1], width)
            ]
            figures.append([torch.cat(part, dim=1) for part in zip(*parts, strict=True)])
            bar.update(len(rows))
    squared, variance, effective = (torch.cat(parts) for parts in zip(*figures, strict=True))
    if bool(variance.isnan().any()):
        warn(
            f"The variance of the draws of {value.name!r} is unknown, so that `debiased` is NaN: "
            "an imputer needs more than one; an `Estimate` of your own can say it."
        )
    by_row = squared.mean(1)
    mse, spread = by_row.mean().item(), by_row.std().item() if len(by_row) > 1 else math.nan
    return Score(
        mse=mse,
        standard_error=spread / len(by_row) ** 0.5,
        debiased=mse - variance.mean().item(),
        draws=value.spec.work.draws,
        effective_draws=effective.mean().item(),
        by_size=_by_size(
            squared.flatten(), variance.flatten(), mask.cpu().sum(-1).flatten(), mask.shape[-1]
        ),
        by_row=by_row - variance.mean(1),
    )


def errors_by_law(
    value: Any,
    x: Any,
    law: CoalitionLaw | None = None,
    least: int = 10_000,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> dict[str, Score]:
    """Score a value function under each law of a mixture, on the same rows.

    A surrogate may be good for scattered players and bad for blocks of them, and groups of players,
    such as superpixels and words, ask for blocks.

        >>> import manifold_shap as ms
        >>> x = torch.randn(4, 1, 6, 6, generator=torch.Generator().manual_seed(0))
        >>> imputer = ms.imputers.MarginalImputer(x, ms.Players.pixels((1, 6, 6)))
        >>> value = ms.imputed_value(lambda x: x.flatten(1).sum(1, True), imputer, "identity")
        >>> {name: score.mse > 0 for name, score in errors_by_law(value, x, least=100).items()}
        {'scattered': True, 'blocks': True}

    Args:
        value, x, batch_size, progress: as of `mean_squared_error`.
        law: by default that of `laws_for`, for the players of `value`.
        least, seed: of the coalitions of each law, as of `shapley_pairs`.

    Returns:
        The score under each law, by its name.

    Raises:
        TypeError, ValueError: as of `mean_squared_error` and `shapley_pairs`.
    """
    value = as_value_function(value, x)
    rows, players = value.rows(x), len(value.players)
    counts = value.counts(rows.to(value.device)).cpu() if value.players.by_row else None
    masks = {
        each.name: shapley_pairs(len(rows), players, least, seed, each, counts)
        for each in (law or laws_for(value.players)).parts
    }
    return {
        name: mean_squared_error(value, rows, mask, batch_size, progress)
        for name, mask in masks.items()
    }


def _errors(
    value: ValueFunction,
    x: Tensor,
    rows: Int64[Tensor, " rows"],
    mask: Bool[Tensor, "rows m players"],
    keys: Int64[Tensor, "rows m"],
    target: Callable[..., tuple[Tensor, Tensor]],
) -> tuple[Float[Tensor, "rows m"], Float[Tensor, "rows m"], Float[Tensor, "rows m"]]:
    """Squared errors, and the Monte-Carlo variance inside them (means over outputs); draws."""
    some = x[rows].to(value.device)
    found = value.estimate(some, mask, keys)
    values, effective = found.values, found.effective_draws
    if effective is None:
        effective = values.new_full(values.shape[:2], value.spec.work.draws)
    check_finite(values, "value(x, mask)", "look for rows on which the model has no answer")
    right, own = (each.to(values.device) for each in target(some, rows, mask, keys))
    error = (values - right).square().mean(-1).cpu().double()
    return error, (found.noise() + own).mean(-1).cpu().double(), effective.cpu()


def _by_size(
    squared: Float[Tensor, " pairs"],
    variance: Float[Tensor, " pairs"],
    size: Int64[Tensor, " pairs"],
    players: int,
    most: int = 28,
) -> SizeCurve:
    # Up to `most` bins of equal width: one size each where there are few players.
    bins = min(players + 1, most)
    bin_of = size * bins // (players + 1)
    pairs = torch.bincount(bin_of, minlength=bins)
    zeros = torch.zeros(bins, dtype=torch.float64)
    mean = zeros.index_add(0, bin_of, squared) / pairs
    spread = zeros.index_add(0, bin_of, (squared - mean[bin_of]).square())
    error = (spread / (pairs - 1).clamp(min=1) / pairs).sqrt()
    mean_size = zeros.index_add(0, bin_of, size.double()) / pairs
    debiased = zeros.index_add(0, bin_of, squared - variance) / pairs
    held = pairs > 0
    curve = (mean_size, mean, error, pairs, debiased)
    return SizeCurve(*(each[held].tolist() for each in curve))
