"""Fits the candidates among which the value function of a table is chosen."""

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
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
    table_imputer,
)
from manifold_shap.metrics import Score, mean_squared_error, shapley_pairs
from manifold_shap.models import Model
from manifold_shap.quality import OFF_MANIFOLD, best
from manifold_shap.spaces import OutputSpace
from manifold_shap.surrogate.fit import fit_surrogate
from manifold_shap.tables.codebook import Codebook
from manifold_shap.vae.fit import fit_imputer
from manifold_shap.values import ImputedValue, ValueFunction, imputed_value

IMPUTERS = ("gaussian", "copula", "empirical", "vae")
CANDIDATES = (*IMPUTERS, "surrogate", "guided_surrogate")

# Pairs of a row and a coalition on which candidates are compared.
_PAIRS = 2048
_DRAWS = 32

# Draws of the values that teach a guided surrogate, each a row of the model, and how many values.
_TEACHER_DRAWS, _TEACHER_PAIRS = 8, 60_000


@dataclass(frozen=True)
class Game:
    """What all candidates are fitted to.

    Attributes:
        model: from codes to predictions.
        codebook: of the frame.
        space: the output space.
        x_train: codes of the rows to learn from, which are the background data, too.
        x_choice: codes of the rows to choose on.
        x_report: codes of the rows to report on.
        seed: of trainings, draws and coalitions.
        progress: see `progress_bar`.
    """

    model: Model
    codebook: Codebook
    space: OutputSpace
    x_train: Tensor
    x_choice: Tensor
    x_report: Tensor
    seed: int = 0
    progress: bool | None = None

    def imputed(self, imputer: Imputer, name: str) -> ValueFunction:
        return imputed_value(self.model, imputer, self.space, _DRAWS, self.seed, name)

    def score(self, value: ValueFunction, x: Tensor) -> Score:
        """The error of a value function on rows; the same coalitions for every one.

        Raises:
            ValueError: squares of the model's outputs are too large for a number.
        """
        mask = shapley_pairs(len(x), len(self.codebook.players), _PAIRS, self.seed)
        score = mean_squared_error(value, x, mask)
        if not math.isfinite(score.mse):
            largest = value.prediction(x).abs().max().item()
            raise ValueError(
                "Expected predictions whose squares are finite, to compare value functions by "
                f"their squared errors, but got some as large as {largest:.3g}; have the model "
                "return them in a larger unit."
            )
        return score


@dataclass
class Fitted:
    """Candidates that were fitted, and how they did on the rows to choose on."""

    values: dict[str, ValueFunction] = field(default_factory=dict)
    scores: dict[str, Score] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def best_imputer(self) -> ImputedValue | None:
        """The one with the least error so far."""
        known = {name: score for name, score in self.scores.items() if name in IMPUTERS}
        return cast(ImputedValue, self.values[best(known)]) if known else None


def fit_candidates(game: Game, names: Collection[str], fit_seconds: float | None = None) -> Fitted:
    """Fit candidates one after another, and score each on the rows to choose on.

    Steps of trainings follow from the size of the table alone, so that another machine makes the
    same choice. What cannot be fitted to these rows (`UnfitError`) is left out, and so is
    `guided_surrogate` without `vae`, which guides it.

    Args:
        game: what they are fitted to.
        names: of the candidates.
        fit_seconds: a stop for safety: candidates that were not begun by then are left out.

    Raises:
        ValueError: none can be fitted, or the model's outputs are not finite.
    """
    fitted, begun = Fitted(), time.perf_counter()
    wanted = [OFF_MANIFOLD, *(name for name in CANDIDATES if name in names)]
    with progress_bar(game.progress, name="value functions", over=wanted) as bar:
        for name in bar:
            bar.set_postfix_str(name.replace("_", " "))
            start = time.perf_counter()
            late = fit_seconds is not None and start - begun > fit_seconds
            if late and len(fitted.values) > 1:
                fitted.skipped[name] = f"fit_seconds={fit_seconds:g} had passed"
                continue
            try:
                value = FITS[name](game, fitted)
            except (UnfitError, torch.linalg.LinAlgError) as error:
                fitted.skipped[name] = str(error).splitlines()[0]
                continue
            fitted.values[name] = value
            fitted.scores[name] = game.score(value, game.x_choice)
            fitted.seconds[name] = time.perf_counter() - start
    if len(fitted.values) == 1:
        raise ValueError(
            f"Expected at least one of `candidates` to be fitted but of {wanted[1:]} none was: "
            f"{fitted.skipped}; name others, such as 'empirical'."
        )
    return fitted


def _classical(kind: type[Imputer], game: Game, _: Fitted) -> ValueFunction:
    return game.imputed(table_imputer(kind, game.codebook, game.x_train), kind.name)


def _vae(game: Game, _: Fitted) -> ValueFunction:
    imputer = fit_imputer(
        game.x_train, schema=game.codebook, seed=game.seed, progress=game.progress
    )
    return game.imputed(imputer, "vae")


def _surrogate(game: Game, _: Fitted) -> ValueFunction:
    return fit_surrogate(
        game.model,
        game.x_train,
        schema=game.codebook,
        output=game.space,
        seed=game.seed,
        progress=game.progress,
    )


def _guided_surrogate(game: Game, fitted: Fitted) -> ValueFunction:
    guide, known = fitted.values.get("vae"), fitted.best_imputer
    if guide is None or known is None:
        raise UnfitError("no VAE was fitted that could guide it; name 'vae', too")
    return fit_guided(
        imputed_value(game.model, known.imputer, game.space, _TEACHER_DRAWS, game.seed),
        cast(ImputedValue, guide).imputer,
        teacher_pairs=_TEACHER_PAIRS,
        seed=game.seed,
        progress=game.progress,
        trainer={"precision": "bf16-mixed"},
    )


# How each is fitted, in this order: later ones see those before.
FITS: Mapping[str, Callable[[Game, Fitted], ValueFunction]] = {
    OFF_MANIFOLD: partial(_classical, MarginalImputer),
    "gaussian": partial(_classical, GaussianImputer),
    "copula": partial(_classical, CopulaImputer),
    "empirical": partial(_classical, EmpiricalImputer),
    "vae": _vae,
    "surrogate": _surrogate,
    "guided_surrogate": _guided_surrogate,
}
