"""How far Shapley values are off because their value function was learned.

No data tell the error of a conditional mean at one x_S. But value functions that were learned on
parts of the rows, independently, differ by what their parts happened to hold, and Shapley values
are linear in the game: those of each tell how far such learning scatters, by row, player and
output. What all of them miss alike stays unseen; how much that is, next to their scatter, was
measured on data whose law is known (see `SCALE`).
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_number

if TYPE_CHECKING:
    from manifold_shap.explanation import Explanation

# The error of a mean over its scatter, where the scatter is half that of the player itself and half
# the mean of the row's players: Student's t with these degrees of freedom, times a scale with which
# 95 % of the errors are held on five known laws, of three models each. Both are of means of two
# explanations, by value functions of different kinds.
SCALE, FREEDOM = 1.25, 4.0


def total_error(explanation: "Explanation") -> Float[Tensor, "instances players outputs"]:
    """Of sampling and of learning together: the root of the sum of their squares.

    That of sampling alone where nothing tells the error of learning.
    """
    if explanation.model_error is None:
        return explanation.standard_error
    return torch.hypot(explanation.standard_error, explanation.model_error)


def averaged(explanations: Sequence["Explanation"]) -> "Explanation":
    """The mean of explanations by value functions that were learned independently.

    Their Shapley values scatter by what each was learned from; `model_error` is what that scatter
    says of the error of their mean, and `interval` holds it. Two value functions, each learned on
    one half of the rows, are enough, and best of different kinds, such as a surrogate and a VAE:
    two of one kind miss the same, which does not show. The scale of `model_error` and the degrees
    of freedom of its intervals were measured with two of different kinds.

        >>> import manifold_shap as ms
        >>> x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
        >>> x[:, 1] += x[:, 0]
        >>> def model(x):
        ...     return (x[:, :1] * x[:, 1:])
        >>> halves = [ms.imputed_value(model, ms.GaussianImputer(half), "identity", draws=64)
        ...           for half in (x[::2], x[1::2])]
        >>> each = [ms.auto_shapley(half, x[:3], seed=k) for k, half in enumerate(halves)]
        >>> whole = averaged(each)
        >>> low, high = whole.interval(0.95)
        >>> whole.model_error.shape, bool((low < high).all())
        (torch.Size([3, 2, 1]), True)

    Args:
        explanations: two or more, of the same rows, players and outputs. Their errors of sampling
            have to be independent: another `seed` for each.

    Raises:
        ValueError: fewer than two, or explanations of other rows, players or outputs, in another
            output space, or sampled by the same seed.
    """
    explanations = _checked(explanations)
    first, count = explanations[0], len(explanations)
    phi = torch.stack([each.phi for each in explanations]).double()
    variance = torch.stack([each.standard_error for each in explanations]).double().square()
    mean, sampling = phi.mean(0), variance.sum(0) / count**2
    # The scatter holds the errors of sampling, too.
    scatter = (phi.var(0) / count - sampling.nan_to_num(0)).clamp(min=0)
    pooled = (scatter + scatter.nanmean(1, keepdim=True)) / 2
    found = {"phi": mean, "standard_error": sampling.sqrt(), "model_error": SCALE * pooled.sqrt()}
    found["base"] = torch.stack([each.base for each in explanations]).double().mean(0)
    found["prediction"] = torch.stack([each.prediction for each in explanations]).double().mean(0)
    tensors: Any = {name: tensor.to(first.phi.dtype) for name, tensor in found.items()}
    return replace(
        first,
        **tensors,
        covariance=None,
        degrees_of_freedom=_least_freedom(explanations),
        made_by={**common([each.made_by for each in explanations]), "averaged": count},
    )


def common(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How one result of several was made: what they say alike, and their evaluations together.

    What was measured of one of them, such as an audit, is not true of the result.

    >>> one = {"estimator": "exact", "evaluations": 6, "seed": 1, "value_function": "vae"}
    >>> common([one, {**one, "seed": 2, "value_function": "copula"}])
    {'estimator': 'exact', 'evaluations': 12, 'value_function': 'vae and copula'}
    """
    found: dict[str, Any] = {}
    for name, first in records[0].items():
        every = [record.get(name) for record in records]
        if name == "evaluations":
            found[name] = sum(every)
        elif name in ("estimator", "value_function"):
            found[name] = " and ".join(dict.fromkeys(map(str, every)))
        elif name != "audit" and every == [first] * len(every):
            found[name] = first
    return found


