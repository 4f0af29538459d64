"""How good a value function is: its mean squared error (Frye et al. Eq. 16), and its leakage."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_coalitions, check_seed, check_whole
from manifold_shap._messages import shown
from manifold_shap.coalitions import Coalitions, Listed
from manifold_shap.laws import CoalitionLaw, SizeUniform, laws_for
from manifold_shap.players import check_same_players
from manifold_shap.shown import number
from manifold_shap.values.base import ValueFunction
from manifold_shap.values.batches import Batches
from manifold_shap.values.wrapped import as_value_function

__all__ = [
    "errors_by_law",
    "leakage",
    "mean_squared_error",
    "shapley_pairs",
]


def __dir__() -> list[str]:
    return __all__


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
        variance: of the model's outputs over these rows, the mean of those of its outputs, beside
            which an error is small or large; NaN of an error against a true value function.
    """

    mse: float
    standard_error: float
    debiased: float
    draws: int
    effective_draws: float
    by_size: SizeCurve
    by_row: Float[Tensor, " rows"] = field(repr=False, compare=False)
    variance: float = field(default=math.nan, compare=False)

    @property
    def error(self) -> float:
        """The mean squared error, without the noise of the draws where that is known."""
        return self.debiased if math.isfinite(self.debiased) else self.mse

    def __repr__(self) -> str:
        root, share = max(self.error, 0.0) ** 0.5, ""
        if self.variance > 0:
            explained = f"{100 - 100 * self.error / self.variance:.0f} %".replace("-", "−")
            share = f"explains {explained} of the model's variance, "
        spread = number(self.standard_error / (2 * root)) if root else "?"
        return f"Score({share}root mean squared error {number(root)} ± {spread})"


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
        TypeError, ValueError: `rows`, `players` or `least` is no whole number of at least 1, or
            `seed` is no seed.
    """
    rows, least = check_whole("rows", rows), check_whole("least", least)
    law = law or SizeUniform(players)
    generator = torch.Generator().manual_seed(check_seed(seed))
    if counts is None:
        return law.sample((rows, -(-least // rows)), generator)
    numbers = torch.as_tensor(counts).cpu()
    if numbers.shape != (rows,) or not bool(((numbers > 0) & (numbers <= players)).all()):
        raise ValueError(
            f"Expected `counts` of 1 to {players} players for each of {rows} rows but got "
            f"{numbers.tolist()!s:.100}."
        )
    return law.sample((rows, -(-least // rows)), generator, numbers[:, None])


def mean_squared_error(
    value: Any,
    x: Any,
    mask: Any = None,
    batch_size: int | None = None,
    progress: bool | None = None,
    *,
    truth: ValueFunction | Tensor | None = None,
) -> Score:
    """Score a value function on these rows and coalitions; the same ones serve every method.

    Its error against the model holds the variance of the model's outputs given x_S, which no value
    function can take away. Where the law of the data is known, its error against the true value
    function, E_x E_S mean_y |v_y - v*_y|², does not.

        >>> from manifold_shap import imputed_value, oracles
        >>> from manifold_shap.imputers import GaussianImputer, MarginalImputer
        >>> x = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
        >>> value = imputed_value(lambda x: x.sum(1, keepdim=True), MarginalImputer(x), "identity")
        >>> mean_squared_error(value, x, torch.tensor([[[False, True]], [[True, False]]])).mse
        0.5
        >>> mean_squared_error(value, x)
        Score(explains 25 % of the model's variance, root mean squared error 0.869 ± 0.00132)
        >>> law = oracles.GaussianMixture.random(3, components=1)
        >>> model = lambda x: x.prod(1, keepdim=True)
        >>> truth = oracles.true_value(model, law, "identity")
        >>> value = imputed_value(model, GaussianImputer(law.sample(5000).x), "identity")
        >>> x, mask = law.sample(50, seed=1).x, shapley_pairs(50, 3, least=500)
        >>> score = mean_squared_error(value, x, mask, truth=truth)
        >>> score.debiased < 0.02 < score.mse
        True

    Args:
        value: a value function, or a callable; see `as_value_function`.
        x: held-out rows `[rows, *event]`, or a frame where `value` has a table.
        mask: bool `[rows, m, players]`, coalitions of each row; by default those of
            `shapley_pairs`.
        batch_size: model rows per call; by default what suits the value function. Changes memory,
            not the figure.
        progress: show a bar on work of more than two seconds; by default where a person looks.
        truth: the true value function, such as `oracles.true_value`, of the same rows, players and
            outputs; by default the model's prediction is what values should be. It has draws of its
            own, whose variance `debiased` is without, too. Or the model's predictions of `x`, where
            they are known: it is not asked again.

    Raises:
        TypeError, ValueError: `x` or `mask` of another type or shape, or not finite; a `value`
            that cannot be called, or whose values are not finite; `batch_size` below 1; a `truth`
            of other players or outputs.
    """
    value = as_value_function(value, x)
    rows = value.rows(x)
    if mask is None:
        mask = shapley_pairs(len(rows), len(value.players), counts=_counts(value, rows))
    mask = check_coalitions(mask, len(rows), value.players).cpu()
    batches = Batches(value, batch_size, progress)
    true_rows, of_model = rows, math.nan
    if truth is None:
        truth = batches.of_rows(value.prediction, rows.to(value.device))
    if isinstance(truth, Tensor):
        of_model = truth.double().var(0, correction=0).mean().item()
    else:
        _check_comparable(value, truth)
        true_rows, batches.draws = truth.rows(x), max(value.spec.work.draws, truth.spec.work.draws)

    def errors(some: Tensor, asked: Coalitions) -> Float[Tensor, "rows m 3"]:
        """Squared errors, and the Monte-Carlo variance inside them (means over outputs); draws."""
        found = value.estimate(rows[some], asked.masks(), asked.keys)
        variance = found.noise()
        if isinstance(truth, Tensor):
            right = truth[some][:, None].to(found.values.device)
        else:
            # With the same random numbers the errors of the two would go together.
            keys = _random.fold(asked.keys, _TRUTH)
            true = truth.estimate(true_rows[some], asked.masks(), keys)
            right = true.values.to(found.values.device)
            variance = variance + true.noise().to(variance.device)
        error = (found.values - right).square().mean(-1)
        return torch.stack((error, variance.mean(-1), found.effective_draws), -1).cpu().double()

    numbers = torch.arange(mask.shape[0] * mask.shape[1]).reshape(mask.shape[:2])
    batches.bar.total = numbers.numel()
    with batches.bar:
        found = batches(errors, torch.arange(len(rows)), Listed(mask, numbers))
    squared, variance, effective = found.unbind(-1)
    by_row = squared.mean(1)
    mse, spread = by_row.mean().item(), by_row.std().item() if len(by_row) > 1 else math.nan
    return Score(
        mse=mse,
        standard_error=spread / len(by_row) ** 0.5,
        debiased=mse - variance.mean().item(),
        draws=value.spec.work.draws,
        effective_draws=effective.mean().item(),
        by_size=_by_size(
            squared.flatten(), variance.flatten(), mask.sum(-1).flatten(), mask.shape[-1]
        ),
        by_row=by_row - variance.mean(1),
        variance=of_model,
    )


def _counts(value: ValueFunction, rows: Tensor) -> Tensor | None:
    """How many players each row has, where they differ."""
    return value.counts(rows.to(value.device)).cpu() if value.players.by_row else None


def _check_comparable(value: ValueFunction, truth: ValueFunction) -> None:
    mine, theirs = value.players.names, truth.players.names
    reordered = mine != theirs and set(mine) == set(theirs)
    if reordered or (len(mine), len(value.outputs)) != (len(theirs), len(truth.outputs)):
        raise ValueError(
            f"Expected a value function of the players {shown(theirs)}, in this order, and of "
            f"{len(truth.outputs)} outputs, as the truth is, but got {shown(mine)} and "
            f"{len(value.outputs)} outputs."
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
    counts = _counts(value, rows)
    masks = {
        each.name: shapley_pairs(len(rows), players, least, seed, each, counts)
        for each in (law or laws_for(value.players)).parts
    }
    return {
        name: mean_squared_error(value, rows, mask, batch_size, progress)
        for name, mask in masks.items()
    }


def leakage(value: Any, x: Any, mask: Any = None, seed: int = 0) -> float:
    """Mean squared change of v(S) where absent players get the values of another row; 0 if sound.

    A value function that reads what absent players hold may be as close to the model as one likes,
    and `mean_squared_error` praises it for that: v(S) = f(x) has an error of 0. This needs no truth
    to tell.

        >>> import manifold_shap as ms
        >>> x = torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 5.0]])
        >>> imputer = ms.imputers.MarginalImputer(x)
        >>> sound = ms.imputed_value(lambda x: x.sum(1, True), imputer, "identity")
        >>> ms.metrics.leakage(sound, x)
        0.0
        >>> sees_all = lambda x, mask: x.sum(1)[:, None, None].expand(-1, mask.shape[1], 1)
        >>> ms.metrics.leakage(sees_all, x) > 0
        True

    Args:
        value: a value function, or a callable; see `as_value_function`.
        x: two rows or more, or a frame of them where `value` has a table.
        mask: bool `[rows, m, players]`, coalitions of each row; by default those of
            `shapley_pairs`.
        seed: of the rows that absent values are taken from.

    Raises:
        TypeError, ValueError: as of `mean_squared_error`; fewer than two rows, or players that
            differ from row to row.
    """
    value = as_value_function(value, x)
    check_same_players(value.players, "leakage")
    rows = value.rows(x)
    mask = shapley_pairs(len(rows), len(value.players)) if mask is None else mask
    mask = check_coalitions(mask, len(rows), value.players).cpu()
    if len(rows) < 2:
        raise ValueError(f"Expected at least 2 rows, to take values from, but got {len(rows)}.")
    pairs = torch.arange(mask.shape[0] * mask.shape[1])
    keys = _random.fold(torch.full_like(pairs, check_seed(seed)), pairs)
    row = pairs // mask.shape[1]
    other = (row + 1 + (_random.uniform(keys, ()) * (len(rows) - 1)).long()) % len(rows)

    def changes(some: Tensor, asked: Coalitions) -> Float[Tensor, "pairs 1 1"]:
        own, masks = rows[row[some]], asked.masks()
        changed = torch.where(value.players.expand(masks[:, 0]), own, rows[other[some]])
        before, after = (value(each, masks, asked.keys) for each in (own, changed))
        return (before - after).square().mean(-1, keepdim=True).cpu()

    asked = Listed(mask.flatten(0, 1)[:, None], keys[:, None])
    return Batches(value, progress=False)(changes, pairs, asked).double().mean().item()


def _by_size(
    squared: Float[Tensor, " pairs"],
    variance: Float[Tensor, " pairs"],
    size: Int64[Tensor, " pairs"],
    players: int,
) -> SizeCurve:
    # Bins of equal width: one size each where there are few players.
    bins = min(players + 1, 28)
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
