"""How numbers, outputs and predictions are written on a figure."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from manifold_shap.explanation import Explanation
from manifold_shap.spaces import OutputSpace


def kinds(explanation: Explanation) -> list[str]:
    """What tells the values from ordinary ones: restricted orders, or interventions."""
    known = {"ordering": "asymmetric", "causal_ordering": "causal"}
    return [kind for key, kind in known.items() if key in explanation.made_by]


def shapley_axis(
    explanation: Explanation, output: int = 0, per: str = "", kinds: Sequence[str] = ()
) -> str:
    """Label of an axis or colour bar of Shapley values of one output, with their unit."""
    space = explanation.space
    unit = quantity(explanation, output) if space.regression else space.unit
    label = " ".join([*kinds, f"Shapley value{per} ({unit})"])
    return label[0].upper() + label[1:]


def number(value: float) -> str:
    """About three significant digits, and no exponent where none is needed."""
    if not np.isfinite(value):
        return str(value)
    digits = f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"
    return digits.replace("-", "−")


def with_error(value: float, error: float) -> str:
    """`0.0171 ± 0.0011`: both to two digits of the error, if that is known and not zero."""
    if not (np.isfinite(error) and error > 0):
        return number(value)
    decimals = max(0, 1 - int(np.floor(np.log10(error))))
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def feature_value(value: Any) -> str:
    """A number with about three digits; a category as it is."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
    return number(float(value)) if is_number else str(value)


def amount(value: float, space: OutputSpace) -> str:
    """A base or prediction: a probability with two decimals, anything else with three digits."""
    return space.amount(value) or number(value)


def quantity(explanation: Explanation, output: int) -> str:
    """What the Shapley values of one output share out."""
    return explanation.space.label(explanation.outputs[output])


def count(many: int, what: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{many} {what}" if many == 1 else f"{many} {what}s"
