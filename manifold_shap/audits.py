"""Measures the error of Shapley values against unbiased estimates of the same rows.

A fast explainer has no standard errors, so some of its rows are estimated again by an estimator
that has. With d = φ - t for an unbiased estimate t of known variance s²,

    E[d] = bias,        E[d² - s²] = (φ - true value)²,

so that neither figure holds the noise of t. Few samples for each row are therefore enough: more
rows tell more than a higher precision does. Means over rows have standard errors, and intervals by
Student's t. The relative error is the root of Σ (d² - s²) / Σ (t² - s²) over rows, players and
outputs; the variance of that ratio is that of its linearization (the delta method). Sums over rows
are all that is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap._checks import check_number

if TYPE_CHECKING:
    import pandas as pd

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