def half_width(
    explanation: "Explanation", level: float
) -> Float[Tensor, "instances players outputs"]:
    """Half of the width of the intervals that hold Shapley values with this probability.

    Quantiles are those of Student's t: with four pairs of permutations, 1.96 standard errors
    either way would cover 86 %, not 95 %.

    Raises:
        ValueError: `level` is not between 0 and 1, or no error is known.
    """
    from scipy import stats

    level = check_number("level", level, above=0, below=1)
    error, learned = explanation.standard_error, explanation.model_error
    if len(error) and bool(error[explanation.present].isnan().all()):
        raise ValueError(
            "Expected an explanation with standard errors but those of this one are all unknown "
            "(NaN), as of a single pair of orders, or of one draw for each coalition; give more "
            "`evaluations`."
        )
    if learned is not None and len(learned) and bool(learned[explanation.present].isnan().all()):
        raise ValueError(
            "Expected an explanation whose error of learning is known but that of this one is not "
            "(NaN), since its mean was put into another basis; put each explanation into that "
            "basis, and average these."
        )
    freedom = explanation.degrees_of_freedom
    freedom = torch.full((len(error),), torch.inf) if freedom is None else freedom
    # Where errors are zero or unknown, no sample stands behind them.
    quantile = stats.t.ppf(0.5 + level / 2, freedom.clamp(min=1).double().numpy())
    half = torch.as_tensor(quantile)[:, None, None].to(error) * error
    if learned is None:
        return half
    return torch.hypot(half, stats.t.ppf(0.5 + level / 2, FREEDOM) * learned)


def _checked(explanations: Sequence["Explanation"]) -> list["Explanation"]:
    """The explanations, all with the players in the order of the first one."""
    from manifold_shap.tables.features import in_order, other_rows

    if len(explanations) < 2:
        raise ValueError(
            f"Expected two or more explanations but got {len(explanations)}; explain the rows by a "
            "second value function, learned on other rows."
        )
    first, *others = explanations
    for other in others:
        same: dict[str, tuple[Any, Any]] = {
            "players": (sorted(first.players.names), sorted(other.players.names)),
            "outputs": (first.outputs, other.outputs),
            "output space": ((first.space,), (other.space,)),
            "instances": (first.instances, other.instances),
        }
        for name, (one, two) in same.items():
            if one != two:
                raise ValueError(
                    f"Expected explanations of the same {name} but got {one[:5]} and {two[:5]}."
                )
    found = [in_order(each, first.players.names) for each in explanations]
    for one, two in itertools.combinations(found, 2):
        if other_rows(one, two):
            raise ValueError(
                "Expected explanations of the same rows but their `x` differ; explain the same "
                "rows by each value function."
            )
        seeds = [each.made_by["seed"] for each in (one, two) if _sampled(each)]
        if len(seeds) == 2 and seeds[0] == seeds[1]:
            raise ValueError(
                f"Expected explanations with another `seed` each but two were sampled by seed "
                f"{seeds[0]}: the coalitions that they share make them agree, and `model_error` "
                "too small. Explain one of them with another seed."
            )
    return found


def _sampled(explanation: "Explanation") -> bool:
    """Whether its values have errors of sampling, known or not, that come from a known seed."""
    exact = explanation.standard_error[explanation.present] == 0
    return "seed" in explanation.made_by and not bool(exact.all())


def _least_freedom(explanations: Sequence["Explanation"]) -> Tensor | None:
    known = [e.degrees_of_freedom for e in explanations if e.degrees_of_freedom is not None]
    return torch.stack(known).amin(0) if known else None
