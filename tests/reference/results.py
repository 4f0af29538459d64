"""What a result consists of: of an explanation, its values, errors, ends and how it was made."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

import manifold_shap as ms
from manifold_shap.estimators.audit import Audit
from tests.reference.compare import Results


def explained(found: ms.Explanation) -> dict[str, Any]:
    whole = found.covariance
    return {
        "phi": found.phi,
        "standard error": found.standard_error,
        "ends": torch.stack((found.base, found.prediction)),
        # Of many players their sum, which holds every entry.
        "covariance": whole if whole is None or whole.numel() < 1000 else whole.nansum(1),
        "degrees of freedom": found.degrees_of_freedom,
        "model error": found.model_error,
        "made by": str(found.made_by["estimator"]),
    }


def scored(score: ms.metrics.Score) -> dict[str, Any]:
    curve = score.by_size
    return {
        "score": [score.mse, score.standard_error, score.debiased, score.effective_draws],
        "by size": torch.tensor([curve.mse, curve.standard_error, curve.debiased]).T,
        "sizes": curve.size,
        "pairs": [score.draws, *curve.pairs],
        "by row": score.by_row,
    }


# The parts of what is more than a tensor.
PARTS: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    ms.Explanation: explained,
    ms.metrics.Score: scored,
    ms.Interactions: lambda found: {
        "interactions": found.values,
        "error of interactions": found.standard_error,
        **explained(found.shapley),
    },
    ms.GlobalValues: lambda found: {
        "phi": found.phi,
        "standard error": found.standard_error,
        "accuracy and offset": [found.accuracy, found.offset],
    },
    Audit: lambda found: {
        "relative error": torch.stack(tuple(found.relative_error())),
        "bias": torch.stack(tuple(found.bias()), -1).flatten(0, 1),
        "squared error": torch.stack(tuple(found.mean_squared_error()), -1).flatten(0, 1),
        "rows": found.rows,
    },
}


def estimated(value: ms.ValueFunction, x: Tensor, mask: Tensor) -> dict[str, Any]:
    """Values, the variance that draws leave in them, and the draws they are worth."""
    found, work = value.estimate(x, mask), value.spec.work
    if not work.sampled:
        return {"values": found.values}
    effective = found.effective_draws
    return {
        "values": found.values,
        "variance": found.noise(),
        "effective draws": torch.full(mask.shape[:2], float(work.draws))
        if effective is None
        else effective,
    }


def flat(name: str, thing: Any) -> Results:
    """All tensors of a result, by name: floats in single precision, text as its bytes."""
    thing = PARTS.get(type(thing), lambda thing: thing)(thing)
    if thing is None:
        return {}
    if isinstance(thing, dict):
        parts = [flat(f"{name}, {part}".lstrip(", "), each) for part, each in thing.items()]
        return {name: each for part in parts for name, each in part.items()}
    if isinstance(thing, str):
        return {name: torch.tensor(list(thing.encode()), dtype=torch.uint8)}
    tensor = torch.as_tensor(thing).detach()
    return {name: (tensor.float() if tensor.is_floating_point() else tensor).clone().contiguous()}


def results_of(part: Callable[[], dict[str, Any]]) -> Results:
    """All results of a part by name."""
    return flat("", part())
