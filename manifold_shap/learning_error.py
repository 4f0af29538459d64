"""How far Shapley values are off because their value function was learned from some rows.

No data tell the error of a conditional mean at one x_S. But the same learning from a random half of
the rows gives other Shapley values, and these are as far from those of all rows as those are from
the truth, on average (see `with_learning_error`). What any number of rows would leave stays unseen.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_number
from manifold_shap._messages import shown

if TYPE_CHECKING:
    import pandas as pd

    from manifold_shap.explanation import Explanation


def total_error(explanation: "Explanation") -> Float[Tensor, "instances players outputs"]:
    """Of sampling and of learning together: the root of the sum of their squares.

    That of sampling alone where nothing tells the error of learning.
    """
    if explanation.model_error is None:
        return explanation.standard_error
    return torch.hypot(explanation.standard_error, explanation.model_error)


def with_learning_error(
    explanation: "Explanation", halves: Sequence["Explanation"]
) -> "Explanation":
    """The explanation with the error of learning its value function, as `model_error`.

    Learn the value function again, each time from a random half of the rows and in the same way,
    the choice of its kind included, and explain the same rows by each of them, with another seed.
    `Explainer` does all of it: `explainer(rows, halves=8)`.

    Given all rows, a mean over half of them, drawn at random, varies around the mean over all by
    just as much as that varies around the truth: this is the jackknife that leaves out half (Shao
    & Wu 1989, Eq. 2.3, whose factor is then 1). So is it of what is nearly linear in the law of the
    rows. A bias in proportion to 1/rows shows in full as well, since half of the rows have twice of
    it. What remains with any number of rows does not show: a Gaussian imputer on two clusters.

    Of a row, variances of the players are shrunk halfway towards their mean, since few halves tell
    little of a single one (Smyth 2004).

        >>> import manifold_shap as ms
        >>> x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
        >>> x[:, 1] += x[:, 0]
        >>> def explained(rows, seed):
        ...     imputer = ms.imputers.GaussianImputer(rows)
        ...     value = ms.imputed_value(lambda x: x[:, :1] * x[:, 1:], imputer, "identity")
        ...     return ms.auto_shapley(value, x[:3], seed=seed)
        >>> halves = [explained(half, k) for k, half in enumerate((x[::2], x[1::2]))]
        >>> whole = with_learning_error(explained(x, 2), halves)
        >>> low, high = whole.interval(0.95)
        >>> whole.model_error.shape, bool((low < high).all())
        (torch.Size([3, 2, 1]), True)

    Args:
        explanation: by the value function that was learned from all rows.
        halves: two or more of the same rows, players and outputs, by value functions that were
            learned from halves of them; best in pairs, of both halves of a division.

    Raises:
        ValueError: explanations of other rows, players or outputs, in another output space, or
            sampled by the same seed.
    """
    halves = _checked(explanation, halves)
    distances = torch.stack([half.phi for half in halves]).double() - explanation.phi
    errors = torch.stack([half.standard_error for half in halves]).double()
    sampling = errors.square().mean(0) + explanation.standard_error.double().square()
    variance = distances.square().mean(0) - sampling.nan_to_num(0)
    pooled = ((variance + variance.nanmean(1, keepdim=True)) / 2).clamp(min=0)
    return replace(
        explanation,
        model_error=pooled.sqrt().to(explanation.phi.dtype),
        made_by={**explanation.made_by, "halves": len(halves)},
    )


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
    freedom = explanation.degrees_of_freedom
    freedom = torch.full((len(error),), torch.inf) if freedom is None else freedom
    # Where errors are zero or unknown, no sample stands behind them.
    quantile = stats.t.ppf(0.5 + level / 2, freedom.clamp(min=1).double().numpy())
    half = torch.as_tensor(quantile)[:, None, None].to(error) * error
    if learned is None:
        return half
    # A player's variance has a degree of freedom for each division of the rows into halves, and the
    # mean of those of n players n times as many; of the mean of both Satterthwaite's formula gives
    # this. An error that no halves have told has infinitely many.
    halves = explanation.made_by.get("halves", torch.inf)
    of_learning = 2 * halves / (1 + 3 / len(explanation.players))
    return torch.hypot(half, stats.t.ppf(0.5 + level / 2, of_learning) * learned)


def _checked(explanation: "Explanation", halves: Sequence["Explanation"]) -> list["Explanation"]:
    """Those of halves, with the players in the order of the explanation."""

    def facts(each: "Explanation") -> tuple[Any, ...]:
        return sorted(each.players.names), each.outputs, [each.space], each.instances

    names, mine = ("players", "outputs", "output spaces", "instances"), facts(explanation)
    compared = (zip(names, mine, facts(half), strict=True) for half in halves)
    for what, *both in chain.from_iterable(compared):
        if differ := [(a, b) for a, b in zip_longest(*both) if a is not b and a != b]:
            raise ValueError(
                "Expected explanations of the same players, outputs, output space and instances "
                f"but {what} differ, here and in a half: {shown(differ, 10)}."
            )
    ordered = [in_order(half, explanation.players.names) for half in halves]
    if any(other_rows(explanation, half) for half in ordered):
        raise ValueError(
            "Expected explanations of the same rows but their `x` differ; explain the same rows by "
            "each value function."
        )
    every = [each.made_by for each in (explanation, *halves)]
    seeds = [made_by["seed"] for made_by in every if "seed" in made_by]
    if len(set(seeds)) < len(seeds):
        raise ValueError(
            f"Expected explanations with another `seed` each but got {seeds}: the coalitions and "
            "draws that two share make them agree, and `model_error` too small."
        )
    return ordered


def other_rows(one: "Explanation", two: "Explanation") -> bool:
    """Whether two explanations of the same players are of different rows.

    Rows of tables are compared by their cells, so that those of other libraries may be the same.
    False where one alone is of a table, since that cannot be told.

        >>> from manifold_shap import exact_shapley
        >>> def value(x, mask):
        ...     return (x[:, None] * mask).sum(-1, keepdim=True)
        >>> ones, twos = (exact_shapley(value, torch.full((3, 2), k)) for k in (1.0, 2.0))
        >>> other_rows(ones, ones), other_rows(ones, twos)
        (False, True)
    """
    if isinstance(one.x, Tensor) and isinstance(two.x, Tensor):
        return one.x.shape != two.x.shape or bool((one.x != two.x).any())
    if isinstance(one.x, Tensor) or isinstance(two.x, Tensor):
        return False
    if len(one) != len(two):
        return True
    names = list(one.players.names)
    cells: Any = [each.data for each in (one, two)]
    return not all(_same_cells(*(each[name] for each in cells)) for name in names)


def _same_cells(one: "pd.Series", two: "pd.Series") -> bool:
    if one.dtype.kind in "biuf" and two.dtype.kind in "biuf":
        return np.allclose(one, two, rtol=1e-5, atol=1e-30, equal_nan=True)
    return one.astype(str).tolist() == two.astype(str).tolist()


def in_order(explanation: "Explanation", names: tuple[str, ...]) -> "Explanation":
    """The same explanation with its players in the order of `names`, which are theirs.

    Constant columns come behind the others: learned from other rows, which has no such column, a
    value function has the same players in another order.

        >>> from manifold_shap import Players, as_value_function, exact_shapley
        >>> x, players = torch.tensor([[1.0, 2.0]]), Players.of_elements((2,), ["a", "b"])
        >>> def value(x, mask):
        ...     return (x[:, None] * mask).sum(-1, keepdim=True)
        >>> turned = in_order(exact_shapley(as_value_function(value, x, players), x), ("b", "a"))
        >>> turned.players.names, turned.phi.flatten().tolist()
        (('b', 'a'), [2.0, 1.0])
    """
    players = explanation.players
    if players.names == names:
        return explanation
    order = torch.tensor([players.names.index(name) for name in names])
    place = order.argsort()[players.index.clamp(min=0)].where(players.index >= 0, players.index)
    replaced = players.owning(place)
    replaced.names = names
    by_player = ("phi", "standard_error", "model_error", "covariance")
    found = {name: getattr(explanation, name) for name in by_player}
    taken: Any = {name: each[:, order] for name, each in found.items() if each is not None}
    return replace(explanation, players=replaced, **taken)
