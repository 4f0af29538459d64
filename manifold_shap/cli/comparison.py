"""Scoring the value functions that are drawn side by side."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from manifold_shap.data.base import TensorDataModule
from manifold_shap.metrics import Score, mean_squared_error, shapley_pairs
from manifold_shap.values import ImputedValue, ValueFunction

# On so many test rows, at least so many pairs, and with as many draws each: enough to tell them
# apart, in seconds.
_ROWS = 500
_PAIRS = 1000
_DRAWS = 64


def check_one_space(values: Mapping[str, ValueFunction]) -> None:
    """Raise ValueError if value functions cannot be drawn side by side."""
    spaces = {name: value.space.name for name, value in values.items()}
    if len(set(spaces.values())) > 1:
        raise ValueError(
            f"Expected value functions in one output space to draw side by side but got {spaces}; "
            "train them with the same `output`, or leave one out of `compare`."
        )


def scores(values: Mapping[str, ValueFunction], data: TensorDataModule) -> dict[str, Score]:
    """Errors on the same test pairs; without interventions, of which no model is the judge."""
    shuffled = torch.randperm(len(data.x_test), generator=torch.Generator().manual_seed(0))
    x = data.x_test[shuffled[:_ROWS]]
    mask = shapley_pairs(len(x), len(data.players), _PAIRS)
    return {name: mean_squared_error(value, x, mask) for name, value in values.items()}


def scored(value: ValueFunction) -> ValueFunction:
    """The value function with as many draws as others, where their noise is part of an error."""
    if not isinstance(value, ImputedValue) or value.imputer.left_out(value.draws) == 0:
        return value
    own = (value.imputer, value.model, value.space, value.expectation)
    return ImputedValue(*own, _DRAWS, value.seed, value.name)


def figures(scores: Mapping[str, Score], seconds: Mapping[str, float]) -> dict[str, Any]:
    """What `summary.json` says of the scores, and of the time that each explanation took."""
    return {
        name: {
            "mse": score.mse,
            "mse_standard_error": _known(score.standard_error),
            "mse_debiased": _known(score.debiased),
            "draws": score.draws,
            "effective_draws": score.effective_draws,
            "seconds": seconds[name],
        }
        for name, score in scores.items()
    }


def _known(figure: float) -> float | None:
    return figure if math.isfinite(figure) else None
