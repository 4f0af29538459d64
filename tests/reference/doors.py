"""The few names of the package that are likely to move, and what all parts share.

What else the parts use are public names, `ms.*`. Weights are stored as tensors in the order of a
network's parameters and floating buffers, without their names.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

import manifold_shap as ms
from manifold_shap.estimators.audit import Audit
from manifold_shap.vae.likelihood import Likelihood
from tests.reference.compare import Inputs, Result, Results, plain

# One-hot columns are collinear; with more than a trace of it, results do not hang on rounding.
RIDGE = 0.05

# The attributes of learned things that hold their networks.
NETWORKS: Mapping[type, Sequence[str]] = {
    ms.SurrogateValue: ("surrogate",),
    ms.GuidedValue: ("surrogate",),
    ms.VAEImputer: ("network",),
    ms.AmortizedExplainer: ("network",),
}


def weights_of(thing: Any) -> list[Tensor]:
    """Parameters and floating buffers of the networks of something learned, in their order.

    Units of a likelihood are not among them: they are those of the rows.
    """
    networks = [getattr(thing, name) for name in NETWORKS[type(thing)]]
    parts = [part for net in networks for part in net.modules() if isinstance(part, Likelihood)]
    units = {id(each) for part in parts for each in part.buffers()}
    tensors = [each for net in networks for each in (*net.parameters(), *net.buffers())]
    return [each for each in tensors if each.is_floating_point() and id(each) not in units]


def with_weights(thing: Any, stored: Sequence[Tensor]) -> Any:
    """The same with stored weights; a VAE has its codes from them."""
    for name in NETWORKS[type(thing)]:
        getattr(thing, name).float()
    own = weights_of(thing)
    if isinstance(thing, ms.VAEImputer):
        # Behind them are those of a masked encoder, and units.
        stored = stored[: len(own)]
    shapes = [tuple(each.shape) for each in own], [tuple(each.shape) for each in stored]
    assert shapes[0] == shapes[1], (
        "the network has other tensors than the stored ones, or in another order; put the stored "
        f"ones in their new places in doors.py: {shapes}"
    )
    with torch.no_grad():
        for mine, theirs in zip(own, stored, strict=True):
            mine.copy_(theirs)
    if isinstance(thing, ms.VAEImputer):
        return ms.VAEImputer(thing.network, thing.reference, thing.players, **thing.settings)
    return thing


def of_frame(kind: type[ms.imputers.Imputer], frame: Any, **settings: Any) -> ms.imputers.Imputer:
    """An imputer of the cells of a frame."""
    return ms.imputers.table_imputer(kind, ms.Table.fit(frame), frame, **settings)


def drawn_by(imputer: ms.VAEImputer, **settings: Any) -> ms.VAEImputer:
    """The same VAE, whose codes are drawn in another way."""
    return ms.VAEImputer(imputer.network, imputer.reference, imputer.players, **settings)


def estimated(name: str, value: ms.ValueFunction, x: Tensor, mask: Tensor) -> Results:
    """Values, the variance that draws leave in them, and the draws they are worth."""
    found = value.estimate(x, mask)
    yield f"{name}, values", found.values
    if value.spec.work.sampled:
        effective = found.effective_draws
        yield f"{name}, variance", found.noise()
        every = torch.full(mask.shape[:2], float(value.spec.work.draws))
        yield f"{name}, effective draws", every if effective is None else effective


def explained(name: str, explanation: ms.Explanation) -> Results:
    """Shapley values and all that goes with them: errors, ends, and what estimated them."""
    yield f"{name}, phi", explanation.phi
    yield f"{name}, standard error", explanation.standard_error
    yield f"{name}, ends", torch.stack((explanation.base, explanation.prediction))
    if explanation.covariance is not None:
        # Of many players their sum, which holds every entry.
        whole = explanation.covariance
        yield f"{name}, covariance", whole if whole.numel() < 1000 else whole.nansum(1)
    if explanation.degrees_of_freedom is not None:
        yield f"{name}, degrees of freedom", explanation.degrees_of_freedom
    if explanation.model_error is not None:
        yield f"{name}, model error", explanation.model_error
    yield f"{name}, made by", str(explanation.made_by["estimator"])


def interacting(name: str, found: ms.Interactions) -> Results:
    """Interactions, their errors, and the Shapley values beside them."""
    yield f"{name}, interactions", found.values
    yield f"{name}, error of interactions", found.standard_error
    yield from explained(name, found.shapley)


def overall(name: str, values: ms.GlobalValues) -> Results:
    """Global values, their errors and the figures beside them."""
    yield f"{name}, phi", values.phi
    yield f"{name}, standard error", values.standard_error
    yield f"{name}, accuracy and offset", torch.tensor([values.accuracy, values.offset])


def scored(name: str, score: Any) -> Results:
    """The error of a value function, its curve over sizes and over rows."""
    curve = score.by_size
    yield (
        f"{name}, score",
        torch.tensor([score.mse, score.standard_error, score.debiased, score.effective_draws]),
    )
    yield f"{name}, by size", torch.tensor([curve.mse, curve.standard_error, curve.debiased]).T
    yield f"{name}, sizes", torch.tensor(curve.size)
    yield f"{name}, pairs", torch.tensor([score.draws, *curve.pairs])
    yield f"{name}, by row", score.by_row


def audited(name: str, found: Any) -> Results:
    """The measured error of Shapley values, with intervals."""
    yield f"{name}, relative error", torch.stack(tuple(found.relative_error()))
    yield f"{name}, bias", torch.stack(tuple(found.bias()), -1).flatten(0, 1)
    yield (
        f"{name}, squared error",
        torch.stack(tuple(found.mean_squared_error()), -1).flatten(0, 1),
    )
    yield f"{name}, rows", torch.tensor(found.rows)


# What stands for several results.
SEVERAL: Mapping[type, Callable[[str, Any], Results]] = {
    ms.Explanation: explained,
    ms.Interactions: interacting,
    ms.GlobalValues: overall,
    ms.metrics.Score: scored,
    Audit: audited,
}


def results_of(part: Callable[[Inputs], Iterator[tuple[str, Any]]], inputs: Inputs) -> Any:
    """All results of a part by name, each name once."""
    found: dict[str, Result] = {}
    for name, thing in part(inputs):
        several = SEVERAL.get(type(thing))
        for each, result in several(name, thing) if several else [(name, thing)]:
            assert each not in found, each
            found[each] = plain(result)
    return found


def same(one: Tensor, other: Tensor) -> Tensor:
    """Whether two results are the same, bit for bit, NaNs too."""
    equal = one.shape == other.shape and one.dtype == other.dtype
    return torch.tensor(equal and torch.equal(one.nan_to_num(7e7), other.nan_to_num(7e7)))


def alike(one: ms.Explanation, other: ms.Explanation) -> Tensor:
    """Whether each part of two explanations is the same, bit for bit."""
    names = ("phi", "standard_error", "base", "prediction", "x", "covariance")
    names = (*names, "degrees_of_freedom", "model_error")
    parts = [(getattr(one, name), getattr(other, name)) for name in names]
    numbers = [
        same(a, b)
        if isinstance(a, Tensor) and isinstance(b, Tensor)
        else torch.tensor(a is b or (isinstance(a, pd.DataFrame) and a.equals(b)))
        for a, b in parts
    ]
    words = [
        one.players.names == other.players.names,
        one.outputs == other.outputs,
        one.space == other.space,
        one.instances == other.instances,
    ]
    return torch.stack([*numbers, torch.tensor(words).all()])


def players_of(part: Mapping[str, Any]) -> ms.Players:
    """Players as stored, an index and names."""
    return ms.Players(tuple(part["names"]), part["index"])


def network(weights: Mapping[str, Tensor]) -> nn.Module:
    """The classifier of the stored weights, which gives logits."""
    hidden, width = weights["1.weight"].shape
    module = nn.Sequential(
        nn.Flatten(),
        nn.Linear(width, hidden),
        nn.ReLU(),
        nn.Linear(hidden, len(weights["3.weight"])),
    )
    module.load_state_dict(weights)
    return module


def regression(weights: Mapping[str, Tensor], x: Tensor) -> ms.Model:
    """Two numbers in different units, from the stored weights."""
    module, scale = network(weights), torch.tensor([100.0, 0.1])
    return ms.as_model(lambda x: module(x).detach()[:, :2] * scale + 5, x, returns="values")


# Every estimator with settings for a game of some players, by the evaluations it may have.
def estimators(players: int) -> dict[str, Any]:
    """Each family once, for a game of so many players."""
    few = 10 * players
    return {
        "permutation": partial(ms.permutation_shapley, permutations=6, seed=1),
        "kernel": partial(ms.kernel_shapley, evaluations=few, seed=1),
        "odd": partial(ms.odd_shapley, evaluations=few, seed=1),
        "adaptive": partial(ms.adaptive_shapley, samples=8 * players, least=4, seed=1),
        "auto": partial(ms.auto_shapley, evaluations=few, seed=1),
    }


def long_frame(found: ms.Explanation) -> pd.DataFrame:
    """A line per instance, player and output."""
    known = ["phi", "standard_error", *(["model_error"] if found.model_error is not None else [])]
    order = ["instances", "players", "outputs"]
    return found.to_xarray()[known].to_dataframe(dim_order=order).reset_index()
