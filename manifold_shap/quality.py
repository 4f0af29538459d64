"""Chooses a value function among candidates by errors on rows that they were not fitted to."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    import pandas as pd

# The value function that all others should be better than.
OFF_MANIFOLD = "marginal"

# Standard errors by which the chosen one should be better.
_CLEARLY = 2.0


@dataclass(frozen=True)
class Quality:
    """How close each candidate comes to the model on rows that it was not fitted to.

    Errors are those of Frye et al. (2021), Eq. (16), over the same rows and coalitions for all, the
    Monte-Carlo variance of draws removed. Those in `mse` decide the choice; `error` is of rows
    that did not. Both are of fits to a part of the rows; the chosen one was then fitted to all.

        >>> errors = {"marginal": 0.04, "gaussian": 0.02}
        >>> Quality("gaussian", errors, {"gaussian": 0.001}, 0.021, 500, "5 fits to 400 rows")
        Quality(gaussian chosen; error 0.021 on 500 held-out rows (5 fits to 400 rows); \
gaussian 0.02, marginal 0.04)

    Attributes:
        chosen: the name of the candidate that serves.
        mse: of each candidate, `marginal` among them: the value function off the manifold.
        standard_error: of each candidate's difference to the chosen one, over rows.
        error: of the choice, on rows that did not choose: each part of the held-out rows is scored
            for the candidate that the other parts choose.
        rows: how many rows the errors are means over.
        fits: which fits the errors are of.
        seconds: that fitting each candidate took.
        skipped: candidates that were not tried, and why.
        warning: what a reader of any explanation should know; empty where there is nothing.
    """

    chosen: str
    mse: Mapping[str, float]
    standard_error: Mapping[str, float]
    error: float
    rows: int
    fits: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    warning: str = ""

    @property
    def off_manifold(self) -> float:
        """The error of the value function off the manifold."""
        return self.mse[OFF_MANIFOLD]

    def to_frame(self) -> "pd.DataFrame":
        """One line per candidate, the best first."""
        import pandas as pd

        frame = pd.DataFrame(
            {
                "mse": self.mse,
                "standard_error": self.standard_error,
                "share_of_off_manifold": {n: e / self.off_manifold for n, e in self.mse.items()},
                "seconds": self.seconds,
            }
        ).sort_values("mse")
        frame["chosen"] = frame.index == self.chosen
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, as `made_by["quality"]` of an explanation has them."""
        return asdict(self)

    def __repr__(self) -> str:
        errors = ", ".join(f"{n} {e:.3g}" for n, e in sorted(self.mse.items(), key=lambda p: p[1]))
        note = f"; {self.warning}" if self.warning else ""
        return (
            f"Quality({self.chosen} chosen; error {self.error:.3g} on {self.rows} held-out rows "
            f"({self.fits}); {errors}{note})"
        )


Errors = Mapping[str, Float[Tensor, " rows"]]


def best(errors: Errors, slow: Sequence[str] = ()) -> str:
    """The candidate with the least error on average over rows.

    One that is slow to fit has to be better by a standard error of the difference. The value
    function off the manifold is no candidate.
    """
    names = [name for name in errors if name != OFF_MANIFOLD]
    first = min((n for n in names if n not in slow), key=lambda n: errors[n].mean(), default=None)
    least = min(names, key=lambda name: errors[name].mean())
    if first is None or first == least:
        return least
    ahead = errors[first] - errors[least]
    return least if ahead.mean() > _spread(ahead) else first


def report(
    parts: Sequence[Mapping[str, Tensor]], slow: Sequence[str] = (), **further: Any
) -> Quality:
    """Choose by the errors of all parts of the rows, and report each by the choice of the others.

    Args:
        parts: at least two; of each the errors of all candidates on the same coalitions, by row.
        slow: see `best`.
        further: see `Quality`.
    """
    names = list(parts[0])

    def of(some: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        return {name: torch.cat([part[name] for part in some]) for name in names}

    errors = of(parts)
    chosen = best(errors, slow)
    others = [[*parts[:k], *parts[k + 1 :]] for k in range(len(parts))]
    kept = torch.cat([own[best(of(rest), slow)] for own, rest in zip(parts, others, strict=True)])
    gaps = {name: error - errors[chosen] for name, error in errors.items()}
    spread = {name: _spread(gap) for name, gap in gaps.items()}
    mse = {name: error.mean().item() for name, error in errors.items()}
    ahead = mse[OFF_MANIFOLD] - mse[chosen]
    warning = ""
    if not ahead > _CLEARLY * spread[OFF_MANIFOLD]:
        warning = (
            f"no value function is clearly better than off the manifold: the error of {chosen!r} "
            f"is {mse[chosen]:.3g}, there {mse[OFF_MANIFOLD]:.3g} (difference {ahead:.2g}, "
            f"standard error {spread[OFF_MANIFOLD]:.2g}); features may be independent, or the rows "
            "too few"
        )
    return Quality(chosen, mse, spread, kept.mean().item(), len(kept), warning=warning, **further)


def _spread(gap: Float[Tensor, " rows"]) -> float:
    """The standard error of a mean over rows."""
    return gap.std().item() / len(gap) ** 0.5 if len(gap) > 1 else float("nan")
