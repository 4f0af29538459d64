"""Fits the candidates among which the value function of a table is chosen, and compares them."""

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor

from manifold_shap._messages import UnfitError
from manifold_shap._progress import progress_bar
from manifold_shap.guided.fit import fit_guided
from manifold_shap.imputers import (
    CopulaImputer,
    EmpiricalImputer,
    GaussianImputer,
    Imputer,
    MarginalImputer,
    MixtureImputer,
    table_imputer,
)
from manifold_shap.metrics import mean_squared_error, shapley_pairs
from manifold_shap.models import Model
from manifold_shap.quality import OFF_MANIFOLD, Quality, report
from manifold_shap.spaces import OutputSpace
from manifold_shap.surrogate.fit import fit_surrogate
from manifold_shap.tables.codebook import Codebook
from manifold_shap.vae.fit import fit_imputer
from manifold_shap.values import ImputedValue, ValueFunction, imputed_value

# Those that fit in seconds, and those that are trained for minutes.
FAST = ("gaussian", "copula", "empirical", "mixture")
SLOW = ("vae", "surrogate", "guided_surrogate")
CANDIDATES = (*FAST, *SLOW)

# Draws of an imputer: few, for more coalitions in the same time. To compare, twice as many.
_DRAWS, _COMPARED_DRAWS = 8, 16
# Pairs of a row and a coalition on which candidates are compared.
_PAIRS = 2048
# Rows up to which candidates are fitted to four fifths and compared on the rest, five times.
_FEW_ROWS, _FOLDS = 2000, 5
# Of more rows, the share that is held out, in two parts, and the most rows of both.
_SHARE, _MOST_HELD_OUT = 0.3, 2048

# Draws of the values that teach a guided surrogate, each a row of the model, and how many values.
_TEACHER_DRAWS, _TEACHER_PAIRS = 8, 60_000


@dataclass(frozen=True)
class Game:
    """What all candidates are fitted to.

    Attributes:
        model: from codes to predictions.
        codebook: of the frame.
        space: the output space.
        x: codes of all rows.
        seed: of the parts, trainings, draws and coalitions.
        progress: see `progress_bar`.
    """

    model: Model
    codebook: Codebook
    space: OutputSpace
    x: Tensor
    seed: int = 0
    progress: bool | None = None


# Of bare mappings, checks at run time look at no item, which would fit it.
class Fits(Mapping):
    """Candidates that are fitted to the same rows, each when it is first asked for.

    Args:
        game: what they are fitted to.
        names: of the candidates.
        x: the rows, which are the background data, too.
        draws: of an imputer.
    """

    def __init__(self, game: Game, names: Collection[str], x: Tensor, draws: int = _DRAWS) -> None:
        self.game, self.names, self.x, self.draws = game, tuple(names), x, draws
        self._fitted = dict[str, ValueFunction]()

    def __getitem__(self, name: str) -> ValueFunction:
        """The candidate of this name, which others may be made of.

        Raises:
            UnfitError: it cannot be fitted to these rows.
        """
        if name not in self._fitted:
            self._fitted[name] = FITS[name](self)
        return self._fitted[name]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def imputed(self, imputer: Imputer, draws: int | None = None) -> ImputedValue:
        """The value function of an imputer."""
        game = self.game
        return imputed_value(game.model, imputer, game.space, draws or self.draws, game.seed)


