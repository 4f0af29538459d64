"""Compares candidates for a value function on held-out rows, and chooses the best of them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from manifold_shap.metrics import Score

if TYPE_CHECKING:
    import pandas as pd

# The value function that all others should be better than.
OFF_MANIFOLD = "marginal"

# Standard errors by which the chosen one should be better.
_CLEARLY = 2.0


@dataclass(frozen=True)
class Quality:
    """How close each candidate comes to the model on rows that it was not trained on.

    Errors are those of Frye et al. (2021), Eq. (16), over the same rows and coalitions for all, the
    Monte-Carlo variance of draws removed. The candidate is chosen on other rows than those that the
    errors are reported on.

        >>> Quality("gaussian", {"marginal": 0.04, "gaussian": 0.02}, {"gaussian": 0.001}, 500)
        Quality(gaussian chosen; error on 500 held-out rows: gaussian 0.02, marginal 0.04)

    Attributes:
        chosen: the name of the candidate that serves.
        mse: of each candidate, `marginal` among them: the value function off the manifold.
        standard_error: of each candidate's difference to the chosen one, over rows.
        rows: how many rows the errors are means over.
        selection: of each candidate, the error on the rows that it was chosen on.
        seconds: that fitting each candidate took.
        skipped: candidates that were not tried, and why.
        warning: what a reader of any explanation should know; empty where there is nothing.
    """

    chosen: str
    mse: Mapping[str, float]
    standard_error: Mapping[str, float]
    rows: int
    selection: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    warning: str = ""

    @property
    def off_manifold(self) -> float:
        """The error of the value function off the manifold."""
        return self.mse[OFF_MANIFOLD]

    @property
    def why(self) -> str:
        """Why the chosen one was chosen."""
        others = len(self.selection) - (OFF_MANIFOLD in self.selection)
        if others == 1:
            return "the only candidate"
        return f"the smallest error of {others} candidates on other held-out rows"

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
        return f"Quality({self.chosen} chosen; error on {self.rows} held-out rows: {errors}{note})"


def best(scores: Mapping[str, Score]) -> str:
    """The candidate with the least error; the value function off the manifold is none."""
    return min((n for n in scores if n != OFF_MANIFOLD), key=lambda name: scores[name].debiased)


def report(chosen: str, scores: Mapping[str, Score], **further: Any) -> Quality:
    """The quality of all candidates, from scores on rows that nothing was chosen on.

    Args:
        chosen: the one that serves.
        scores: of all candidates on the same rows and coalitions.
        further: see `Quality`.
    """
    errors = {name: score.by_row for name, score in scores.items()}
    rows = len(errors[chosen])
    gaps = {name: error - errors[chosen] for name, error in errors.items()}
    spread = {
        n: gap.std().item() / rows**0.5 if rows > 1 else float("nan") for n, gap in gaps.items()
    }
    ahead = gaps[OFF_MANIFOLD].mean().item()
    warning = ""
    if not ahead > _CLEARLY * spread[OFF_MANIFOLD]:
        warning = (
            f"no value function is clearly better than off the manifold: the error of {chosen!r} "
            f"is {scores[chosen].debiased:.3g}, there {scores[OFF_MANIFOLD].debiased:.3g} "
            f"(difference {ahead:.2g}, standard error {spread[OFF_MANIFOLD]:.2g}); features may "
            "be independent, or the rows too few"
        )
    mse = {name: score.debiased for name, score in scores.items()}
    return Quality(chosen, mse, spread, rows, warning=warning, **further)
