"""Estimates some rows of an explanation again, without bias, to measure its error.

A fast explainer has no standard errors, so some of its rows are estimated again by an estimator
that has. With d = φ - t for an unbiased estimate t of known variance s²,

    E[d] = bias,        E[d² - s²] = (φ - true value)²,

so that neither figure holds the noise of t. Few samples for each row are therefore enough: more
rows tell more than a higher precision does. Means over rows have standard errors, and intervals by
Student's t. The relative error is the root of Σ (d² - s²) / Σ (t² - s²) over rows, players and
outputs; the variance of that ratio is that of its linearization (the delta method). Sums over rows
are all that is kept.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap import _random
from manifold_shap._checks import check_number, check_seed, check_whole
from manifold_shap.estimators.exact import exact_shapley
from manifold_shap.estimators.permutation import permutation_shapley
from manifold_shap.explanation import Explanation
from manifold_shap.ordering import Ordering
from manifold_shap.values.base import ValueFunction
from manifold_shap.values.wrapped import as_value_function

if TYPE_CHECKING:
    import pandas as pd

Estimator = Callable[..., Explanation]
# Estimators whose mean is the Shapley value, and whose squared standard error has their variance as
# its mean: those of `coalition_shapley` are wider.
_UNBIASED = ("exact", "permutation")
# Players whose coalitions are all evaluated; of more, orders, as many as these evaluations are for.
_FEW, _EVALUATIONS, _ORDERS = 8, 8192, (16, 64)
# What values of the same network may differ by, relative to the largest, as precisions differ.
_SAME = 1e-3
_LEVEL = 0.95


class Measured(NamedTuple):
    """Figures, and the ends of their confidence intervals; NaN from fewer than two rows."""

    estimate: Tensor
    low: Tensor
    high: Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The measured bias and error of Shapley values, with their confidence intervals.

        >>> x = torch.zeros(2, 3, 1)
        >>> Audit.of(x + 0.25, x + 2.0, x, ["a", "b", "c"], ["yes"], "exact")
        Audit(2 rows by 'exact'; relative error 0.875 (95 % interval 0.875 to 0.875))

    Attributes:
        rows: how many were estimated again.
        reference: the estimator of these.
        players, outputs: names.
        sums: over these rows, in double precision: of each player and output how many rows have it,
            and the first and second moments of d and of d² - s²; of each row's totals of d² - s²
            and t² - s², both, and of their squares and product.
    """

    rows: int
    reference: str
    players: tuple[str, ...]
    outputs: tuple[str, ...]
    sums: Mapping[str, Tensor]

    @classmethod
    def of(
        cls,
        phi: Float[Tensor, "rows players outputs"],
        estimate: Float[Tensor, "rows players outputs"],
        standard_error: Float[Tensor, "rows players outputs"],
        players: Any,
        outputs: Any,
        reference: str,
    ) -> "Audit":
        """From the values of rows and unbiased estimates of these; NaN of players a row lacks."""
        present = ~phi.isnan()
        away = (phi.double() - estimate.double()).where(present, 0.0)
        noise = standard_error.double().square().where(present, 0.0)
        squared = away.square() - noise
        size = (estimate.double().square().where(present, 0.0) - noise).sum((1, 2))
        total = squared.sum((1, 2))
        sums = {
            "present": present.double().sum(0),
            "error": away.sum(0),
            "error_2": away.square().sum(0),
            "squared": squared.sum(0),
            "squared_2": squared.square().sum(0),
            "totals": torch.stack((total, size, total**2, size**2, total * size)).sum(1),
        }
        return cls(len(phi), reference, tuple(players), tuple(outputs), sums)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Audit":
        """What `to_dict` made."""
        players, outputs = (tuple(plain[key]) for key in ("players", "outputs"))
        sums = {key: torch.tensor(own, dtype=torch.float64) for key, own in plain["sums"].items()}
        return cls(plain["rows"], plain["reference"], players, outputs, sums)

    @property
    def summary(self) -> dict[str, Any]:
        """The relative error as plain data, with its 95 % interval."""
        relative = self.relative_error()
        return {
            "rows": self.rows,
            "reference": self.reference,
            "relative_error": _finite(relative.estimate),
            "interval": [_finite(relative.low), _finite(relative.high)],
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `made_by["audit"]` has it: the relative error, and what all is from."""
        return {
            **self.summary,
            "players": list(self.players),
            "outputs": list(self.outputs),
            "sums": {key: each.tolist() for key, each in self.sums.items()},
        }

    def bias(self, level: float = _LEVEL) -> Measured:
        """Mean of what is too much, `[players, outputs]`, in units of the output space.

        Args:
            level: the coverage of each interval.
        """
        return self._mean("error", level)

    def mean_squared_error(self, level: float = _LEVEL) -> Measured:
        """Mean over rows of the squared error, `[players, outputs]`, without the estimates' noise.

        An error of nearly nothing may have a negative estimate.
        """
        return self._mean("squared", level)

    def relative_error(self, level: float = _LEVEL) -> Measured:
        """Root of the squared errors over the squared values, both summed over all; a number each.

        An interval whose low end would be below zero starts there.
        """
        error, size, error_2, size_2, both = self.sums["totals"]
        ratio = error / size
        # Σ (error - ratio size)² of the rows; their mean is zero.
        apart = (error_2 - 2 * ratio * both + ratio.square() * size_2).clamp(min=0)
        n = self.rows
        spread = (apart * n / (n - 1)).sqrt() / size if n > 1 else ratio * torch.nan
        half = _quantile(torch.tensor(n - 1.0), level) * spread
        ends = (each.clamp(min=0).sqrt() for each in (ratio, ratio - half, ratio + half))
        return Measured(*ends)

    def to_frame(self, level: float = _LEVEL) -> "pd.DataFrame":
        """A line per player and output: bias and root mean squared error, with their intervals."""
        import pandas as pd

        index = pd.MultiIndex.from_product((self.players, self.outputs), names=["player", "output"])
        error = self.mean_squared_error(level)
        measured = {
            "bias": self.bias(level),
            "error": Measured(*(each.clamp(min=0).sqrt() for each in error)),
        }
        columns = {
            name if end == "estimate" else f"{name}_{end}": each.flatten().numpy()
            for name, figures in measured.items()
            for end, each in figures._asdict().items()
        }
        return pd.DataFrame(columns, index)

    def __repr__(self) -> str:
        figure, low, high = (f"{each:.3g}" for each in self.relative_error())
        return (
            f"Audit({self.rows} rows by {self.reference!r}; relative error {figure} "
            f"({_LEVEL * 100:.0f} % interval {low} to {high}))"
        )

    def _mean(self, name: str, level: float) -> Measured:
        n = self.sums["present"]
        mean = self.sums[name] / n
        variance = (self.sums[f"{name}_2"] / n - mean.square()).clamp(min=0)
        # Of one row: 0 / 0.
        half = _quantile(n - 1, level) * (variance / (n - 1)).sqrt()
        return Measured(mean, mean - half, mean + half)


def _quantile(freedom: Tensor, level: float) -> Tensor:
    from scipy import stats

    level = check_number("level", level, above=0, below=1)
    return torch.as_tensor(stats.t.ppf(0.5 + level / 2, freedom.numpy()), dtype=torch.float64)


def _finite(figure: Tensor) -> float | None:
    return figure.item() if bool(figure.isfinite()) else None


def audit(
    explanation: Explanation,
    value: Any,
    *,
    rows: int = 200,
    reference: Estimator | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Audit:
    """The error of an explanation, measured on some of its rows.

        >>> game = lambda x, mask: (x[:, None] * mask).sum(-1, keepdim=True)
        >>> explanation = exact_shapley(game, torch.ones(50, 3))
        >>> audit(explanation, game, rows=20)
        Audit(20 rows by 'exact'; relative error 0 (95 % interval 0 to 0))

    Args:
        explanation: of the value function; of an estimator that draws, by another seed.
        value: what was explained. A surrogate of half precision is asked in full.
        rows: how many are estimated again; all if there are fewer.
        reference: an estimator that has no bias, with its settings: `exact_shapley`, by default of
            up to 8 players where nothing is drawn; or `permutation_shapley`, by default with 16 to
            64 orders, the fewer the more players. Its own error is taken off; it needs two pairs.
            It gets the ordering of the explanation.
        seed: of the choice of rows, and of the reference.
        progress: see `permutation_shapley`.

    Raises:
        ValueError: the value function has other players than the explanation, or gives its rows
            other predictions; a reference with a bias, with other orders, or without errors.
    """
    count = min(check_whole("rows", rows), len(explanation.phi))
    few = explanation[chosen_rows(len(explanation.phi), count, check_seed(seed))]
    table = value.spec.table if isinstance(value, ValueFunction) else None
    x = few.x if table is None else table.rows(few.x)
    return audit_of(few, value, x, reference, seed, progress)


def audit_of(
    found: Explanation,
    value: Any,
    x: Any,
    reference: Estimator | None,
    seed: int,
    progress: bool | None,
) -> Audit:
    """The same, on all rows of an explanation, which the value function takes as `x`."""
    value = as_value_function(value, x)
    if found.outputs != value.outputs and set(found.outputs) <= set(value.outputs):
        value = value.select(list(found.outputs), x)
    reference = reference or _usual_reference(value)
    # Errors of the reference have to be independent of those of the estimator.
    other = int(_random.fold(torch.tensor(seed), 2)) & (2**63 - 1)
    settings = {"seed": other, "progress": progress, "ordering": found.made_by.get("ordering")}
    if "groups" in found.made_by:
        settings["ordering"] = Ordering.of_groups(found.made_by["groups"], found.players)
    again = reference(value.in_precision("32-true"), x, **accepted(reference, settings))
    name = again.made_by["estimator"]
    if name not in _UNBIASED:
        raise ValueError(
            f"Expected a `reference` without bias but got {name!r}, whose own error would be taken "
            "for that of the explanation; use `permutation_shapley` or, of few players, "
            "`exact_shapley`."
        )
    order, other_order = (
        {key: each.made_by.get(key) for key in ("ordering", "groups", "orders")}
        for each in (found, again)
    )
    if order != other_order:
        raise ValueError(
            f"Expected a `reference` with the orders of the explanation, {order}, but got "
            f"{other_order}; give it `ordering` or `orders`."
        )
    if bool(again.standard_error[again.present].isnan().any()):
        raise ValueError(
            "Expected a `reference` with known standard errors but some are unknown (NaN), as of a "
            "single pair of orders; give it more `permutations` or `evaluations`."
        )
    if found.partition != again.partition and None not in (found.partition, again.partition):
        again = again.in_basis(found.partition)
    gap = (found.prediction - again.prediction).abs().max()
    if found.players.names != again.players.names or gap > _SAME * found.prediction.abs().max():
        raise ValueError(
            "Expected the value function that was explained but its predictions of the same rows "
            f"differ by up to {gap:.3g}, or its players do; give that one, with its model."
        )
    return Audit.of(
        found.phi, again.phi, again.standard_error, found.players.names, found.outputs, name
    )


def accepted(estimator: Callable[..., Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Those of the settings that an estimator takes."""
    known = inspect.signature(estimator).parameters
    every = any(each.kind is each.VAR_KEYWORD for each in known.values())
    return {name: entry for name, entry in settings.items() if every or name in known}


def chosen_rows(rows: int, count: int, seed: int) -> list[int]:
    """Numbers of so many rows, drawn at random.

    >>> len(chosen_rows(1000, 100, seed=0)), chosen_rows(3, 3, seed=0)
    (100, [0, 1, 2])
    """
    keys = _random.fold(_random.fold(torch.tensor(seed), 0), torch.arange(rows))
    return sorted(_random.uniform(keys, ()).argsort()[:count].tolist())


def _usual_reference(value: ValueFunction) -> Estimator:
    """The reference where nobody names one."""
    players = len(value.players)
    if players <= _FEW:
        # Drawn values are drawn again and again; a few players have fewer orders than are needed.
        return partial(exact_shapley, evaluations=_EVALUATIONS if value.spec.work.sampled else None)
    low, high = _ORDERS
    orders = min(high, max(low, _EVALUATIONS // max(1, players - 1) // 2 * 2))
    return partial(permutation_shapley, permutations=orders)