def choose(
    game: Game, names: Collection[str], fit_seconds: float | None = None
) -> tuple[Fits, Quality]:
    """Compare candidates on rows that they were not fitted to, and choose one.

    Of up to 2,000 rows each is compared on all: by five fits, each to the rows but a fifth.
    What cannot be fitted to these rows (`UnfitError`) is left out. Steps of trainings follow from
    the size of the table alone, so that another machine makes the same choice.

    Args:
        game: what they are fitted to.
        names: of the candidates.
        fit_seconds: a stop for safety: candidates that were not begun by then are left out.

    Returns:
        Fits to all rows, and the comparison.

    Raises:
        ValueError: none can be fitted, or the model's outputs are not finite.
    """
    wanted = [OFF_MANIFOLD, *(name for name in CANDIDATES if name in names)]
    folds = _folds(len(game.x), game.seed)
    fits = [Fits(game, wanted, game.x[train], _COMPARED_DRAWS) for train, _ in folds]
    errors: list[dict[str, Tensor]] = [{} for _, parts in folds for _ in parts]
    seconds, skipped, begun = dict[str, float](), dict[str, str](), time.perf_counter()
    with progress_bar(game.progress, name="value functions", over=wanted, lines=True) as bar:
        for name in bar:
            bar.set_postfix_str(name.replace("_", " "), refresh=False)
            start = time.perf_counter()
            if fit_seconds is not None and start - begun > fit_seconds and len(errors[0]) > 1:
                skipped[name] = f"fit_seconds={fit_seconds:g} had passed"
                continue
            try:
                values = [own[name] for own in fits]
            except (UnfitError, torch.linalg.LinAlgError) as error:
                skipped[name] = str(error).splitlines()[0]
                continue
            seconds[name] = time.perf_counter() - start
            held_out = zip(values, (parts for _, parts in folds), strict=True)
            pairs = [(value, part) for value, parts in held_out for part in parts]
            for found, pair in zip(errors, pairs, strict=True):
                found[name] = _errors(game, *pair, len(errors))
    if len(errors[0]) == 1:
        raise ValueError(
            f"Expected at least one of `candidates` to be fitted but of {wanted[1:]} none was: "
            f"{skipped}; name others, such as 'empirical'."
        )
    few = "a fit" if len(folds) == 1 else f"{len(folds)} fits"
    quality = report(
        errors,
        SLOW,
        fits=f"{few} to {len(folds[0][0])} of {len(game.x)} rows",
        seconds=seconds,
        skipped=skipped,
    )
    return Fits(game, list(errors[0]), game.x), quality


def _folds(rows: int, seed: int) -> list[tuple[Tensor, list[Tensor]]]:
    """Numbers of rows to fit to, and the parts of the others."""
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    if rows <= _FEW_ROWS:
        parts = order.chunk(_FOLDS)
        return [(torch.cat([*parts[:k], *parts[k + 1 :]]), [parts[k]]) for k in range(len(parts))]
    held_out = min(_MOST_HELD_OUT, round(_SHARE * rows))
    return [(order[held_out:], list(order[:held_out].chunk(2)))]


def _errors(game: Game, value: ValueFunction, part: Tensor, parts: int) -> Tensor:
    """The error of a value function on each of these rows; the same coalitions for every one.

    Raises:
        ValueError: squares of the model's outputs are too large for a number.
    """
    pairs = shapley_pairs(len(part), len(game.codebook.players), _PAIRS // parts, game.seed)
    score = mean_squared_error(value, game.x[part], pairs, progress=False)
    if not math.isfinite(score.mse):
        largest = value.prediction(game.x[part]).abs().max().item()
        raise ValueError(
            "Expected predictions whose squares are finite, to compare value functions by their "
            f"squared errors, but got some as large as {largest:.3g}; have the model return them "
            "in a larger unit."
        )
    return score.by_row


def _of_table(kind: type[Imputer], fits: Fits) -> ValueFunction:
    return fits.imputed(table_imputer(kind, fits.game.codebook, fits.x))


def _vae(fits: Fits) -> ValueFunction:
    game = fits.game
    imputer = fit_imputer(fits.x, schema=game.codebook, seed=game.seed, progress=game.progress)
    return fits.imputed(imputer)


def _surrogate(fits: Fits) -> ValueFunction:
    game = fits.game
    return fit_surrogate(
        game.model,
        fits.x,
        schema=game.codebook,
        output=game.space,
        seed=game.seed,
        progress=game.progress,
    )


def _guided_surrogate(fits: Fits) -> ValueFunction:
    guide, mixture = (cast(ImputedValue, fits[name]).imputer for name in ("vae", "mixture"))
    return fit_guided(
        fits.imputed(mixture, _TEACHER_DRAWS),
        guide,
        teacher_pairs=_TEACHER_PAIRS,
        seed=fits.game.seed,
        progress=fits.game.progress,
        trainer={"precision": "bf16-mixed"},
    )


# How each is fitted.
FITS: Mapping[str, Callable[[Fits], ValueFunction]] = {
    OFF_MANIFOLD: partial(_of_table, MarginalImputer),
    "gaussian": partial(_of_table, GaussianImputer),
    "copula": partial(_of_table, CopulaImputer),
    "empirical": partial(_of_table, EmpiricalImputer),
    "mixture": partial(_of_table, MixtureImputer),
    "vae": _vae,
    "surrogate": _surrogate,
    "guided_surrogate": _guided_surrogate,
}
