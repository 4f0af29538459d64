"""Chooses a value function among candidates by errors on rows that they were not fitted to."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from manifold_shap.shown import number

if TYPE_CHECKING:
    import pandas as pd

    from manifold_shap.metrics import Score

# The value function that all others should be better than, and a weighted mean of these others.
OFF_MANIFOLD, STACKED = "marginal", "stacked"

# Standard errors by which the chosen one should be better.
_CLEARLY = 2.0
# The least weight of a candidate in a mean: what is less is not worth its fit.
_LEAST_WEIGHT = 1 / 16
# Parts of the rows, each of which is scored by the choice of the others.
_PARTS = 5


@dataclass(frozen=True)
class Quality:
    """How close each candidate comes to the model on rows that it was not fitted to.

    Errors are those of Frye et al. (2021), Eq. (16), over the same rows and coalitions for all, the
    Monte-Carlo variance of draws removed. Those in `mse` decide the choice; `error` is of rows
    that did not. Both are of fits to a part of the rows; the chosen one was then fitted to all.

    For people they are told in the unit of the target, as roots, and as the share of the model's
    variance that the value function explains: 1 where absent players leave nothing open, and of an
    on-manifold value function as much as the features tell of each other. None of them is the error
    of a Shapley value.

        >>> errors = {"marginal": 0.04, "gaussian": 0.02}
        >>> Quality("gaussian", errors, {"marginal": 0.001}, 0.021, 500, 0.1, "5 fits to 400 rows")
        Quality('gaussian' explains 79 % of the model's variance where features are hidden (off \
the manifold 60 %; 100 % is out of reach), root mean squared error 0.145, on 500 held-out rows, \
5 fits to 400 rows; root mean squared errors of others: marginal 0.2)

    Attributes:
        chosen: the name of the candidate that serves.
        mse: of each candidate, and of `stacked`, the weighted mean of those that are not slow to
            fit, with weights from other rows; `marginal` is the value function off the manifold.
        standard_error: of each candidate's difference to the chosen one, over rows.
        error: of the choice, on rows that did not choose: each fifth of the held-out rows is
            scored for the candidate that the others choose.
        rows: how many rows the errors are means over.
        error_standard_error: of `error`, over these rows; NaN where it was not measured.
        variance: of the model's outputs over these rows, the mean of those of its outputs; NaN
            where it was not measured.
        fits: which fits the errors are of.
        weights: of the candidates in `stacked`, which sum to one; none where a single one has them
            all.
        seconds: that fitting each candidate took.
        skipped: candidates that were not tried, and why.
        warning: what a reader of any explanation should know; empty where there is nothing.
    """

    chosen: str
    mse: Mapping[str, float]
    standard_error: Mapping[str, float]
    error: float
    rows: int
    variance: float = math.nan
    fits: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    warning: str = ""
    error_standard_error: float = math.nan

    @property
    def explained(self) -> float:
        """Share of the model's variance that the value function explains: 1 - error / variance."""
        return 1 - self.error / self.variance if self.variance > 0 else math.nan

    @property
    def root_mean_squared_error(self) -> float:
        """The root of `error`, in the unit of the output space."""
        return max(self.error, 0.0) ** 0.5

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
                "standard_error_of_difference": self.standard_error,
                "seconds": self.seconds,
            }
        ).sort_values("mse")
        frame.insert(0, "explained", 1 - frame["mse"] / self.variance)
        frame.insert(1, "root_mean_squared_error", frame["mse"].clip(0) ** 0.5)
        frame["chosen"] = frame.index == self.chosen
        return frame

    def of(self, name: str) -> dict[str, Any]:
        """What explanations by one of the candidates say, as plain data.

        The error is that of the comparison; of the chosen one, of rows that did not choose.
        """
        if name == self.chosen:
            return self.to_dict()
        # The others are of the chosen candidate alone.
        other = {"chosen": name, "error": self.mse[name]}
        return {**self.to_dict(), **other, "error_standard_error": math.nan, "warning": ""}

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, as `made_by["quality"]` of an explanation has them."""
        return asdict(self)

    def __repr__(self) -> str:
        by_error = sorted(self.mse.items(), key=lambda pair: pair[1])
        apart = {n: abs(e - self.mse[self.chosen]) for n, e in by_error if n != self.chosen}
        ties = [name for name, gap in apart.items() if gap < self.standard_error[name]]
        # That of the chosen one is of rows that did not choose.
        roots = [
            f"{name} {number(max(self.mse[name], 0) ** 0.5)}{' (a tie)' * (name in ties)}"
            for name in apart
        ]
        others = f"; root mean squared errors of others: {', '.join(roots)}" if roots else ""
        parts = " + ".join(f"{share:.2f} {name}" for name, share in self.weights.items())
        of = f" ({parts})" if self.chosen == STACKED else ""
        note = f"; {self.warning}" if self.warning else ""
        return (
            f"Quality({self.chosen!r}{of} {in_words(self.to_dict())}, "
            f"on {self.rows} held-out rows, {self.fits}{others}{note})"
        )


def in_words(quality: Mapping[str, Any], unit: str | None = "") -> str:
    """How good the chosen value function is, as a person can judge it; empty if nobody knows.

    >>> measured = {"error": 0.0004, "variance": 0.01, "mse": {"marginal": 0.004}}
    >>> in_words({**measured, "error_standard_error": 0.0001}, "probability")
    "explains 96 ± 1 % of the model's variance where features are hidden (off the manifold 60 %; \
100 % is out of reach), root mean squared error 0.02 (probability)"

    Args:
        quality: what a `Quality` says, as plain data.
        unit: of the outputs; None leaves the root mean squared error out.
    """
    error, variance = (quality.get(name, math.nan) for name in ("error", "variance"))
    if not variance > 0:
        return ""
    others = {} if quality.get("chosen") == OFF_MANIFOLD else quality.get("mse", {})
    shares = [error, *(e for name, e in others.items() if name == OFF_MANIFOLD)]
    here, *there = (f"{round(100 * (1 - each / variance))}".replace("-", "−") for each in shares)
    # One standard error, a percent at least.
    sure = 100 * quality.get("error_standard_error", math.nan) / variance
    here += f" ± {max(1, round(sure))}" if sure > 0 else ""
    off = f"{_yardstick(others)} {there[0]} %; " if there else ""
    of_error = f", root mean squared error {number(max(error, 0.0) ** 0.5)}"
    return (
        f"explains {here} % of the model's variance where features are hidden ({off}100 % is out "
        f"of reach){'' if unit is None else of_error}{f' ({unit})' if unit else ''}"
    )


def _yardstick(candidates: Collection[str]) -> str:
    """What `marginal` is called: of texts, deletion is off the manifold as well."""
    of_texts = "deletion" in candidates
    return "words of other texts in place of absent ones" if of_texts else "off the manifold"


Errors = Mapping[str, Float[Tensor, " rows"]]


def best(errors: Errors, slow: Sequence[str] = ()) -> str:
    """The candidate with the least error on average over rows, the mean of several among them.

    One that is slow to fit has to be better by a standard error of the difference. The value
    function off the manifold is none.
    """

    def least(names: Sequence[str]) -> str | None:
        return min(names, key=lambda name: errors[name].mean().item(), default=None)

    names = [name for name in errors if name != OFF_MANIFOLD]
    first = least([name for name in names if name not in slow])
    second = least([name for name in names if name in slow])
    if first is None or second is None:
        return first or second or OFF_MANIFOLD
    ahead = errors[first] - errors[second]
    return second if ahead.mean() > _spread(ahead) else first


def stacking(
    products: Float[Tensor, "rows candidates candidates"],
) -> Float[Tensor, " candidates"]:
    """The weights, which sum to one, of the mean of candidates that has the least error.

    Breiman (1996), Stacked regressions. A candidate has at least a sixteenth, or nothing.

    Args:
        products: of the errors of each two candidates; the diagonal has their squares.
    """
    matrix = products.mean(0)
    best, numbers = int(matrix.diagonal().argmin()), range(len(matrix))
    weights, least = torch.eye(len(matrix)).to(matrix)[best], matrix[best, best].item()
    for some in chain.from_iterable(combinations(numbers, k + 1) for k in numbers):
        part = matrix[some, :][:, some]
        # Where the gradient of their error has no direction in which weights sum to zero.
        own = torch.linalg.solve_ex(part, torch.ones_like(part[0]))[0]
        own = own / own.sum()
        error = (own @ part @ own).item()
        if error < least and bool((own >= _LEAST_WEIGHT).all()):
            least = error
            weights = torch.zeros_like(weights).index_put((torch.tensor(some),), own)
    return weights


def report(
    names: Sequence[str],
    products: Float[Tensor, "rows candidates candidates"],
    slow: Sequence[str] = (),
    **further: Any,
) -> Quality:
    """Choose by the errors on all rows, and report each fifth of them by the choice of the others.

    Args:
        names: of the candidates, `marginal` first.
        products: of the errors of each two candidates, by row, a mean over the same coalitions;
            the diagonal has their squares.
        slow: see `best`.
        further: see `Quality`.
    """
    chosen, errors, weights = _choice(names, products, slow)

    def chosen_weights(some: Tensor) -> Tensor:
        name, _, weights = _choice(names, some, slow)
        return weights[name]

    kept = _by_others(products, chosen_weights)
    stack = weights[STACKED].tolist() if STACKED in weights else [0.0] * len(names)
    gaps = {name: error - errors[chosen] for name, error in errors.items()}
    spread = {name: _spread(gap) for name, gap in gaps.items()}
    mse = {name: error.mean().item() for name, error in errors.items()}
    return Quality(
        chosen,
        mse,
        spread,
        kept.mean().item(),
        len(kept),
        error_standard_error=_spread(kept),
        weights={n: w for n, w in zip(names, stack, strict=True) if w > 0},
        warning=_caution(chosen, mse, spread),
        **further,
    )


def measured(scores: Mapping[str, "Score"], chosen: str, fits: str) -> Quality:
    """What scores on the same pairs, that off the manifold among them, say of one value function.

    Args:
        scores: by name of the value function.
        chosen: one of these names.
        fits: what they were learned from, see `Quality`.
    """
    own = scores[chosen]
    mse = {name: score.error for name, score in scores.items()}
    spread = {name: _spread(score.by_row - own.by_row) for name, score in scores.items()}
    warning = _caution(chosen, mse, spread)
    return Quality(
        chosen,
        mse,
        spread,
        mse[chosen],
        len(own.by_row),
        own.variance,
        fits,
        warning=warning,
        error_standard_error=_spread(own.by_row),
    )


def _caution(chosen: str, mse: Mapping[str, float], spread: Mapping[str, float]) -> str:
    """What a reader should know of a value function that is hardly better than the marginal."""
    if chosen == OFF_MANIFOLD or OFF_MANIFOLD not in mse:
        return ""
    if mse[OFF_MANIFOLD] - mse[chosen] > _CLEARLY * spread[OFF_MANIFOLD]:
        return ""
    why = (
        "words may tell little of each other, or the model may judge shortened texts unlike whole "
        "ones; deletion serves all the same, and effort='high' compares a learned value function"
        if chosen == "deletion"
        else "players may be independent of each other, rows too few, the training too short, or "
        "another value function may suit them better"
    )
    return f"{chosen!r} is not clearly better than {_yardstick(mse)}: {why}"


def _choice(
    names: Sequence[str], products: Tensor, slow: Sequence[str]
) -> tuple[str, Errors, Mapping[str, Float[Tensor, " candidates"]]]:
    """The name of the choice, the errors that decide it, and the weights behind each of them."""
    errors = {name: products[:, k, k] for k, name in enumerate(names)}
    every = torch.eye(len(names), dtype=products.dtype)
    weights = dict(zip(names, every, strict=True))
    fast = [k for k, name in enumerate(names) if name not in (OFF_MANIFOLD, *slow)]
    if len(fast) > 1:

        def stacked(some: Tensor) -> Tensor:
            return stacking(some[:, fast][..., fast]) @ every[fast]

        mean = stacked(products)
        if int((mean > 0).sum()) > 1:
            # By weights of other rows: those that minimise these errors would flatter the mean.
            errors[STACKED], weights[STACKED] = _by_others(products, stacked), mean
    return best(errors, slow), errors, weights


def _by_others(products: Tensor, weigh: Callable[[Tensor], Tensor]) -> Float[Tensor, " rows"]:
    """Errors, by row, of weighted means whose weights the other four fifths of the rows give."""
    parts = torch.arange(len(products)).tensor_split(min(_PARTS, len(products)))
    errors = []
    for part in parts:
        left = torch.ones(len(products), dtype=torch.bool)
        left[part] = False
        weights = weigh(products[left])
        errors.append(products[part] @ weights @ weights)
    return torch.cat(errors)


def _spread(gap: Float[Tensor, " rows"]) -> float:
    """The standard error of a mean over rows."""
    return gap.std().item() / len(gap) ** 0.5 if len(gap) > 1 else float("nan")
